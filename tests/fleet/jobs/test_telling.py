"""Starts, changes and ends of jobs as schedulers tell them: in order, out of order, twice."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleet.jobs.extent import doubts, extents
from fleet.jobs.holdings import Given, resolve
from fleet.jobs.models import Allocation, Job
from fleet.jobs.telling import TellJobError, Told, keep, tell
from fleet.reports.document import document
from tests.fleet.rows import gpu, node

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 1, 12, tzinfo=UTC)
END = START + timedelta(hours=2)
LATER = START + timedelta(hours=1)


def told(**more: Any) -> Told:
    """Something of the job 4711."""
    return Told(**{"cluster": "west", "job_id": "4711", **more})  # type: ignore[typeddict-item] # checked by its readers


def start(*devices: str, on: str = "n1", shared: bool = False, **more: Any) -> Told:
    """Its start, with these devices."""
    return told(started_at=START, **{"state": "running", "allocations": [Given(node=on, devices=devices, shared=shared)], **more})


def held(job: Job) -> list[tuple[str, str, datetime, datetime | None]]:
    """What it holds and held."""
    rows = job.allocations.order_by("node_name", "device", "from_at")
    return [(row.node_name, row.device, row.from_at, row.until_at) for row in rows]


def test_a_start_and_an_end_make_one_run_with_what_it_held() -> None:
    """The devices are the job's from its start to its end, by the scheduler's clock, whenever they are told."""
    n1 = node("n1")
    zero, one = gpu(n1, 0), gpu(n1, 1)
    (job,) = tell([start("0", one.uuid, name="train-0042.sh", user="ada", gpus_total=2)], START + timedelta(seconds=9))

    (same,) = tell([told(started_at=START, ended_at=END, exit_code=3)], END + timedelta(seconds=5))

    assert same == job
    assert (same.state, same.ended_at, same.exit_code, same.gpus_total) == ("failed", END, 3, 2)
    assert same.family == "west/ada/train.sh"
    rows = {row.gpu_id: (row.node_id, row.from_at, row.until_at) for row in same.allocations.all()}
    assert rows == {zero.pk: (n1.pk, START, END), one.pk: (n1.pk, START, END)}


def test_the_same_told_twice_changes_nothing() -> None:
    """Schedulers repeat themselves when an answer got lost."""
    gpu(node("n1"))
    first = keep([start("0")], START)
    before = list(Allocation.objects.values())

    again = keep([start("0")], LATER)

    assert [(is_new, job.pk) for job, is_new in first + again] == [(True, first[0][0].pk), (False, first[0][0].pk)]
    assert list(Allocation.objects.values()) == before
    ends = [tell([told(started_at=START, state="completed", ended_at=END)], END + timedelta(minutes=n))[0] for n in range(2)]
    assert held(ends[0]) == held(ends[1]) == [("n1", "0", START, END)]
    assert Job.objects.count() == 1


def test_an_end_wins_over_a_start_that_comes_late() -> None:
    """Prologs and epilogs are sent by many nodes, and arrive as they do."""
    tell([told(started_at=START, ended_at=END, state="timeout")], END)

    (job,) = tell([start("0", name="train")], END + timedelta(minutes=1))

    assert (job.state, job.ended_at, job.name) == ("timeout", END, "train")
    assert held(job) == [("n1", "0", START, END)]


def test_an_end_that_names_its_devices_does_not_double_them() -> None:
    """An epilog may send what its prolog sent."""
    tell([start("0", "1")], START)

    (job,) = tell([start("0", "1", state="completed", ended_at=END)], END)

    assert held(job) == [("n1", "0", START, END), ("n1", "1", START, END)]


def test_a_better_end_puts_the_first_right() -> None:
    """The epilog's clock first, the accounting's word then."""
    tell([start("0")], START)
    tell([told(started_at=START, state="completed")], END + timedelta(seconds=30))

    (job,) = tell([told(started_at=START, ended_at=END)], END + timedelta(hours=1))

    assert (job.ended_at, job.state) == (END, "completed")
    assert held(job) == [("n1", "0", START, END)]


def test_a_job_that_was_given_up_goes_on_when_it_is_told_of() -> None:
    """`lost` is a guess; its scheduler knows better."""
    tell([start("0")], START)
    tell([told(started_at=START, state="lost")], LATER)

    (job,) = tell([told(started_at=START, state="running")], END)

    assert (job.state, job.ended_at) == ("running", None)
    assert held(job) == [("n1", "0", START, None)]


def test_devices_that_are_not_named_any_more_end_and_new_ones_begin_then() -> None:
    """A job that shrinks and grows: each device has its own interval."""
    tell([start("0", "1")], START)

    (job,) = tell([start("1", "2")], LATER)

    assert held(job) == [("n1", "0", START, LATER), ("n1", "1", START, None), ("n1", "2", LATER, None)]
    tell([start()], END)
    assert [row[3] for row in held(job)] == [LATER, END, END]


def test_nodes_tell_each_of_its_own() -> None:
    """What one node's prolog sends leaves the others' devices, and is held from the start however late it comes."""
    tell([start("0", on="n1")], START)

    (job,) = tell([start("0", on="n2")], LATER)

    assert held(job) == [("n1", "0", START, None), ("n2", "0", START, None)]


def test_one_gpu_under_two_names_is_one_device() -> None:
    """The prolog says index 0, the reconciler the UUID."""
    one = gpu(node("n1"), 0)
    tell([start("0")], START)

    (job,) = tell([start(one.uuid, shared=True)], LATER)

    assert [(row.gpu_id, row.until_at, row.shared) for row in job.allocations.all()] == [(one.pk, None, True)]


def test_without_a_start_the_newest_run_is_meant() -> None:
    """Scripts that do not know the start still tell the end of what runs."""
    tell([start("0"), told(started_at=LATER, state="running")], LATER)

    (job,) = tell([told(state="cancelled")], END)

    assert (job.started_at, job.state, job.ended_at) == (LATER, "cancelled", END)
    earlier = Job.objects.get(started_at=START)
    assert (earlier.state, earlier.ended_at) == ("lost", LATER)
    assert held(earlier) == [("n1", "0", START, LATER)]


def test_a_run_that_nobody_ended_is_over_where_the_next_one_begins_whichever_is_told_first() -> None:
    """On other devices too: a requeued job seldom gets the same."""
    tell([told(started_at=LATER, restarts=1), start("0") | {"restarts": 0}], LATER)

    earlier, later = Job.objects.order_by("started_at")
    assert (earlier.state, earlier.ended_at, later.state) == ("lost", LATER, "running")
    assert held(earlier) == [("n1", "0", START, LATER)]


def test_a_guess_that_a_run_is_lost_never_beats_a_told_end_and_one_that_goes_on_has_no_exit_code() -> None:
    """`lost` is of those that nobody saw end."""
    tell([start("0"), told(started_at=START, ended_at=END, exit_code=0)], END)
    (job,) = tell([told(started_at=START, state="lost")], END)
    assert (job.state, job.exit_code, job.ended_at) == ("completed", 0, END)

    Job.objects.update(state="lost")
    (job,) = tell([told(started_at=START, state="running")], END)
    assert (job.state, job.exit_code, job.ended_at) == ("running", None, None)


def test_state_and_exit_code_never_contradict_each_other() -> None:
    """Told again, the code says the state anew; of what cannot be, nothing is kept."""
    tell([start("0"), told(started_at=START, ended_at=END, exit_code=1)], END)
    (job,) = tell([told(started_at=START, exit_code=0)], END)
    assert (job.state, job.exit_code) == ("completed", 0)
    (job,) = tell([told(started_at=START, ended_at=END, exit_code=2)], END)
    assert (job.state, job.exit_code) == ("failed", 2)
    (job,) = tell([told(started_at=START, state="completed")], END)
    assert (job.state, job.exit_code) == ("completed", None)
    with pytest.raises(TellJobError, match="A completed job has the exit code 0"):
        tell([told(started_at=START, state="completed", exit_code=3)], END)


def about(after_s: float, restarts: int = 0, **more: Any) -> Told:
    """A node's prolog, so long after START."""
    return told(started_about=START + timedelta(seconds=after_s), **{"state": "running", "restarts": restarts, **more})


