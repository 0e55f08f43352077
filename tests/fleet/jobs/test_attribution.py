"""Whose job each GPU works for: what a scheduler gave, what labels say, who holds it; and what is nobody's alone."""

from collections.abc import Mapping
from datetime import timedelta

import polars as pl
import pytest

from fleet.inventory.models import Gpu
from fleet.jobs.attribution import Attribution, attribute
from fleet.jobs.holding import holders
from tests.fleet.jobs.given import give, job
from tests.fleet.rows import NOON, gpu, minutes, node

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def listed(*rows: tuple[Gpu, int, str, str]) -> pl.DataFrame:
    """Processes that were there all of the last minute: GPU, pid, user and name."""
    t = NOON.timestamp()
    made = [
        {"gpu": card.pk, "pid": pid, "t": t - 60 + second, "user": user, "name": name, "gpu_mem_bytes": 1 << 30}
        for card, pid, user, name in sorted(rows, key=lambda row: (row[0].pk, row[1]))
        for second in range(60)
    ]
    kinds = {"gpu": pl.Int64, "pid": pl.Int64, "t": pl.Float64, "user": pl.String, "name": pl.String, "gpu_mem_bytes": pl.Int64}
    return pl.DataFrame(made, schema=kinds)


def whose(
    cards: list[Gpu], rows: list[tuple[Gpu, int, str, str]], labels: Mapping[tuple[int, int], Mapping[str, str]] | None = None
) -> Attribution:
    """Whose the cards are at noon."""
    names = {card.node_id: card.node.name for card in cards}
    return attribute(
        NOON, listed(*rows), {card.pk: card.node_id for card in cards}, names, holders(NOON, processes=False), labels or {}
    )


def test_an_allocation_comes_before_what_processes_are_called() -> None:
    """With a process or without, and on several nodes it is one job."""
    one, two = gpu(node("n1")), gpu(node("n2"))
    mine = job("4711", NOON - HOUR)
    give(mine, one, two)
    found = whose([one, two], [(one, 11, "ada", "python")])

    assert found.jobs == {one.pk: "west/4711", two.pk: "west/4711"}
    assert found.members == {one.pk: {11}, two.pk: frozenset()}
    assert found.rows == {"west/4711": mine.pk}
    assert (found.shared, found.foreign) == (set(), {})


def test_without_an_allocation_it_is_whose_processes_hold_it() -> None:
    """The largest holder of now, as pages name it; who is not known is said so."""
    one, two, free = gpu(home := node("n1")), gpu(home, 1), gpu(home, 2)
    found = whose([one, two, free], [(one, 11, "ada", "python"), (two, 12, "", "")])
    assert found.jobs == {one.pk: "n1/ada/python", two.pk: "n1/?/?"}
    assert (found.scheduled, found.members, found.rows) == ({}, {}, {})


def test_a_slurm_job_that_nobody_told_of_is_known_where_its_cluster_is() -> None:
    """Its prolog failed: the node had jobs of the cluster before. A number alone, of no known cluster, names no job."""
    one, other = gpu(node("n1")), gpu(node("n2"))
    give(job("4000", NOON - 9 * HOUR, ended_at=NOON - 8 * HOUR), one, until=NOON - 8 * HOUR)
    labels = {(card.node_id, 11): {"slurm_job": "4711"} for card in (one, other)}
    found = whose([one, other], [(one, 11, "ada", "python"), (one, 12, "bob", "vi"), (other, 11, "ada", "python")], labels)

    assert found.jobs == {one.pk: "west/4711", other.pk: "n2/ada/python"}
    assert found.members == {one.pk: {11}}
    assert found.rows == {}


def test_a_process_that_outlived_its_job_does_not_make_it_run_again() -> None:
    """Its scheduler told the end: what is left is called by its own name."""
    card = gpu(node("n1"))
    give(job("4711", NOON - HOUR, ended_at=NOON - minutes(5)), card, until=NOON - minutes(5))
    found = whose([card], [(card, 11, "ada", "python")], {(card.node_id, 11): {"slurm_job": "4711"}})
    assert found.jobs == {card.pk: "n1/ada/python"}


def test_a_job_that_was_told_without_its_devices_is_found_by_its_processes() -> None:
    """And so is a task of an array, whose processes know another number, and a pod."""
    home = node("n1")
    cards = [gpu(home, index) for index in range(3)]
    give(job("4000", NOON - 9 * HOUR, ended_at=NOON - 8 * HOUR), cards[0], until=NOON - 8 * HOUR)
    plain = job("4711", NOON - HOUR)
    task = job("4700_3", NOON - HOUR, array_job_id="4700", labels={"slurm_id": "4703"})
    pod = job("team.train-0", NOON - HOUR, cluster="k8s", source="kubernetes", labels={"namespace": "team", "pod": "train-0"})
    told = ({"slurm_job": "4711"}, {"slurm_job": "4703"}, {"pod": "0b5e", "pod_name": "train-0"})
    labels = {(home.pk, 11 + place): label for place, label in enumerate(told)}
    found = whose(cards, [(card, 11 + place, "ada", "python") for place, card in enumerate(cards)], labels)

    assert list(found.jobs.values()) == ["west/4711", "west/4700_3", "k8s/team.train-0"]
    assert found.rows == {"west/4711": plain.pk, "west/4700_3": task.pk, "k8s/team.train-0": pod.pk}


