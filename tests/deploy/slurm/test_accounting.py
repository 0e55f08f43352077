"""A cluster with accounting: what `sacct` tells of jobs that the controller has forgotten, and of each run of a requeued one."""

import pytest

from tests.deploy.slurm.conftest import Site
from tests.serving import eventually

pytestmark = pytest.mark.slow


def test_each_run_of_a_requeued_job_has_its_end(accounted_site: Site) -> None:
    """`sacct --duplicates` tells of them all, and each is matched with the prolog's word of it."""
    site = accounted_site
    number = site.slurm.submit("--gpus=1", "--requeue", script="sleep 60")
    site.slurm.until(number, "RUNNING")
    assert eventually(lambda: len(site.runs(number)) == 1)
    site.slurm.client("scontrol", "requeue", number)
    assert eventually(lambda: len(site.runs(number)) == 2, 60)
    site.server.execute("UPDATE jobs_job SET ended_at = NULL, state = 'running' WHERE job_id = ? AND restarts = 0", number)
    site.reconcile()
    first, second = site.runs(number)
    site.slurm.client("scancel", number)

    assert (first["state"], first["ended_at"] is not None) == ("requeued", True)
    assert (second["state"], second["ended_at"]) == ("running", None)


def test_the_reconciler_tells_of_jobs_that_came_and_went_unseen(accounted_site: Site) -> None:
    """Neither script came through, and the controller has forgotten them: accounting has start, end and the GPUs that were allocated,
    whichever option asked for them."""
    site = accounted_site
    asked = {
        ("--gpus=2",): 2, ("--gpus-per-node=1",): 1, ("--gres=gpu:h200:2",): 2, ("--gpus-per-task=1", "--ntasks=2"): 2,
        ("--gpus-per-socket=1", "--sockets-per-node=1"): 1, ("--gpus-per-node=h200:1", "-N2"): 2,
    }  # fmt: skip
    with site.slurm.silent():
        numbers = {
            site.slurm.submit(*options, "-J", 'odd "name"\n7|x', script="srun true; srun true"): asked[options]
            for options in asked
        }
        for number in numbers:
            site.slurm.until(number, "COMPLETED")
        mixed = site.slurm.submit("--gres=gpu:1", ":", "--gpus=h200:2", script="true")
        site.slurm.until(mixed, "COMPLETED")
    site.slurm.purge()
    eventually(
        lambda: site.reconcile() and all(site.runs(number) for number in (*numbers, mixed))
    )  # the controller tells slurmdbd now and then

    for number, total in numbers.items():
        (run,) = site.runs(number)
        assert (run["state"], run["gpus_total"], run["exit_code"], run["ended_at"] is not None) == ("completed", total, 0, True)
    parts = site.server.rows("SELECT * FROM jobs_job WHERE array_job_id = ? ORDER BY job_id", mixed)
    assert [(run["state"], run["gpus_total"]) for run in parts] == [("completed", 1), ("completed", 2)]
    site.reconcile("--text")
    assert all(len(site.runs(number)) == 1 for number in numbers)


def test_the_end_is_found_in_accounting_when_the_controller_forgot_the_job(accounted_site: Site) -> None:
    """No epilog came through, and no round was made before the controller purged the job. Its number is used a second time."""
    site = accounted_site
    for code in (3, 4):
        number = site.slurm.submit("--gpus=1", script=f"exit {code}")
        site.slurm.until(number, "FAILED")
        assert eventually(lambda: site.runs(number) and site.runs(number)[-1]["exit_code"] == code)  # noqa: B023
        site.server.execute("UPDATE jobs_job SET ended_at = NULL, state = 'running', exit_code = NULL WHERE job_id = ?", number)
        site.slurm.purge()
        site.reconcile()

    runs = [(run["state"], run["exit_code"], run["ended_at"] is not None) for run in site.runs(number)]
    assert runs[-2:] == [("failed", 3, True), ("failed", 4, True)]
