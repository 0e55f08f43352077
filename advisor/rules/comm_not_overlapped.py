"""Traffic between ranks is large for the work done, and the SMs wait for it.

A link nearer its peak than the math pipes is the signature: NVLink 0.20 of its peak at tensor 0.035 when gradients dominate,
0.07 at 0.45 in healthy data parallel training. (Traffic and tensor activity correlate in both: that tells nothing.)

A profile measures what the counters only suggest: a rank that waits in a collective looks busy, in a profile it is seen to run nothing
else. So it opens the finding by itself.
"""

import polars as pl

from advisor.room import GPU_MEMORY
from advisor.rule import Expect, Need, Rule, Says, Show, Step, Terms, Threshold, param
from advisor.started import DEEPSPEED, MEGATRON, OWN_LOOP
from advisor.text import _

c = pl.col

_exposed = c.profile_exposed_comm_share.fill_null(0.0)
_SHARE = pl.max_horizontal(c.share_communication, c.profile_exposed_comm_share)

RULE = Rule(
    id="comm-not-overlapped",
    scope="job",
    severity="advice",
    bottleneck="communication",
    needs=(
        Need(("busy", "nvlink_share", "tensor_active"), "medium"),
        Need(("busy", "pcie_tx_bytes_per_s", "tensor_active"), "low"),
        Need(
            ("busy", "profile_exposed_comm_share"),
            "medium",
            clears=(_exposed < param("profile_exposed_comm_share_clears"))
            & (c.share_communication < param("share_communication_clears")).fill_null(True),
        ),
    ),
    thresholds=(
        Threshold("share_communication_opens", 0.35, "ratio", 0.0, 1.0),
        Threshold("share_communication_clears", 0.22, "ratio", 0.0, 1.0),
        Threshold("profile_exposed_comm_share_opens", 0.10, "ratio", 0.0, 1.0),
        Threshold("profile_exposed_comm_share_clears", 0.06, "ratio", 0.0, 1.0),
    ),
    opens=(c.working_gpus >= 2)
    & (
        (c.share_communication >= param("share_communication_opens")).fill_null(False)
        | (_exposed >= param("profile_exposed_comm_share_opens"))
    ),
    clears=(c.share_communication < param("share_communication_clears"))
    & (_exposed < param("profile_exposed_comm_share_clears")),
    confirmed=_exposed >= param("profile_exposed_comm_share_opens"),
    yields_to=("rank-straggler",),
    title=_("Communication between GPUs is exposed instead of hidden behind compute"),
    summary=_(
        "{share_communication:.0%} of the time goes to exchanging data between {working_gpus:.0f} GPUs: NVLink runs at"
        " {nvlink_share:.0%} of its peak while the tensor cores are active {tensor_active:.1%}."
    ),
    cases=(
        Says(
            c.nvlink_share.is_null() | c.tensor_active.is_null() | (c.share_communication < param("share_communication_clears")),
            _(
                "In a profile of this job the GPUs ran nothing but communication for {profile_exposed_comm_share:.0%} of the time;"
                " waiting for a slower rank is in it."
            ),
        ),
    ),
    evidence=(
        Show("share_communication", "ratio", ">=", "share_communication_opens"),
        Show("nvlink_bytes_per_s", "bytes_per_second"),
        Show("nvlink_share", "ratio"),
        Show("pcie_tx_bytes_per_s", "bytes_per_second"),
        Show("tensor_active", "ratio"),
        Show("sm_active", "ratio"),
        Show("working_gpus", "gpus", ">=", 2.0),
        Show("profile_exposed_comm_share", "ratio", ">=", "profile_exposed_comm_share_opens"),
    ),
    change=(
        Step(
            "diff",
            "# accumulate, and synchronise on the last micro-batch alone\n"
            "+ with (model.no_sync() if not last_micro_batch else contextlib.nullcontext()):\n"
            "+     loss = loss_of(model(micro_batch))  # within it too, else DDP exchanges all the same\n"
            "+     loss.backward()",
            when=OWN_LOOP,
        ),
        Step(
            "diff",
            "- model = DDP(model)\n+ model = DDP(model, bucket_cap_mb=100, gradient_as_bucket_view=True)",
            when=OWN_LOOP,
        ),
        Step(
            "diff",
            "+ model.register_comm_hook(None, torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook)",
            when=OWN_LOOP,
        ),
        Step(
            "diff",
            "- loader = DataLoader(ds, batch_size=B)\n+ loader = DataLoader(ds, batch_size=2 * B)  # more work for each exchange",
            when=~MEGATRON & GPU_MEMORY,
        ),
        Step(
            "flag", "--overlap-grad-reduce --overlap-param-gather  # Megatron-LM, with --use-distributed-optimizer", when=MEGATRON
        ),
        Step(
            "config",
            '{{"zero_optimization": {{"overlap_comm": true, "contiguous_gradients": true}}}}  # DeepSpeed',
            when=DEEPSPEED,
        ),
    ),
    gain=Expect(
        1.05,
        pl.min_horizontal(3.0, 1 / (1 - _SHARE).clip(0.2)),
        _(
            "The upper value is 1 / (1 - communication share), 3 at most. For comparison, another job on two GPUs with 32 times the"
            " tokens a step for the same exchange ran at 10.2 times the tokens/s (17.4 to 177.9 k)."
        ),
    ),
    risk=_(
        "Larger batches change optimisation; bf16 gradients add noise; no_sync keeps full gradients in memory, and static_graph=True breaks it: leave that out."
    ),
    rollback=_("Remove the arguments."),
    verify=_("The communication share falls below 0.1 and step time for a global batch by 5 % over 200 optimizer steps."),
    terms=(
        Terms(
            MEGATRON,
            _("Overlap keeps further buckets of gradients and parameters in memory."),
            _("Remove the flags."),
            _("The communication share falls below 0.1 and step time for a global batch by 5 % over 200 optimizer steps."),
        ),
        Terms(
            DEEPSPEED & GPU_MEMORY,
            _("Overlap keeps further buckets of gradients in memory; larger batches change optimisation."),
            _("Remove the block."),
            _("The communication share falls below 0.1 and step time for a global batch by 5 % over 200 optimizer steps."),
        ),
        Terms(
            DEEPSPEED,
            _("Overlap keeps further buckets of gradients in memory."),
            _("Remove the block."),
            _("The communication share falls below 0.1 and step time for a global batch by 5 % over 200 optimizer steps."),
        ),
        Terms(
            ~GPU_MEMORY,
            _(
                "bf16 gradients add noise; no_sync keeps full gradients in memory, and static_graph=True breaks it: leave that out."
            ),
            _("Remove the arguments."),
            _("The communication share falls below 0.1 and step time for a global batch by 5 % over 200 optimizer steps."),
        ),
    ),
    sources=("docs.pytorch.org/docs/stable/notes/ddp.html", "recordings ddp_comm_bound and ddp_big"),
)
