"""Which finding explains which: the table's rows, the order of causes, and that there is never a circle."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import causes
from advisor.causes import Because, Place, Standing, direct, roots
from advisor.rule import load
from advisor.xid_catalog import BY_RULE

MINUTE = 60.0


def on(**places: Any) -> dict[Place, Any]:
    """Where a finding is, by place."""
    known: dict[Place, Any] = {place: set(places.get(place, ())) for place in causes.PLACES}
    return {**known, "cluster": ("",)}


def one(key: int, rule: str, minute: float = 0.0, scope: str = "gpu", told: bool = True, **places: Any) -> Standing:
    """A finding that opened so many minutes after the start."""
    return Standing(key, rule, scope, minute * MINUTE, told, on(**places))


def because(*standing: Standing) -> dict[int, tuple[int, str]]:
    """What explains what, and what the two share."""
    return {key: (cause.key, cause.place) for key, cause in causes.causes(standing).items()}


LOST = one(1, "xid-fallen-off-bus", gpu={11}, node={1}, fabric={1}, job={"c/7"})


@pytest.mark.parametrize(
    ("effect", "place"),
    [
        pytest.param(one(2, "uncorrectable-ecc", 1, gpu={11}, node={1}), "gpu", id="another XID of the card"),
        pytest.param(one(2, "hw-slowdown-active", 1, gpu={11}, node={1}), "gpu", id="whatever is said of the card"),
        pytest.param(
            one(2, "collective-hang", 2, "job", gpu={11, 21}, node={1, 2}, job={"c/7"}), "gpu", id="the job that holds it"
        ),
        pytest.param(one(2, "collective-hang", 2, "job", gpu={31}, node={3}, job={"c/7"}), "job", id="its job, elsewhere by now"),
        pytest.param(one(2, "collective-hang", -1, "job", gpu={11}, node={1}), "gpu", id="seen a minute before the card was"),
        pytest.param(one(2, "xid-fallen-off-bus", 1, "node", node={1}), "node", id="its node's count of cards"),
        pytest.param(one(2, "restart-loop-same-node", 30, "node", node={1}), "node", id="restarts on its node"),
        pytest.param(one(2, "nvlink-fault", 1, gpu={12}, node={1}, fabric={1}), "fabric", id="the links of its peers"),
    ],
)
def test_a_lost_card_explains(effect: Standing, place: str) -> None:
    """What its loss brings about, wherever that is seen, late or early."""
    assert because(LOST, effect) == {2: (1, place)}


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(one(2, "collective-hang", 1, "job", gpu={21}, node={2}, job={"c/8"}), id="a job on other cards"),
        pytest.param(one(2, "uncorrectable-ecc", 1, gpu={12}, node={1}, fabric={1}), id="a memory error of its neighbour"),
        pytest.param(
            one(2, "collective-hang", 24 * 60, "job", gpu={31}, node={3}, job={"c/7"}), id="the job's trouble of the next day"
        ),
        pytest.param(one(2, "nvlink-fault", 30, gpu={12}, node={1}, fabric={1}), id="a link that fails half an hour later"),
        pytest.param(one(2, "site-own", 1, "job", gpu={12}, node={1}), id="a rule of the site's on another card"),
    ],
)
def test_a_lost_card_does_not_explain(other: Standing) -> None:
    """What lies elsewhere, or long after."""
    assert because(LOST, other) == {}


def test_what_nobody_is_told_of_explains_nothing() -> None:
    """A cause in shadow, or that does not fire yet, must not keep its consequence quiet."""
    quiet = one(1, "xid-fallen-off-bus", told=False, gpu={11}, node={1})

    assert because(quiet, one(2, "collective-hang", 1, "job", gpu={11}, node={1})) == {}


def test_a_silent_node_explains_all_that_is_on_it() -> None:
    """Cards, jobs that span it and what the site wrote itself; not the node beside it."""
    silent = one(1, "node-silent", 0, "node", node={1})
    here = [
        one(2, "xid-fallen-off-bus", 1, gpu={11}, node={1}),
        one(3, "collective-hang", 2, "job", gpu={11, 21}, node={1, 2}),
        one(4, "site-own", 3, "node", node={1}),
    ]

    assert because(silent, *here, one(5, "site-own", 3, "node", node={2})) == {2: (1, "node"), 3: (1, "node"), 4: (1, "node")}


def test_a_chain_is_told_by_its_first_cause() -> None:
    """A link's fault, the XID that followed, the job that hangs, and what the hang brought: all because of the link."""
    chain = [
        one(4, "gpu-allocated-idle", 9, "job", gpu={21}, node={2}, job={"c/7"}),
        one(3, "collective-hang", 3, "job", gpu={12, 21}, node={1, 2}, job={"c/7"}),
        one(2, "gpu-reset-required", 1, gpu={12}, node={1}, fabric={1}),
        one(1, "nvlink-fault", 0, gpu={11}, node={1}, fabric={1}),
    ]

    assert {key: cause for key, (cause, _) in because(*chain).items()} == {2: 1, 3: 1, 4: 1}


