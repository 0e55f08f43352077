"""What keeps strangers from filling the log."""

import logging
import time


class OnceAMinute(logging.Filter):
    """Lets one record of a logger pass in a minute, without its traceback, and says how many were left out before it."""

    def __init__(self) -> None:
        super().__init__()
        self._next = float("-inf")
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """True for the record to be written."""
        now = time.monotonic()
        if now < self._next:
            self._left_out += 1
            return False
        message = record.getMessage()
        record.msg, record.args = message + (f" ({self._left_out} more in the minutes before)" if self._left_out else ""), ()
        record.exc_info = record.exc_text = None
        self._next, self._left_out = now + 60, 0
        return True
