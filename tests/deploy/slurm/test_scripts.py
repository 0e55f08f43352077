"""The scripts that Slurm runs on a node: none fails or waits, whatever the server does, and none gives its token away."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.deploy.slurm.conftest import private, settings
from tests.serving import Server, eventually, free_port
from tests.slurm_cluster import SCRIPTS

TOKEN = "a-token-that-nobody-else-may-see"
JOB = {
    "SLURM_JOB_ID": "4711", "SLURM_CLUSTER_NAME": "scripts", "SLURM_JOB_USER": "ada", "SLURM_JOB_PARTITION": "main",
    "SLURMD_NODENAME": "n1", "SLURM_JOB_GPUS": "0,1", "SLURM_JOB_RESTART_COUNT": "0", "SLURM_JOB_EXIT_CODE2": "0:9",
}  # fmt: skip
"""What slurmd tells its prolog and epilog, and nothing else: no PATH, no HOME."""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A copy of the scripts' folder, with nothing set."""
    return Path(shutil.copytree(SCRIPTS, tmp_path / "fettle"))


def set_server(scripts: Path, port: int) -> None:
    """Let the scripts speak with that port of this machine."""
    token = private(scripts / "token", TOKEN)
    (scripts / "fettle.conf").write_text(f"server=http://127.0.0.1:{port}\ntoken_file={token}\ntimeout_s=20\n")


