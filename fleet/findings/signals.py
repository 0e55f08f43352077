"""What findings tells the right-hand side of the tree."""

from django.dispatch import Signal

transitions_written = Signal()
"""Transition rows were committed. A hint to look sooner: whoever misses it finds the rows anyway."""
