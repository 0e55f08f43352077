"""The thread of calls that may hang: whatever a job does, the next one is done."""

import logging
import sys
import threading

import pytest

from agents.worker import Worker


def fail(error: BaseException) -> None:
    """What a defect does."""
    raise error


def test_a_job_that_raises_ends_neither_the_thread_nor_later_jobs(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged once and counted, also where it is `done` that raises, or a library that would end the program."""
    worker = Worker("driver")
    for job, done in (
        (lambda: fail(RecursionError()), None),
        (sys.exit, None),
        (None, lambda: fail(ValueError("done"))),
        (lambda: fail(MemoryError()), None),
    ):
        ended, is_done = threading.Event(), threading.Event()
        worker.start(job or _nothing, is_done.set)
        assert is_done.wait(10)
        if done is not None:
            worker.start(_nothing, done)
        while worker.busy:
            ended.wait(0.01)
    did = threading.Event()
    worker.start(did.set, _nothing)
    assert did.wait(10)
    worker.close()

    assert worker.failures == 4
    records = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(records) == 1
    assert records[0].exc_info is not None
    assert "driver" in records[0].getMessage()


def _nothing() -> None:
    pass
