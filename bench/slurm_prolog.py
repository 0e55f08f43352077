"""What Fettle's prolog and epilog add to a job: `python bench/slurm_prolog.py` runs them as slurmd does, beside a server that answers, that
is down, and that hangs, and prints how long each took. It needs curl, and no Slurm."""

import argparse
import http.server
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent / "deploy" / "slurm"
JOB = {
    "SLURM_JOB_ID": "4711", "SLURM_CLUSTER_NAME": "bench", "SLURM_JOB_USER": "ada", "SLURM_JOB_PARTITION": "main",
    "SLURMD_NODENAME": "n1", "SLURM_JOB_GPUS": "0,1,2,3,4,5,6,7", "SLURM_JOB_RESTART_COUNT": "0", "SLURM_JOB_EXIT_CODE2": "0:0",
}  # fmt: skip


class Answers(http.server.BaseHTTPRequestHandler):
    """Takes whatever is told."""

    def do_POST(self) -> None:
        """200, with nothing in it."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST  # noqa: N815 - the library's name

    def log_message(self, *_: object) -> None:
        """Nothing."""


def times(script: Path, total: int) -> list[float]:
    """Milliseconds from its start to its end, each time."""
    found = []
    for _ in range(total):
        began = time.perf_counter()
        subprocess.run([script], env=JOB, capture_output=True, check=True, start_new_session=True)
        found.append((time.perf_counter() - began) * 1000)
    return sorted(found)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--total", type=int, default=100, help="runs of each (100)")
    total = parser.parse_args().total
    print(
        f"{os.cpu_count()} cores, {total} runs each\n{'script':<10} {'server':<8} {'median ms':>10} {'p99 ms':>8} {'most ms':>8}"
    )
    with tempfile.TemporaryDirectory() as folder:
        scripts = Path(shutil.copytree(SCRIPTS, Path(folder) / "fettle"))
        nothing = scripts / "nothing"
        nothing.write_text("#!/bin/sh\nexit 0\n")
        nothing.chmod(0o755)
        (scripts / "token").write_text("t\n")
        with (
            http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as up,
            socket.create_server(("127.0.0.1", 0), backlog=1024) as hanging,
            socket.socket() as down,
        ):
            down.bind(("127.0.0.1", 0))
            threading.Thread(target=up.serve_forever, daemon=True).start()
            ports = {"up": up.server_address[1], "down": down.getsockname()[1], "hanging": hanging.getsockname()[1]}
            for script in ("nothing", "prolog", "epilog"):
                for state, port in ports.items():
                    (scripts / "fettle.conf").write_text(f"server=http://127.0.0.1:{port}\ntoken_file={scripts}/token\n")
                    took = times(scripts / script, total)
                    p99 = took[min(len(took) - 1, int(len(took) * 0.99))]
                    print(f"{script:<10} {state:<8} {statistics.median(took):>10.1f} {p99:>8.1f} {took[-1]:>8.1f}", flush=True)
            time.sleep(9)  # what still tells must end before its folder goes
            up.shutdown()


if __name__ == "__main__":
    main()
