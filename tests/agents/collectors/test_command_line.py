"""Engines, launchers and flags of command lines."""

import pytest

from agents.collectors.command_line import describe


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        (
            "/usr/bin/python3 /opt/bin/vllm serve meta-llama/Llama-3.1-70B -tp 4 --gpu-memory-utilization=0.9 --enforce-eager",
            {
                "engine": "vllm",
                "flag.model": "Llama-3.1-70B",
                "flag.tensor-parallel-size": "4",
                "flag.gpu-memory-utilization": "0.9",
                "flag.enforce-eager": "true",
            },
        ),
        (
            "python -m vllm.entrypoints.openai.api_server --model /models/q --kv_cache_dtype fp8 --no-enable-prefix-caching",
            {"engine": "vllm", "flag.model": "q", "flag.kv-cache-dtype": "fp8", "flag.enable-prefix-caching": "false"},
        ),
        ("VLLM::EngineCore", {"engine": "vllm"}),
        ("VLLM::Worker_TP0", {"engine": "vllm"}),
        ("vllm bench latency --model q", {}),
        (
            "python -m sglang.launch_server --model-path a/b --tp-size 8 --mem-fraction-static 0.85 --disable-radix-cache",
            {
                "engine": "sglang",
                "flag.model-path": "b",
                "flag.tensor-parallel-size": "8",
                "flag.mem-fraction-static": "0.85",
                "flag.disable-radix-cache": "true",
            },
        ),
        ("trtllm-serve a/b --max_batch_size 64 --backend pytorch", {
            "engine": "trtllm", "flag.max-batch-size": "64", "flag.backend": "pytorch"}),
        ("tritonserver --model-repository=/srv/models --http-thread-count 8", {"engine": "triton", "flag.http-thread-count": "8"}),
        ("torchrun --nproc_per_node=8 --nnodes 2 train.py --lr 0.1", {
            "launcher": "torchrun", "flag.nproc-per-node": "8", "flag.nnodes": "2"}),
        ("python -u -m torch.distributed.run --standalone train.py", {"launcher": "torchrun", "flag.standalone": "true"}),
        ("/usr/bin/python /usr/bin/deepspeed --num_gpus 4 train.py", {"launcher": "deepspeed", "flag.num-gpus": "4"}),
        ("accelerate launch --mixed_precision bf16 train.py", {"launcher": "accelerate", "flag.mixed-precision": "bf16"}),
        ("accelerate config", {}),
        ("python /x/pretrain_gpt.py --micro-batch-size 2 --bf16", {
            "launcher": "megatron", "flag.micro-batch-size": "2", "flag.bf16": "true"}),
        ("python train.py --num-workers 8 --dtype bfloat16 --model mine", {"flag.num-workers": "8"}),
        ("bash run.sh", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_a_command_line_is_told_in_known_words(line: str, labels: dict[str, str]) -> None:
    """Underscores, short names and `=` are the same flag; any other program tells its numbers alone."""
    assert describe(line.split(" "), "alice") == labels


@pytest.mark.parametrize(
    "words",
    [
        ["--model", "s3://key:hunter2@bucket/llama"],
        ["--model", "/home/alice"],
        ["--model", "/home/alice/"],
        ["--model", "/data/alice"],
        ["--model", "~alice/"],
        ["--model", "https://host/model?sig=hunter2"],
        ["--model", "hf_AbCdEfGhIjKlMnOpQrStUv"],
        ["--model", "deadbeef" * 5],
        ["--quantization", "/home/alice/quant.json"],
        ["--quantization", "alice_fp8"],
        ["--dtype", "sk-live-abcdefghijklmn"],
        ["--num-workers", "hunter2"],
        ["--enforce-eager=hunter2"],
        ["--api-key", "hunter2"],
        ["--", "--num-workers", "8"],
    ],
)
def test_a_value_that_might_tell_more_than_it_should_is_left_out(words: list[str]) -> None:
    """Credentials, addresses, paths, people; and a flag is not a flag behind `--`."""
    assert describe(["python", "-m", "sglang.launch_server", *words], "alice") == {"engine": "sglang"}


def test_a_snapshot_of_a_cache_is_told_by_its_models_name() -> None:
    """Its last part is a digest."""
    path = "/home/alice/.cache/huggingface/hub/models--meta-llama--Llama-3.1-8B/snapshots/" + "0a" * 20

    assert describe(["vllm", "serve", path], "alice")["flag.model"] == "Llama-3.1-8B"
