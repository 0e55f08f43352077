"""A node whose GPU plays recordings one after the other, with the rows of its runs, and findings on them."""

from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from agents.replay import ReplayNode
from fleet.findings.models import Finding
from fleet.slow.models import JobRun
from tests.fleet.findings.test_restarts import Machine, played

FP32: Final = "fp32-without-tensor-cores"
LABELS: Final = {"driver": "580.159.04"}


class Site:
    """One machine; its program bears one name, whatever recording it plays."""

    def __init__(self, first: str) -> None:
        self.name = first
        self.machine = Machine(played(first))
        self.runs = 1

    def at(self) -> datetime:
        """The time now."""
        return self.machine.at()

    def plays(self, seconds: int, told: dict[str, str] | None = None) -> JobRun:
        """What plays goes on for so long, and its run is a row."""
        began = self.at()
        self.machine.runs(seconds)
        node = self.machine.node
        job = Finding.objects.filter(scope="job").values_list("target", flat=True).first() or f"{node.name}/?/{self.name}"
        return JobRun.objects.create(
            job=job, program=job.partition("/")[2], node=node, first_seen=began, last_seen=self.at(), merged_to=0, told=told or LABELS,
            gpu_ids=[card.pk for card in self.machine.cards], gpu_model="NVIDIA H200", gpus=len(self.machine.cards),
        )  # fmt: skip

    def restarts(self, recording: str) -> None:
        """The program ends and starts anew as `recording`, by the same name."""
        self.runs += 1
        self.machine.rests(3)
        self.machine.hello(ReplayNode(replace(played(recording), name=self.name), run=self.runs))

    def finding(self, rule: str = FP32) -> Finding:
        """The finding of the rule."""
        return Finding.objects.get(rule=rule)


def content(**more: Any) -> dict[str, Any]:
    """What a finding says, as far as a verdict asks."""
    text = {"id": "", "params": {}}
    return {
        "title": {"id": "FP32 arithmetic on a GPU with tensor cores", "params": {}}, "summary": text, "evidence": [], "change": [],
        "expected_gain": None, "risk": text, "rollback": {"id": "Remove the line or the context.", "params": {}}, "verify": text,
        "sources": [], **more,
    }  # fmt: skip


LONG_AGO: Final = timedelta(days=400)
