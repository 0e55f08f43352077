"""What the server knows beside what Slurm says: which is which, and what must be told."""

from typing import Any

from agents.slurm.reconcile import Known, merged, to_tell
from agents.slurm.reconciler import known_of
from agents.slurm.runs import SlurmRun

NOW = 10_000.0


def run(start: int | None = 1000, **more: Any) -> SlurmRun:
    """A run with a GPU, as Slurm tells it."""
    told: dict[str, Any] = {"job_id": "7", "state": "running", "gpus_total": 1, "restarts": 0, "devices": {"n1": "gpu:1(IDX:0)"}}
    return SlurmRun(**told | {"started_at": start} | more)


def known(start: float = 1002.5, **more: Any) -> Known:
    """A run that a prolog told of."""
    told: dict[str, Any] = {
        "job_id": "7", "ended_at": None, "state": "running", "restarts": 0, "gpus_total": 1, "held": {"n1": 1}, "all_known": True,
    }  # fmt: skip
    return Known(**told | {"started_at": start} | more)


def told(runs: list[SlurmRun], rows: list[Known], **more: Any) -> list[tuple[Any, ...]]:
    """Start, state and end of each that is told."""
    bodies = to_tell("lab", runs, rows, NOW, since=NOW - 3600, **more)
    return [(body["started_at"], body["state"], body.get("ended_at")) for body in bodies]


def test_a_run_keeps_the_start_by_which_the_server_knows_it() -> None:
    """The prolog's clock and Slurm's differ; the devices that it told by UUID stay as they are."""
    (body,) = to_tell("lab", [run(name="train")], [known()], NOW, NOW)

    assert (body["started_at"], body["name"]) == (1002.5, "train")
    assert "allocations" not in body


def test_devices_are_told_where_the_server_lacks_some_or_knows_no_card_of_that_name() -> None:
    """By Slurm's own list."""
    for row in (known(held={}), known(held={"n1": 2}), known(all_known=False)):
        (body,) = to_tell("lab", [run()], [row], NOW, NOW)

        assert body["allocations"] == [{"nodes": "n1", "devices": "gpu:1(IDX:0)"}]


def test_of_a_run_on_many_devices_the_totals_are_compared() -> None:
    """The server names the first of them alone: as many devices on as many nodes are all of them."""
    many = {f"n{number}": "gpu:h200:8(IDX:0-7)" for number in range(3)}
    all_there: dict[str, Any] = {"held": {}, "held_total": 24, "nodes_total": 3}
    cases: tuple[tuple[dict[str, str], dict[str, Any], bool], ...] = (
        (many, {}, False), (many, {"held_total": 23}, True), (many, {"nodes_total": 2}, True), (many, {"all_known": False}, True),
        ({"n[0-2]": "gpu:h200:8"}, {}, False),
    )  # fmt: skip
    for devices, differs, is_told in cases:
        (body,) = to_tell("lab", [run(devices=devices, gpus_total=24)], [known(**all_there | differs)], NOW, NOW)

        assert ("allocations" in body) is is_told


def test_a_row_of_the_server_is_read_whole_or_by_its_totals() -> None:
    """Devices that were given back are not held."""
    one = {"node_name": "n1", "gpu": 1, "until_at": None}
    row: dict[str, Any] = {
        "job_id": "7", "started_at": "1970-01-01T00:16:40Z", "ended_at": None, "restarts": 0, "allocations_total": 3,
        "state": "running", "gpus_total": 1,
        "allocations": [one, one | {"gpu": 2}, one | {"until_at": "1970-01-01T00:20:00Z", "gpu": None}],
    }  # fmt: skip
    more = row | {"allocations_total": 8000, "held_total": 7000, "held_nodes_total": 900, "held_unknown_total": 0}

    assert known_of(row) == known(1000.0, held={"n1": 2})
    assert known_of(more) == known(1000.0, held={}, held_total=7000, nodes_total=900)
    assert known_of(more | {"held_unknown_total": 1}).all_known is False


def test_shards_take_nothing_back() -> None:
    """Slurm does not say whose they are: what the prolog told of the node stays."""
    (body,) = to_tell("lab", [run(devices={"n1": "shard:h200:4"}, gpus_total=None)], [known()], NOW, NOW)

    assert "allocations" not in body


def test_a_run_that_nobody_told_of_begins_when_slurm_says() -> None:
    """Its prolog never ran."""
    assert told([run()], []) == [(1000, "running", None)]


def test_a_pending_job_and_one_without_gpus_are_not_told() -> None:
    """There is nothing to say of them yet, or at all."""
    assert told(merged([run(None, state="pending"), run(state="")], []), []) == []
    assert told([run(gpus_total=None, devices={})], []) == []


def test_a_missed_epilog_is_made_up_for() -> None:
    """By the controller's end, never before the start that the server knows."""
    assert told([run(state="completed", ended_at=2000)], [known()]) == [(1002.5, "completed", 2000)]
    assert told([run(state="failed", ended_at=1001)], [known()]) == [(1002.5, "failed", 1002.5)]


def test_runs_of_a_requeued_job_are_matched_by_their_restarts_and_their_nearest_starts() -> None:
    """Put back within seconds, the controller knows the second alone; accounting knows both, and no restarts."""
    rows = [known(1001, ended_at=1005.0), known(1010, restarts=1)]
    second = run(1009, restarts=1)
    first = run(1000, state="requeued", ended_at=1004, restarts=None)

    assert told([second], rows) == [(1010, "running", None)]
    assert told(merged([second], [first, run(1009, restarts=None)]), rows) == [(1001, "requeued", 1004), (1010, "running", None)]


