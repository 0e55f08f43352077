"""Real jobs of a real Slurm: what the server knows by prologs and epilogs alone, and what the reconciler makes up for."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.slurm.conftest import Site, done_by, settings
from tests.serving import ROOT, eventually


def flags(site: Site) -> list[str]:
    """Where the server is, for its commands."""
    return ["--server", site.server.agents, "--token-file", str(site.token)]


def one(site: Site, number: str, **wanted: Any) -> dict[str, Any]:
    """The server's only run of a job, once it is as wanted."""
    eventually(lambda: [all(run[name] == value for name, value in wanted.items()) for run in site.runs(number)] == [True])
    (run,) = site.runs(number)
    assert {name: run[name] for name in wanted} == wanted
    return run


def test_prolog_and_epilog_tell_of_a_job_on_two_nodes(site: Site) -> None:
    """Both nodes tell one run, each its own GPUs; its end gives them all back, with the exit code."""
    number = site.slurm.submit("-N2", "--gpus=3", script="until [ -e end ]; do sleep 0.1; done; rm end; exit 3")
    assert eventually(lambda: len(site.held(number)) == 3)
    held = site.held(number)
    (site.slurm.folder / "end").touch()
    run = one(site, number, state="failed", exit_code=3)

    assert sorted(node for node, _device, _still in held) in (["gpu01", "gpu01", "gpu02"], ["gpu01", "gpu02", "gpu02"])
    assert all(still for *_device, still in held)
    assert (run["cluster"], run["source"], run["user"], run["partition"], run["restarts"]) == ("lab", "slurm", "root", "main", 0)
    assert not any(still for *_device, still in site.held(number))


def test_a_job_without_gpus_is_not_told_of(site: Site) -> None:
    """Neither by the prolog nor by the reconciler: there is nothing to say of it."""
    number = site.slurm.submit(script="true")
    site.slurm.until(number, "COMPLETED")
    site.reconcile()

    assert site.runs(number) == []


def test_the_reconciler_adds_what_a_prolog_cannot_know(site: Site) -> None:
    """Name, account, count and Slurm's own id of arrays and heterogeneous jobs; one run stays one run, however often it looks."""
    mixed = site.slurm.submit("--gres=gpu:1", ":", "--gpus=h200:1", script="sleep 60")
    site.slurm.until(mixed, "RUNNING")  # its components go to nodes of their own
    array = site.slurm.submit("--array=1-2", "--gpus-per-node=1", "-J", "sweep", script="sleep 60")
    both = {array: {f"{array}_1", f"{array}_2"}, mixed: {f"{mixed}+0", f"{mixed}+1"}}
    for task in (f"{array}_1", f"{array}_2"):
        site.slurm.until(task, "RUNNING")
    for told in (site.reconcile(), site.reconcile("--text"), site.reconcile()):
        assert told.endswith("refused 0.\n")
    for group, tasks in both.items():
        rows = site.server.rows("SELECT * FROM jobs_job WHERE array_job_id = ? ORDER BY started_at", group)

        assert [(row["state"], row["gpus_total"]) for row in rows] == [("running", 1)] * 2
        assert {json.loads(row["labels"])["slurm_id"] for row in rows} == tasks
    site.slurm.client("scancel", array, mixed)
    assert eventually(lambda: site.slurm.client("squeue", "-h") == "")
    site.reconcile()
    rows = site.server.rows("SELECT * FROM jobs_job WHERE array_job_id IN (?, ?)", array, mixed)

    assert [(row["state"], row["ended_at"] is not None) for row in rows] == [("cancelled", True)] * 4
    assert [row["name"] for row in rows if row["array_job_id"] == array] == ["sweep"] * 2


@pytest.mark.slow
def test_a_requeued_job_is_two_runs(site: Site) -> None:
    """Each with its own start, end and count of restarts, though Slurm calls both by one number."""
    number = site.slurm.submit("--gres=gpu:1", "--requeue", script="sleep 60")
    site.slurm.until(number, "RUNNING")
    assert eventually(lambda: len(site.held(number)) == 1)
    site.slurm.client("scontrol", "requeue", number)
    assert eventually(lambda: len(site.runs(number)) == 2, 60)
    site.reconcile()
    runs = site.runs(number)
    site.slurm.client("scancel", number)
    site.slurm.until(number, "CANCELLED")
    site.reconcile()

    assert [(run["restarts"], run["ended_at"] is not None, run["state"]) for run in runs] == [
        (0, True, "requeued"),  # by its epilog, which tells exit code 0
        (1, False, "running"),
    ]
    assert runs[0]["exit_code"] is None
    assert [run["state"] for run in site.runs(number)] == ["requeued", "cancelled"]


