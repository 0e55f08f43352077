"""What a finding says, stored as ids and rendered at reading time."""

import pytest
from django.utils.translation import override
from hypothesis import given
from hypothesis import strategies as st

from fleet.findings.content import as_content, render, sentence
from fleet.findings.models import Finding
from tests.fleet.rows import found


def test_it_fills_in_the_parameters() -> None:
    """Number formats stand in the text."""
    says = render(Finding(content=as_content(found())))

    assert says.summary == "At 500 W the clocks fall for 25% of the time."
    assert says.expected_gain is not None
    assert (says.expected_gain.low, says.expected_gain.basis) == (1.05, "Measured on one card.")
    assert says.evidence[0].comparison == ">="
    assert says.change[0].text == "nvidia-smi -i GPU-1 -pl 700"


@pytest.mark.parametrize(
    ("params", "reads"),
    [({}, "? of ?"), ({"share": None, "name": "x"}, "? of x"), ({"share": 0.5, "name": "{share}"}, "50% of {share}")],
)
def test_a_missing_parameter_reads_as_a_question_mark(params: dict[str, object], reads: str) -> None:
    """A page is shown whatever is stored, and a parameter is never read as a template."""
    assert sentence({"id": "{share:.0%} of {name}", "params": params}) == reads


def test_a_parameter_of_the_wrong_kind_does_not_raise() -> None:
    """The source text is shown as it is."""
    assert sentence({"id": "{share:.0%} of it", "params": {"share": "many"}}) == "{share:.0%} of it"


def test_content_from_an_older_version_is_shown_as_far_as_it_goes() -> None:
    """Missing parts are empty, the title falls back to the rule's name."""
    says = render(Finding(rule="power-cap-limited", content={}))

    assert says.title == "power-cap-limited"
    assert (says.summary, says.evidence, says.change, says.expected_gain, says.sources) == ("", (), (), None, ())


def test_it_is_rendered_in_the_language_of_the_reader() -> None:
    """What has no translation stays English."""
    with override("zh-hans"):
        assert render(Finding(content=as_content(found()))).verify == "The clocks hold."


@given(st.text(), st.dictionaries(st.text(max_size=5), st.none() | st.text() | st.integers() | st.floats()))
def test_no_stored_text_makes_it_raise(message: str, params: dict[str, object]) -> None:
    """Whatever stands in the database, a page can be drawn."""
    assert isinstance(sentence({"id": message, "params": params}), str)


def test_what_a_code_means_is_said_in_the_readers_language() -> None:
    """A meaning is a text of the catalogue; other parameters are names, and stay as they are."""
    said = {"id": "{meaning}; {name}", "params": {"meaning": "GPU has fallen off the bus", "name": "GPU has fallen off the bus"}}
    with override("zh-hans"):
        meaning, _, name = sentence(said).partition("; ")

    assert meaning != name == "GPU has fallen off the bus"
