"""How long an alert takes from the node to the chat, end to end with real processes, beside Debian's Prometheus and Alertmanager.

    python bench/alert_latency.py

`manage.py up` runs whole in a folder of its own; agents of six nodes read a fake driver (its two GPUs are recorded H200s) and a kernel log; a receiver
on loopback stands for the chat. First XIDs: a line that a GPU has fallen off the bus is written to one node's kernel log after the other, and the time counts until the
receiver has the alert of that GPU.
Then a threshold: the memory of a GPU grows too hot, which must last 30 s; the time counts from the sample that completes them, by the agent's own
clock. Prometheus scrapes the same agent and judges the same condition (`for: 30s`), Alertmanager tells the same receiver: once as Debian
installs them (scrapes and judges every 15 s, waits 30 s for a group), once tuned (1 s, no wait). The last line is JSON: xid_s, xid_worst_s, threshold_s, peer_threshold_s,
peer_tuned_threshold_s; null is what did not come within two minutes.
"""

import argparse
import contextlib
import http.server
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
ANSWERS: Final = ROOT / "tests" / "device_answers" / "h200-driver-580-captured.json"
FAKE_DRIVER: Final = ROOT / "tests" / "agents" / "fake_driver"
PERSISTS_S: Final = 30
HOT_C: Final = 96
LIMIT_C: Final = 95
PATIENCE_S: Final = 120.0
NODES: Final = 6
"""The last one's memory grows hot; the others have an XID each."""
XID: Final = 79
TEMPERATURE: Final = "DCGM_FI_DEV_MEMORY_TEMP"
"""As the agent's own page calls it."""
MEMORY_TEMPERATURE: Final = "82"
"""NVML's field of the memory's temperature, as the fake driver's answers name it."""


class Chat:
    """A receiver of JSON webhooks that notes when what came, by the monotonic clock."""

    def __init__(self) -> None:
        came: list[tuple[float, str]] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                came.append((time.time(), self.rfile.read(int(self.headers["Content-Length"])).decode()))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *words: object) -> None:
                """Say nothing."""

        self._came = came
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def first(self, *words: str, since: float, within: float = PATIENCE_S) -> float | None:
        """When the first message came that has all the words; None where none did in time."""
        deadline = time.time() + within
        while time.time() < deadline:
            for at, body in list(self._came):
                if at >= since and all(word in body for word in words):
                    return at
            time.sleep(0.01)
        return None


