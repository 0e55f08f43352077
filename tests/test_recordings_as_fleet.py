"""Recordings played as the demo plays them, judged as the fleet is judged: at 1 Hz, a minute at a time, for minutes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from advisor.diagnosis import diagnose
from advisor.engine import evaluate
from advisor.features import features
from advisor.finding import SEVERITIES, Finding
from advisor.frames import CONSTANTS, FACTS, Window
from advisor.rule import load
from agents.replay import ReplayNode, nodes
from agents.source import GPU, HOST, PROCESS

ROOT = Path(__file__).resolve().parent.parent
LABELS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "advisor" / "labels.json").read_text())
RULES = load()
WINDOW_S, PATIENCE_S, EVERY_S = 60, 20, 20
RESTART_S, END_S = 120, 240


class Fleet:
    """One node of two GPUs that plays a recording, stops at RESTART_S and plays it again as another run."""

    def __init__(self, recording: str) -> None:
        path = ROOT / "recordings" / f"{recording}.jsonl.gz"
        runs: list[ReplayNode] = [nodes([path], 2, run=run)[0][1] for run in (1, 2)]
        self.gpu: list[dict[str, Any]] = []
        self.host: list[dict[str, Any]] = []
        self.process: list[dict[str, Any]] = []
        for second in range(END_S):
            self._add(float(second), runs[second >= RESTART_S].second(second % RESTART_S))
        host = runs[0].inventory.host
        self.facts = [
            {
                "gpu": card.index, "node": 1, "job": f"node/demo/{recording}", "index": card.index, "name": card.name,
                "compute_capability": card.compute_capability, "cores": host.cores, "host_mem_total_bytes": host.mem_total_bytes,
                **{name: getattr(card, name) for name in CONSTANTS},
            }
            for card in runs[0].inventory.gpus
        ]  # fmt: skip

    def _add(self, t: float, tick: Any) -> None:
        for number, values in enumerate(zip(*tick.gpu, strict=True)):
            self.gpu.append({"gpu": number, "t": t, **dict(zip(GPU, values, strict=True))})
        self.host.append({"node": 1, "t": t, **dict(zip(HOST, tick.host, strict=True))})
        processes = tick.processes
        for k, pid in enumerate(processes.pid):
            row = {name: column[k] for name, column in zip(PROCESS, processes.values, strict=True)}
            row |= {"pid": pid, "t": t, "name": processes.name[k], "user": processes.user[k]}
            self.process += [
                {"gpu": hold.gpu, "gpu_mem_bytes": hold.mem_bytes, **row} for hold in processes.holds if hold.pid == pid
            ]

    def judgements(self) -> Iterator[tuple[int, str | None, list[Finding]]]:
        """(second, bottleneck of the job, findings) every EVERY_S."""
        gpu, host, process = (
            pl.DataFrame(rows, infer_schema_length=None, strict=False) for rows in (self.gpu, self.host, self.process)
        )
        for end in range(EVERY_S, END_S + 1, EVERY_S):
            seen = pl.col("t").is_between(end - WINDOW_S, end, closed="left")
            window = Window(
                gpu.filter(seen), host.filter(seen), process.filter(seen), pl.DataFrame(self.facts, schema=FACTS, strict=False)
            )
            frames = features(window, PATIENCE_S)
            label = next((one.bottleneck for one in diagnose(frames) if one.scope == "job"), None)
            yield end, label, evaluate(RULES, frames).findings


@pytest.fixture(scope="module", params=sorted(LABELS))
def judged(request: pytest.FixtureRequest) -> tuple[dict[str, Any], list[tuple[int, str | None, list[Finding]]]]:
    """The label of a recording and what was concluded over time."""
    return LABELS[request.param], list(Fleet(request.param).judgements())


def test_every_label_given_is_right(judged: tuple[dict[str, Any], list[tuple[int, str | None, list[Finding]]]]) -> None:
    """From start-up through repeats, a stop and another run: the recording's bottleneck, or none yet."""
    expected, over_time = judged
    right = {expected.get("bottleneck"), *expected.get("bottleneck_any", []), None}

    assert {end: label for end, label, _ in over_time if label not in right} == {}
    assert sum(label is not None for _, label, _ in over_time) >= 5


def test_what_is_ill_is_found_and_stays_found(judged: tuple[dict[str, Any], list[tuple[int, str | None, list[Finding]]]]) -> None:
    """Once the first run is settled, each judgement with a label finds the expected rules."""
    expected, over_time = judged
    settled = [(end, {one.rule for one in found}) for end, label, found in over_time if label and 100 <= end <= RESTART_S]

    assert settled
    for end, rules in settled:
        assert set(expected.get("expect", [])) <= rules, end
        assert not expected.get("expect_any") or rules & set(expected["expect_any"]), end


def test_nothing_but_what_is_ill_is_warned_about(
    judged: tuple[dict[str, Any], list[tuple[int, str | None, list[Finding]]]],
) -> None:
    """At warn or above, only rules that the label names: start-up and the change of runs wake nobody, a healthy job never does."""
    expected, over_time = judged
    named = {*expected.get("expect", []), *expected.get("expect_any", [])}
    loud = {
        end: [one.rule for one in found if SEVERITIES.index(one.severity) >= 2 and one.rule not in named]
        for end, _, found in over_time
    }

    assert {end: rules for end, rules in loud.items() if rules} == {}