@pytest.mark.slow
@pytest.mark.parametrize("told", ["running", "completed"])
def test_the_reconciler_tells_that_a_run_was_put_back(site: Site, told: str) -> None:
    """Where its epilog never came through, or one that tells no count said exit code 0; while it waits, and when it runs again."""
    number = site.slurm.submit("--gres=gpu:1", "--requeue", script="sleep 60")
    site.slurm.until(number, "RUNNING")
    assert eventually(lambda: len(site.held(number)) == 1)
    with site.slurm.silent():
        site.slurm.client("scontrol", "requeue", number)
        site.slurm.until(number, "PENDING")
        if told == "completed":
            site.server.execute(
                "UPDATE jobs_job SET state = 'completed', exit_code = 0, restarts = NULL, ended_at = started_at WHERE job_id = ?",
                number,
            )
        site.reconcile()
        waiting = [(run["state"], run["ended_at"] is not None) for run in site.runs(number)]
        site.slurm.until(number, "RUNNING")
        site.reconcile()
        site.reconcile("--text")
        runs = [(run["state"], run["restarts"]) for run in site.runs(number)]
        site.slurm.client("scancel", number)

    assert waiting == [("requeued", True)]
    assert [state for state, _restarts in runs] == ["requeued", "running"]
    assert runs[1][1] == 1


@pytest.mark.slow
def test_the_service_makes_rounds_until_it_is_asked_to_end_and_outlives_a_slurm_that_does_not_answer(site: Site) -> None:
    """While the controller is away nothing is lost, and the next round does its work."""
    words = [sys.executable, "-m", "cli", "slurm", "--every", "1", *flags(site)]
    number = site.slurm.submit("--gpus=1", "-J", "named")
    site.slurm.until(number, "RUNNING")
    log = site.slurm.folder / "service.log"
    with log.open("wb") as err, subprocess.Popen(words, env=site.slurm.env | {"PYTHONPATH": str(ROOT)}, stderr=err) as service:
        try:
            one(site, number, name="named", state="running")
            site.slurm.stop_controller()
            assert eventually(lambda: "could not be made" in log.read_text(), 30)
            site.slurm.start_controller()
            away = site.runs(number)[0]["state"]
            site.slurm.client("scancel", number)
            one(site, number, name="named", state="cancelled")
        finally:
            service.terminate()

    assert (away, service.returncode) == ("running", 0)
    assert "Rounds are made again" in log.read_text()


@pytest.mark.slow
def test_the_end_is_told_though_the_epilog_never_ran(site: Site) -> None:
    """A slurmd that was killed runs no epilog: the reconciler tells the end that the controller knows."""
    number = site.slurm.submit("--gres=gpu:1", "-w", "gpu02", "--no-requeue", script="sleep 60")
    site.slurm.until(number, "RUNNING")
    assert eventually(lambda: len(site.held(number)) == 1)
    site.slurm.kill_node("gpu02")
    site.slurm.client("scontrol", "update", "NodeName=gpu02", "State=DOWN", "Reason=test")
    try:
        site.slurm.until(number, "NODE_FAIL")
        before = site.runs(number)[0]["ended_at"]
        site.reconcile()
    finally:
        site.slurm.start_node("gpu02")
        site.slurm.client("scontrol", "update", "NodeName=gpu02", "State=RESUME")
        eventually(lambda: site.slurm.client("sinfo", "-h", "-n", "gpu02", "-o", "%T").strip() == "idle", 20)

    assert before is None
    assert one(site, number, state="node_fail")["ended_at"] is not None
    assert site.held(number) == [("gpu02", "0", False)]


