"""A planner's page in a real browser: a slider moves the result, the plot and the address, without an error in the console."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import CHROMIUM, NAME, PASSWORD, Site
from tests.serving import serve


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server and a person, no agent: a planner needs no fleet."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with serve(tmp_path_factory.mktemp("planner") / "data", {}) as server:
        site = Site(server)
        site.run(
            "from django.contrib.auth import get_user_model\n"
            f"get_user_model().objects.create_superuser({NAME!r}, password={PASSWORD!r})"
        )
        yield site


def answer(page: Page, label: str) -> str:
    """A figure of the strip above the form."""
    return str(page.locator("#answers div", has_text=label).locator("dd").text_content())


@pytest.mark.parametrize("width", [390, 1440])
def test_a_slider_moves_the_result_the_plot_and_the_address(page: Page, width: int) -> None:
    """By keyboard as well; what the address then says is the same page."""
    page.set_viewport_size({"width": width, "height": 844})
    page.goto("/planners/checkpoint-interval/")
    expect(page.locator("#plot .main-svg").first).to_be_visible()
    expect(page.locator("#answers")).to_contain_text("77.06 min")
    field, slider = page.get_by_role("textbox", name="GPUs of the job"), page.get_by_role("slider", name="GPUs of the job")
    assert slider.evaluate("(slider) => slider.value / 1000") == pytest.approx(2 / 3, abs=0.01)  # 1,024 of 1 to 32,768, in ratios

    slider.focus()
    slider.press("End")

    expect(field).to_have_value("32768")
    expect(page).to_have_url(re.compile(r"/planners/checkpoint-interval/\?.*gpus=32768"))
    expect(page.locator("#answers")).not_to_contain_text("77.06 min")
    moved = answer(page, "Interval by Young")
    assert float(page.locator("#plot").evaluate("(plot) => plot.data.at(-1).x[0]")) < 1000  # the mark went with it
    assert slider.evaluate("(slider) => slider === document.activeElement")  # and nothing took the slider away meanwhile
    page.goto(page.url)
    assert answer(page, "Interval by Young") == moved
    expect(field).to_have_value("32768")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_what_cannot_be_is_said_beside_the_field_and_goes_when_it_is_mended(page: Page) -> None:
    """Other fields keep what was typed."""
    page.goto("/planners/training-memory/")
    field = page.get_by_role("textbox", name="Tokens in a sequence")
    field.fill("8192.5")

    expect(page.locator("#problem-sequence")).to_have_text("sequence must be a whole number, not 8192.5.")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#drawn")).to_be_hidden()
    expect(page.get_by_role("textbox", name="Hidden size")).to_have_value("4096")
    field.fill("16384")
    expect(page.locator("#problem-sequence")).to_have_text("")
    expect(page.locator("#plot .main-svg").first).to_be_visible()
    expect(page.get_by_text("It does not fit with a margin")).to_be_visible()


def test_a_card_fills_the_empty_fields_and_their_sliders(page: Page) -> None:
    """What it tells stands there in grey; what is typed wins, until it is taken away."""
    page.goto("/planners/roofline/")
    bandwidth = page.get_by_role("textbox", name="Memory bandwidth of a GPU")
    expect(bandwidth).to_have_attribute("placeholder", "3.35 TB/s")
    page.get_by_label("A GPU of the card table").select_option("L4")

    expect(bandwidth).to_have_attribute("placeholder", "300 GB/s")
    low = int(page.get_by_role("slider", name="Memory bandwidth of a GPU").input_value())
    bandwidth.fill("8TB/s")
    expect(page).to_have_url(re.compile(r"bandwidth_bytes_per_s=8TB%2Fs"))
    assert int(page.get_by_role("slider", name="Memory bandwidth of a GPU").input_value()) > low


def test_the_page_works_without_a_script(page: Page, site: Site) -> None:
    """The form is sent by its button, and its address is as good a link."""
    bare = page.context.browser.new_context(base_url=site.url, java_script_enabled=False, locale="en-US")  # type: ignore[union-attr]
    bare.add_cookies(page.context.cookies())  # type: ignore[arg-type] # the library's own two types of a cookie
    plain = bare.new_page()
    plain.goto("/planners/checkpoint-interval/")
    plain.get_by_role("textbox", name="GPUs of the job").fill("64")
    plain.get_by_role("button", name="Plan").click()

    assert "gpus=64" in plain.url
    expect(plain.locator("#answers")).to_contain_text("5.138 h")
    bare.close()