def test_a_number_that_is_used_again_is_another_run_and_ends_the_one_before() -> None:
    """Slurm has forgotten the first, whose end nobody saw: it was before the second began."""
    assert told([run(6000)], [known()]) == [(1002.5, "lost", 6000.0), (6000, "running", None)]


def test_what_slurm_does_not_know_is_lost_once() -> None:
    """What had ended stays as it is."""
    assert told([], [known(), known(500, ended_at=900.0)]) == [(1002.5, "lost", NOW)]


def test_nothing_is_lost_while_accounting_does_not_answer() -> None:
    """It may know the end."""
    assert to_tell("lab", [], [known()], NOW, NOW, is_complete=False) == []


def test_an_end_of_long_ago_that_nobody_asked_for_is_not_told() -> None:
    """A controller that keeps its jobs for days would have them told over and over."""
    assert told([run(state="completed", ended_at=2000)], []) == []
    assert told([run(8000, state="completed", ended_at=9000)], []) == [(8000, "completed", 9000)]


def test_a_run_told_by_its_exact_start_is_its_own_whatever_its_restarts() -> None:
    """Accounting told it first, and does not know how often it was put back."""
    assert told([run(1000, restarts=2)], [known(1000)]) == [(1000, "running", None)]


def test_a_short_job_that_nobody_told_of_is_told_though_slurm_counts_no_gpus() -> None:
    """It was asked for some: how many it had is absent, with the reason; one that was given none, and one that asked for none, is not told."""
    over: dict[str, Any] = {"state": "completed", "ended_at": 9000, "devices": {}}
    short = run(8999, **over, gpus_total=None, asked=True)
    (body,) = to_tell("lab", [short], [], NOW, NOW - 3600)

    assert "gpus_total" not in body
    assert "had ended" in body["labels"]["gpus_total_absent"]
    assert told([run(8999, **over, gpus_total=0, asked=True), run(8998, **over, gpus_total=None)], []) == []


def test_a_count_that_is_known_has_no_reason_to_be_absent() -> None:
    """Whether the server has it, or it is told now: then the reason is taken back."""
    over = run(8999, state="completed", ended_at=9000, devices={}, gpus_total=None, asked=True)
    bodies = [
        to_tell("lab", [told_], [known(8999, gpus_total=total, says_why=why)], NOW, NOW - 3600)[0]
        for told_, total, why in ((over, 2, False), (over, 2, True), (over, None, True), (run(8999, gpus_total=3), None, True))
    ]

    assert [body.get("labels") for body in bodies[:2]] == [None, {}]
    assert "gpus_total_absent" in bodies[2]["labels"]
    assert (bodies[3]["gpus_total"], bodies[3]["labels"]) == (3, {})


def test_accounting_has_the_gpus_of_a_component_that_was_over_before_the_first_round() -> None:
    """The controller tells all the rest of it."""
    queued = run(8999, job_id="5", task="4+1", array_job_id="4", state="completed", ended_at=9000, devices={}, gpus_total=None)
    (found,) = merged([queued], [run(8999, job_id="5", gpus_total=2, name="booked")])

    assert (found.gpus_total, found.task, found.name) == (2, "4+1", "")


def test_a_run_that_slurm_put_back_is_requeued_and_no_success() -> None:
    """Its epilog said exit code 0, or nothing came of it; it waits, or runs again. Without accounting nothing else tells."""
    second = run(1100, restarts=1)
    for state, ended_at in (("completed", 1050.0), ("ended", 1050.0), ("lost", 1050.0), ("running", None)):
        for restarts in (0, None):
            first = known(state=state, ended_at=ended_at, restarts=restarts)

            assert told([], [first], restarts={"7": 1}) == [(1002.5, "requeued", ended_at or NOW)]
            assert told([second], [first], restarts={"7": 1}) == [(1002.5, "requeued", ended_at or 1100), (1100, "running", None)]


def test_a_run_that_is_told_of_otherwise_was_not_put_back() -> None:
    """Its own bad end stands, and so does one that Slurm told before a person had it run again; the run itself is not its own successor."""
    for first in (
        known(state="failed", ended_at=1050.0),
        known(state="requeued", ended_at=1050.0),
        known(state="completed", ended_at=1050.0, restarts=1),
    ):
        assert told([], [first], restarts={"7": 1}) == []
    assert told([], [known(state="completed", ended_at=1050.0)], restarts={"7": 1}, ended={("7", 1002.5)}) == []
    assert told([], [known(state="completed", ended_at=1050.0)], restarts={"7": 0}) == []
    assert told([], [known()], restarts={"7": 1}, is_complete=False) == []


def test_a_count_that_no_prolog_told_folds_no_run_into_its_first() -> None:
    """The first began too early to be the second, and is the first where Slurm tells of that; the second's own prolog fits."""
    first, second = known(1002.5, restarts=None), known(1041.0, restarts=None)
    again = run(1040, restarts=1)

    assert told([again], [first], restarts={"7": 1}) == [(1002.5, "requeued", 1040), (1040, "running", None)]
    assert told([again], [first, second], restarts={"7": 1}) == [(1002.5, "requeued", 1040), (1041.0, "running", None)]
    assert told([run()], [first]) == [(1002.5, "running", None)]


def test_a_node_is_the_same_in_capitals() -> None:
    """Slurm's GPU01 and the server's gpu01: what a prolog told by UUID stays."""
    (body,) = to_tell("lab", [run(devices={"N1": "gpu:1(IDX:0)"})], [known()], NOW, NOW)

    assert "allocations" not in body
