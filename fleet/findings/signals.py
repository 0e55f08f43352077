"""What findings tells the right-hand side of the tree."""

from django.dispatch import Signal

transitions_written = Signal()
"""Transitions of conditions were committed. A hint to look sooner: whoever misses it finds the rows anyway."""
