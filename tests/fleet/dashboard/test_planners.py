"""The planners' pages: every one with its worked example and with others, in both languages, and with what cannot be."""

import json
import math
import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.http import Http404, HttpResponse
from django.test import Client, RequestFactory
from django.utils import translation

from advisor.planners.answer import answer, read
from advisor.planners.planner import Planner, load
from advisor.planners.plot import drawn
from fleet import planning
from fleet.accounts.models import User
from fleet.dashboard.plan_figure import MOST_BELOW, figure, numbers
from fleet.dashboard.plan_form import suffixes
from fleet.dashboard.views import planners
from tests.fleet.planner_vectors import VECTORS
from tests.fleet.rows import gpu, node

pytestmark = pytest.mark.django_db
ALL = pytest.mark.parametrize("planner", load(), ids=lambda planner: planner.name)
LANGUAGES = pytest.mark.parametrize("language", ["en", "zh-hans"])


def page(name: str, query: dict[str, Any] | None = None, language: str = "en") -> str:
    """The page's HTML."""
    asked = {key: "yes" if value is True else value for key, value in (query or {}).items()}
    request = RequestFactory().get(f"/planners/{name}/?{urlencode(asked)}")
    request.user = User(username="vera")
    with translation.override(language):
        response: HttpResponse = planners.planner(request, name)
    assert response.status_code == 200
    return response.content.decode()


def part(html: str, name: str) -> str:
    """What stands in one of the page's elements, to its own end tag at least."""
    return unescape(html.partition(f'id="{name}"')[2].partition(">")[2])


def plotted(html: str) -> dict[str, Any] | None:
    """The figure that the page's script draws."""
    found = re.search(r'<script id="figure" type="application/json">(.*?)</script>', html, re.DOTALL)
    return json.loads(found[1]) if found else None


@LANGUAGES
@ALL
def test_a_page_without_inputs_shows_the_worked_example(planner: Planner, language: str) -> None:
    """Filled in, planned, drawn, with formula, assumptions and sources, in the reader's language."""
    html = unescape(page(planner.name, language=language))

    with translation.override(language):
        said = answer(planner, read(planner, planner.example)[0])
        for text in (planner.title, planner.about, *planner.formula, *planner.assumptions):
            assert planning.told(text) in html
        for caution in said.cautions:
            assert planning.sentence(caution) in html
        for line in said.lines:
            shown = planning.reading(line)
            for text in shown if isinstance(shown, list) else [shown] if shown else []:
                assert text in html
    assert all(source in html for source in planner.sources)
    assert all(f'value="{text}"' in html for text in planner.example.values())
    assert (plotted(html) is None) == bool(planner.grid)


@LANGUAGES
@pytest.mark.parametrize(("name", "inputs", "results"), VECTORS)
def test_a_page_shows_what_its_address_says(name: str, inputs: dict[str, Any], results: dict[str, Any], language: str) -> None:
    """Every state is a link: the numbers that the planner gives for these inputs stand in the page."""
    result = part(page(name, inputs, language), "result")
    planner = planning.planners()[name]
    said = answer(planner, inputs)

    with translation.override(language):
        for line in said.lines:
            if line.name in results:
                assert str(planning.reading(line)) in result
                assert planning.told(line.label) in result


@ALL
def test_every_input_has_a_label_and_every_number_a_slider(planner: Planner) -> None:
    """A number's slider spans what the planner declares; a word's choices are all there, the card's from the card table."""
    html = page(planner.name)
    for one in planner.accepted:
        assert html.count(f'id="in-{one.name}"') == 1
        assert f'for="in-{one.name}"' in html or one.unit == "flag"
        assert (f'data-for="in-{one.name}"' in html) == (one.unit not in ("words", "flag"))
        for word in one.choices:
            assert f'<option value="{word}"' in html
    if any(one.name == "card" for one in planner.accepted):
        assert '<option value="H200 SXM"' in html


@ALL
def test_a_page_works_without_a_script_and_has_none_inline(planner: Planner) -> None:
    """A form that is sent by GET; scripts are files, data is JSON."""
    html = page(planner.name)

    assert '<form method="get" id="plan"' in html
    assert 'type="submit"' in html
    assert all('src="' in tag or 'type="application/json"' in tag for tag in re.findall(r"<script[^>]*>", html))
    assert ("plotly" in html) == bool(planner.plots)


