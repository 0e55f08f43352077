"""The dashboard in a browser: one logs in, sees values move, opens a finding and decides about it."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from fleet.dashboard.templatetags import units
from tests.browser.conftest import NAME, Site, Watched
from tests.serving import eventually


def test_one_logs_in_and_sees_the_fleet_live(page: Page) -> None:
    """Both nodes are there, marked as recordings, and the power sum moves by itself."""
    expect(page.locator("h1")).to_have_text("Fleet")
    expect(page.locator(".banner")).to_contain_text("Recording")
    expect(page.locator("#live")).to_have_text("live")
    for name in ("replay-idle-context", "replay-bf16-train"):
        expect(page.get_by_role("link", name=name).first).to_be_visible()
    power = page.locator('[data-count="power"]')
    before = power.text_content()

    assert before not in (None, "–")
    expect(power).not_to_have_text(str(before), timeout=30_000)
    expect(page.locator('[data-count="stale"]')).to_have_text("0")


def test_the_nodes_table_says_what_the_tiles_say(page: Page) -> None:
    """The table's power moves with the frames, and its sum is that of the tile beside the word live."""
    expect(page.locator("#live")).to_have_text("live")
    cell = page.get_by_role("row", name="replay-bf16-train").locator('[data-value="power_w"]')
    before = str(cell.text_content())
    expect(cell).not_to_have_text(before, timeout=30_000)

    shown, tile = page.evaluate(  # in one turn of the page's loop, so that no frame comes between
        "[[...document.querySelectorAll('[data-value=power_w]')].map((cell) => cell.textContent),"
        " document.querySelector('[data-count=power]').textContent]"
    )
    watts = [int(str(told).replace(",", "").split()[0]) for told in (*shown, tile)]

    assert abs(sum(watts[:-1]) - watts[-1]) <= 2  # each was rounded


def test_up_and_down_step_by_the_rows_that_are_drawn(page: Page) -> None:
    """Under the first GPU lies the first one of the row below, however many GPUs a row holds."""
    expect(page.locator("#live")).to_have_text("live")  # the map is drawn
    page.set_viewport_size({"width": 390, "height": 844})
    canvas = page.locator("#map canvas")
    expect(canvas).to_have_attribute("role", "application")
    canvas.focus()
    canvas.press("ArrowRight")
    first = page.locator(".tip").text_content()
    page.set_viewport_size({"width": 120, "height": 844})  # one node below the other
    page.wait_for_timeout(300)
    canvas.press("ArrowDown")
    second = page.locator(".tip").text_content()
    canvas.press("ArrowUp")

    assert "GPU 0" in str(first)
    assert "GPU 0" in str(second)
    assert str(second).split(" · ")[0] != str(first).split(" · ")[0]
    assert str(page.locator(".tip").text_content()).split(" · ")[0] == str(first).split(" · ")[0]


def test_the_heat_map_tells_of_a_gpu_and_leads_to_it(page: Page) -> None:
    """Pointing shows its values, clicking opens its page; the keyboard does the same."""
    expect(page.locator("#live")).to_have_text("live")
    canvas = page.locator("#map canvas")
    canvas.hover(position={"x": 8, "y": 30})

    expect(page.locator(".tip")).to_contain_text("GPU 0")
    expect(page.locator(".tip")).to_contain_text("GPU utilisation")
    page.get_by_role("button", name="Temperature").click()
    expect(page.locator('[data-scale="high"]')).to_have_text("90 °C")
    canvas.focus()
    canvas.press("ArrowRight")
    canvas.press("Enter")
    page.wait_for_url("**/gpus/*/")
    expect(page.locator("h1")).to_contain_text("GPU")


