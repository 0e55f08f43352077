"""The documents keep up with the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def test_the_reference_pages_are_what_the_code_says() -> None:
    """docs/generate.py would change nothing."""
    checked = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_every_path_in_a_page_leads_somewhere(page: Path) -> None:
    """Relative links and `paths/with/slashes.py` named in a page exist in the repository."""
    text = page.read_text()
    links = [
        link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link and not link.startswith("#")
    ]
    paths = re.findall(
        r"`((?:wire|agents|advisor|fleet|cli|config|templates|static|docs|tests|bench|lab|recordings)/[\w./-]+)`", text
    )

    missing = [link for link in links if not (page.parent / link).exists()] + [
        path for path in paths if not (ROOT / path).exists()
    ]

    assert missing == []


def test_no_document_names_a_workplace_or_a_registry_host() -> None:
    """What is written for users holds no download address and no build machine's path."""
    for page in [*PAGES, *(ROOT / "requirements").glob("*")]:
        found = re.findall(r"files\.pythonhosted\.org|--index-url|--find-links|/work/|\.\./shared", page.read_text())

        assert found == [], page