def test_short_jobs_that_nobody_told_of_are_told_by_the_reconciler(site: Site) -> None:
    """Without accounting the controller alone knows them, and their devices no more: whatever asked for the GPUs, it tells how many."""
    asked = {
        ("--gpus=1",): 1, ("--gres=gpu:h200:2",): 2, ("--gpus-per-task=1", "--ntasks=2"): 2, ("--gpus-per-node=1", "-N2"): 2,
        ("--exclusive",): 2, (): None,
    }  # fmt: skip
    with site.slurm.silent():
        numbers = {site.slurm.submit(*options, script="true"): total for options, total in asked.items()}
        mixed = site.slurm.submit("--gres=gpu:1", ":", "--gpus=h200:2", script="true")
        for number in (*numbers, mixed):
            site.slurm.until(number, "COMPLETED")
    for words in ((), ("--text",)):
        for number in (*numbers, mixed):
            site.server.execute("DELETE FROM jobs_job WHERE job_id = ? OR array_job_id = ?", number, number)
        site.reconcile(*words)
        parts = site.server.rows("SELECT * FROM jobs_job WHERE array_job_id = ? ORDER BY job_id", mixed)

        for number, total in numbers.items():
            runs = [(run["state"], run["gpus_total"], run["exit_code"]) for run in site.runs(number)]
            assert runs == ([] if total is None else [("completed", total, 0)])
        assert [(run["gpus_total"], json.loads(run["labels"])) for run in parts] == [
            (1, {"slurm_id": f"{mixed}+0"}),
            (2, {"slurm_id": f"{mixed}+1"}),
        ]


CARD = """
from datetime import timedelta
from django.utils import timezone
from fleet.findings.lifecycle import Place, report
from tests.fleet.rows import found, gpu, node
now = timezone.now()
card = gpu(node("gpu01", last_seen_at=now), 0)
"""
BROKEN = """report(now, found(str(card.pk), "row-remap-failed", "critical"), Place(card.node_id, (card.pk,)))"""


def test_the_health_check_drains_where_it_is_told_to_and_never_for_what_is_not_known(site: Site) -> None:
    """Nobody has told of gpu02; gpu01 is broken. The first drain takes the reason, and a drain by a person keeps its own."""
    done_by(site.server, CARD + BROKEN)
    site.fettle("job", "1")  # a server's first answer may take longer than the check waits
    folder = site.slurm.folder / "fettle"
    before = (folder / "fettle.conf").read_text()
    token = before.partition("token_file=")[2].split()[0]

    def check(node: str) -> tuple[str, bool, str]:
        said = site.slurm.client("env", f"SLURMD_NODENAME={node}", str(folder / "health-check"))
        state, _, reason = site.slurm.client("sinfo", "-h", "-N", "-n", node, "-o", "%T|%E").strip().partition("|")
        return said, "drain" in state, reason

    try:
        only_told = check("gpu01")
        (folder / "fettle.conf").write_text(settings(site.server, Path(token), "drain=yes"))
        drained = check("gpu01")
        unknown = check("gpu02")
        site.slurm.client("scontrol", "update", "NodeName=gpu01", "State=DRAIN", "Reason=mine")
        again = check("gpu01")
    finally:
        (folder / "fettle.conf").write_text(before)
        site.slurm.client("scontrol", "update", "NodeName=gpu01", "State=RESUME")

    said = "Fettle: gpu01 is drain: GPU 0: The power limit takes the speed\n"
    assert only_told == (said, False, "none")
    assert drained == (said, True, "Fettle: GPU 0: The power limit takes the speed")
    assert unknown == ("Fettle: gpu02 is unknown: the server did not tell\n", False, "none")
    assert again == (said, True, "mine")


def test_a_jobs_report_is_printed_in_the_terminal_and_by_the_job_itself(site: Site) -> None:
    """As seff does: what it held, how it ended, what held it back; inside the job its id need not be given."""
    number = site.slurm.submit(
        "--gpus=1",
        "--array=3",
        "-J",
        "train",
        script=f"sleep 2; cd {ROOT} && {sys.executable} -m cli job {' '.join(flags(site))}",
    )
    site.slurm.until(number, "COMPLETED")
    site.reconcile()
    inside = (site.slurm.folder / f"slurm-{number}_3.out").read_text()
    after, unknown = site.fettle("job", f"{number}_3"), site.fettle("job", "99999")
    raw = json.loads(site.fettle("job", f"lab/{number}", "--json").stdout)

    assert inside.splitlines()[1] == "State:   running"
    assert after.stdout.splitlines()[0].endswith(f"({number}_3): train, root, main")
    assert after.stdout.splitlines()[1] == "State:   completed (exit code 0)"
    assert "GPUs:    1 (gpu0" in after.stdout
    assert "Bottleneck: not judged" in after.stdout
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "knows no job 99999" in unknown.stderr
    assert (raw["job"]["labels"]["slurm_id"], raw["job"]["state"]) == (f"{number}_3", "completed")
