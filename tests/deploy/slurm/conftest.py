"""A Fettle server and a Slurm cluster whose prolog and epilog tell it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import ROOT, Server, serve
from tests.slurm_cluster import SlurmCluster, cluster


def done_by(server: Server, code: str) -> str:
    """What Python code prints that runs in the server's Django."""
    words = [sys.executable, "-c", f"import django; django.setup()\n{code}"]
    return subprocess.run(words, cwd=ROOT, env=server.env, capture_output=True, text=True, check=True).stdout.strip()


def operator_token(server: Server, *scopes: str) -> str:
    """A token of an operator with these scopes, as `manage.py api_token` makes it."""
    code = (
        "from django.contrib.auth.models import Group\n"
        "from fleet.accounts.models import ApiToken, User\n"
        "user, _ = User.objects.get_or_create(username='slurm')\n"
        "user.groups.add(Group.objects.get(name='operator'))\n"
        f"print(ApiToken.issue(user=user, name='slurm', scopes={list(scopes)!r})[1])\n"
    )
    return done_by(server, code)


def private(file: Path, text: str) -> Path:
    """A file that its owner alone may read."""
    file.touch(mode=0o600)
    file.write_text(text + "\n")
    return file


class Site:
    """The two together, and what one knows of the other. Nodes hold a token that tells of jobs; the reconciler's reads them too."""

    def __init__(self, server: Server, slurm: SlurmCluster) -> None:
        self.server = server
        self.slurm = slurm
        self.token = private(slurm.folder / "reconciler.token", operator_token(server, "jobs", "read"))

    def fettle(self, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """One of its commands, on a node with Slurm's client commands."""
        command = [sys.executable, "-m", "cli", *words, "--server", self.server.agents, "--token-file", str(self.token)]
        environment = self.slurm.env | {"PYTHONPATH": str(ROOT)} | (env or {})
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)

    def reconcile(self, *words: str) -> str:
        """What a round of `fettle slurm` says."""
        done = self.fettle("slurm", "--once", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def runs(self, number: str) -> list[dict[str, Any]]:
        """The server's runs of a job, oldest first."""
        return self.server.rows(
            "SELECT * FROM jobs_job WHERE cluster = ? AND job_id = ? ORDER BY started_at", self.slurm.name, number
        )

    def held(self, number: str) -> list[tuple[str, str, bool]]:
        """Node, device and whether it is held still, of a job's every allocation."""
        rows = self.server.rows(
            "SELECT a.node_name, a.device, a.until_at FROM jobs_allocation a JOIN jobs_job j ON j.id = a.job_id"
            " WHERE j.cluster = ? AND j.job_id = ? ORDER BY j.started_at, a.node_name, a.device",
            self.slurm.name,
            number,
        )
        return [(row["node_name"], row["device"], row["until_at"] is None) for row in rows]


@pytest.fixture(scope="session")
def slurm_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """A server and the file of a token that may tell jobs, readable by its owner alone."""
    folder = tmp_path_factory.mktemp("slurm-server")
    with serve(folder / "data") as server:
        yield server, private(folder / "slurm.token", operator_token(server, "jobs"))


def settings(server: Server, token: Path, *more: str) -> str:
    """What stands in fettle.conf beside the scripts."""
    return "\n".join((f"server=http://127.0.0.1:{server.port}", f"token_file={token}", *more)) + "\n"


@pytest.fixture(scope="session")
def site(slurm_server: tuple[Server, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster without accounting, as one that has no database."""
    server, token = slurm_server
    with cluster(tmp_path_factory.mktemp("slurm") / "c", settings=settings(server, token)) as slurm:
        yield Site(server, slurm)


@pytest.fixture(scope="module")
def accounted_site(slurm_server: tuple[Server, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster with accounting, whose `sacct` knows what its controller forgot."""
    server, token = slurm_server
    with cluster(tmp_path_factory.mktemp("slurm-accounted") / "c", accounting=True, settings=settings(server, token)) as slurm:
        yield Site(server, slurm)