def test_several_nodes_tell_one_start_each_by_its_own_clock() -> None:
    """The first begins the run; what the others tell is of the same, and so is what comes after its end."""
    tell([about(1), about(0), about(3)], START)
    tell([told(ended_at=END)], END)
    tell([about(2)], END)

    job = Job.objects.get()
    assert (job.started_at, job.state, job.ended_at) == (START + timedelta(seconds=1), "ended", END)


def test_a_run_that_was_put_back_begins_anew_though_its_end_was_missed() -> None:
    """Another count of restarts is another run, and so is a start after the end: a number that is used again."""
    tell([about(0), about(60, restarts=1)], START)
    tell([told(ended_at=END)], END)
    tell([about((END - START).total_seconds() + 5, restarts=1)], END)

    assert [job.restarts for job in Job.objects.order_by("started_at")] == [0, 1, 1]


def test_an_end_that_comes_late_ends_the_run_that_it_was_of() -> None:
    """An epilog's word may arrive after the next run's prolog spoke."""
    tell([about(0)], START)
    tell([about(60, restarts=1)], START)

    tell([told(ended_at=START + timedelta(seconds=58))], END)

    assert [job.ended_at for job in Job.objects.order_by("started_at")] == [START + timedelta(seconds=58), None]


def test_an_end_without_a_start_is_of_the_run_that_is_open() -> None:
    """An earlier run that has ended stays as it is, and an end before the open one is refused."""
    tell([start("0"), told(started_at=START, ended_at=LATER, exit_code=0), told(started_at=END)], END)
    before = Job.objects.filter(started_at=START).values().get()

    with pytest.raises(TellJobError, match="before"):  # told by a clock that is behind
        tell([told(ended_at=END - timedelta(seconds=2), exit_code=9)], END)
    (job,) = tell([told(state="failed")], END + timedelta(hours=1))

    assert (job.started_at, job.state, job.ended_at) == (END, "failed", END + timedelta(hours=1))
    assert Job.objects.filter(started_at=START).values().get() == before


