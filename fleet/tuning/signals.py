"""What tuning tells those to its right: what the site says of rules is not what it was; sent after the commit."""

from django.dispatch import Signal

rules_changed = Signal()
