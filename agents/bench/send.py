"""Gives a bench run's report to the server that the agent of this node is set to."""

from typing import Final

from agents import report_post
from agents.config import AgentConfig
from wire.bench import BenchReport, encode

PATH: Final = "api/v1/bench-runs/"


def send(report: BenchReport, config: AgentConfig) -> str:
    """What the server says of it, as the end of a sentence; SendError where it did not take it."""
    return report_post.send(encode(report), report.node, PATH, config)
