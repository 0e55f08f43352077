"""The reconciler as a service: a round every so often until it is asked to end. A round that fails is told of once, not each time."""

import logging
import signal
import threading
import time
from types import FrameType

from agents.rest import RestError
from agents.slurm.commands import SlurmError
from agents.slurm.reconciler import Reconciler

log = logging.getLogger(__name__)


def run(reconciler: Reconciler, every_s: float) -> int:
    """0 after SIGTERM or SIGINT."""
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    log.info("Reconciling the jobs of %s every %g s", reconciler.cluster, every_s)
    failed = ""
    while not ended.is_set():
        began = time.monotonic()
        try:
            done = reconciler.round()
        except (SlurmError, RestError) as error:
            if str(error) != failed:
                log.warning("A round could not be made, and the next will do its work: %s", error)
            failed = str(error)
        else:
            if failed:
                log.info("Rounds are made again")
            failed = ""
            if done.told or done.refused:
                log.info("Told of %d jobs, %d were refused", done.told, done.refused)
        ended.wait(max(0.0, every_s - (time.monotonic() - began)))
    return 0
