"""Names that machines chose neither call people, nor draw, nor break a message."""

import pytest
from apprise import NotifyFormat  # noqa: TID251 - what a target makes of a message is what this is about
from apprise.conversion import convert_between  # noqa: TID251
from hypothesis import given
from hypothesis import strategies as st

from fleet.notify.plain import INDENT, code, markdown, named

GAP = "\u200b"


@pytest.mark.parametrize(
    "name",
    ["@everyone", "@here", "a@room", "<@123>", "<!channel>", "<#C1>", "[bank](http://evil)", "http://evil", "https://evil/x"],
)
def test_a_name_that_calls_or_links_is_broken_where_nobody_sees_it(name: str) -> None:
    """It reads as before, and is not the token that chats look for."""
    said = named(name)

    assert said.replace(GAP, "") == name
    assert name not in said
    assert "](" not in said


@pytest.mark.parametrize("name", ["n1", "gpu-node_07.rack-3", "n1/alice/python", "train*2 [x] `y` #1 a:b", "节点 1"])
def test_an_ordinary_name_stays_as_it_is(name: str) -> None:
    """What an operator copies from a chat is the name."""
    assert named(name) == name


def test_a_name_stays_on_its_line_and_keeps_its_direction() -> None:
    """Line ends become spaces; marks that turn the writing around are left out; what is endless is cut."""
    assert named("a\r\nChange:\u2028x\x00\tb") == "a Change: x b"
    assert named("a\u202eb\u2066c") == "abc"
    assert named("x" * 1000) == "x" * 400 + "…"
    assert named("    rm -rf /") == "rm -rf /"


def test_a_command_is_kept_to_the_letter_but_for_calls_to_everybody() -> None:
    """A decorator is code; `@everyone` in a quoted name is not."""
    text = "+@torch.compile\n\n+    x = __y__ * 2\n"

    assert code(text) == ["+@torch.compile", "", "+    x = __y__ * 2"]
    assert code("kill '@everyone' '<@12>'\x1b[2J") == [f"kill '@{GAP}everyone' '<{GAP}@12>' [2J"]


def test_markdown_draws_only_the_title_the_code_and_the_link() -> None:
    """Names keep their stars; a fence is longer than any in the code; an underscore within a word needs nothing."""
    body = f"Node: n_1 *b* _i_ <b>\n\nChange:\n{INDENT}echo ```x```\n{INDENT}\n{INDENT}a_b\n\nhttps://fettle.example.org/findings/1_2_3/"

    assert markdown("[critical] a *b*", body).split("\n") == [
        r"**\[critical\] a \*b\***",
        "",
        r"Node: n_1 \*b\* \_i\_ \<b\>  ",
        "",
        "Change:  ",
        "````",
        "echo ```x```",
        "",
        "a_b",
        "````",
        "",
        "<https://fettle.example.org/findings/1_2_3/>",
    ]


@given(st.text(alphabet="ablt; *_`[]()<>~#|\\!-+=1.&{}\"'", min_size=1, max_size=30).filter(str.strip))
def test_no_name_draws_in_markdown(name: str) -> None:
    """Whatever it is called, what a reader of Markdown sees beside the label is the name."""
    said = named(name)
    html = convert_between(NotifyFormat.MARKDOWN, NotifyFormat.HTML, markdown("", f"Node: {said}"))  # type: ignore[no-untyped-call]

    assert html.count("<") == 2, html  # a paragraph's
    shown = html.removeprefix("<p>").rstrip().removesuffix("</p>").rstrip()
    for entity, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&amp;", "&")):
        shown = shown.replace(entity, sign)
    assert shown == f"Node: {said}"
