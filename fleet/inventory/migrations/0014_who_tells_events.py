"""Operators and admins may tell of alerts from elsewhere, as a program with their token."""

from django.db import migrations

from fleet.accounts.granting import granting


class Migration(migrations.Migration):
    dependencies = [("inventory", "0013_event_details_and_presence"), ("accounts", "0002_roles")]

    operations = [granting("inventory", {"event": {"operator": ("add",), "admin": ("add",)}})]
