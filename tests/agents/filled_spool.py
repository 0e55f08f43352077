"""Spools with something in them, for tests."""

from pathlib import Path

from agents.segment import BATCH
from agents.spool import Spool
from wire.messages import Hello


def hello(boot: str = "b0") -> Hello:
    """A hello of one boot."""
    return Hello(node="n", boot=boot, agent_version="1", schema="s")


def filled(directory: Path | None, count: int, boot: str = "b0", max_bytes: int = 1 << 20) -> Spool:
    """A spool with `count` batches, seqs from 0."""
    spool = Spool(directory, max_bytes)
    spool.begin(hello(boot))
    for seq in range(count):
        spool.append(BATCH, seq, f"batch {seq}".encode())
    return spool
