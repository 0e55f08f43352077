"""Whoever sees what is set of rules sees what is set of XIDs."""

from django.db import migrations

from fleet.accounts.granting import VIEW, granting


class Migration(migrations.Migration):
    dependencies = [("tuning", "0005_xid_overrides"), ("accounts", "0002_roles")]

    operations = [granting("tuning", {"xidoverride": dict.fromkeys(("viewer", "operator", "admin"), VIEW)})]
