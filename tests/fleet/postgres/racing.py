"""One of two processes that do things at once: a line of JSON in, `[what, more...]`, a line out, what came of it or what went wrong.

Started with DATABASE_URL and DJANGO_SETTINGS_MODULE in its environment.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import django

django.setup()

from fleet.accounts.models import User  # noqa: E402 - Django's models come after its start
from fleet.annotations import telling as annotations  # noqa: E402
from fleet.findings.cycle import only_run  # noqa: E402
from fleet.findings.lifecycle import Judged, Place, reconcile, report  # noqa: E402
from fleet.ingest import roster  # noqa: E402
from fleet.inventory.models import Gpu  # noqa: E402
from fleet.jobs.holdings import Given  # noqa: E402
from fleet.jobs.telling import keep  # noqa: E402
from tests.fleet.rows import found, gpu, node  # noqa: E402
from tests.speaking import hello  # noqa: E402

RULE: Final = "power-cap-limited"


def seed(nodes: int, gpus: int) -> int:
    """How many GPUs were made, of nodes n0, n1 and so on."""
    cards = [gpu(home, index) for home in (node(f"n{number}") for number in range(nodes)) for index in range(gpus)]
    User.objects.create(username="ann")
    return len(cards)


def tell(told: list[dict[str, Any]], at: float) -> list[tuple[int, bool]]:
    """The ids of the runs told, each with whether it is new. Times are seconds since 1970; `node` and `devices` make an allocation."""
    ready: list[Any] = []
    for one in told:
        times = {
            name: datetime.fromtimestamp(value, UTC)
            for name, value in one.items()
            if name in ("started_at", "started_about", "ended_at")
        }
        ready.append(one | times)
        if "node" in one:
            ready[-1]["allocations"] = [Given(node=one["node"], devices=one["devices"], shared=False)]
    return [(job.pk, is_new) for job, is_new in keep(ready, datetime.fromtimestamp(at, UTC))]


def judge(at: float, backwards: bool) -> int:
    """How many transitions a judgement wrote that sees the same of every GPU."""
    cards = list(Gpu.objects.order_by("-pk" if backwards else "pk"))
    places = {("gpu", str(card.pk)): Place(card.node_id, (card.pk,)) for card in cards}
    judged = Judged(
        frozenset([RULE]), places.keys(), fresh_nodes={card.node_id for card in cards}, gpus={card.pk for card in cards}
    )
    seen = [found(str(card.pk), RULE) for card in cards]
    return len(reconcile(datetime.fromtimestamp(at, UTC), seen, judged, places))


def event(at: float, index: int) -> int:
    """The finding that an event of a GPU opened or joined."""
    card = Gpu.objects.order_by("pk")[index]
    return report(datetime.fromtimestamp(at, UTC), found(str(card.pk), RULE), Place(card.node_id, (card.pk,))).pk


def greet(name: str, gpus: int) -> int:
    """How many cards the node has, whose agent said hello with so many."""
    return len(roster.enrol(hello(name, gpus=gpus), True, "here").gpus)


def annotate(targets: list[str]) -> int:
    """How many annotations are new."""
    told = [annotations.Told(scope="job", target=one, key="image", value="a", at=None, until=None) for one in targets]
    return annotations.tell(told, User.objects.get(username="ann"))[1]


def run(name: str, seconds: float) -> bool:
    """Whether the work was this process's to do; it takes so long."""
    with only_run(name, 60) as mine:
        if mine:
            time.sleep(seconds)
    return mine


DOES: Final[Mapping[str, Callable[..., Any]]] = {one.__name__: one for one in (seed, tell, judge, event, greet, annotate, run)}


def main() -> None:
    """Do as each line says."""
    _say("ready")
    for line in sys.stdin:
        what, *more = json.loads(line)
        try:
            came: Any = DOES[what](*more)
        except Exception as error:
            came = f"{type(error).__name__}: {error}"
        _say(came)


def _say(came: Any) -> None:
    sys.stdout.write(json.dumps(came) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
