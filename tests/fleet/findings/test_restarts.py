"""Agents and jobs that stop and start again, from the store's rows to the rows of findings: at 1 Hz, a minute at a time."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace
from pytest_django import Settings

from agents.replay import ReplayNode
from agents.source import GPU, HOST, PROCESS, Tick
from fleet.findings.judge import judge
from fleet.findings.models import Finding, Transition
from fleet.inventory.models import Gpu, Node
from fleet.store.series import store
from wire.metrics import Scope
from wire.recording import Recording, read

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
ROOT = Path(__file__).resolve().parents[3]
LABELS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "advisor" / "labels.json").read_text())
ILL = sorted(name for name, label in LABELS.items() if label.get("expect") or label.get("expect_any"))
QUICK = {"ckpt_stall", "leak", "loader_starved", "near_oom"}
"""A save now and then, memory that grows, a steady wait, a card that is nearly full; the others' minute is among the slow tests."""
START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
WINDOW_S, PATIENCE_S, EVERY_S = 60, 20, 10
SETTLED_S = 133


@pytest.fixture(autouse=True)
def short_windows(settings: Settings) -> None:
    """A minute, as long as the recordings last."""
    settings.FETTLE_ADVISOR_WINDOW_S = WINDOW_S
    settings.FETTLE_ADVISOR_PATIENCE_S = PATIENCE_S


def played(name: str) -> Recording:
    """The recording of that name."""
    return read(ROOT / "recordings" / f"{name}.jsonl.gz")


class Machine:
    """A node whose agent plays recordings; each second of it is stored, and every EVERY_S the fleet is judged."""

    def __init__(self, recording: Recording) -> None:
        self.now = 0
        self.source = ReplayNode(recording, run=1)
        host = self.source.inventory.host
        self.node = Node.objects.create(name="n1", boot="b1", cores=host.cores, mem_total_bytes=host.mem_total_bytes)
        self.cards = [
            Gpu.objects.create(
                node=self.node, uuid=card.uuid, index=card.index, model=card.name, compute_capability=card.compute_capability or "",
                mem_total_bytes=card.mem_total_bytes, power_limit_w=card.power_limit_w,
                power_limit_default_w=card.power_limit_default_w, sm_clock_max_mhz=card.sm_clock_max_mhz,
                mem_clock_max_mhz=card.mem_clock_max_mhz, pcie_link_gen_max=card.pcie_link_gen_max,
                pcie_link_width_max=card.pcie_link_width_max, nvlink_links=card.nvlink_links,
                nvlink_bytes_per_s_per_link=card.nvlink_bytes_per_s_per_link,
            )
            for card in self.source.inventory.gpus
        ]  # fmt: skip
        self._began = 0
        self._rows: dict[Scope, list[dict[str, Any]]] = {"gpu": [], "host": [], "process": []}

    def hello(self, source: ReplayNode) -> None:
        """A new agent is there and plays `source` from its start."""
        self.source, self._began = source, self.now
        Node.objects.update(boot=f"b{self.now}", connected_at=self.at())

    def runs(self, seconds: int) -> None:
        """So many seconds pass."""
        for _ in range(seconds):
            self._keep(int(START.timestamp()) + self.now, self.source.second(self.now - self._began))
            self._passes(stored=True)

    def rests(self, seconds: int) -> None:
        """The agent is away for so many seconds."""
        for _ in range(seconds):
            self._passes(stored=False)

    def _passes(self, *, stored: bool) -> None:
        self.now += 1
        if stored:
            Node.objects.update(last_seen_at=self.at())
        if self.now % EVERY_S == 0:
            self._store()
            judge(self.at())

    def at(self) -> datetime:
        """The time now."""
        return START + timedelta(seconds=self.now)

    def _store(self) -> None:
        for scope, lines in self._rows.items():
            if lines:
                frame = pl.DataFrame(lines, infer_schema_length=None, strict=False)
                store().write(scope, frame.select(column for column in frame if column.dtype != pl.Null))
                lines.clear()

    def _keep(self, ts: int, tick: Tick) -> None:
        rows = self._rows
        for card, values in zip(self.cards, zip(*tick.gpu, strict=True), strict=True):
            rows["gpu"].append({"entity": card.pk, "ts": ts, **dict(zip(GPU, values, strict=True))})
        rows["host"].append({"entity": self.node.pk, "ts": ts, **dict(zip(HOST, tick.host, strict=True))})
        told = tick.processes
        for k, pid in enumerate(told.pid):
            one: dict[str, Any] = {name: column[k] for name, column in zip(PROCESS, told.values, strict=True)}
            one |= {"pid": pid, "ts": ts, "name": told.name[k], "user": told.user[k]}
            rows["process"] += [
                {"entity": self.cards[hold.gpu].pk, "gpu_mem_bytes": hold.mem_bytes, **one}
                for hold in told.holds
                if hold.pid == pid
            ]