def test_values_move_on_the_nodes_page(page: Page) -> None:
    """The table follows the agent, second by second."""
    page.goto("/nodes/replay-bf16-train/")
    expect(page.locator("#live")).to_have_text("live")
    cell = page.locator('#gpus tbody tr:first-child [data-metric="power_w"]')
    before = cell.text_content()

    expect(cell).not_to_have_text(str(before), timeout=30_000)
    expect(page.locator("#gpus tbody tr")).to_have_count(2)
    expect(page.get_by_role("row", name="bf16_train")).to_have_count(2)  # two processes
    assert "not recorded" not in page.content()
    expect(page.get_by_text("The recording lacks it").first).to_be_visible()


def serving(running: int) -> str:
    """Code that stores what an engine of the bf16_train node says now."""
    return f"""
import time, polars as pl
from django.utils import timezone
from fleet.inventory.models import Engine, Node
from fleet.store.series import store
node, now = Node.objects.get(name="replay-bf16-train"), timezone.now()
engine, _ = Engine.objects.update_or_create(
    node=node, name="http://127.0.0.1:8000", defaults={{"kind": "vllm", "first_seen_at": now, "last_seen_at": now}})
store().write("engine", pl.DataFrame({{"entity": [engine.pk], "ts": [int(time.time())], "requests_running": [{running}]}}))
"""


def test_an_engines_figures_follow_without_a_reload(page: Page, site: Site) -> None:
    """They move more seldom than the GPUs', and the page around them stays as it is."""
    site.run(serving(3))
    page.goto("/nodes/replay-bf16-train/")
    page.evaluate("window.sameAsBefore = true")
    cell = page.locator('#engines [data-metric="requests_running"]')
    expect(cell).to_have_text("3")
    site.run(serving(7))

    expect(cell).to_have_text("7", timeout=30_000)
    assert page.evaluate("window.sameAsBefore")
    expect(page.locator("#engines thead tr")).to_have_count(1)


def test_the_gpus_page_draws_its_charts(page: Page) -> None:
    """Five charts of the last hour, by the Plotly that is served here; absent metrics are named below them."""
    page.goto("/nodes/replay-bf16-train/")
    page.locator("#gpus tbody th a").first.click()
    page.wait_for_url("**/gpus/*/")

    expect(page.locator(".chart .main-svg").first).to_be_visible()
    expect(page.locator(".chart:has(.main-svg)")).to_have_count(5)
    expect(page.locator('[data-chart="activity"] .legendtext')).to_have_count(4)
    expect(page.locator("#missing")).to_contain_text("Memory temperature")
    page.get_by_role("button", name="10 min").click()
    expect(page.locator('[data-minutes="10"]')).to_have_attribute("aria-pressed", "true")


def test_the_keyboard_reaches_the_reason_of_an_absent_value(page: Page) -> None:
    """Coming to a dash shows why; Escape or going on puts it away. So too once a live frame wrote the dash."""
    page.goto("/nodes/replay-bf16-train/")
    expect(page.locator("#live")).to_have_text("live")
    dash = page.locator("#host .absent").first
    dash.focus()

    expect(dash).to_be_focused()
    expect(page.locator(".reason")).to_have_text(str(dash.get_attribute("title")))
    page.keyboard.press("Escape")
    expect(page.locator(".reason")).to_have_count(0)
    assert page.evaluate(
        "[...document.querySelectorAll('td.absent[title], dd.absent[title]')].every((cell) => cell.tabIndex === 0)"
    )


def test_one_opens_a_finding_copies_its_change_and_accepts_it(page: Page, site: Site) -> None:
    """From the list to the row in the history."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Findings").click()
    page.get_by_role("link", name="GPU memory is held by a process that does nothing").first.click()

    expect(page.locator("h1")).to_contain_text("GPU memory is held")
    for heading in ("The change to make", "Evidence", "History"):
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
    expect(page.locator("#evidence .main-svg").first).to_be_visible()
    page.locator("[data-copy]").first.click()
    expect(page.locator("[data-copy]").first).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator(".step code").first.text_content()

    page.fill("#note", "tonight")
    page.get_by_role("button", name="Accept").click()
    expect(page.locator(".history")).to_contain_text("proposed → accepted")
    expect(page.locator(".history")).to_contain_text(NAME)
    assert site.server.rows("SELECT id FROM findings_finding WHERE advice = 'accepted'")


def test_the_page_speaks_chinese_when_asked(page: Page) -> None:
    """The switch keeps the page; the finding's own sentences come in Chinese too."""
    page.goto("/findings/")
    page.get_by_role("button", name="简体中文").click()

    expect(page.locator("h1")).to_have_text("发现")
    assert page.url.endswith("/findings/")
    page.get_by_role("link", name="显存被空转的进程占用").first.click()
    expect(page.get_by_role("heading", name="要做的改动")).to_be_visible()