def test_of_a_switch_that_fails_the_first_card_is_told() -> None:
    """Every card behind it reports its links; one of them is first."""
    cards = [one(key, "nvlink-fault", key / 60, gpu={key}, node={1}, fabric={1}) for key in range(8)]

    assert because(*cards) == dict.fromkeys(range(1, 8), (0, "fabric"))


def hot(key: int, minute: float, node: int, rack: str = "r1") -> Standing:
    """A card of a node of a rack that is held back for heat."""
    return one(key, "hw-slowdown-active", minute, gpu={key}, node={node}, rack={rack})


def test_a_rack_that_grows_hot_has_one_first() -> None:
    """Three nodes within minutes: the others are because of the first; its straggling job too, on whichever of the nodes it runs."""
    job = one(9, "rank-straggler", 12, "job", gpu={3}, node={3})

    assert because(hot(1, 0, 1), hot(2, 4, 2), hot(3, 8, 3), job) == {2: (1, "rack"), 3: (1, "rack"), 9: (1, "rack")}


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([hot(2, 4, 2)], id="two nodes may be chance"),
        pytest.param([hot(2, 4, 1), hot(3, 8, 1)], id="three cards of one node"),
        pytest.param([hot(2, 4, 2), hot(3, 8, 3, "r2")], id="another rack"),
        pytest.param([hot(2, 40, 2), hot(3, 80, 3)], id="in the course of the day"),
    ],
)
def test_few_hot_nodes_of_a_rack_are_each_their_own(others: list[Standing]) -> None:
    """Nothing is said to follow from another without reason."""
    assert because(hot(1, 0, 1), *others) == {}


def test_shared_storage_explains_the_jobs_that_wait_for_data() -> None:
    """Wherever they run; not those that wait for something else."""
    storage = one(1, "shared-storage-contention", 0, "fleet")
    waiting = one(2, "storage-throughput-bound", 5, "job", gpu={11}, node={1})

    assert because(storage, waiting, one(3, "comm-not-overlapped", 5, "job", gpu={21}, node={2})) == {2: (1, "cluster")}


def test_of_two_causes_the_nearer_to_the_metal_is_first() -> None:
    """A hot card is slow and so is its job; the job's straggler is because of the heat, not of the outlier that follows from it."""
    found = because(
        one(1, "gpu-slow-outlier", 0, gpu={11}, node={1}),
        one(2, "hw-slowdown-active", 5, gpu={11}, node={1}),
        one(3, "rank-straggler", 6, "job", gpu={11, 12}, node={1}),
    )

    assert found == {1: (2, "gpu"), 3: (2, "gpu")}


def test_every_rule_of_the_table_is_there() -> None:
    """A misspelt name explains nothing, and nobody would notice. Those that other sources report are listed."""
    known = (
        {rule.id for rule in load()}
        | BY_RULE.keys()
        | {causes.COUNT, "node-silent", "many-nodes-silent", "gpu-missing", "nvswitch-fault"}
    )
    named = causes.EXPLAINING | {rule for row in causes.TABLE for rule in row.effects or ()}

    assert named - known == set()


KINDS = [*sorted(causes.EXPLAINING | {rule for row in causes.TABLE for rule in row.effects or ()} - {causes.COUNT}), "site-own"]


@st.composite
def fleets(draw: st.DrawFn) -> list[Standing]:
    """Up to a dozen findings on two racks of two nodes with two cards each, some of jobs that span them."""
    found = []
    for key in range(draw(st.integers(2, 12))):
        nodes = draw(st.sets(st.integers(1, 4), min_size=1, max_size=3))
        places = {
            "gpu": {node * 10 + draw(st.integers(0, 1)) for node in nodes},
            "node": nodes,
            "fabric": nodes,
            "rack": {f"r{(node + 1) // 2}" for node in nodes},
            "job": draw(st.sets(st.sampled_from(["c/1", "c/2"]), max_size=1)),
        }
        scope = draw(st.sampled_from(["gpu", "node", "job"]))
        found.append(one(key, draw(st.sampled_from(KINDS)), draw(st.integers(0, 40)), scope, draw(st.booleans()), **places))
    return found


@settings(max_examples=60, deadline=None)
@given(fleets())
def test_causes_are_first_causes_in_any_order(standing: list[Standing]) -> None:
    """No circle, no cause that has a cause itself, none that is not told; whatever order the findings come in."""
    found = causes.causes(standing)
    by_key = {row.key: row for row in standing}

    for key, cause in found.items():
        assert cause.key not in found
        assert by_key[cause.key].told
        assert by_key[cause.key].order < by_key[key].order
    for seed in range(3):
        shuffled = random.Random(seed).sample(standing, len(standing))
        assert causes.causes(shuffled) == found


@settings(max_examples=60, deadline=None)
@given(fleets(), st.data())
def test_a_part_can_be_looked_at_alone(standing: list[Standing], data: st.DataObject) -> None:
    """With the causes of the others known, any part comes out as in the whole."""
    whole = causes.causes(standing)
    part = data.draw(st.sets(st.sampled_from([row.key for row in standing])))
    asked = [row for row in standing if row.key in part]
    known: dict[int, Because] = {key: cause for key, cause in whole.items() if key not in part}

    assert roots(asked, direct(asked, standing), known) == {key: cause for key, cause in whole.items() if key in part}
