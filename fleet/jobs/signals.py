"""What jobs tell the apps above them."""

from typing import Final

from django.dispatch import Signal

held_otherwise: Final = Signal()
"""What `job` (its key) held from `since` to before `until` (None: to this day) is not what was told of it before; `gpus`: GPUs that it was
said to hold then, beside those that its allocations name."""