def test_an_end_without_a_start_changes_nothing_where_every_run_has_ended() -> None:
    """The first was over when the second began."""
    tell([start("0"), told(started_at=LATER, ended_at=LATER + timedelta(minutes=1))], LATER)

    (job,) = tell([told(ended_at=END)], END)

    assert (job.started_at, job.ended_at) == (LATER, LATER + timedelta(minutes=1))
    assert Job.objects.get(started_at=START).ended_at == LATER


def test_the_first_end_stands_where_no_run_is_open() -> None:
    """Another end adds what was empty, and changes neither end nor state nor exit code."""
    tell([start("0"), told(ended_at=END, state="timeout")], END)

    tell([told(ended_at=END + timedelta(minutes=1), exit_code=9, user="ada")], END)
    (job,) = tell([told(ended_at=END - timedelta(minutes=1), state="completed", exit_code=0, user="bob")], END)

    assert (job.ended_at, job.state, job.exit_code, job.user) == (END, "timeout", 9, "ada")
    assert held(job) == [("n1", "0", START, END)]


def test_an_end_that_was_told_is_told_again_while_the_next_run_goes_on() -> None:
    """An answer got lost; neither run changes."""
    tell([start("0"), told(ended_at=LATER, exit_code=0), told(started_at=END)], END)
    before = list(Job.objects.values())

    tell([told(ended_at=LATER, exit_code=0)], END)

    assert list(Job.objects.values()) == before


def test_an_end_puts_a_run_right_that_was_given_up() -> None:
    """`lost` is a guess, whoever tells the end."""
    tell([start("0"), told(state="lost")], END)

    (job,) = tell([told(ended_at=LATER, exit_code=0)], END)

    assert (job.state, job.ended_at) == ("completed", LATER)
    assert held(job) == [("n1", "0", START, LATER)]


def test_a_start_long_after_an_open_run_is_of_another() -> None:
    """The id is used again and the end was missed: what went on until then is lost, and holds nothing any more."""
    tell([about(0, allocations=[Given(node="n1", devices=["0"], shared=False)]), about(3600)], START)
    (new,) = tell([about(3601, allocations=[Given(node="n2", devices=["0"], shared=False)])], LATER)

    old = Job.objects.get(started_at=START)
    second = START + timedelta(seconds=3601)
    assert (old.state, old.ended_at, held(old)) == ("lost", second, [("n1", "0", START, second)])
    assert (new.state, new.started_at, new.ended_at) == ("running", second, None)
    with pytest.raises(TellJobError, match="clock"):
        tell([about(-7200)], LATER)


def test_the_exact_start_joins_the_run_that_began_about_then() -> None:
    """The reconciler knows the scheduler's time; the devices are held from then, and further prologs are still of this run."""
    (first,) = tell([about(2, allocations=[Given(node="n1", devices=["0"], shared=False)])], START)

    (job,) = tell([start("0", restarts=0)], LATER)
    tell([about(5), start("0", restarts=0)], LATER)

    assert Job.objects.get() == first == job
    assert (job.started_at, held(job)) == (START, [("n1", "0", START, None)])