def test_what_cannot_be_is_said_beside_its_field_and_the_rest_is_kept() -> None:
    """Nothing is planned, and what was typed stands as it was."""
    html = page("checkpoint-interval", {"gpus": "1.5", "stall_s": "sixty", "restart_s": "10min"})

    assert part(html, "problem-gpus").startswith("gpus must be a whole number, not 1.5.")
    assert part(html, "problem-stall_s").startswith("stall_s: 'sixty' is not a number, alone or with one of s, ms")
    assert part(html, "problem-restart_s").startswith("</span>")
    assert 'value="10min"' in html
    assert 'value="sixty"' in html
    assert html.count('aria-invalid="true"') == 2
    assert plotted(html) is None
    assert "it is said beside each" in part(html, "result")


def test_the_sentence_comes_in_the_readers_language() -> None:
    """And the page's own words too."""
    html = page("checkpoint-interval", {"gpus": "1.5"}, "zh-hans")

    assert part(html, "problem-gpus").startswith("gpus 必须是整数，不能是 1.5。")
    assert part(html, "problem-stall_s").startswith("checkpoint-interval 需要 stall_s：")
    assert "原因写在各项旁边" in html


@pytest.mark.parametrize(
    ("name", "query", "says"),
    [
        ("scaling", {"gpus": 8, "rate_of_one": 100}, "Scaling needs both rates"),
        ("checkpoint-interval", {"gpus": 8, "stall_s": 60, "gups": 3}, "checkpoint-interval has no gups; did you mean gpus?"),
        ("training-memory", {"parameters": "8B", "sequence": 512}, "Activations need sequence, hidden and layers together"),
    ],
)
def test_what_is_about_no_single_field_is_said_above_the_result(name: str, query: dict[str, Any], says: str) -> None:
    """As one sentence."""
    assert says in part(page(name, query), "result")


def test_what_is_typed_is_never_markup() -> None:
    """In fields, sentences, choices and the figure."""
    evil = "</script><script>alert(1)</script>"
    for query in ({"gpus": evil, "stall_s": evil}, {evil: "1"}):
        assert "<script>alert" not in page("checkpoint-interval", query)
    assert "<script>alert" not in page("compatibility", {"torch": evil, "card": evil})
    assert "<script>alert" not in page("roofline", {"weights_bytes": "1GB", "card": evil, "dtype": evil})


def test_a_card_is_chosen_by_its_drivers_name_too_and_what_it_tells_stands_in_the_empty_fields() -> None:
    """One that there is not is kept, and said to be none."""
    html = page("roofline", {"weights_bytes": "16GB", "card": "NVIDIA H200"})
    strange = page("roofline", {"weights_bytes": "16GB", "card": "H9000"})

    assert '<option value="H200 SXM" selected>' in html
    assert 'placeholder="4.8 TB/s"' in html
    assert "By the card table, H200 SXM: Memory bandwidth of a GPU 4.8 TB/s; Dense peak of a GPU 989 TFLOP/s." in html
    assert '<option value="H9000" selected>' in strange
    assert part(strange, "problem-card").startswith("There is no card 'H9000'")


def test_the_table_of_wheels_says_of_each_in_words_whether_it_runs() -> None:
    """A sign is not enough for who cannot see it; the planned one is marked."""
    html = page("compatibility", {"torch": "2.14", "driver": "535.104.05", "card": "V100 SXM2 32GB"})
    row = part(html, "result").partition('<th scope="row">2.14</th>')[2].partition("</tr>")[0]

    assert row.count('<span class="word">does not run</span>') == 2
    assert row.count('<span class="word">runs, with fewer features</span>') == 1
    assert html.count("fail here") == 1


def test_there_is_no_other_planner() -> None:
    """404."""
    request = RequestFactory().get("/planners/xyzzy/")
    request.user = User(username="vera")
    with pytest.raises(Http404):
        planners.planner(request, "xyzzy")


def test_the_list_leads_to_every_planner(viewer: Client) -> None:
    """From the navigation, with a line on each."""
    html = unescape(viewer.get("/planners/").content.decode())

    for planner in load():
        assert f'href="/planners/{planner.name}/"' in html
        assert planner.title in html
        assert planner.about in html
    assert '<a href="/planners/" aria-current="page">Planners</a>' in html
    assert viewer.get("/planners/batch/").status_code == 200
    assert viewer.post("/planners/batch/").status_code == 405


