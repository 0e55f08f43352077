"""The hints on a cluster's nodes, with the health that the API really tells."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents.kubernetes.hints import HEALTH, REASONS
from agents.kubernetes.rest import Rest
from agents.kubernetes.rounds import Rounds
from fleet.accounts.models import User
from fleet.inventory.models import Gpu, Node
from tests.agents.api_server import TOKEN, Servers, serving

pytestmark = pytest.mark.django_db


class Fettle(Rest):
    """Fettle's API in this process."""

    def __init__(self) -> None:
        self.client = Client()
        self.client.force_login(User.objects.create_superuser("ada"))

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """What the view answers."""
        answer = self.client.get(path, query)
        assert answer.status_code == 200, answer.content
        return answer.json()


@pytest.fixture
def servers() -> Iterator[Servers]:
    """A cluster."""
    with serving() as both:
        yield both


def test_nodes_bear_what_the_api_says_of_them(servers: Servers, tmp_path: Path) -> None:
    """One that reports is usable, one that fell silent unknown, and one of which nobody told unknown too: none is cordoned."""
    (tmp_path / "token").write_text(TOKEN)
    for name, age_s in (("gpu-1", 1), ("gpu-2", 3600)):
        seen = timezone.now() - timedelta(seconds=age_s)
        node = Node.objects.create(name=name, last_seen_at=seen, connected_at=seen)
        Gpu.objects.create(node=node, uuid=f"GPU-{name}", index=0, model="H100")
    for name in ("gpu-1", "gpu-2", "gpu-3.example"):
        servers.add(name)
    Rounds(Rest(servers.url, tmp_path / "token", None), Fettle(), lambda _: None, cordons=True, share=1).round()

    assert {name: servers.annotations(name)[HEALTH] for name in servers.nodes} == {
        "gpu-1": "usable",
        "gpu-2": "unknown",
        "gpu-3.example": "unknown",
    }
    assert "Nothing has come from its agent" in servers.annotations("gpu-2")[REASONS]
    assert servers.unschedulable() == []