def run(script: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """As slurmd runs it: with the job's variables alone, in a process group of its own that is killed when the script ended."""
    with subprocess.Popen(
        [script, *words], env=JOB | more, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        out, err = process.communicate(timeout=30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def holders(words: bytes) -> dict[int, str]:
    """Processes of this machine with these words among their arguments or in their environment, but for this one."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if words in told and int(folder.name) != os.getpid():
            found[int(folder.name)] = told.decode(errors="replace")
    return found


@pytest.mark.parametrize("script", ["prolog", "epilog", "task-prolog", "health-check"])
@pytest.mark.parametrize("wrong", ["no settings", "no token", "nobody listens", "settings that are none"])
def test_no_script_fails_whatever_is_missing(scripts: Path, script: str, wrong: str) -> None:
    """A prolog that fails would drain the node, an epilog too."""
    if wrong != "no settings":
        set_server(scripts, free_port())
    if wrong == "no token":
        (scripts / "token").unlink()
    if wrong == "settings that are none":
        (scripts / "fettle.conf").write_bytes(b"server='\x00\n)(\n$(exit 1)\n")
    done = run(scripts / script)

    assert (done.returncode, done.stderr) == (0, "")
    assert ("unknown" in done.stdout) == (script == "health-check")


def test_a_prolog_ends_while_the_server_still_hangs_and_the_token_is_nowhere_to_be_seen(scripts: Path) -> None:
    """The telling goes on in a session of its own, which outlives the process group that slurmd kills; curl reads the token from a pipe."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel takes connections, and nobody ever answers
        port = deaf.getsockname()[1]
        set_server(scripts, port)
        done = run(scripts / "prolog")
        telling = eventually(
            lambda: {pid: told for pid, told in holders(f"{port}/api/v1/jobs/".encode()).items() if "curl" in told}
        )
        seen = holders(TOKEN.encode())
        for pid in telling:
            os.kill(pid, 15)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert telling
    assert not seen


BROKEN = '{"count":1,"next":null,"previous":null,"results":[{"node":9,"name":"%s","recording":"","state":"drain","reasons":[{"text":"XID 79"}]}]}'
"""What the server says of a node that is to be drained."""


@pytest.mark.parametrize(
    ("node", "body", "kind", "said"),
    [
        ("gpu01", BROKEN % "gpu01", "application/json", "drain: XID 79"),
        ("gpu01.here", BROKEN % "GPU01.here", "application/json; charset=utf-8", "drain: XID 79"),
        ("7", BROKEN % "7", "application/json", "drain: XID 79"),
        ("gpu01", BROKEN % "gpu02", "application/json", "unknown: the server did not tell"),
        ("gpu01", BROKEN % "gpu01", "text/html", "unknown: the server did not tell"),
        ("gpu01", '{"name":"gpu01","state":"drain"}', "application/json", "unknown: the server did not tell"),
        ("gpu[01-02]", BROKEN % "gpu01", "application/json", "unknown: the server did not tell"),
    ],
)
def test_a_health_check_believes_only_json_about_the_node_that_it_asked_for_by_name(
    scripts: Path, node: str, body: str, kind: str, said: str
) -> None:
    """Not a proxy's page, nor what is said of another node; a name of digits is no id."""
    asked = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on the test's own output."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        answering = threading.Thread(target=server.serve_forever, args=(0.01,))
        answering.start()
        set_server(scripts, server.server_port)
        done = run(scripts / "health-check", SLURMD_NODENAME=node)
        server.shutdown()
        answering.join()

    name = node.partition(".")[0]
    assert (done.returncode, done.stdout, done.stderr) == (0, f"Fettle: {name} is {said}\n", "")
    assert asked == ([] if "[" in node else [f"/api/v1/health/?nodes={name}"])


def test_a_health_check_waits_a_second_for_a_server_that_hangs(scripts: Path) -> None:
    """Whatever timeout_s says: slurmd waits for it."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        set_server(scripts, deaf.getsockname()[1])
        began = time.monotonic()
        done = run(scripts / "health-check")

    assert done.stdout == "Fettle: n1 is unknown: the server did not tell\n"
    assert time.monotonic() - began < 3


def test_settings_are_read_and_never_run(scripts: Path, tmp_path: Path) -> None:
    """Whoever may write the file sets a server, and gets no shell by it."""
    set_server(scripts, free_port())
    (scripts / "token").unlink()  # it reads the settings, and ends there
    with (scripts / "fettle.conf").open("a") as file:
        file.write(f"cluster=$(touch {tmp_path}/run)\ntouch {tmp_path}/run\nserver=`touch {tmp_path}/run`\n")
    run(scripts / "tell", "start")

    assert not (tmp_path / "run").exists()


def test_the_task_prolog_names_the_job_to_its_tasks_and_nothing_else() -> None:
    """Slurm takes what it prints into the tasks' environment: odd values print nothing."""
    assert run(SCRIPTS / "task-prolog").stdout == "export FETTLE_JOB=scripts/4711\n"
    assert run(SCRIPTS / "task-prolog", SLURM_JOB_ID="1\nexport LD_PRELOAD=x").stdout == ""
    assert run(SCRIPTS / "task-prolog", SLURM_JOB_ID="").stdout == ""


@pytest.fixture
def told(slurm_server: tuple[Server, Path], scripts: Path) -> Iterator[Server]:
    """A server that the scripts are set to."""
    server, token = slurm_server
    (scripts / "fettle.conf").write_text(settings(server, token, f"proc={scripts.parent}/proc"))
    yield server
    server.execute("DELETE FROM jobs_allocation WHERE job_id IN (SELECT id FROM jobs_job WHERE cluster = 'scripts')")
    server.execute("DELETE FROM jobs_job WHERE cluster = 'scripts'")


def devices(server: Server) -> list[str]:
    """What the job holds or held."""
    return [
        row["device"]
        for row in server.rows(
            "SELECT device FROM jobs_allocation a JOIN jobs_job j ON j.id = a.job_id WHERE j.cluster = 'scripts' ORDER BY device"
        )
    ]


def driver(scripts: Path, *uuids: str) -> None:
    """What the driver tells of its cards: the first has the highest minor number."""
    for place, uuid in enumerate(uuids):
        folder = scripts.parent / "proc" / "driver" / "nvidia" / "gpus" / f"0000:{place:02x}:00.0"
        folder.mkdir(parents=True)
        told = f"Model: \t\t NVIDIA H200\nIRQ:   \t\t 42\nGPU UUID: \t {uuid}\nDevice Minor: \t {len(uuids) - 1 - place}\n"
        (folder / "information").write_text(told)


def test_minor_numbers_are_told_as_uuids(scripts: Path, told: Server) -> None:
    """Slurm's numbers are minor numbers, and NVML's order is another: only a UUID says which card it is."""
    uuids = [f"GPU-{place}0000000-0000-0000-0000-000000000000" for place in range(3)]
    driver(scripts, *uuids)
    run(scripts / "tell", "start")

    assert devices(told) == uuids[1:]


@pytest.mark.parametrize(("listed", "expected"), [("0,7", ["0", "7"]), ("MIG-" + "a" * 8 + "-0000" * 3 + "-" + "b" * 12, 1)])
def test_what_the_driver_does_not_know_is_told_as_slurm_does(
    scripts: Path, told: Server, listed: str, expected: list[str] | int
) -> None:
    """A number without a card, and the UUID of a MIG instance, which Slurm names itself."""
    driver(scripts, "GPU-00000000-0000-0000-0000-000000000000")
    run(scripts / "tell", "start", SLURM_JOB_GPUS=listed)

    assert devices(told) == (expected if isinstance(expected, list) else [listed])


def test_an_end_counts_a_signal_as_a_shell_does(scripts: Path, told: Server) -> None:
    """The epilog tells when it ran and how the job ended; Slurm's own state comes with the reconciler."""
    run(scripts / "tell", "start")
    run(scripts / "tell", "end")
    (job,) = told.rows("SELECT state, exit_code, ended_at FROM jobs_job WHERE cluster = 'scripts'")

    assert (job["state"], job["exit_code"], bool(job["ended_at"])) == ("failed", 137, True)


@pytest.mark.parametrize(
    ("counts", "state", "restarts"),
    [({}, "completed", None), ({"start": "0", "end": "0"}, "completed", 0), ({"start": "0", "end": "1"}, "requeued", 0)],
)  # fmt: skip
def test_a_count_of_restarts_is_told_as_slurm_tells_it(
    scripts: Path, told: Server, counts: dict[str, str], state: str, restarts: int | None
) -> None:
    """None is not 0; one more at the end than at the start: the run was put back, and its exit code 0 is no success."""
    for word in ("start", "end"):
        run(scripts / "tell", word, SLURM_JOB_EXIT_CODE2="0:0", SLURM_JOB_RESTART_COUNT=counts.get(word, ""))
    (job,) = told.rows("SELECT state, restarts FROM jobs_job WHERE cluster = 'scripts'")

    assert (job["state"], job["restarts"]) == (state, restarts)
