"""A site's own rule: what it may say, checked, and the advisor's Rule that it becomes."""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from string import Formatter
from typing import Final, cast

import polars as pl
from django.utils.translation import gettext

from advisor import rule as catalogue
from advisor.annotations import NOTES
from advisor.conditions import SCOPES, ConditionError, columns, condition
from advisor.conditions import of_now as of_now_in
from advisor.expression_tree import compared, needed
from advisor.finding import SEVERITIES, Scope, Severity
from advisor.flapping import both_hold, never_holds
from advisor.rule import Group, Need, Rule, Show, Step
from advisor.text import Text, fields, read_again, within_quotes
from advisor.unshown import UNSHOWN
from fleet.accounts.plain_text import REFUSED, is_plain
from fleet.tuning.models import OwnRule
from wire.labels import DESCRIBED, FLAGS
from wire.metrics import Scope as MetricScope
from wire.metrics import of

GROUPS: Final[tuple[Group, ...]] = ("health", "clocks", "performance", "capacity")
SLUG: Final = re.compile(r"\Asite-[a-z0-9]+(?:-[a-z0-9]+)*\Z")
FIELDS: Final = ("scope", "severity", "group", "opens", "clears", "title", "summary", "change")
CONDITIONS: Final = ("scope", "opens", "clears")
"""What a trial speaks of: where one of these changes, the rule must be tried again."""
LONGEST: Final[Mapping[str, int]] = {"title": 200, "summary": 1000, "change": 2000}
MOST: Final = 100
"""Own rules of a site: each is judged every cycle."""
_SCOPES_OF_METRICS: Final[tuple[MetricScope, ...]] = ("host", "process", "gpu")  # of the same name the last counts
_SHARE: Final = re.compile(r"(?:^|_)share(?:_|$)|_active(?:_|$)|^busy$")
"""Names of shares that cannot be far above 1, as ratios to a baseline or to peers can."""
_FORMAT: Final = re.compile(r"(?:\.[0-6])?[fge%]|")


class OwnRuleError(Exception):
    """It cannot be a rule; `wrong` has a sentence for each field that does not fit."""

    def __init__(self, wrong: Mapping[str, str]) -> None:
        super().__init__(" ".join(wrong.values()))
        self.wrong = dict(wrong)


def cleaned(asked: Mapping[str, str]) -> dict[str, str]:
    """The fields as they are kept: one line each (but for `change`), no spaces around; without `clears` the opposite of `opens`."""
    kept = {name: str(asked.get(name, "")).replace("\r\n", "\n").strip() for name in FIELDS}
    for name in ("opens", "clears"):
        kept[name] = re.sub(r"[\n\t]+", " ", kept[name]).strip()
    kept["clears"] = kept["clears"] or (f"NOT ({kept['opens']})" if kept["opens"] else "")
    return kept


def check(asked: Mapping[str, str]) -> None:
    """OwnRuleError unless these fields make a rule."""
    wrong = {}
    for name, known in (("scope", SCOPES), ("severity", SEVERITIES), ("group", GROUPS)):
        if asked[name] not in known:
            wrong[name] = gettext("Choose one of: {known}.").format(known=", ".join(known))
    if "scope" not in wrong:
        scope = cast(Scope, asked["scope"])
        opposite = asked["clears"] == f"NOT ({asked['opens']})"  # nobody wrote it: what is wrong with it is said once
        for name in ("opens",) if opposite else ("opens", "clears"):
            try:
                condition(asked[name], scope)
            except ConditionError as error:
                wrong[name] = told(error.text)
        for name in LONGEST:
            if says := _wrong_text(name, asked[name], scope):
                wrong[name] = says
    if wrong:
        raise OwnRuleError(wrong)


def check_together(kept: Mapping[str, str]) -> None:
    """OwnRuleError where no row could open the rule, or one both open and clear it: its findings would flap. The fields fit by themselves."""
    scope = cast(Scope, kept["scope"])
    shares = [name for name in columns(scope) if unit(name) == "ratio" and _SHARE.search(name)]
    if never_holds(kept["opens"], scope, shares):
        named = ", ".join(sorted({*pl.sql_expr(kept["opens"]).meta.root_names()} & {*shares}))
        says = gettext("No value makes this true: the rule would never open.")
        if named:
            says += " " + gettext("{named}: a share lies between 0 and 1: write 91 per cent as 0.91.").format(named=named)
        raise OwnRuleError({"opens": says})
    found = both_hold(kept["opens"], kept["clears"], cast(Scope, kept["scope"]))
    if found is None:
        return
    where = ", ".join(f"{name} = {_shown(value)}" for name, value in found.items())
    says = gettext(
        "With {where} both conditions hold: it would open and clear at once, and its findings flap. Let it clear elsewhere."
    )
    raise OwnRuleError({"clears": says.format(where=where)})


def _shown(value: float | bool | str | None) -> str:
    if value is None or isinstance(value, bool):
        return str(value).upper().replace("NONE", "NULL")
    return f"'{value}'" if isinstance(value, str) else f"{value:.6g}"


def as_rule(row: OwnRule) -> Rule:
    """The advisor's rule; OwnRuleError where the fields do not fit (any more: features may change with a release)."""
    check({name: getattr(row, name) for name in FIELDS})
    scope = cast(Scope, row.scope)
    opens, clears = condition(row.opens, scope), condition(row.clears, scope)
    numbers = compared(opens)
    kinds = columns(scope)
    return Rule(
        id=row.slug,
        scope=scope,
        severity=cast(Severity, row.severity),
        bottleneck=None,
        group=cast(Group, row.group),
        needs=(Need(tuple(dict.fromkeys((*needed(opens), *needed(clears)))), "medium"),),
        opens=opens,
        clears=clears,
        title=row.title,
        summary=row.summary,
        evidence=tuple(
            Show(name, unit(name), *numbers.get(name, (None, None)))
            for name in dict.fromkeys(opens.meta.root_names())
            if kinds[name] != pl.String
        ),
        change=(Step("step", row.change),) if row.change else (),
        risk="",
        rollback="",
        verify="",
        sources=(),
    )


