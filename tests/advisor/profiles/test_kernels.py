"""What names of kernels, calls and copies say; the names are as libraries write them."""

import pytest

from advisor.profiles.kernels import call, copy, is_loader, kind, step


@pytest.mark.parametrize(
    ("name", "family", "on", "dtype"),
    [
        ("ampere_sgemm_128x64_tn", "gemm", "no", "fp32"),
        ("volta_sgemm_32x32_sliced1x4_nt", "gemm", "no", "fp32"),
        ("void cutlass::Kernel<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt::Params)", "gemm", "no", "fp32"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4", "gemm", "no", "fp32"),
        ("ampere_dgemm_64x64_nn", "gemm", "no", "fp64"),
        ("ampere_gcgemm_64x64_nt", "gemm", "no", None),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_16x6_nt_align1>(x)", "gemm", "yes", "tf32"),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "gemm", "yes", "bf16"),
        ("turing_h1688gemm_128x128_ldg8_nn", "gemm", "yes", "fp16"),
        ("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn", "gemm", "yes", "fp16"),
        ("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", "gemm", "yes", "fp16"),
        ("nvjet_tst_128x256_64x6_2x1_2cta_v_bz_TNT", "gemm", "yes", "bf16"),
        ("nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT", "gemm", "yes", "fp8"),
        ("nvjet_sss_tf32_128x256_TNT", "gemm", "yes", "tf32"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute", "gemm", "yes", "bf16"),
        ("void cutlass::device_kernel<cutlass3x_sm90_tensorop_s64x128x16gemm_bf16_bf16>(x)", "gemm", "yes", "bf16"),
        ("Cijk_Alik_Bljk_SB_Bias_AS_UserArgs_MT64x16x32_MI16x16x1_SN_LDSB0", "gemm", "yes", "fp32"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_AS_UserArgs_MT128x128x32_MI16x16x16x1_SN", "gemm", "yes", "bf16"),
        ("Cijk_Ailk_Bljk_HHS_BH_MT64x64x32_SE", "gemm", "no", "fp16"),
        ("triton_tem_fused_mm_relu_0", "gemm", "unknown", None),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwc_tilesize64x128_g1_tensor16x8x8", "convolution", "yes", "tf32"),
        ("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1", "convolution", "no", "fp32"),
        ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)", "convolution", "no", "fp32"),
        (
            "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, cutlass::bfloat16_t>>",
            "attention",
            "yes",
            "bf16",
        ),
        ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)", "attention", "unknown", "fp32"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication", "unknown", None),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "communication", "unknown", None),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(RankData*)", "communication", "unknown", None),
        ("void splitKreduce_kernel<float, float, float>(cublasSplitKParams<float>)", "other", "unknown", None),
        ("void gemv2T_kernel_val<int, int, float, float, float, float, 128>(cublasGemvParams)", "other", "unknown", None),
        ("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int)", "other", "unknown", None),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(gemm_like)",
            "other",
            "unknown",
            None,
        ),
        ("void cudnn::ops::nchwToNhwcKernel<float, float>(x)", "other", "unknown", None),
        ("", "other", "unknown", None),
    ],
)
def test_a_kernels_name_tells_its_family_and_its_units(name: str, family: str, on: str, dtype: str | None) -> None:
    """Family, tensor cores and number format; helpers of a matrix product are none."""
    told = kind(name)

    assert (told.family, told.tensor_cores, told.dtype) == (family, on, dtype)


@pytest.mark.parametrize(
    ("name", "waits", "launches"),
    [
        ("cudaLaunchKernel", False, True),
        ("cudaLaunchKernel_v7000", False, True),
        ("cudaLaunchKernelExC_v11060_ptsz", False, True),
        ("cuLaunchKernelEx", False, True),
        ("cudaGraphLaunch_v10000", False, True),
        ("hipExtModuleLaunchKernel", False, True),
        ("cudaMemcpyAsync", False, True),
        ("cudaMemcpy", True, True),
        ("cudaStreamSynchronize_v3020", True, False),
        ("hipDeviceSynchronize", True, False),
        ("cuCtxSynchronize", True, False),
        ("cudaEventQuery", False, False),
        ("INVALID", False, False),
    ],
)
def test_a_calls_name_tells_whether_it_waits_and_launches(name: str, waits: bool, launches: bool) -> None:
    """With the version that Nsight Systems appends, and without."""
    assert call(name) == (waits, launches)


def test_the_name_of_a_copy_tells_its_memory_or_that_it_does_not() -> None:
    """ROCm's "Host" is neither pinned nor pageable."""
    assert copy("Memcpy HtoD (Pageable -> Device)") == ("HtoD", "Pageable", "Device")
    assert copy("Memcpy HtoD (Host -> Device)") == ("HtoD", None, "Device")
    assert copy("Memcpy of a new kind") == ("", None, None)


def test_steps_and_loaders_are_known_by_name() -> None:
    """A name with a million digits is no step."""
    assert (step("ProfilerStep#12"), step("ProfilerStep*"), step("ProfilerStep#" + "9" * 1_000_000)) == (12, None, None)
    assert is_loader("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__")
    assert not is_loader("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__init__")
