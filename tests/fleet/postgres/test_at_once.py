"""Two processes that write the same at once, on PostgreSQL: both are served, neither's word is lost, and nothing is there twice."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.fleet.postgres.conftest import environment
from tests.postgres import Postgres
from tests.serving import ROOT

pytestmark = pytest.mark.slow
AT = 1_790_000_000
ROUNDS = 12


class Racer:
    """One of the processes."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "tests.fleet.postgres.racing"]
        env = environment(url) | {"DJANGO_SETTINGS_MODULE": "tests.settings"}
        self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, *words: Any) -> None:
        """Have it do something."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """What came of it."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


class Race:
    """Two processes on one database."""

    def __init__(self, server: Postgres, database: str, racers: list[Racer]) -> None:
        self.server, self.database, self.racers = server, database, racers

    def at_once(self, first: list[Any], second: list[Any]) -> list[Any]:
        """What came of each; either may be the faster."""
        for racer, words in zip(self.racers, (first, second), strict=True):
            racer.say(*words)
        return [racer.hear() for racer in self.racers]

    def alone(self, *words: Any) -> Any:
        """What came of it while nobody else did anything."""
        self.racers[0].say(*words)
        return self.racers[0].hear()

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Of the database."""
        return self.server.rows(sql, *values, database=self.database)


@contextmanager
def _racer(url: str) -> Iterator[Racer]:
    racer = Racer(url)
    try:
        yield racer
    finally:
        racer.process.kill()
        racer.process.communicate()


@pytest.fixture(scope="module")
def race(server: Postgres, template: str) -> Iterator[Race]:
    """Two processes, and four nodes of four GPUs; the tests use names of jobs and nodes of their own."""
    url = server.create("race", template)
    with ExitStack() as stack:
        racers = [stack.enter_context(_racer(url)) for _ in range(2)]
        assert [racer.hear() for racer in racers] == ["ready", "ready"]
        race = Race(server, "race", racers)
        assert race.alone("seed", 4, 4) == 16
        yield race


def job(number: str, **more: Any) -> dict[str, Any]:
    """What is told of a job."""
    return {"cluster": "west", "job_id": number, "source": "slurm", **more}


def told(*jobs: dict[str, Any], at: int = AT) -> list[Any]:
    """Tell of these."""
    return ["tell", list(jobs), at]


def test_prologs_of_two_nodes_begin_one_run(race: Race) -> None:
    """Each tells its own node's clock and devices; whoever comes second joins."""
    for number in range(ROUNDS):
        name = f"prolog-{number}"
        both = [told(job(name, started_about=AT + skew, node=node, devices=["0"])) for skew, node in ((0, "n0"), (3, "n1"))]
        came = race.at_once(*(both if number % 2 else both[::-1]))
        (held,) = race.rows("SELECT count(*) FROM jobs_allocation a JOIN jobs_job j ON j.id = a.job_id WHERE j.job_id = %s", name)

        assert sorted(is_new for ((_, is_new),) in came) == [False, True]
        assert came[0][0][0] == came[1][0][0]
        assert held == (2,)


def test_a_prolog_and_the_scheduler_tell_of_one_run(race: Race) -> None:
    """The scheduler's start stands, whichever comes first."""
    for number in range(ROUNDS):
        name = f"start-{number}"
        prolog = told(job(name, started_about=AT + 4, restarts=0, node="n0", devices=["1"]))
        scheduler = told(job(name, started_at=AT, restarts=0))
        came = race.at_once(*((prolog, scheduler) if number % 2 else (scheduler, prolog)))
        rows = race.rows("SELECT extract(epoch FROM started_at)::int, ended_at FROM jobs_job WHERE job_id = %s", name)

        assert came[0][0][0] == came[1][0][0]
        assert rows == [(AT, None)]


