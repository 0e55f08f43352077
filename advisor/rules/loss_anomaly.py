"""A loss that is NaN or infinite, stands still, jumps, or gradients that explode.

In FP16 with a loss scale a NaN is an overflow (fp16-overflow-nan); in BF16 and FP32 it is data, a learning rate, or a broken card.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_NAN = (c.loss_not_finite_new >= 1).fill_null(False)
_STILL = (c.loss_still_steps >= param("still_steps_opens")).fill_null(False)
_JUMP = (c.loss_jump_mads >= param("jump_opens_mads")).fill_null(False)
_SPIKES = ((c.grad_norm_spikes >= 3) & (c.grad_norm_spikes >= 0.03 * c.steps)).fill_null(False)

RULE = Rule(
    id="loss-anomaly",
    scope="job",
    severity=pl.when(_NAN | _SPIKES).then(pl.lit("critical")).otherwise(pl.lit("warn")),
    bottleneck=None,
    group="capacity",
    needs=(
        Need(("loss_not_finite_new", "loss", "steps")),
        Need(("loss_not_finite_new", "steps"), "medium"),
        Need(("grad_norm_spikes", "steps"), "medium"),
    ),
    thresholds=(
        Threshold("still_steps_opens", 500.0, "steps", 10.0, 1e7),
        Threshold("jump_opens_mads", 12.0, "deviations", 3.0, 1e6),
    ),
    opens=(c.steps_total >= 200) & (_NAN | _STILL | _JUMP | _SPIKES),
    clears=~_NAN & ~_STILL & ~_JUMP & ~_SPIKES,
    unless=(c.dtype == "fp16") | (c.loss_scale_halvings >= 1) | c.told_kind.is_in(["eval", "serve", "interactive"]),
    yields_to=("fp16-overflow-nan",),
    title=_("The loss or its gradients behave abnormally"),
    summary=_("The loss is {loss:.4g} and left its course by {loss_jump_mads:.0f} times its usual spread within five minutes."),
    cases=(
        Says(_NAN, _("The loss was NaN or infinite in {loss_not_finite_new:.0f} of the last {steps:.0f} steps.")),
        Says(
            _SPIKES,
            _("In {grad_norm_spikes:.0f} of the last {steps:.0f} steps the gradients' norm was ten times its median and more."),
        ),
        Says(_STILL, _("The loss has been exactly {loss:.6g} for {loss_still_steps:.0f} steps: nothing is learned.")),
    ),
    evidence=(
        Show("loss_not_finite_new", "steps", ">=", 1.0),
        Show("loss", "number"),
        Show("loss_still_steps", "steps", ">=", "still_steps_opens"),
        Show("loss_jump_mads", "deviations", ">=", "jump_opens_mads"),
        Show("grad_norm", "number"),
        Show("grad_norm_spikes", "steps", ">=", 3.0),
        Show("ecc_uncorrected_new", "errors"),
    ),
    change=(
        Step(
            "command", "# stop, go back to the last checkpoint before step {steps_total:.0f}, and leave the batches after it out"
        ),
        Step("diff", "+ torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before optimizer.step()"),
        Step("diff", "+ sampler.set_epoch(epoch)  # and restore RNG and sampler with the checkpoint", when=_STILL | _JUMP),
        Step("command", "dcgmi diag -r 3  # where the same batch is fine on other GPUs", when=_NAN | _SPIKES),
    ),
    recovers=1.0,
    risk=_("The batches that are left out are not learned from: keep the state from before."),
    rollback=_("Go back to the kept state."),
    verify=_(
        "The loss stays in its usual band for 2,000 steps. Run the batch again on other GPUs: where it fails there too, it is data or code, else hardware."
    ),
    sources=("docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",),
)