def of_now(row: OwnRule) -> list[str]:
    """The features of its conditions that a trial takes as they are now, by name; OwnRuleError where it is no rule."""
    rule = as_rule(row)
    return sorted(of_now_in(rule.scope) & {*rule.opens.meta.root_names(), *rule.clears.meta.root_names()})


def digest(row: OwnRule) -> str:
    """What tells the conditions of one text from those of another."""
    return hashlib.sha256("\0".join(getattr(row, name) for name in CONDITIONS).encode()).hexdigest()


def unit(feature: str) -> str:
    """The unit that a feature is shown in: that of our rules' evidence, of the features beside it or of the metric; "" for text and flags."""
    return _units().get(feature, "")


def told(text: Text) -> str:
    """A sentence of the advisor in the active language."""
    return gettext(text.id).format_map(text.params)


_TYPED: Final = (("flag", FLAGS), ("told", DESCRIBED))
"""What people write on command lines and in descriptions: plain numbers, but for flags whose documentation names a unit."""
_UNITS_OF_FLAGS: Final[Mapping[str, str]] = {
    "kv-cache-memory-bytes": "bytes", "pinned-memory-pool-byte-size": "bytes",
    "cpu-offload-gb": "gibibytes", "swap-space": "gibibytes",  # docs.vllm.ai: in GiB for each GPU
    "gpu-memory-utilization": "ratio", "mem-fraction-static": "ratio", "kv-cache-free-gpu-memory-fraction": "ratio",
    **dict.fromkeys(("max-num-batched-tokens", "max-model-len", "block-size", "max-total-tokens", "context-length", "max-seq-len",
                     "chunked-prefill-size", "max-prefill-tokens", "max-num-tokens", "num-speculative-tokens", "seq-length"), "tokens"),
    "max-num-seqs": "sequences", "max-running-requests": "requests",
    **dict.fromkeys(("gpus-per-node", "num-gpus"), "gpus"), **dict.fromkeys(("nnodes", "num-nodes", "num-machines"), "nodes"),
    **dict.fromkeys(("nproc-per-node", "num-processes", "num-workers", "dataloader-num-workers"), "processes"),
    **dict.fromkeys(("backend-threads", "http-thread-count", "num-cpu-threads-per-process"), "threads"),
}  # fmt: skip
"""By the programs' own documentation: vLLM, SGLang, TensorRT-LLM, Triton, torchrun, PyTorch's loader."""
_NOTE_UNITS: Final = {"GPUs": "gpus", "seconds since": "seconds"}


@cache
def _units() -> Mapping[str, str]:
    shown = {show.feature: show.unit for rule in catalogue.load() for show in rule.evidence}
    metrics = {metric.name: metric.unit for scope in _SCOPES_OF_METRICS for metric in of(scope)}
    typed = {
        f"{of_name}_{name}".replace("-", "_"): _UNITS_OF_FLAGS.get(name, "number") if of_name == "flag" else "number"
        for of_name, kinds in _TYPED
        for name, kind in kinds.items()
        if kind == "number"
    }
    notes = {f"note_{note.key}": _NOTE_UNITS.get(note.unit, note.unit) or "number" for note in NOTES if note.dtype.is_numeric()}
    return metrics | typed | notes | {name: of_name for name, (of_name, _words) in UNSHOWN.items()} | shown


def _wrong_text(name: str, text: str, scope: Scope) -> str:
    """What is wrong with a text of the rule, as a sentence; "" where nothing is."""
    if not text and name != "change":
        return gettext("This is empty.")
    if len(text) > LONGEST[name]:
        return gettext("This is longer than {most} characters.").format(most=LONGEST[name])
    if not all(map(is_plain, text.split("\n") if name == "change" else [text])):
        return str(REFUSED)
    try:
        parts = list(Formatter().parse(text))
        named = fields(text)
    except ValueError:
        return gettext("A brace stands alone: write {{ or }} for a brace, and {feature} for a value.")
    if named and name == "title":
        return gettext("A title holds no values: put {named} into the summary.").format(named=", ".join(named))
    known = columns(scope)
    words = [one for one, kind in known.items() if kind == pl.String]
    if name == "change" and (field := within_quotes(text, words)):
        return gettext(
            "{name} stands within quotes, after a backslash or a dollar sign, in a substitution or in a here-document: its value is quoted as it"
            " is filled in, and that undoes it. Write {name} without quotes, and ’ for an apostrophe: to a shell it is a quote."
        ).format(name=f"{{{field}}}")
    if name == "change" and (again := read_again(text, words)):
        return gettext(
            "{name} stands in a command with {word}, which reads its words once more: what the value holds would run. Leave {name} out there."
        ).format(name=f"{{{again[0]}}}", word=again[1])
    for _literal, field, spec, conversion in parts:
        if field is None:
            continue
        if field not in known:
            return gettext("There is no feature {name} to fill in.").format(name=f"{{{field[:60]}}}")
        form = "" if known[field] == pl.String else None
        if conversion or not _FORMAT.fullmatch(spec or "") or (form is not None and spec != form):
            return gettext("{name} is filled in as {{{name}}}, and a number also as {{{name}:.1f}} or {{{name}:.0%}}.").format(
                name=field
            )
    return ""
