"""The three groups that every site has, and what those who are in them may do."""

import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from fleet.accounts.models import User
from tests.fleet.site import Site
from tests.serving import ROOT, migrated_database

MEMBERS = (
    "SELECT g.name, p.codename FROM auth_group g JOIN auth_group_permissions gp ON gp.group_id = g.id"
    " JOIN auth_permission p ON p.id = gp.permission_id"
)


def person(role: str) -> User:
    """Somebody who is in that group alone."""
    user = User.objects.create_user(f"of-{role}", password="correct horse", is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    return user


@pytest.mark.django_db
@pytest.mark.parametrize(("role", "decides", "looks_after"), [("viewer", 0, 0), ("operator", 1, 0), ("admin", 1, 1)])
def test_each_role_may_do_what_the_one_before_may_and_more(role: str, decides: bool, looks_after: bool) -> None:
    """Viewers look, operators move advice, admins look after tokens and routes; none makes people or findings."""
    user = person(role)
    client = Client()
    client.force_login(user)

    assert user.has_perm("findings.view_finding")
    assert user.has_perm("findings.change_finding") == decides
    for permission in ("notify.add_route", "notify.change_route", "accounts.change_apitoken", "accounts.delete_agenttoken"):
        assert user.has_perm(permission) == looks_after
    for permission in ("accounts.add_user", "accounts.change_user", "auth.change_group", "findings.delete_finding"):
        assert not user.has_perm(permission)
    assert client.get("/alerts/routes/new/").status_code == (200 if looks_after else 403)
    assert client.get("/admin/findings/finding/").status_code == 200


@pytest.mark.django_db
def test_the_permissions_are_those_that_django_makes() -> None:
    """Same content type, same code name, same name: no second set beside them."""
    names = Permission.objects.filter(codename__in=("change_finding", "add_apitoken")).values_list("codename", "name")

    assert sorted(names) == [("add_apitoken", "Can add api token"), ("change_finding", "Can change finding")]


def test_the_roles_can_be_taken_back(tmp_path: Path) -> None:
    """From an empty database on they are there; taken back, a group with people in it stays without its permissions."""
    site = Site(tmp_path, "redis://127.0.0.1:1/0")
    (tmp_path / "fettle.sqlite3").write_bytes(migrated_database())
    assert {"name": "operator", "codename": "change_finding"} in site.rows(MEMBERS)
    site.run(
        "import django; django.setup()\n"
        "from django.contrib.auth.models import Group\n"
        "from fleet.accounts.models import User\n"
        "User.objects.create_user('alice').groups.add(Group.objects.get(name='operator'))\n"
    )
    for target in ("0001", "0002"):
        command = [sys.executable, "manage.py", "migrate", "--skip-checks", "-v", "0", "accounts", target]
        done = subprocess.run(command, cwd=ROOT, env=site.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        if target == "0001":
            assert site.rows("SELECT name FROM auth_group") == [{"name": "operator"}]
            assert site.rows(MEMBERS) == []

    assert {row["name"] for row in site.rows("SELECT name FROM auth_group")} == {"viewer", "operator", "admin"}
    assert {"name": "operator", "codename": "change_finding"} in site.rows(MEMBERS)
