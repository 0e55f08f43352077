"""Which labels of GPUs the server has been told, so that each travels once and again when it changes."""

from collections.abc import Sequence
from typing import Final

from wire.labels import GPU_LABELS, MAX_LABEL
from wire.messages import GpuLabels

_CUT: Final = "…"


class ToldGpuLabels:
    """What was told of each GPU, by its number."""

    def __init__(self) -> None:
        self._told: list[dict[str, str] | None] = []

    def news(self, labels: Sequence[dict[str, str]]) -> list[GpuLabels]:
        """Those that are new or changed; `labels[g]` are GPU g's, by the names that the server takes. `{}` takes back what was told."""
        self._told += [{}] * (len(labels) - len(self._told))
        news = []
        for number, told in enumerate(labels):
            if told != self._told[number]:
                self._told[number] = told
                news.append(GpuLabels(number, told))
        return news

    def reset(self) -> None:
        """Tell everything again with the next tick, and of GPUs that had labels that they have none: it may not have arrived."""
        self._told = [None if told is None or told else {} for told in self._told]


def fit(name: str, values: set[str]) -> dict[str, str]:
    """One label of these values, in order and with commas, as long as the server takes; {} for a name that it does not take."""
    text = ",".join(sorted(values))
    if name not in GPU_LABELS or not text:
        return {}
    return {name: text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + _CUT}
