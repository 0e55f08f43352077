"""What chats' answers mean, by the shapes that they publish."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from fleet.notify.answers import WAIT_MOST_S, read, retry_after_s

FEISHU, DINGTALK, WECOM, SLACK = "open.feishu.cn", "oapi.dingtalk.com", "qyapi.weixin.qq.com", "hooks.slack.com"


@pytest.mark.parametrize(
    ("host", "status", "body", "verdict"),
    [
        (FEISHU, 200, '{"code":0,"msg":"success","data":{}}', "taken"),
        (FEISHU, 200, '{"StatusCode":0,"StatusMessage":"success"}', "taken"),
        (FEISHU, 200, '{"code":9499,"msg":"Bad Request","data":{}}', "never"),
        (FEISHU, 200, '{"code":19024,"msg":"Key Words Not Found"}', "never"),
        (FEISHU, 200, '{"code":11232,"msg":"frequency limited psm[lark.oapi.app_platform_runtime]"}', "limited"),
        (FEISHU, 400, '{"code":99991400,"msg":"request trigger frequency limit"}', "limited"),
        (FEISHU, 200, '{"code":1234567,"msg":"a code of next year"}', "later"),
        (DINGTALK, 200, '{"errcode":0,"errmsg":"ok"}', "taken"),
        (DINGTALK, 200, '{"errcode":130101,"errmsg":"send too fast, exceed 20 times per minute"}', "limited"),
        (DINGTALK, 200, '{"errcode":310000,"errmsg":"keywords not in content"}', "never"),
        (DINGTALK, 200, '{"errcode":300001,"errmsg":"token is not exist"}', "never"),
        (DINGTALK, 200, '{"errcode":460101,"errmsg":"message too long, exceed 20000 bytes"}', "long"),
        (DINGTALK, 200, '{"errcode":-1,"errmsg":"系统繁忙"}', "later"),
        (WECOM, 200, '{"errcode":45009,"errmsg":"api freq out of limit"}', "limited"),
        (WECOM, 200, '{"errcode":93000,"errmsg":"invalid webhook url"}', "never"),
        (WECOM, 200, '{"errcode":40058,"errmsg":"text.content exceed max length 2048"}', "long"),
        (SLACK, 200, "ok", "taken"),
        (SLACK, 200, "rate_limited", "limited"),
        (SLACK, 400, "msg_too_long", "long"),
        (SLACK, 404, "no_service", "never"),
        ("slack.com", 200, '{"ok":false,"error":"ratelimited"}', "limited"),
        ("slack.com", 200, '{"ok":false,"error":"channel_not_found"}', "never"),
        ("slack.com", 200, '{"ok":true,"channel":"C1"}', "taken"),
        ("discord.com", 400, '{"code":50035,"errors":{"content":{"_errors":[{"code":"BASE_TYPE_MAX_LENGTH"}]}}}', "long"),
        ("discord.com", 429, '{"message":"You are being rate limited.","retry_after":0.65,"global":false}', "limited"),
        ("api.telegram.org", 400, '{"ok":false,"error_code":400,"description":"Bad Request: message is too long"}', "long"),
        ("api.telegram.org", 403, '{"ok":false,"error_code":403,"description":"Forbidden: bot was kicked"}', "never"),
        ("x.webhook.office.com", 200, "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429", "limited"),
        ("chat.example.org", 413, "", "long"),
        ("chat.example.org", 400, '{"id":"api.post.create_post.too_long.app_error"}', "long"),
        ("chat.example.org", 400, "no such channel", "never"),
        ("chat.example.org", 401, "", "never"),
        ("chat.example.org", 410, "", "never"),
        ("chat.example.org", 302, "", "never"),
        ("chat.example.org", 408, "", "later"),
        ("chat.example.org", 500, "", "later"),
        ("chat.example.org", 503, "", "later"),
        ("chat.example.org", 200, '{"errcode":5,"code":7,"ok":false}', "taken"),
        ("notslack.com", 200, "rate_limited", "taken"),
    ],
)  # fmt: skip
def test_an_answer_means_what_its_service_says(host: str, status: int, body: str, verdict: str) -> None:
    """Codes in bodies count for the services whose they are, and for no others."""
    assert read(host, status, body.encode(), None).verdict == verdict


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[1]", b'"x"', b"{", b"[" * 100_000, b'{"code": true}', b'{"code": "9499"}'])
def test_no_body_is_too_strange(body: bytes) -> None:
    """What cannot be read says nothing; the status counts."""
    assert read(FEISHU, 200, body, None).verdict == "taken"
    assert read(DINGTALK, 500, body, None).verdict == "later"
    assert retry_after_s({}, body) is None


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "7"}, "", 7.0),
        ({"Retry-After": "0.5"}, "", 0.5),
        ({"Retry-After": "-3"}, "", 0.0),
        ({"Retry-After": "nan"}, "", None),
        ({"Retry-After": "soon"}, "", None),
        ({"Retry-After": "99999999"}, "", WAIT_MOST_S),
        ({}, '{"retry_after": 0.65}', 0.65),
        ({}, '{"ok": false, "parameters": {"retry_after": 31}}', 31.0),
        ({}, '{"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 2500}', 2.5),
        ({}, '{"retry_after": true}', None),
        ({}, '{"retry_after": 1e999}', None),
        ({"Retry-After": "4"}, '{"retry_after": 9}', 4.0),
        ({}, "", None),
    ],
)
def test_what_a_target_asks_us_to_wait_is_read_in_seconds(headers: dict[str, str], body: str, seconds: float | None) -> None:
    """By the header before the body, an hour at most, and never a number that is none."""
    assert retry_after_s(headers, body.encode()) == seconds


def test_a_date_is_read_as_the_seconds_until_then() -> None:
    """The other form of Retry-After."""
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=90), usegmt=True)

    assert 80 < (retry_after_s({"Retry-After": at}, b"") or 0) <= 90
    assert retry_after_s({"Retry-After": past}, b"") == 0


def test_a_limit_without_a_time_takes_that_of_the_documentation() -> None:
    """DingTalk is silent for ten minutes after twenty messages in one; a header would count before that."""
    body = b'{"errcode":130101,"errmsg":"send too fast"}'

    assert read(DINGTALK, 200, body, None).wait_s == 600
    assert read(DINGTALK, 200, body, 3.0).wait_s == 3
