"""Routes what is new and lets time pass until every group has left."""

from django.utils import timezone

from fleet.notify import routing
from fleet.notify.models import Group


def tell() -> list[int]:
    """The ids of the messages that leave, once all have waited long enough."""
    while routing.route():
        pass
    Group.objects.exclude(release_at=None).update(release_at=timezone.now())
    return routing.release()
