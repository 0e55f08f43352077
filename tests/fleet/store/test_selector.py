"""Lists of matchers: what is refused here a real Prometheus refuses, and what one takes is taken."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.store.promql import quoted
from fleet.store.selector import mistake
from tests.fleet.store.exporter import prometheus_program
from tests.fleet.store.servers import Program, running

WRONG = ("(", ")", "a)", "[a", "[]", "*a", "a|*", "(+)", "a**", "a{2}{3}", "a{3,2}", "a\\", "(a", "x(?:y")
FINE = (
    *("a|b", "a(b|)", "[]a]", "[(]", "\\(", "^*", "$*", "\\pL+", "\\p{Greek}", "\\Q(\\E", "\\z", "(?i)a", "a(?i)b", "(?P<n>a)"),
    *(
        "[[:alpha:](]",
        "[[:^digit:]]",
        "a{,5}*",
        "a*{,5}",
        "{",
        "a{",
        "\\x{10FFFF}",
        "(?U)a+",
        "(?s-i:a)",
        ".*",
        "",
        "a*?",
        "\\pN(a)",
    ),
)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One that scrapes nothing."""
    with running(prometheus_program(tmp_path_factory.mktemp("prometheus"))) as program:
        yield program


def takes(prometheus: Program, selector: str) -> bool:
    """Whether it answers a query with these matchers."""
    asked = urllib.parse.urlencode({"query": f"up{{{selector}}}"})
    try:
        with urllib.request.urlopen(f"{prometheus.url}/api/v1/query?{asked}", timeout=10) as answer:
            return bool(json.load(answer)["status"] == "success")
    except urllib.error.HTTPError as error:
        if error.code != 400:
            raise
        return False


@pytest.mark.parametrize("text", WRONG)
def test_an_expression_that_no_server_takes_is_refused(prometheus: Program, text: str) -> None:
    """Where it is one: as plain text it may be anything."""
    told = mistake(f"job=~{quoted(text)}")

    assert told is not None
    assert repr(text) in told
    assert not takes(prometheus, f"job=~{quoted(text)}")
    assert mistake(f"job={quoted(text)}") is None


@pytest.mark.parametrize("text", FINE)
def test_an_expression_that_a_server_takes_is_none_of_ours(prometheus: Program, text: str) -> None:
    """Also where Python reads another language than RE2."""
    assert takes(prometheus, f"job!~{quoted(text)}")
    assert mistake(f"job!~{quoted(text)}") is None


@settings(max_examples=150, deadline=None)
@given(text=st.text("ab(()[]{}*+?|\\^$,:-1Q&~PE<>!=", max_size=9))
def test_whatever_is_refused_prometheus_refuses(prometheus: Program, text: str) -> None:
    """Of expressions that are nearly right."""
    selector = f"job=~{quoted(text)}"

    assert mistake(selector) is None or not takes(prometheus, selector)


@pytest.mark.parametrize("selector", ["", " ", 'job="a"', 'job="a",', ' job = "a" , b!~"c.*"', 'job="a\\"b,c"', 'job=~"\\d"'])
def test_a_list_of_matchers_is_one(selector: str) -> None:
    """With blanks and a comma at its end; escapes that servers read in different ways are theirs to judge."""
    assert mistake(selector) is None


@pytest.mark.parametrize("selector", ["job", ",", 'job="a" b="c"', "job='a'", 'job="a', '{job="a"}', 'job="a"}', 'jo b="a"'])
def test_what_is_no_list_of_matchers_is_refused(selector: str) -> None:
    """With an example of one."""
    assert mistake(selector) == 'is no list of matchers; write them as job="dcgm",cluster=~"a|b"'