def told(rows: set[int]) -> list[tuple[str, str, str]]:
    """Every change of these findings that people hear of: (rule, before, after)."""
    changes = Transition.objects.filter(finding__in=rows).exclude(after="pending").order_by("pk").select_related("finding")
    return [(one.finding.rule, one.before, one.after) for one in changes]


def firing() -> set[int]:
    """The findings that fire now."""
    return set(Finding.objects.filter(condition="firing").values_list("pk", flat=True))


def again(of: Machine, recording: Recording, run: int = 2) -> None:
    """A new agent plays `recording` from its start."""
    of.hello(ReplayNode(recording, run=run))


@pytest.mark.parametrize(
    ("name", "run"),
    [
        *(pytest.param(name, 2, marks=() if name in QUICK else pytest.mark.slow) for name in ILL),
        pytest.param("ckpt_stall", 1),
        pytest.param("disk_loader", 1, marks=pytest.mark.slow),
    ],
)
def test_an_agent_that_restarts_keeps_the_findings_of_its_jobs(name: str, run: int) -> None:
    """Its recording plays anew, start-up included, mostly by new pids: every row stays open, nobody is told, none opens beside."""
    machine = Machine(played(name))
    machine.runs(SETTLED_S)
    rows = firing()
    before = told(rows)
    machine.rests(1)
    again(machine, played(name), run)
    machine.runs(110)

    assert rows
    assert told(rows) == before
    assert rows <= firing()
    assert Finding.objects.filter(rule__in=Finding.objects.filter(pk__in=rows).values("rule")).count() == len(rows)


def test_a_restart_that_takes_half_a_minute_is_one_too() -> None:
    """The node is stale meanwhile, and its window holds a gap afterwards."""
    machine = Machine(played("loader_starved"))
    machine.runs(SETTLED_S)
    rows = firing()
    before = told(rows)
    machine.rests(35)
    again(machine, played("loader_starved"))
    machine.runs(180)

    assert told(rows) == before
    assert firing() == rows


def test_a_job_that_comes_back_mended_loses_its_finding_after_a_whole_steady_window() -> None:
    """The same program with enough workers: not while it starts and warms up, and not for ever."""
    machine = Machine(played("loader_starved"))
    machine.runs(SETTLED_S)
    rows = firing()
    machine.rests(3)
    again(machine, replace(played("loader_ok"), name="loader_starved"))
    machine.runs(PATIENCE_S + WINDOW_S)
    assert firing() == rows

    machine.runs(90)
    assert [(before, after) for _, before, after in told(rows)][-1:] == [("firing", "resolved")]
    assert not firing()


@pytest.mark.parametrize("silent_s", [1, 8])
def test_an_agent_that_restarts_beside_a_job_that_goes_on_leaves_its_findings(silent_s: int) -> None:
    """The processes are the old ones: the finding stays, and when the trouble ends it resolves, once the gap is out of the window."""
    machine = Machine(played("fp32_train"))
    machine.runs(SETTLED_S)
    rows, before = firing(), told(firing())
    machine.rests(silent_s)
    Node.objects.update(connected_at=machine.at())
    machine.runs(60)

    assert firing() == rows
    assert told(rows) == before
