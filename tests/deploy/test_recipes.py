"""The agent's container recipe, read as text: no container engine runs here."""

import re

from tests.deploy.conftest import ROOT

HERE = ROOT / "deploy" / "agent"


def test_the_image_copies_what_is_built() -> None:
    """The file's name is `make agent`'s, and the entry point runs it."""
    recipe = (HERE / "Dockerfile").read_text()
    copied = re.search(r"^COPY (\S+) (\S+)$", recipe, re.M)

    assert copied
    assert copied[1] == "dist/fettle-agent.pyz"
    assert f'"-I", "{copied[2]}"]' in recipe
