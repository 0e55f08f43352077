"""A real server, a real agent that plays recordings, the real advisor, and Debian's Chromium in front of them."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.serving import ROOT, Server, eventually, serve

RECORDINGS = ("idle_context", "bf16_train")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
NAME, PASSWORD = "ada", "a long enough secret"


@dataclass
class Site:
    """The running fleet: its server, its agent's process where it has one, and how to let the advisor look once more."""

    server: Server
    agent: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """Where the pages are."""
        return f"http://127.0.0.1:{self.server.port}"

    def run(self, code: str) -> None:
        """Run Python with Django set up on this site."""
        code = "import django; django.setup()\n" + code
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=self.server.env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def judge(self) -> None:
        """One judgement of the fleet, as Celery's task makes it."""
        self.run("from fleet.findings.tasks import advise; advise()")


@contextmanager
def agent(server: Server, data: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """`fettle agent --replay` with two GPUs a node, ended with the test."""
    nodes = ["replay-" + name.replace("_", "-") for name in RECORDINGS]
    tokens = data / "tokens.json"
    tokens.write_text(json.dumps({node: server.token(node) for node in nodes}))
    tokens.chmod(0o600)
    command = [sys.executable, "-m", "cli", "agent", "--gpus", "2", "--server", server.agents, "--tokens", str(tokens)]
    command += [
        "--spool",
        str(data / "spool"),
        "--replay",
        *(str(ROOT / "recordings" / f"{name}.jsonl.gz") for name in RECORDINGS),
    ]
    with (data / "agent.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(20)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two nodes that play recordings, a person who may do everything, and at least one open finding."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    directory = tmp_path_factory.mktemp("browser")
    windows = {"FETTLE_ADVISOR_WINDOW_S": "20", "FETTLE_ADVISOR_PATIENCE_S": "2"}
    with serve(directory / "data", windows) as server, agent(server, directory) as process:
        site = Site(server, process)
        site.run(
            "from django.contrib.auth import get_user_model\n"
            f"get_user_model().objects.create_superuser({NAME!r}, password={PASSWORD!r})"
        )

        def firing() -> bool:
            time.sleep(2)  # a look is a process of its own and takes as long; more often it would only keep the agent waiting
            site.judge()
            return bool(server.rows("SELECT id FROM findings_finding WHERE condition = 'firing'"))

        assert eventually(firing, 90), (directory / "agent.log").read_text()
        yield site


@pytest.fixture(scope="module")
def browser(site: Site) -> Iterator[Browser]:
    """Chromium, one for the module: Playwright's loop must not outlive it."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield running
        running.close()


@dataclass
class Watched:
    """A page, and what no page may do."""

    page: Page
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)


@pytest.fixture
def context(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """A browser profile of the test's own, in English, light."""
    made = browser.new_context(base_url=site.url, locale="en-US", color_scheme="light", viewport={"width": 1440, "height": 900})
    made.set_default_timeout(15_000)
    yield made
    made.close()


@pytest.fixture
def watched(context: BrowserContext, site: Site) -> Iterator[Watched]:
    """A page that fails its test at the end when it wrote an error to the console or asked another host for anything."""
    watched = Watched(context.new_page())
    page = watched.page
    page.on("console", lambda message: watched.errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: watched.errors.append(str(error)))
    own = (site.url + "/", site.url.replace("http", "ws") + "/", "data:", "blob:")
    page.on("request", lambda request: None if request.url.startswith(own) else watched.strangers.append(request.url))
    page.on("websocket", lambda socket: None if socket.url.startswith(own) else watched.strangers.append(socket.url))
    yield watched

    assert watched.errors == []
    assert watched.strangers == []


@pytest.fixture
def page(watched: Watched) -> Page:
    """The watched page, logged in by the form."""
    watched.page.goto("/")
    watched.page.fill("#id_username", NAME)
    watched.page.fill("#id_password", PASSWORD)
    watched.page.click("form.login button")
    watched.page.wait_for_selector("h1")
    return watched.page