def test_an_exact_start_of_another_run_joins_none() -> None:
    """Another count of restarts, a start over an hour away or after the end, and one that another run has."""
    tell([about(0), start(restarts=1)], START)
    assert Job.objects.count() == 1  # at that very second: one row, by its key
    tell([about(60, restarts=1), told(started_at=START + timedelta(seconds=90), restarts=2)], START)
    tell([told(started_at=START + timedelta(seconds=7300), restarts=2)], END)
    tell([told(started_at=START + timedelta(seconds=7300), restarts=2, ended_at=START + timedelta(seconds=7310))], END)
    tell([told(started_at=START + timedelta(seconds=7320), restarts=2)], END)

    seconds = [(job.started_at - START).total_seconds() for job in Job.objects.order_by("started_at")]
    assert seconds == [0, 90, 7300, 7320]


def test_without_a_start_and_a_run_nothing_is_written() -> None:
    """All of a request or none; the sentence says what is missing."""
    with pytest.raises(TellJobError, match="started_at"):
        tell([start("0"), Told(cluster="west", job_id="1", state="completed")], START)
    assert not Job.objects.exists()
    assert not Allocation.objects.exists()


def test_an_end_before_the_start_is_refused() -> None:
    """Of the newest run, too, whose start the request did not name."""
    tell([start("0")], START)
    with pytest.raises(TellJobError, match="before"):
        tell([told(ended_at=START - timedelta(seconds=1))], END)


def test_a_device_that_nobody_told_of_is_kept_and_found_once_its_agent_speaks() -> None:
    """By index, by UUID and by count, with or without the node's domain; what is no GPU there stays as told."""
    (job,) = tell([start("0", "GPU-n1.site-1", "7", "gpu:h100:2")], START)
    assert [row.gpu_id for row in job.allocations.all()] == [None] * 4
    assert resolve(node("n2"), LATER) == 0

    n1 = node("n1.site")
    zero, one = gpu(n1, 0), gpu(n1, 1)
    found = resolve(n1, LATER)

    assert found == 2
    assert {row.device: row.gpu_id for row in job.allocations.all()} == {
        "0": zero.pk, "GPU-n1.site-1": one.pk, "7": None, "gpu:h100:2": None,
    }  # fmt: skip
    assert {row.node_id for row in job.allocations.all()} == {n1.pk}


def test_a_job_on_many_nodes_costs_no_query_for_each(django_assert_max_num_queries: Any) -> None:
    """Thousands of nodes may be told at once, and told again."""
    for number in range(30):
        gpu(node(f"n{number}"), 0)
    many = told(started_at=START, allocations=[Given(node=f"n{number}", devices=["0"], shared=False) for number in range(30)])
    with django_assert_max_num_queries(18):
        (job,) = tell([many], START)
    assert job.allocations.exclude(gpu=None).count() == 30
    with django_assert_max_num_queries(18):
        tell([many], LATER)
    assert {row[3] for row in held(job)} == {None}


def test_one_card_under_two_names_is_one_device() -> None:
    """By its index and its UUID: it is held once, and an honest count is right."""
    card = gpu(node("n1"), 0)
    (job,) = tell([start("0", card.uuid, gpus_total=1)], START)

    assert held(job) == [("n1", "0", START, None)]
    with pytest.raises(TellJobError, match="gpus_total is 1, and 2 devices are told"):
        tell([start("0", "1", card.uuid, gpus_total=1)], START)


@pytest.mark.usefixtures("memory_store")
def test_devices_that_nobody_names_count_each() -> None:
    """Two of Slurm's on each of two nodes are four, in what is held, in doubt and in the report's hours."""
    (job,) = tell([start("gpu:h200:2", on="x1")], START)
    tell([told(started_at=START, allocations=[Given(node="x2", devices=("gpu:h200:2",), shared=False)])], START)
    job.refresh_from_db()
    extent = extents([job.pk])[job.pk]
    made = document(job, START + timedelta(hours=1))

    assert (extent.held_total, extent.held_unknown_total, extent.allocations_total) == (4, 4, 2)
    assert (made["gpus"], made["gpu_hours"], made["unknown_gpu_hours"]) == (4, 4.0, 4.0)
    Job.objects.update(gpus_total=3)
    (says,) = doubts([Job.objects.get()], set())[job.pk]
    assert says.startswith("The job holds 4 devices, and gpus_total is 3")


def test_what_a_job_holds_is_shown_before_what_it_gave_back() -> None:
    """However often its devices changed."""
    for number in range(20):
        (job,) = tell([start(f"{100 + number}")], START + timedelta(minutes=number))

    first = extents([job.pk])[job.pk].first
    assert (first[0].device, first[0].until_at) == ("119", None)
