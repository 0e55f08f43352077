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
def test_what_is_not_there_is_said_within_the_design(viewer: Client) -> None:
    """The way back is on the page."""
    answer = viewer.get("/nodes/none/")
    page = answer.content.decode()

    assert answer.status_code == 404
    assert "Nothing is here" in page
    assert 'href="/findings/"' in page
    assert "fettle.css" in page


@pytest.mark.django_db
def test_a_failure_of_the_server_is_said_within_the_design(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even with no context at all the page has its navigation, and tells nothing of the error."""

    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("fleet.dashboard.views.overview.spread", fail)
    viewer.raise_request_exception = False
    answer = viewer.get("/")
    page = answer.content.decode()

    assert answer.status_code == 500
    assert "Something went wrong here" in page
    assert 'href="/findings/"' in page
    assert "secret detail" not in page


@pytest.mark.django_db
def test_refusals_are_said_within_the_design(viewer: Client) -> None:
    """A missing permission and a stale form each have a page of ours."""
    strict = Client(enforce_csrf_checks=True)

    denied = viewer.post("/findings/1/decide/", {"before": "proposed", "after": "accepted"})
    forged = strict.post("/login/", {"username": "x", "password": "y"})

    assert (denied.status_code, forged.status_code) == (403, 403)
    assert "You may not do this" in denied.content.decode()
    assert "The form was too old" in forged.content.decode()


def test_the_icon_is_found_where_programs_look_for_it(client: Client) -> None:
    """Without a login, and without a 404 in each log."""
    answer = client.get("/favicon.ico")

    assert answer.status_code == 302
    assert answer["Location"].endswith(".svg")


@pytest.mark.django_db
def test_the_footer_leads_to_the_api_and_staff_to_the_administration(viewer: Client, client: Client) -> None:
    """Who is not logged in is told neither, nor of dashes that the login page has not."""
    stranger, person = client.get("/login/").content.decode(), viewer.get("/").content.decode()
    User.objects.update(is_staff=True)

    assert "hover" not in stranger
    assert "/api/v1/docs/" not in stranger
    assert "/api/v1/docs/" in person
    assert 'href="/admin/"' not in person
    assert 'href="/admin/"' in viewer.get("/").content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/v1/", "/api/v1/nothing/", "/api/v1/gpus/1/nothing/"])
def test_unknown_paths_of_the_api_answer_in_json(viewer: Client, client: Client, path: str) -> None:
    """A program must not meet a page; who is unknown learns nothing."""
    found, unknown, posted = viewer.get(path), Client().get(path), viewer.post(path)

    assert (found.status_code, posted.status_code) == (404, 404)
    assert unknown.status_code in (401, 403)
    assert {answer["Content-Type"] for answer in (found, unknown)} <= {"application/json", "application/problem+json"}
    assert viewer.get("/api/v1/nodes")["Location"] == "/api/v1/nodes/"


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

    assert ("plotly" in source) == ("data-chart" in source or "data-family-chart" in source)
