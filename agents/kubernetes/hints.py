"""What Fettle knows of each node, as annotations on the cluster's nodes; cordons where it is asked to, and undoes its own alone.

A node of which nothing is known is never cordoned, and never made schedulable again. A person who makes a node schedulable that is
cordoned by this has the last word until the node is well and falls ill again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wire.sentence import Sentence, _

PREFIX: Final = "fettle.dev/"
HEALTH: Final = PREFIX + "health"
REASONS: Final = PREFIX + "health-reasons"
SINCE: Final = PREFIX + "health-since"
CORDONED: Final = PREFIX + "cordoned"
STATES: Final = ("usable", "avoid", "drain", "unknown")
_YES: Final = "yes"
_TEXT_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Told:
    """Fettle's word on one node."""

    state: str
    reasons: tuple[str, ...] = ()
    since: str = ""


UNHEARD: Final = Told("unknown", ("Fettle's server knows no node of this name.",))


@dataclass(frozen=True, slots=True)
class Seen:
    """A node as the cluster's API shows it."""

    name: str
    version: str
    annotations: Mapping[str, str]
    is_unschedulable: bool


def told(row: Mapping[str, Any]) -> Told:
    """One row of /api/v1/health/; what is no state that is known here is `unknown`."""
    state = str(row.get("state"))
    reasons = tuple(str(reason.get("text") or reason.get("rule") or "") for reason in row.get("reasons") or ())
    return Told(state if state in STATES else "unknown", tuple(filter(None, reasons)), str(row.get("since") or ""))


def seen(item: Mapping[str, Any]) -> Seen:
    """One item of a NodeList."""
    about = item["metadata"]
    return Seen(
        about["name"],
        about.get("resourceVersion", ""),
        about.get("annotations") or {},
        bool(item.get("spec", {}).get("unschedulable")),
    )


def patches(nodes: Sequence[Seen], health: Mapping[str, Told], *, cordons: bool, share: float = 0.1) -> dict[str, dict[str, Any]]:
    """The merge patch of each node that has to change, by name.

    `cordons`: nodes to drain are made unschedulable, no more than `share` of all nodes and at least one; those that are well again and
    were cordoned by this are made schedulable.
    """
    left = max(1, int(share * len(nodes))) - sum(CORDONED in node.annotations and node.is_unschedulable for node in nodes)
    found: dict[str, dict[str, Any]] = {}
    for node in nodes:
        of = health.get(node.name, UNHEARD)
        annotations: dict[str, str | None] = {
            HEALTH: of.state, REASONS: _text(of.reasons) or None, SINCE: of.since or None, **_kept(node, of, cordons),
        }  # fmt: skip
        spec: dict[str, bool] = {}
        if cordons and of.state == "drain" and not node.is_unschedulable and CORDONED not in node.annotations and left > 0:
            left -= 1
            spec["unschedulable"] = True
            annotations[CORDONED] = _YES
        elif cordons and of.state == "usable" and node.is_unschedulable and CORDONED in node.annotations:
            spec["unschedulable"] = False
        news = {name: value for name, value in annotations.items() if node.annotations.get(name) != value}
        if news or spec:
            # the version: a node that somebody changed meanwhile is looked at again in the next round
            patch: dict[str, Any] = {"metadata": {"annotations": news, **({"resourceVersion": node.version} if spec else {})}}
            found[node.name] = patch | ({"spec": spec} if spec else {})
    return found


def _kept(node: Seen, of: Told, cordons: bool) -> dict[str, str | None]:
    """Our mark is over once the node is well: the next time that it falls ill it is cordoned again."""
    return {CORDONED: None} if cordons and of.state == "usable" and CORDONED in node.annotations else {}


def _text(reasons: Iterable[str]) -> str:
    text = " ".join(reasons)
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def sentence(name: str, patch: Mapping[str, Any]) -> str:
    """What a patch does, for a person."""
    did = {True: _("{node}: {state}, cordoned{why}"), False: _("{node}: {state}, schedulable again{why}")}
    news = patch["metadata"]["annotations"]
    state = news.get(HEALTH) or Sentence(_("as before"))
    why = f" ({news[REASONS]})" if news.get(REASONS) else ""
    return Sentence(did.get(patch.get("spec", {}).get("unschedulable"), "{node}: {state}{why}"), node=name, state=state, why=why)
