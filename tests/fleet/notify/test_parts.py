"""A long message in parts: nothing is lost, code stays whole, each part leads to the page; what arrived is not sent again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.notify import deliver, parts
from fleet.notify.deliver import send
from fleet.notify.note import Message
from fleet.notify.plain import INDENT
from tests.fleet.notify.chats import DINGTALK, DISCORD, FEISHU, SLACK, TELEGRAM, WECOM, Chats, answer

LINK = "https://fettle.example.org/findings/1/"
KEY = "0123456789abcdef" * 2
TAIL = f"{LINK}\nDelivery {KEY}"
CODE = "\n".join(f"{INDENT}step_{number} --flag {'y' * 30}" for number in range(12))


def long(lines: int = 60, notice: str = "") -> Message:
    """A message with prose, a step to take in its middle, and prose."""
    prose = [f"Line {number}: {'x' * 60}" for number in range(lines)]
    body = "\n".join([*prose[: lines // 2], "To do:", CODE, *prose[lines // 2 :]])
    return Message(
        "[critical] It is hot", body, "failure", KEY, tail=TAIL, link=LINK, short="[critical] It is hot (n1)", notice=notice
    )


def texts(chats: Chats) -> list[str]:
    """What arrived, as the service would show it."""
    return [str(got.body) for got in chats.got if got.method == "POST"]


@given(st.text(alphabet="ab \n测", max_size=300), st.integers(min_value=1, max_value=80))
def test_nothing_is_lost_and_everything_fits(text: str, most: int) -> None:
    """Whatever the text: its letters arrive, in order, in pieces that fit."""
    pieces = parts.split(text, lambda piece: len(piece) <= most)

    assert all(len(piece) <= most for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


@given(st.lists(st.sampled_from(["word " * 3, f"{INDENT}code {'c' * 10}", f"{INDENT}x"]), max_size=30))
def test_code_that_fits_a_piece_is_never_cut(lines: list[str]) -> None:
    """Lines of code that follow each other stay together."""
    text = "\n".join(lines)
    pieces = parts.split(text, lambda piece: len(piece) <= 120)

    for block in parts._blocks(text):
        if block.startswith(INDENT) and len(block) <= 120:
            assert any(block in piece for piece in pieces)


def test_a_line_of_code_that_is_too_long_stays_code() -> None:
    """Each of its pieces is indented."""
    pieces = parts.split(f"{INDENT}{'echo ' * 40}", lambda piece: len(piece) <= 50)

    assert len(pieces) > 3
    assert all(piece.startswith(INDENT) for piece in pieces)


@pytest.mark.parametrize("url", [DISCORD, TELEGRAM, WECOM])
def test_a_long_message_comes_in_numbered_parts_that_each_lead_to_the_page(url: str, chats: Chats) -> None:
    """Within what the service takes, whatever arrives of it alone."""
    assert send(url, long()).sent
    got = texts(chats)

    assert len(got) > 1
    for number, text in enumerate(got, 1):
        assert f"({number}/{len(got)})" in text
        assert LINK in text
        assert KEY in text
    whole = "".join(got)
    assert all(f"Line {number}:" in whole for number in range(60))
    assert any(all(f"step_{number} " in text or f"step_{number}\\\\_" in text for number in range(12)) for text in got)


def test_each_part_is_within_the_limit_and_has_its_own_fences(chats: Chats) -> None:
    """Discord takes 2,000 characters; a fence that opens closes in the same part."""
    assert send(DISCORD, long(150)).sent

    for got in chats.got:
        words = got.body.get("content", "") + "".join(embed.get("description", "") for embed in got.body.get("embeds", []))
        assert len(words) <= 2000
        assert words.count("```") % 2 == 0


def test_a_service_that_counts_bytes_gets_no_more_of_them(chats: Chats) -> None:
    """WeCom takes 2,048 bytes: a third as many characters of Chinese."""
    body = "\n".join(f"第 {number} 行：功率上限拖慢了速度，请检查供电与散热" for number in range(60))

    assert send(WECOM, Message("[严重] 过热", body, "failure", KEY, tail=TAIL, link=LINK)).sent
    assert len(chats.got) > 2
    assert all(len(got.body["text"]["content"].encode()) <= 2048 for got in chats.got)
    assert all(f"第 {number} 行" in "".join(texts(chats)) for number in range(60))


@pytest.mark.parametrize(
    ("url", "refusal"),
    [
        (SLACK, answer(400, "msg_too_long")),
        (FEISHU, answer(413, "")),
        (FEISHU, answer(400, {"code": 230025, "msg": "The length of the message content reaches its limit."})),
        (DINGTALK, answer(200, {"errcode": 460101, "errmsg": "message too long"})),
        (WECOM, answer(200, {"errcode": 40058, "errmsg": "text.content exceed max length 2048"})),
        (DISCORD, answer(400, {"code": 50035, "errors": {"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH"}]}}})),
        (TELEGRAM, answer(400, {"ok": False, "error_code": 400, "description": "Bad Request: message is too long"})),
    ],
)
def test_what_is_refused_as_too_long_is_sent_in_shorter_parts(url: str, refusal: object, chats: Chats) -> None:
    """At once, in the same attempt; all of it arrives."""
    chats.plays = [refusal]  # type: ignore[list-item]
    outcome = send(url, long())

    assert outcome.sent
    got = [str(one.body) for one in chats.got if one.method == "POST"]
    assert all(any(f"Line {number}:" in text for text in got[1:]) for number in range(60))
    assert len(got[1]) < len(got[0])


def test_a_target_that_finds_everything_too_long_is_given_up(chats: Chats) -> None:
    """After a few halves; the reason is kept, and it is not tried for hours."""
    chats.plays = [answer(413, "too large")] * 50
    outcome = send(SLACK, long())

    assert (outcome.sent, outcome.failure, outcome.status) == (False, "never", 413)
    assert "too long" in outcome.error
    assert len(chats.got) < 8


def test_after_a_part_that_failed_only_what_is_missing_is_sent(chats: Chats) -> None:
    """The parts before it arrived, surely; the next attempt begins at the one that did not."""
    chats.plays = [answer(200, {"errcode": 0}), answer(200, {"errcode": 45009, "errmsg": "api freq out of limit"})]
    first = send(WECOM, long())
    before = len(chats.got)
    second = send(WECOM, long(), first.arrived)

    assert (first.sent, first.failure, first.unsure, len(first.arrived)) == (False, "limited", False, 1)
    assert second.sent
    got = texts(chats)
    assert before == 2
    assert got[1] == got[2]
    assert len(second.arrived) == len(got) - 1


def test_a_part_that_may_have_arrived_is_sent_again_and_says_so_and_others_are_not(chats: Chats) -> None:
    """The notice is no part of what tells a part from another."""
    chats.plays = [answer(200, {"id": "1"}), answer(504)]
    first = send(DISCORD, long())
    second = send(DISCORD, long(notice="This may be a repeat."), first.arrived)

    assert (first.unsure, second.sent) == (True, True)
    got = texts(chats)
    assert "This may be a repeat." not in got[1]
    assert "This may be a repeat." in got[2]
    assert "(2/" in got[2]


def test_each_part_has_a_key_of_its_own_where_a_receiver_drops_repeats(chats: Chats, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part's is the message's; the same in each attempt; and one that the URL gives stays."""
    monkeypatch.setattr(type(deliver._target("jsons://h")), "body_maxlen", 2000)
    for url in ("jsons://chat.example.org/", "jsons://chat.example.org/", "jsons://chat.example.org/?+Idempotency-Key=mine"):
        assert send(url, long()).sent
    keys = [got.headers["Idempotency-Key"] for got in chats.got]
    parts_total = len(keys) // 3

    assert keys[:parts_total] == [KEY, *(f"{KEY}-{number + 1}" for number in range(1, parts_total))]
    assert keys[parts_total:] == [*keys[:parts_total], *["mine"] * parts_total]