def test_an_end_and_a_start_of_the_same_run_leave_it_ended(race: Race) -> None:
    """A start that comes late takes no end back, and no device stays held."""
    for number in range(ROUNDS):
        name = f"end-{number}"
        start = told(job(name, started_at=AT, state="running", node="n0", devices=["2"]))
        end = told(job(name, started_at=AT, ended_at=AT + 60, state="completed"), at=AT + 60)
        came = race.at_once(*((start, end) if number % 2 else (end, start)))
        rows = race.rows("SELECT state, ended_at IS NULL FROM jobs_job WHERE job_id = %s", name)
        held = race.rows(
            "SELECT 1 FROM jobs_allocation a JOIN jobs_job j ON j.id = a.job_id WHERE j.job_id = %s AND until_at IS NULL", name
        )

        assert came[0][0][0] == came[1][0][0]
        assert (rows, held) == ([("completed", False)], [])


def test_many_jobs_told_in_opposite_orders_lock_nobody_out(race: Race) -> None:
    """Two reconcilers list the same jobs, of which none, then all are known."""
    for number in range(ROUNDS):
        jobs = [job(f"many-{number // 2}-{n}", started_at=AT, restarts=0, node="n1", devices=[str(n % 4)]) for n in range(40)]
        came = race.at_once(told(*jobs), told(*jobs[::-1]))

        assert came[0] == [[pk, not is_new] for pk, is_new in came[1][::-1]] or number % 2
        assert {pk for pk, _ in came[0]} == {pk for pk, _ in came[1]}
    assert race.rows("SELECT count(*) FROM jobs_job WHERE job_id LIKE 'many-%'") == [(40 * (ROUNDS // 2),)]


def test_a_hello_with_new_cards_and_jobs_on_them_do_not_lock_each_other_out(race: Race) -> None:
    """The hello finds the cards that jobs were given before; in the end each device is its card."""
    for number in range(ROUNDS):
        name = f"new{number}"
        jobs = [job(f"{name}-{n}", started_at=AT, node=name, devices=[str(n)]) for n in range(8)]
        assert race.alone("greet", name, 0) == 0
        race.alone(*told(*jobs))
        again = [one | {"devices": [*one["devices"], "8"]} for one in jobs[::-1]]
        came = race.at_once(["greet", name, 9], told(*again, at=AT + 1))
        rows = race.rows("SELECT count(*), count(gpu_id) FROM jobs_allocation WHERE node_name = %s", name)

        assert came[0] == 9
        assert [is_new for _, is_new in came[1]] == [False] * 8
        assert rows == [(16, 16)]


def test_two_judgements_and_an_event_open_each_finding_once(race: Race) -> None:
    """A judgement is not lost for what another worker opened a moment before."""
    (cards,) = race.rows("SELECT count(*) FROM inventory_gpu")[0]
    for number in range(ROUNDS):
        race.rows("DELETE FROM findings_transition")
        race.rows("DELETE FROM findings_finding_gpus")
        race.rows("DELETE FROM findings_finding")
        came = race.at_once(["judge", AT, False], ["event", AT, number] if number % 2 else ["judge", AT + 15, True])
        rows = race.rows("SELECT count(*), count(DISTINCT fingerprint) FROM findings_finding")

        assert [type(one) for one in came] == [int, int], came
        assert rows == [(cards, cards)]


def test_work_that_one_run_at_a_time_may_do_is_one_runs(race: Race) -> None:
    """Two workers begin the same periodic work at once, the first time ever and later."""
    for name in ("first", "first", "second"):
        assert sorted(race.at_once(["run", name, 0.2], ["run", name, 0.2])) == [False, True]


def test_annotations_told_in_opposite_orders_lock_nobody_out(race: Race) -> None:
    """Each is new for one of the two."""
    for number in range(ROUNDS):
        targets = [f"west/note-{number // 2}-{n}" for n in range(40)]

        assert sum(race.at_once(["annotate", targets], ["annotate", targets[::-1]])) == (0 if number % 2 else 40)
