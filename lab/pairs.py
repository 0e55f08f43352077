"""The pairs of the lab: a program, the rule that should speak of it, and the same program with that rule's change made.

Data alone, so that a page can be made of it where PyTorch is not.
"""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Instead:
    """What is compared where a change makes nothing faster: a figure that both programs tell."""

    figure: Literal["memory_growth_bytes", "held_bytes", "peak_share"]
    about: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Two programs of lab/changes/. `before` and `after` are their names; the `_is` say in words what each does."""

    name: str
    rule: str
    before: str
    before_is: str
    after: str
    after_is: str
    change: str  # a regular expression that one step of the advice matches; its named groups are given to `after`
    gpus: int = 1
    alone: bool = False  # much work for the host: nothing else runs meanwhile
    instead: Instead | None = None
    stays: str = ""  # why the advice may stand after the change too


PAIRS: Final = (
    Pair(
        "fp32-to-tf32",
        "fp32-without-tensor-cores",
        "transformer_fp32",
        "a transformer of 151 M parameters trains in fp32, TF32 off",
        "transformer_tf32",
        "TF32 products",
        r"set_float32_matmul_precision\(\"high\"\)",
    ),
    Pair(
        "fp32-to-bf16",
        "fp32-without-tensor-cores",
        "transformer_fp32",
        "the same",
        "transformer_bf16",
        "bf16 autocast",
        r"torch\.autocast\(\"cuda\", dtype=torch\.bfloat16\)",
    ),
    Pair(
        "decode-fp8",
        "decode-bandwidth-bound",
        "decode_16_bit",
        "8 sequences decode over 3.8 billion 16-bit weights",
        "decode_fp8",
        "the weights in fp8",
        r"--quantization fp8|quantize_\(model",
        stays="half the bytes are read, and reading them still limits the speed",
    ),
    Pair(
        "decode-batch",
        "serving-underbatched",
        "decode_16_bit",
        "the same",
        "decode_batched",
        "64 sequences at once",
        r"generate\(prompts\)",
    ),
    Pair(
        "launch-graph",
        "launch-bound-small-kernels",
        "small_layers_eager",
        "24 small blocks train, one kernel launched after another",
        "small_layers_graphed",
        "the step as a CUDA graph, fused AdamW",
        r"CUDA graphs",
    ),
    Pair(
        "larger-batch",
        "batch-underfills-gpu",
        "small_batch",
        "a small model answers 16 samples at once, as a CUDA graph",
        "large_batch",
        "the batch doubled seven times, to 2,048",
        r"batch_size=2 \* B",
    ),
    Pair(
        "pinned-copies",
        "h2d-unpinned-copy",
        "pageable_batches",
        "0.5 GiB a step from pageable memory, then 12 large products",
        "pinned_batches",
        "pinned memory, `non_blocking`",
        r"torch\.empty\(n, pin_memory=True\)",
    ),
    Pair(
        "losses-kept",
        "gpu-memory-leak",
        "losses_kept",
        "an evaluation keeps each loss with its graph",
        "losses_as_numbers",
        "`loss.item()`",
        r"losses\.append\(loss\.item\(\)\)",
        instead=Instead("memory_growth_bytes", "growth of GPU memory a second"),
    ),
    Pair(
        "memory-held",
        "gpu-memory-held-idle",
        "notebook_holds",
        "a notebook holds 8 GiB and does nothing",
        "notebook_frees",
        "`del`, then `empty_cache()`",
        r"torch\.cuda\.empty_cache\(\)",
        instead=Instead("held_bytes", "GPU memory held"),
    ),
    Pair(
        "shared-gpu",
        "gpu-co-tenant-contention",
        "training_beside_another",
        "two trainings share a GPU",
        "training_alone",
        "one has it to itself",
        r"EXCLUSIVE_PROCESS",
    ),
    Pair(
        "card-full",
        "memory-nearly-full",
        "batch_fills_card",
        "a batch takes 94 % of the card",
        "half_batch_twice",
        "the same batch in two halves, accumulated",
        r"batch_size=B // 2",
        instead=Instead("peak_share", "share of the card in use at the peak"),
    ),
    Pair(
        "more-workers",
        "dataloader-too-few-workers",
        "images_in_main_process",
        "ResNet-50 fed by the main process",
        "images_by_workers",
        "as many loader workers as the finding says",
        r"num_workers=(?P<workers>\d+)",
        alone=True,
    ),
    Pair(
        "augment-on-gpu",
        "cpu-preprocessing-bound",
        "augmented_on_cpu",
        "heavy augmentation of images in a worker on nearly each core",
        "augmented_on_gpu",
        "the same augmentation on the GPU",
        r"# on the GPU",
        alone=True,
    ),
    Pair(
        "fewer-workers",
        "dataloader-oversubscribed",
        "twice_as_many_workers_as_cores",
        "the same augmentation in two workers for each core",
        "workers_as_cores",
        "a worker for each core but one",
        r"num_workers=max\(1, len\(os\.sched_getaffinity\(0\)\) // ranks_on_node - 1\)",
        alone=True,
    ),
    Pair(
        "staged-samples",
        "storage-throughput-bound",
        "samples_from_disk",
        "four workers read samples from the disk, past the page cache",
        "samples_staged",
        "the samples copied to a folder of the local disk, and read from there like any file: through the page cache",
        r"stage to the local disk",
        alone=True,
    ),
    Pair(
        "save-in-background",
        "checkpoint-stall",
        "save_and_wait",
        "1.2 GB saved by `torch.save` after each 2.5 s of training",
        "save_in_background",
        "`dcp.async_save`",
        r"dcp\.async_save",
        alone=True,
    ),
    Pair(
        "no-sync",
        "comm-not-overlapped",
        "gradients_every_micro_batch",
        "two ranks exchange the gradients of 1.1 billion parameters after each of 16 micro-batches",
        "gradients_on_the_last",
        "`no_sync` but for the last",
        r"model\.no_sync\(\)",
        gpus=2,
    ),
    Pair(
        "even-ranks",
        "rank-straggler",
        "uneven_ranks",
        "one rank has three times the other's rows",
        "even_ranks",
        "the same rows, shared out evenly",
        r"DistributedSampler",
        gpus=2,
    ),
    Pair(
        "both-gpus",
        "job-partial-gpu-use",
        "one_of_the_gpus",
        "a training on one of the two GPUs that it holds",
        "all_of_the_gpus",
        "a rank on each",
        r"torchrun --nproc-per-node=(?P<ranks>\d+)",
        gpus=2,
    ),
)
