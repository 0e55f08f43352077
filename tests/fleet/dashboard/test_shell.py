"""What stands around every page: login and logout, language, the content policy, what is served locally."""

import gzip
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.test import AsyncClient, Client

from fleet.accounts.models import User
from fleet.dashboard.csp import POLICY

ROOT = Path(settings.BASE_DIR)
TEMPLATES = sorted((ROOT / "templates").glob("**/*.html"))
SCRIPTS = sorted((ROOT / "static" / "js").glob("*.js"))


@pytest.mark.django_db
def test_one_logs_in_where_one_wanted_to_go_and_out_by_post_alone(client: Client) -> None:
    """A GET must not log anyone out."""
    User.objects.create_user("ann", password="correct horse")

    assert client.post("/login/", {"username": "ann", "password": "wrong"}).status_code == 200
    answer = client.post("/login/", {"username": "ann", "password": "correct horse", "next": "/findings/"})
    assert (answer.status_code, answer["Location"]) == (302, "/findings/")
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/").status_code == 302


@pytest.mark.django_db
def test_the_login_leads_to_no_other_site(client: Client) -> None:
    """An open redirect helps phishers."""
    User.objects.create_user("ann", password="correct horse")

    answer = client.post("/login/", {"username": "ann", "password": "correct horse", "next": "https://evil.example/"})

    assert answer["Location"] == "/"


@pytest.mark.django_db
def test_the_language_follows_the_browser_and_then_the_choice(viewer: Client) -> None:
    """A Chinese browser gets Chinese; the switch outlives the visit."""
    assert "机群" in viewer.get("/", headers={"accept-language": "zh-CN,zh;q=0.9"}).content.decode()
    assert '<html lang="en">' in viewer.get("/", headers={"accept-language": "de"}).content.decode()
    viewer.post("/i18n/setlang/", {"language": "zh-hans", "next": "/findings/"})
    assert '<html lang="zh-hans">' in viewer.get("/findings/", headers={"accept-language": "en"}).content.decode()


@pytest.mark.django_db
def test_every_answer_carries_the_content_policy(viewer: Client) -> None:
    """No inline script, no other host; also where the answer is JSON or an error."""
    for path in ("/", "/login/", "/fleet.json", "/nodes/none/"):
        assert viewer.get(path)["Content-Security-Policy"] == POLICY
    assert "script-src 'self'" in POLICY
    assert "unsafe-eval" not in POLICY


@pytest.mark.django_db
async def test_the_policy_is_there_under_asgi_too(async_client: AsyncClient) -> None:
    """Production runs asynchronously."""
    answer = await async_client.get("/login/")

    assert answer["Content-Security-Policy"] == POLICY


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_holds_a_script_or_a_handler_or_another_host(path: Path) -> None:
    """The policy would block it, silently for whoever wrote it."""
    source = path.read_text()

    assert not re.search(r"<script(?![^>]*\bsrc=)", source)
    assert not re.search(r"\son[a-z]+=", source)
    assert "http://" not in source
    assert not re.search(r'(?:src|href)="https://', source)


@pytest.mark.parametrize("path", [*SCRIPTS, *sorted((ROOT / "static" / "css").glob("*.css"))], ids=lambda path: path.name)
def test_no_script_or_style_asks_another_host(path: Path) -> None:
    """Everything is served from here, so a fleet without the internet has the same pages."""
    source = path.read_text()

    assert "http://" not in source
    assert "https://" not in source.replace('https:"', "")
    assert "innerHTML" not in source


def test_plotly_is_vendored_with_its_licence_and_a_compressed_twin() -> None:
    """The page names the file with its version; its .gz is what travels, and is the same file."""
    (plain,) = (ROOT / "static" / "vendor").glob("plotly-*.min.js")
    version = re.search(r"v(\d+\.\d+\.\d+)", plain.read_text()[:200])

    assert version is not None
    assert version[1] in plain.name
    assert gzip.decompress(plain.with_name(plain.name + ".gz").read_bytes()) == plain.read_bytes()
    assert "MIT" in (plain.parent / "plotly-LICENSE.txt").read_text()


def test_the_first_view_stays_small() -> None:
    """Under 1.5 MB on the wire with charts; without them under 100 kB of our own files."""
    own = sum(len(gzip.compress(path.read_bytes())) for path in [*SCRIPTS, *(ROOT / "static" / "css").glob("*.css")])
    plotly = next((ROOT / "static" / "vendor").glob("*.gz")).stat().st_size

    assert own < 100_000
    assert own + plotly < 1_500_000


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_every_static_file_that_a_template_names_exists(path: Path) -> None:
    """A renamed script would be a 404 that no view notices."""
    for name in re.findall(r"{% static '([^']+)' %}", path.read_text()):
        assert finders.find(name), name


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_plotly_is_only_where_charts_are(path: Path) -> None:
    """The overview is the page that everyone opens; it draws on a canvas of its own."""
    source = path.read_text()

    assert ("plotly" in source) == ("data-chart" in source)
