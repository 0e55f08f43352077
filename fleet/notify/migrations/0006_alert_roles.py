"""Viewers see what keeps alerts quiet, operators silence and acknowledge, admins decide where alerts go."""

from typing import Final

from django.db import migrations

from fleet.accounts.granting import VIEW, WRITE, granting

QUIET: Final = {"viewer": VIEW, "operator": WRITE, "admin": WRITE}
WAYS: Final = {"viewer": VIEW, "operator": VIEW, "admin": WRITE}


class Migration(migrations.Migration):
    dependencies = [("notify", "0005_alerts"), ("accounts", "0002_roles")]

    operations = [
        granting("notify", {"silence": QUIET, "acknowledgement": QUIET, "inhibition": WAYS, "delivery": {"viewer": VIEW}}),
    ]
