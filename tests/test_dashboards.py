"""docs/grafana/: each expression of each dashboard gives data, on a real Prometheus and on a real VictoriaMetrics."""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.api.test_real_prometheus import api_token, scrape
from tests.fleet.store.prometheus import Prometheus, prometheus
from tests.fleet.store.servers import running, victoria_program
from tests.serving import ROOT, Server, serve
from tests.speaking import batch, hello, speak
from wire import metrics
from wire.messages import Cell
from wire.metrics import Metric, Number

FILES = sorted((ROOT / "docs" / "grafana").glob("*.json"))
VALUES = {"node": "n", "gpu": "0", "__rate_interval": "1m", "__range": "5m"}
ROWS = """
import django; django.setup()
from django.utils import timezone
from fleet.findings.lifecycle import Place, report
from fleet.findings.models import Cycle
from fleet.inventory.models import Refusal
from tests.fleet.rows import found
now = timezone.now()
report(now, found("1", severity="critical"), Place(None))
Cycle.objects.create(name="advise", started_at=now, ended_at=now)
Refusal.objects.create(node_name="n", code="busy", total=1)
"""


def expressions(board: Any) -> Iterator[tuple[str, str]]:
    """Title of the panel and expression, with the dashboard's variables as Grafana would fill them."""
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], filled(target["expr"])


def filled(text: str) -> str:
    """The expression with every variable's value; KeyError for one that the dashboard does not have."""
    return re.sub(r"\$(\w+)", lambda found: VALUES[found[1]], text)


def value(metric: Metric, seq: int) -> Number:
    """A value that can be; counters rise."""
    if metric.kind == "counter":
        return 1000 + seq
    return min(max({"ratio": 0.5}.get(metric.unit, 40), metric.low), metric.high)


@asynccontextmanager
async def reporting(server: Server) -> AsyncIterator[None]:
    """A node with two GPUs that tells every metric each second."""
    async with speak(server.agents, server.token("n")) as agent:
        said = await agent.greet(hello("n", gpus=2))

        async def tell() -> None:
            for seq in range(600):
                gpu: dict[str, Cell] = {one.name: value(one, seq) for one in metrics.sent("gpu")}
                host: dict[str, Cell] = {one.name: value(one, seq) for one in metrics.sent("host")}
                await agent.say(batch(said, seq, time.time(), gpu, host))
                await asyncio.sleep(1)

        telling = asyncio.create_task(tell())
        try:
            yield
        finally:
            telling.cancel()


@contextmanager
def on_prometheus(folder: Path) -> Iterator[tuple[Server, Prometheus]]:
    """A server with the Parquet store, and a Prometheus that scrapes both of its pages."""
    with serve(folder / "data", {"FETTLE_METRICS_GPUS": "1"}) as server:
        (folder / "token").write_text(api_token(server, "prometheus"))
        scrapes = scrape(server, "fettle", "/metrics", folder / "token")
        scrapes += scrape(server, "gpus", "/metrics/gpus", folder / "token", "  params: {scope: [gpu, host]}\n")
        with prometheus(folder / "prometheus", scrapes) as program:
            yield server, program


@contextmanager
def on_victoria(folder: Path) -> Iterator[tuple[Server, Prometheus]]:
    """A server whose store is VictoriaMetrics, which scrapes /metrics itself."""
    config = folder / "scrape.yml"
    config.write_text("scrape_configs: []\n")
    flags = (f"-promscrape.config={config}", "-promscrape.configCheckInterval=1s", "-search.latencyOffset=1s")
    made = victoria_program(folder, *flags)
    program = Prometheus(made.command, made.port, made.log, "/health")
    env = {"FETTLE_STORE": "victoriametrics", "FETTLE_STORE_URL": program.url}
    with running(program), serve(folder / "data", env) as server:
        (folder / "token").write_text(api_token(server, "prometheus"))
        scrapes = scrape(server, "fettle", "/metrics", folder / "token")
        config.write_text(f"global: {{scrape_interval: 1s}}\nscrape_configs:\n{scrapes}")
        yield server, program


@pytest.mark.parametrize(
    "site",
    [
        pytest.param(on_prometheus, id="prometheus"),
        pytest.param(on_victoria, id="victoriametrics", marks=pytest.mark.slow),
    ],
)
async def test_every_expression_gives_data(tmp_path: Path, site: Any) -> None:
    """A metric that was renamed, a label that is not there, a query that is none: the panel would stay empty and say nothing."""
    with site(tmp_path) as (server, program):
        subprocess.run([sys.executable, "-c", ROWS], cwd=ROOT, env=server.env, check=True)
        async with reporting(server):
            empty = []
            for path in FILES:
                for title, expression in expressions(json.loads(path.read_text())):
                    if not await asyncio.to_thread(program.until, expression, 40.0):
                        empty.append(f"{path.name}, {title}: {expression}")

        assert empty == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_dashboard_fits_any_grafana(path: Path) -> None:
    """The data source is a variable, no uid is fixed, panels do not overlap, and what variables ask for is a name that exists."""
    text = path.read_text()
    board = json.loads(text)

    assert board["uid"] is None
    assert set(re.findall(r'"uid": "([^"]*)"', text)) == {"${datasource}"}
    assert board["templating"]["list"][0]["type"] == "datasource"
    names = {one["name"] for one in board["templating"]["list"]} | {"__rate_interval", "__range"}
    assert {name for _, expression in _raw(board) for name in re.findall(r"\$(\w+)", expression)} <= names
    asked = [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    known = {f"fettle_{one.scope}_{one.name}" for one in metrics.METRICS}
    assert {re.match(r"label_values\((\w+)", query)[1] for query in asked} <= known  # type: ignore[index] # else it fails
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [(x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in board["panels"]}) == len(places)


def _raw(board: Any) -> Iterator[tuple[str, str]]:
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_the_alerts_of_the_document_are_rules_that_prometheus_takes(tmp_path: Path) -> None:
    """promtool reads them, and the families in them are those of /metrics."""
    page = (ROOT / "docs" / "how-to" / "use-grafana.md").read_text()
    rules = tmp_path / "rules.yml"
    rules.write_text(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    checked = subprocess.run(["promtool", "check", "rules", str(rules)], capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stderr
    told = (ROOT / "fleet" / "api" / "families.py").read_text()
    asked = {name.removesuffix("_total") for name in re.findall(r"fettle_\w+", rules.read_text())}
    assert not [name for name in asked if f'"{name}"' not in told]
