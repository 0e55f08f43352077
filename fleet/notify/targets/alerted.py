"""What targets have in common that keep alerts of their own: they are given alerts, not sentences."""

from collections.abc import Sequence
from typing import ClassVar

from fleet.notify.note import Alert


class Alerted:
    """A target that tells `alerts`; whatever text comes along stays here."""

    by_labels: ClassVar[bool] = False
    """Labels name an alert there, and one request takes all of them; else its key does, and each has a request of its own."""
    alerts: Sequence[Alert] = ()
