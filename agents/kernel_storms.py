"""Storms of the hardware's errors: a sentence is told once, then how often it came again in each minute."""

from typing import Final

from msgspec import structs

from agents.device import DeviceEvent

QUIET_S: Final = 60.0
"""The same sentence is told once in this time: a bus that corrects errors may say so a thousand times a second."""
SENTENCES_MAX: Final = 20
"""Different sentences of a minute; more are counted together, but for those of what could not be corrected."""
_ANY: Final = "More errors of this machine's hardware are logged, of other parts"
_BAD_MAX: Final = 200


class _Storm:
    __slots__ = ("event", "more", "since")

    def __init__(self, event: DeviceEvent, since: float) -> None:
        self.event = event
        self.since = since
        self.more = 0


class Storms:
    """Which sentences were told of late; the caller gives the time, in monotonic seconds."""

    def __init__(self) -> None:
        self._open: dict[str, _Storm] = {}

    def take(self, event: DeviceEvent, count: int, now: float) -> DeviceEvent | None:
        """The event, if it is to be told; None where it is counted. `count`: errors that it stands for."""
        text = event.text
        if text not in self._open:
            is_bad = event.severity in ("warn", "critical")
            if len(self._open) >= (_BAD_MAX if is_bad else SENTENCES_MAX):
                text = _ANY
                event = structs.replace(event, gpu_uuid=None, text=f"{_ANY}.")
        known = self._open.get(text)
        if known is not None:
            known.more += count
            return None
        storm = self._open[text] = _Storm(event, now)
        storm.more = count - 1
        return event

    def ended(self, now: float) -> list[DeviceEvent]:
        """For each sentence whose minute is over and that came again: how often."""
        told = []
        for text, storm in list(self._open.items()):
            if now - storm.since < QUIET_S:
                continue
            if not storm.more:
                del self._open[text]
                continue
            again = f"{storm.event.text} Again within {QUIET_S:.0f} s: {storm.more}."
            told.append(structs.replace(storm.event, text=again, at=None))
            storm.since, storm.more = now, 0
        return told
