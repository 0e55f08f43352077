"""A plain web process serves a model without an inference engine.

Several processes that each hold a whole copy of the model on one GPU, and a GPU that is mostly empty. Told by the program's name (uvicorn,
gunicorn, flask): no engine's counters exist there.
"""

import polars as pl

from advisor.room import GPU_MEMORY
from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="eager-serving-no-engine",
    scope="job",
    severity="advice",
    bottleneck="underfilled",
    needs=(Need(("web_process", "tenants", "sm_active"), "medium"), Need(("web_process", "busy"), "low")),
    thresholds=(
        Threshold("sm_active_opens", 0.35, "ratio", 0.01, 1.0),
        Threshold("sm_active_clears", 0.5, "ratio", 0.01, 1.0),
        Threshold("busy_opens", 0.02, "ratio", 0.0, 1.0),
    ),
    opens=c.web_process
    & c.serving_engine.is_null()
    & (c.busy >= param("busy_opens"))
    & (c.sm_active.fill_null(c.busy) < param("sm_active_opens")),
    clears=~c.web_process | c.serving_engine.is_not_null() | (c.sm_active.fill_null(c.busy) >= param("sm_active_clears")),
    unless=c.note_job_kind.is_in(["dev", "interactive", "train"])
    | c.told_kind.is_in(["train", "eval", "interactive"])
    | (c.steps >= 1),
    title=_("A web process serves the model without an inference engine"),
    summary=_(
        "A plain web process serves from the GPU, {tenants:.0f} program(s) with a copy of their own on it, and its SMs are active {sm_active:.0%} of the time."
    ),
    evidence=(
        Show("sm_active", "ratio", "<", "sm_active_opens"),
        Show("busy", "ratio", ">=", "busy_opens"),
        Show("tenants", "processes"),
        Show("held_bytes", "bytes"),
        Show("main_cores", "cores"),
    ),
    change=(
        Step("command", "vllm serve MODEL --max-model-len N  # a language model"),
        Step(
            "diff",
            '- output = model(inputs)\n+ model = torch.compile(model, mode="reduce-overhead")  # once\n+ with torch.inference_mode():\n+     output = model(batch)  # of all requests that came within a few milliseconds',
            when=GPU_MEMORY,
        ),
        Step("command", "gunicorn --workers 1 --threads 8 app:app  # one copy of the model a GPU", when=c.tenants >= 2),
    ),
    gain=Expect(
        1.5,
        10.0,
        _(
            "Language models serve 3 to 20 times the tokens with continuous batching; others 1.5 to 4 times the requests with batches and compiled graphs."
        ),
    ),
    risk=_("Operators that the engine lacks, and other numerics: check quality before traffic goes there."),
    rollback=_("Send the traffic to the old route."),
    verify=_("Capacity up by half in a load test, the slowest requests faster, one copy of the weights a GPU."),
    sources=("docs.vllm.ai", "docs.pytorch.org/docs/stable/generated/torch.compile.html"),
)