def test_light_and_dark_are_kept(page: Page) -> None:
    """The choice outlives the page."""
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("[data-theme-toggle]").click()
    page.reload()

    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert page.evaluate("localStorage.getItem('theme')") == "dark"


@pytest.mark.parametrize("width", [390, 1440])
def test_no_page_is_wider_than_the_screen(page: Page, width: int) -> None:
    """Tables scroll in their own boxes."""
    page.set_viewport_size({"width": width, "height": 844})
    page.goto("/findings/")
    finding = page.locator(".list a").first.get_attribute("href")
    for path in ("/", "/nodes/replay-idle-context/", "/gpus/1/", "/findings/", finding):
        page.goto(str(path))
        page.wait_for_timeout(700)  # charts and the map are drawn
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path


def test_live_values_are_written_as_the_pages_are(page: Page) -> None:
    """units.js and units.py agree, so that a value does not change its form with the first frame."""
    values: list[Any] = [
        None,
        0,
        0.0002,
        0.03,
        0.042,
        0.0996,
        0.5,
        0.999,
        1,
        3.25,
        9.96,
        9.994,
        42.06,
        87.4,
        99.96,
        100,
        692.3,
        692.5,
        693.5,
        0.125,
    ]
    values += [1023, 1755, 9999.6, 45_210, 999_999, 18_467_650_318, 150_754_820_096, 1.5e12, 1 << 53]
    cases = [[value, unit] for value in values for unit in (*units.BY_UNIT, "cores", "errors") if unit not in ("", "seconds")]

    told = page.evaluate(
        "async (cases) => { const { reading } = await import('/static/js/units.js');"
        " return cases.map(([value, unit]) => reading(value, unit)); }",
        cases,
    )

    assert [(case, text) for case, text in zip(cases, told, strict=True) if text != units.reading(*case)] == []


def test_the_api_page_renders_under_the_policy(page: Page) -> None:
    """Swagger's script, style and icons are our own files and no script is inline: a violation would be an error in the console."""
    page.goto("/api/v1/docs/")
    page.wait_for_selector(".opblock")

    assert page.locator(".opblock-summary-path", has_text="findings").count() >= 2


def test_a_silent_agent_turns_the_values_grey(page: Page, watched: Watched, site: Site) -> None:
    """Ten seconds after the last sample a value is greyed, after thirty it is unknown, before anybody reloads.

    The last test: it ends the agent.
    """
    agent = site.agent
    assert agent is not None
    page.goto("/nodes/replay-bf16-train/")
    row = page.locator("#gpus tbody tr").first
    expect(page.locator("#live")).to_have_text("live")
    expect(row).not_to_have_class("stale")
    agent.terminate()

    expect(row).to_have_class("stale", timeout=30_000)
    expect(page.locator("#state")).to_contain_text("reporting")
    expect(page.locator("#state > span").last).to_be_visible(timeout=40_000)
    expect(page.locator("#state > span").last).to_contain_text("unknown since")
    expect(row.locator('[data-metric="power_w"]')).to_have_text("–")
    row.locator('[data-metric="power_w"]').click()
    expect(page.locator(".reason")).to_have_text("no sample in the last 30 seconds")
    assert eventually(lambda: agent.poll() is not None, 10)
    assert json.dumps(watched.errors) == "[]"