@ALL
def test_the_figure_can_be_drawn_at_the_ends_of_every_slider_and_of_what_is_taken(planner: Planner) -> None:
    """Finite numbers, places within the axis and few enough for a narrow screen, a row of numbers for each mark."""
    example = read(planner, planner.example)[0]
    for one in planner.parameters:
        for end in (*one.slider, one.low, one.high) if one.slider else ():
            try:
                said = answer(planner, {**example, one.name: int(end) if one.whole else end})
            except ValueError:  # a pair that cannot be
                continue
            plot = drawn(planner, said.taken, said.result)
            if plot is None:
                continue
            made = figure(plot)
            assert math.isfinite(sum(sum(filter(None, trace["y"])) for trace in made["data"]))
            for axis in (made["layout"]["xaxis"], made["layout"]["yaxis"]):
                low, high = (10**end for end in axis["range"]) if axis["type"] == "log" else axis["range"]
                assert low < high
                assert 1 <= len(axis["tickvals"]) <= 16, (one.name, end, axis)
                assert all(low - (high - low) / 100 <= place <= high * 1.01 for place in axis["tickvals"])
                assert len(set(axis["ticktext"])) == len(axis["ticktext"]), axis["ticktext"]
            assert len(made["layout"]["xaxis"]["tickvals"]) <= MOST_BELOW
            assert 5 <= len(numbers(plot).rows) <= 16


def test_the_script_reads_and_writes_the_units_that_the_server_reads() -> None:
    """What a slider writes behind a number is among what may stand there."""
    for unit, told in suffixes().items():
        written, sizes = told["written"], told["read"]
        assert isinstance(written, tuple)
        assert isinstance(sizes, dict)
        assert set(written) <= set(sizes), unit
        assert sorted(written, key=lambda suffix: sizes[suffix]) == list(written)


def test_the_memory_of_a_card_is_what_the_sites_own_cards_have(django_assert_num_queries: Any) -> None:
    """The least of them, as it says, beside the vendor's figure; else what drivers tell of such a card. Only who names one reads a row."""
    asked = {"parameters": "7B", "card": "H200 SXM"}
    assert "The memory is what drivers tell of such a card; the vendor's figure is 131.3 GiB." in unescape(
        page("training-memory", asked)
    )
    home = node("n1")
    for index, total in enumerate((150 << 30, 139 << 30)):
        gpu(home, index, model="NVIDIA H200", mem_total_bytes=total)
    gpu(home, 2, model="NVIDIA H200", mem_total_bytes=16 << 30, parent_uuid="GPU-0")
    gpu(home, 3, model="NVIDIA L4", mem_total_bytes=22 << 30)
    gpu(home, 4, model="NVIDIA H200", mem_total_bytes=None)
    gpu(home, 5, model="NVIDIA H200", mem_total_bytes=1 << 30, present=False)
    with django_assert_num_queries(3):  # the number of alerts, what is planned with, and what is said of it
        html = unescape(page("training-memory", asked))
    with django_assert_num_queries(2):  # the number of alerts alone, once a page
        page("training-memory", {"parameters": "7B", "memory_bytes": "80GiB"})
        page("roofline", {"weights_bytes": "16GB", "card": "H200 SXM"})

    assert "Memory of the GPU 139 GiB" in html
    assert "The memory is the least that a driver of this site tells of such a card; the vendor's figure is 131.3 GiB." in html


def test_a_card_of_which_no_driver_is_known_says_so() -> None:
    """The vendor's figure may be a few per cent too small."""
    assert "The memory is the vendor's figure" in unescape(page("training-memory", {"parameters": "7B", "card": "A40"}))


def test_a_page_says_what_was_not_counted_and_what_changes_nothing() -> None:
    """As the command line and REST do; nothing on it says that the plan fits."""
    html = unescape(page("training-memory", {"parameters": "8B", "card": "H200 SXM", "micro_batch": "4"}))

    assert "Whether it fits is unknown without what is not counted: at least 126.2 GiB is needed." in html
    assert "micro_batch changes nothing here: it counts only with sequence." in html
    assert "Activations: give sequence, hidden and layers." in html
    assert "Fits, and leaves a margin" not in html