class Bench:
    """The programs of one run, each ended with it, in a folder of its own."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.chat = Chat()
        self.port, self.listen = free_port(), free_port()
        text = ANSWERS.read_text()
        self.answers: list[dict[str, Any]] = [json.loads(text.replace("GPU-0000", f"GPU-000{node}")) for node in range(NODES)]
        self._seq = 0
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("FETTLE_", "REDIS_URL", "DATABASE_URL"))
        }
        self.env = kept | {
            "FETTLE_DATA": str(folder / "data"), "FETTLE_NOTIFY_ALLOW": "127.0.0.0/8", "DJANGO_SETTINGS_MODULE": "config.settings",
            "FETTLE_ADMIN_PASSWORD": "of no use to anybody", "PYTHONPATH": str(ROOT),
        }  # fmt: skip

    def start(self, name: str, command: Sequence[str], **env: str) -> None:
        """A program, its output in a file of the folder."""
        log = self.stack.enter_context((self.folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(command, cwd=ROOT, env=self.env | env, stdout=log, stderr=log)
        self.stack.callback(end, process)

    def manage(self, *words: str) -> str:
        """What a command of manage.py prints."""
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.env | self.secret(),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def secret(self) -> dict[str, str]:
        """The server's own, which `up` wrote."""
        return {"FETTLE_SECRET_KEY_FILE": str(self.folder / "data" / "secret-key")}

    def heat(self, node: int, degrees: int) -> None:
        """The memory of the node's GPU 0 has this temperature from now on."""
        self.answers[node]["gpus"][0]["fields"][MEMORY_TEMPERATURE]["value"] = degrees
        part = self._of(node, "part")
        part.write_text(json.dumps(self.answers[node]))
        part.replace(self._of(node, "answers.json"))

    def _of(self, node: int, name: str) -> Path:
        """A file of the node."""
        folder = self.folder / f"node-{node}"
        folder.mkdir(exist_ok=True)
        return folder / name

    def xid(self, node: int) -> float:
        """Write the kernel's line of an XID of the node's GPU 0; when that was."""
        calls = self.answers[node]["gpus"][0]["calls"]
        address = calls["nvmlDeviceGetPciInfo()"]["busId"].removeprefix("0000").lower()
        self._seq += 1
        says = f"NVRM: Xid (PCI:{address}): {XID}, pid=0, name=bench, GPU has fallen off the bus."
        line = f"4,{self._seq},{time.monotonic_ns() // 1000},-;{says}\n"
        with self._of(node, "kmsg").open("a") as log:
            began = time.time()
            log.write(line)
        return began

    def serve(self) -> None:
        """Start the server and the agent, and wait for the agent's first readings."""
        self.start(
            "up", [sys.executable, "manage.py", "up", "--demo", "no", "--data", self.env["FETTLE_DATA"], "--port", str(self.port)]
        )
        until(lambda: answers(f"http://127.0.0.1:{self.port}/healthz"), 90, "the server does not answer")
        for node in range(NODES):
            self._agent(node)
        until(lambda: answers(f"http://127.0.0.1:{self.listen}/metrics"), 60, "the agent does not answer")
        self._token = self.manage("api_token", "admin", "bench", "--write").split()[-1]
        until(lambda: self.api("gpus/")["count"] >= 2 * NODES, 60, "the server does not know the GPUs")

    def _agent(self, node: int) -> None:
        self.heat(node, 60)
        self._of(node, "kmsg").touch()
        token = self._of(node, "token")
        token.write_text(self.manage("agent_token", f"bench-{node}").split()[-1] + "\n")
        paths = os.pathsep.join((str(FAKE_DRIVER), str(ROOT)))
        listen = self.listen if node == NODES - 1 else free_port()
        self.start(
            f"agent-{node}",
            [sys.executable, "-m", "cli", "agent", "--server", f"ws://127.0.0.1:{self.port}/ws/agent/", "--token-file", str(token),
             "--node", f"bench-{node}", "--spool", str(self._of(node, "spool")), "--run-dir", str(self._of(node, "run")),
             "--report-socket", str(self._of(node, "report.sock")), "--kernel-log", str(self._of(node, "kmsg")),
             "--listen", f"127.0.0.1:{listen}"],
            PYTHONPATH=paths, FETTLE_FAKE_NVML=str(self._of(node, "answers.json")),
        )  # fmt: skip

    def api(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """An answer of the REST API."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/api/v1/{path}", data, method=method)
        request.add_header("Authorization", f"Bearer {self._token}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{path} was refused: {error.read().decode()}") from None

    def peers(self, name: str, every_s: int, group_wait_s: int) -> None:
        """Start a Prometheus that scrapes the agent, and its Alertmanager."""
        alerting, web = free_port(), free_port()
        folder = self.folder / name
        folder.mkdir()
        (folder / "rules.yml").write_text(
            f"groups: [{{name: bench, rules: [{{alert: {name}, expr: '{TEMPERATURE} >= {LIMIT_C}', for: {PERSISTS_S}s}}]}}]\n"
        )
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {every_s}s, evaluation_interval: {every_s}s}}\n"
            f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{alerting}']}}]}}]}}\n"
            f"rule_files: [{folder / 'rules.yml'}]\n"
            f"scrape_configs: [{{job_name: agent, static_configs: [{{targets: ['127.0.0.1:{self.listen}']}}]}}]\n"
        )
        (folder / "alertmanager.yml").write_text(
            f"route: {{receiver: chat, group_wait: {group_wait_s}s}}\n"
            f"receivers: [{{name: chat, webhook_configs: [{{url: 'http://127.0.0.1:{self.chat.port}/{name}'}}]}}]\n"
        )
        self.start(
            f"{name}-alertmanager",
            ["prometheus-alertmanager", f"--config.file={folder / 'alertmanager.yml'}", f"--storage.path={folder / 'alerts'}",
             f"--web.listen-address=127.0.0.1:{alerting}", "--cluster.listen-address="],
        )  # fmt: skip
        self.start(
            f"{name}-prometheus",
            ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'series'}",
             f"--web.listen-address=127.0.0.1:{web}"],
        )  # fmt: skip
        until(lambda: answers(f"http://127.0.0.1:{web}/-/ready"), 60, f"{name}'s Prometheus is not ready")
        until(lambda: answers(f"http://127.0.0.1:{alerting}/-/ready"), 60, f"{name}'s Alertmanager is not ready")

    def rule(self) -> None:
        """Write the rule, try it on the little there is, and switch it on."""
        self.api(
            "routes/",
            {"name": "chat", "url": f"json://127.0.0.1:{self.chat.port}/", "min_severity": "info", "max_per_minute": 1000},
        )
        self.api(
            "own-rules/",
            {"slug": "site-hot-memory", "scope": "gpu", "severity": "critical", "group": "clocks", "opens": f"memory_temperature_c >= {LIMIT_C}",
             "clears": f"memory_temperature_c < {LIMIT_C - 5}", "title": "Hot memory", "summary": "{memory_temperature_c:.0f} degrees.", "change": ""},
        )  # fmt: skip
        until(self._tried, 600, "the rule's trials judged nothing")
        more = {"overrides": [{"threshold": "fires_after_critical_s", "matcher": "site", "pattern": "", "value": PERSISTS_S}]}
        self.api("rules/site-hot-memory/", {"state": "on", **more}, "PATCH")

    def _tried(self) -> bool:
        """Whether a trial judged something: one of a server that has just begun has nothing to judge."""
        trial = self.api("own-rules/site-hot-memory/")["trial"]
        if trial is None or (trial["ended_at"] and not trial["judged_total"]):
            self.api("own-rules/site-hot-memory/trials/", {})
            return False
        time.sleep(1)
        return bool(trial["ended_at"])


def xids(bench: Bench) -> list[float]:
    """How long each XID took; one that never came counts as the patience."""
    took = []
    for node in range(NODES - 1):
        uuid = bench.answers[node]["gpus"][0]["uuid"]
        began = bench.xid(node)
        came = bench.chat.first(uuid, since=began, within=30)
        took.append(PATIENCE_S if came is None else came - began)
        print(f"XID {XID} on node {node}: {took[-1]:.2f} s", flush=True)
        time.sleep(1.7)  # no multiple of any period of ours
    return took


def threshold(bench: Bench) -> dict[str, float | None]:
    """How long after the sample that completes the duration each told, in seconds."""
    bench.heat(NODES - 1, HOT_C)
    changed = time.time()
    until(
        lambda: f"{HOT_C}" in page(f"http://127.0.0.1:{bench.listen}/metrics", TEMPERATURE),
        30,
        "the agent reads no heat",
    )
    complete = time.time() + PERSISTS_S  # the sample was taken at most a second before its page showed it
    print(f"hot after {complete - PERSISTS_S - changed:.1f} s", flush=True)
    told = {name: bench.chat.first(word, since=changed, within=PERSISTS_S + PATIENCE_S) for name, word in
            (("threshold_s", "site-hot-memory"), ("peer_threshold_s", '"as_installed"'), ("peer_tuned_threshold_s", '"tuned"'))}  # fmt: skip
    return {name: None if at is None else round(at - complete, 2) for name, at in told.items()}


def answers(url: str) -> bool:
    """Whether it answers 200."""
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


def page(url: str, word: str) -> str:
    """The lines of a page that have the word."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        return "\n".join(line for line in answer.read().decode().splitlines() if word in line and not line.startswith("#"))


def until(call: Callable[[], Any], seconds: float, says: str) -> None:
    """Wait for a true answer; SystemExit with a sentence where none comes."""
    deadline = time.monotonic() + seconds
    while not call():
        if time.monotonic() > deadline:
            raise SystemExit(f"After {seconds:g} s {says}.")
        time.sleep(0.2)


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and SIGKILL where that does not end it in time."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def running(keep: Path | None) -> Iterator[Bench]:
    """Everything, on a folder of its own; `keep`: a folder that stays, with the logs."""
    with contextlib.ExitStack() as stack:
        folder = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fettle-latency-")))
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(folder, stack)
        bench.serve()
        bench.peers("as_installed", 15, 30)
        bench.peers("tuned", 1, 0)
        bench.rule()
        yield bench


def main() -> int:
    """Measure, print; 1 where an alert never came."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="a folder for data and logs that stays")
    options = parser.parse_args()
    with running(options.keep) as bench:
        took = xids(bench)
        found = {"xid_s": round(statistics.median(took), 2), "xid_worst_s": round(max(took), 2), **threshold(bench)}
    print(json.dumps(found))
    return 0 if all(value is not None and value < PATIENCE_S for value in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