def test_a_gpu_that_several_jobs_have_is_no_single_jobs() -> None:
    """Told so, or given twice; whoever is seen there."""
    marked, twice = gpu(home := node("n1")), gpu(home, 1)
    give(job("1", NOON - HOUR), marked, shared=True)
    for number in ("2", "3"):
        give(job(number, NOON - HOUR), twice)
    found = whose([marked, twice], [(marked, 11, "ada", "python")])
    assert (found.jobs, found.shared) == ({}, {marked.pk, twice.pk})


@pytest.mark.parametrize(
    ("user", "label", "foreign"),
    [
        ("ada", {"slurm_job": "4711"}, False),
        ("ada", {"slurm_job": "4712"}, True),
        ("ada", {}, False),  # its labels are not known
        ("bob", {}, True),  # not by the scheduler's way: by ssh
        ("root", {}, False),  # a daemon may work for anybody
        ("1000", {}, False),  # a user without a name here
        ("bob", {"slurm_job": "4711"}, False),
        ("bob", {"pod": "0b5e"}, True),
    ],
)
def test_who_is_not_of_the_job_is_told_apart(user: str, label: dict[str, str], foreign: bool) -> None:
    """By the number that the process itself knows, else by its user; of whom nothing is known, nothing is said."""
    card = gpu(node("n1"))
    give(job("4711", NOON - HOUR), card)
    rows = [(card, 10, "ada", "python"), (card, 11, user, "python")]
    found = whose([card], rows, {(card.node_id, 10): {"slurm_job": "4711"}, (card.node_id, 11): label})

    assert found.foreign == ({card.pk: {11}} if foreign else {})
    assert found.members == {card.pk: {10} if foreign else {10, 11}}
    assert found.jobs == {card.pk: "west/4711"}


def test_a_task_of_an_array_knows_its_own_number() -> None:
    """The scheduler tells which number its processes have: they are no strangers."""
    card = gpu(node("n1"))
    give(job("4700_3", NOON - HOUR, array_job_id="4700", labels={"slurm_id": "4703"}), card)
    found = whose([card], [(card, 11, "ada", "python")], {(card.node_id, 11): {"slurm_job": "4703"}})
    assert (found.foreign, found.jobs) == ({}, {card.pk: "west/4700_3"})


def test_work_of_strangers_alone_is_not_the_jobs() -> None:
    """The GPU is given to one and used by another: neither is judged by it."""
    card = gpu(node("n1"))
    give(job("4711", NOON - HOUR), card)
    found = whose([card], [(card, 11, "bob", "python")])
    assert found.jobs == {}
    assert found.foreign == {card.pk: {11}}
    assert found.scheduled[card.pk].target == "west/4711"


@pytest.mark.parametrize(
    ("label", "foreign"),
    [({"pod": "0b5e"}, False), ({"pod": "0b5e", "pod_name": "train-0"}, False), ({"pod": "1c6f", "pod_name": "train-1"}, True)],
)
def test_who_is_of_another_pod_is_told_apart_by_its_name(label: dict[str, str], foreign: bool) -> None:
    """A UID that nobody told says nothing, and neither does a user of the node: the cluster knows others."""
    card = gpu(node("n1"))
    labels = {"namespace": "team", "pod": "train-0"}
    give(job("team.train-0", NOON - HOUR, cluster="k8s", source="kubernetes", user="team", labels=labels), card)
    found = whose([card], [(card, 10, "ada", "python"), (card, 11, "ada", "python")], {(card.node_id, 11): label})
    assert found.foreign == ({card.pk: {11}} if foreign else {})
    assert found.jobs == {card.pk: "k8s/team.train-0"}


def test_a_pod_whose_name_two_namespaces_have_is_neither() -> None:
    """Its own name is not enough to tell which."""
    card = gpu(node("n1"))
    for space in ("blue", "red"):
        job(f"{space}.train-0", NOON - HOUR, cluster="k8s", source="kubernetes", labels={"namespace": space, "pod": "train-0"})
    found = whose([card], [(card, 11, "ada", "python")], {(card.node_id, 11): {"pod_name": "train-0"}})
    assert found.jobs == {card.pk: "n1/ada/python"}
