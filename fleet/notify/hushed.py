"""Keeps what libraries log while they deliver out of our log: their lines hold URLs, keys and what was sent.

Apprise's own loggers are cut off in deliver.py; which libraries its plugins use is theirs to choose. So every line that a delivering
thread makes loses its words, whatever its logger and its level.
"""

import logging
from typing import Any

from fleet.notify.reach import watched

_installed = False


def hush() -> None:
    """From here on; once in a process. Other threads' lines are as they were."""
    global _installed
    if _installed:
        return
    _installed = True
    make = logging.getLogRecordFactory()

    def made(*args: Any, **words: Any) -> logging.LogRecord:
        record = make(*args, **words)
        if watched.get() is not None and record.name.partition(".")[0] not in ("apprise", "fleet"):
            record.msg, record.args = "(left out: it was said while a message was sent, and may hold its route's URL)", ()
            record.exc_info = record.exc_text = record.stack_info = None
        return record

    logging.setLogRecordFactory(made)
