"""Debian's real Prometheus, for tests: it scrapes what it is told to, takes remote writes when asked to, and answers queries."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fleet.store.servers import Program, running
from tests.serving import free_port


class Prometheus(Program):
    """The server, and its query API."""

    def query(self, promql: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series that the expression gives now; RuntimeError when it is none."""
        form = urllib.parse.urlencode({"query": promql}).encode()
        return [(one["metric"], float(one["value"][1])) for one in self._ask("/api/v1/query", form)["result"]]

    def over(self, promql: str, start: float, end: float, step_s: int = 1) -> dict[str, list[tuple[int, float]]]:
        """Seconds and values of each series between two times, by its `entity`."""
        form = urllib.parse.urlencode({"query": promql, "start": start, "end": end, "step": step_s}).encode()
        found = self._ask("/api/v1/query_range", form)["result"]
        return {one["metric"].get("entity", ""): [(int(at), float(text)) for at, text in one["values"]] for one in found}

    def raw(self, selector: str, span_s: int) -> list[tuple[float, float]]:
        """Times and values of the samples of the only series that the selector matches; empty when there is none."""
        form = urllib.parse.urlencode({"query": f"{selector}[{span_s}s]"}).encode()
        found = self._ask("/api/v1/query", form)["result"]
        assert len(found) <= 1, found
        return [(float(at), float(text)) for one in found for at, text in one["values"]]

    def until(self, promql: str, seconds: float = 20.0) -> list[tuple[dict[str, str], float]]:
        """What the expression gives, once it gives something."""
        deadline = time.monotonic() + seconds
        while not (found := self.query(promql)) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def _ask(self, path: str, form: bytes) -> Any:
        try:
            with urllib.request.urlopen(self.url + path, form, timeout=10) as answer:
                told = json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error
        return told["data"]


@contextmanager
def prometheus(folder: Path, scrapes: str = "", *flags: str, more: str = "") -> Iterator[Prometheus]:
    """A running Prometheus with these scrape_configs and what `more` of its configuration (YAML)."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yml"
    often = f"global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\nscrape_configs:\n{scrapes}"
    config.write_text(more + (often if scrapes else "global: {}\n"))
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
        *flags,
    ]
    with running(Prometheus(command, port, folder / "prometheus.log", "/-/ready")) as program:
        assert isinstance(program, Prometheus)
        yield program
