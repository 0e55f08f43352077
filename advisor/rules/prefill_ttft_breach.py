"""The first token comes too late because prompts take long to work through, not because requests queue."""

import polars as pl

from advisor.room import SERVICE_MEMORY
from advisor.rule import Expect, Need, Rule, Show, Step, Terms, Threshold, param
from advisor.text import _

c = pl.col

_PREFILL = (c.ttft_s - c.queue_s.fill_null(0)).clip(0)

_FP8 = (c.sm >= 89) & c.flag_quantization.is_null() & c.kind.is_in(["vllm", "sglang"])
_LARGER = c.kind.is_in(["vllm", "sglang"]) & SERVICE_MEMORY

RULE = Rule(
    id="prefill-ttft-breach",
    scope="service",
    severity="warn",
    bottleneck="compute",
    needs=(Need(("ttft_p95_s", "note_ttft_slo_s", "prompt_tokens_mean", "queue_s"), "medium"),),
    thresholds=(
        Threshold("ttft_ratio_opens", 1.0, "ratio", 0.1, 10.0),
        Threshold("ttft_ratio_clears", 0.9, "ratio", 0.1, 10.0),
        Threshold("queue_part_opens", 0.3, "ratio", 0.0, 1.0),
        Threshold("prompt_tokens_opens", 2048.0, "tokens", 1.0, 1e7),
    ),
    opens=(c.ttft_p95_s > param("ttft_ratio_opens") * c.note_ttft_slo_s)
    & (c.queue_s < param("queue_part_opens") * c.ttft_s)
    & (c.prompt_tokens_mean >= param("prompt_tokens_opens")),
    clears=c.ttft_p95_s <= param("ttft_ratio_clears") * c.note_ttft_slo_s,
    unless=c.age_s < 180,
    yields_to=("serving-queue-growth", "serving-cold-start", "kv-cache-preemption"),
    title=_("Prompts take too long before the first token"),
    summary=_(
        "The first token comes within {ttft_p95_s:.2f} s for 95 % of the requests; the target is {note_ttft_slo_s:.2f} s. Prompts have {prompt_tokens_mean:.0f} tokens, and a request is {queue_s:.2f} s in the queue on average."
    ),
    evidence=(
        Show("ttft_p95_s", "seconds"),
        Show("note_ttft_slo_s", "seconds"),
        Show("queue_s", "seconds"),
        Show("prompt_tokens_mean", "tokens", ">=", "prompt_tokens_opens"),
        Show("prefix_hit_share", "ratio"),
        Show("tensor_active", "ratio"),
    ),
    change=(
        Step(
            "flag",
            "--enable-prefix-caching  # and the system prompt first, so that prompts share a beginning",
            when=(c.kind == "vllm") & (c.prefix_hit_share.fill_null(0) < 0.2),
        ),
        Step("flag", "--max-num-batched-tokens 16384  # larger peaks of activations", when=(c.kind == "vllm") & SERVICE_MEMORY),
        Step("flag", "--chunked-prefill-size 16384  # larger peaks of activations", when=(c.kind == "sglang") & SERVICE_MEMORY),
        Step(
            "flag",
            "--quantization fp8  # after a check of quality",
            when=_FP8,
        ),
        Step("config", "# cap or split the longest prompts, or serve prefill and decode apart"),
    ),
    gain=Expect(
        1.1,
        1.6,
        _("Hits of the prefix cache take their share of prefill away; FP8 is 1.2 to 1.6 times as fast at it."),
        wins_time_back=False,
    ),
    risk=_("Larger chunks delay the tokens of the others: watch the time between tokens."),
    rollback=_("Set the old flags."),
    verify=_("The first token is in time for 24 hours at the same load, and so is the time between tokens."),
    terms=(
        Terms(
            _LARGER & _FP8,
            _("Larger chunks delay the tokens of the others: watch the time between tokens. FP8 needs a check of quality."),
            _("Set the old flags."),
            _("The first token is in time for 24 hours at the same load, and so is the time between tokens."),
        ),
        Terms(
            _FP8,
            _("FP8 needs a check of quality; a cap refuses or shortens what people ask."),
            _("Set the old flags."),
            _("The first token is in time for 24 hours at the same load, and so is the time between tokens."),
        ),
        Terms(
            ~_LARGER,
            _("A cap refuses or shortens what people ask."),
            _("Set the old flags."),
            _("The first token is in time for 24 hours at the same load, and so is the time between tokens."),
        ),
    ),
    measure="ttft_p95_s",
    sources=(_("docs.vllm.ai: Optimization and Tuning (chunked prefill)"), "docs.vllm.ai: automatic prefix caching"),
)
