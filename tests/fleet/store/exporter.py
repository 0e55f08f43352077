"""dcgm-exporter's format from numbers of a test: over HTTP as a real one would serve it, or as history for a Prometheus."""

import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.answering import answering
from tests.fleet.store.servers import Program, running, victoria_program
from tests.serving import free_port

UUID = "GPU-11111111-2222-3333-4444-55555555555"
"""Of a GPU, but for its last digit: the GPU's number."""


def labels(gpu: int, host: str = "node-1", **more: str) -> dict[str, str]:
    """The labels of a GPU's series."""
    return {
        "gpu": str(gpu),
        "UUID": f"{UUID}{gpu}",
        "pci_bus_id": f"00000000:{gpu:02X}:00.0",
        "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H200",
        "Hostname": host,
        "DCGM_FI_DRIVER_VERSION": "580.159.04",
        **more,
    }


def line(name: str, of: Mapping[str, str], value: float, at: float | None = None) -> str:
    """One sample."""
    inside = ",".join(f'{label}="{text}"' for label, text in of.items())
    return f"{name}{{{inside}}} {value!r}" + ("" if at is None else f" {at:.3f}")


class Exporter:
    """Serves `page` on loopback, until told to fail."""

    def __init__(self) -> None:
        self.page = ""
        self.fails = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = outer.page.encode()
                self.send_response(500 if outer.fails else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]

    @contextmanager
    def serving(self) -> Iterator["Exporter"]:
        """Answer until the end of the block."""
        with answering(self._server):
            yield self


def prometheus_program(folder: Path, targets: Sequence[int] = (), history: str = "") -> Program:
    """A Prometheus that scrapes these ports each second, with a history in OpenMetrics; not started yet."""
    port = free_port()
    data = folder / "prometheus"
    config = folder / "prometheus.yml"
    listed = ",".join(f"'127.0.0.1:{target}'" for target in targets)
    config.write_text(
        f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n- job_name: dcgm\n  static_configs: [{{targets: [{listed}]}}]\n"
    )
    if history:
        told = folder / "history.om"
        told.write_text(history + "# EOF\n")
        made = subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(told), str(data)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    return Program(command, port, folder / "prometheus.log", "/-/ready")


HOLDERS = ("prometheus", "victoria-metrics")
"""What a fleet's series may be read from, see `holding`."""


@contextmanager
def holding(kind: str, folder: Path, past: str) -> Iterator[Program]:
    """A running Prometheus that holds this history, or a VictoriaMetrics that was filled as by one; `kind` is one of HOLDERS."""
    if kind == "prometheus":
        with running(prometheus_program(folder, history=past)) as program:
            yield program
        return
    with running(victoria_program(folder)) as program:
        samples = (one.rpartition(" ") for one in past.splitlines())
        body = "".join(f"{head} {round(float(at) * 1000)}\n" for head, _, at in samples)
        urllib.request.urlopen(f"{program.url}/api/v1/import/prometheus", body.encode(), timeout=10).close()
        urllib.request.urlopen(f"{program.url}/internal/force_flush", timeout=10).close()
        yield program


def history(series: Mapping[tuple[str, str], Sequence[tuple[float, float]]], of: Mapping[str, Mapping[str, str]]) -> str:
    """Samples (time, value) by metric name and key of `of`, as OpenMetrics has them: all of a name together."""
    lines: list[str] = []
    for name in sorted({name for name, _ in series}):
        for (told, key), points in series.items():
            if told == name:
                lines += [line(name, of[key], value, at) for at, value in points]
    return "".join(f"{one}\n" for one in lines)