def test_a_target_that_takes_a_line_gets_a_line_with_the_link_and_the_key(chats: Chats, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as an SMS: what is left out is the middle."""
    target = deliver._target(DISCORD)
    monkeypatch.setattr(type(target), "body_maxlen", 160)

    assert send(DISCORD, long()).sent
    (got,) = chats.got
    assert got.body["content"] == f"[critical] It is hot (n1) {LINK} {KEY}"

    assert send(DISCORD, Message("t", "b", "info", KEY, link=LINK, short="word " * 90)).sent
    text = chats.got[1].body["content"]
    assert len(text) == 160
    assert text.endswith(f"… {LINK} {KEY}")


def test_of_several_targets_in_one_url_some_may_have_it(chats: Chats) -> None:
    """Two channels, one of which refuses: the next attempt reaches both, and says that it may be a repeat."""
    chats.plays = [answer(200, "ok"), answer(404, "channel_not_found")]
    outcome = send(f"{SLACK}/#a/#b", Message("t", "b", "info", KEY))

    assert (outcome.sent, outcome.unsure) == (False, True)
    assert [got.body["channel"] for got in chats.got] == ["#a", "#b"]


def test_when_its_time_is_over_the_rest_follows_with_the_next_attempt(chats: Chats, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's task is not held up by a message of many parts."""
    monkeypatch.setattr(deliver, "ALL_S", -1.0)
    first = send(DISCORD, long())

    assert (first.sent, first.failure, len(first.arrived), len(chats.got)) == (False, "later", 1, 1)
    assert "rest follows" in first.error
