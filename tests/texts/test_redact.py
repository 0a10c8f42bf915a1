"""No text that a person or an agent sees holds a secret."""

from __future__ import annotations

import json
import logging

import pytest

from parachuted.cli.logs import JsonLines, PlainLines
from parachuted.texts.redact import RedactedLines, Redactor, redact

KEY = "sk-ant-api03-canary-0123456789"


@pytest.mark.parametrize(
    "text",
    [
        f"invalid x-api-key {KEY}",
        f"Authorization: Bearer {KEY}",
        "authorization: Bearer eyJhbGciOi.canary.x_y-z",
        "'x-api-key': 'canary-canary'",
        '{"x-api-key": "canary-canary"}',
        '{"accessToken": "canary", "refreshToken":"canary"}',
        json.dumps({"text": '{"accessToken": "canary"}'}),
        '{"access_token": "canary"}',
        "asked http://me:canary@10.0.0.1:11434/v1",
        "para_canaryCANARY0123456789canary",
    ],
)
def test_what_has_the_shape_of_a_secret_is_not_shown(text):
    assert "canary" not in redact(text)


def test_a_known_secret_of_any_shape_is_not_shown():
    assert (
        redact("the key canary-x was refused", ["canary-x", ""]) == "the key [secret] was refused"
    )


@pytest.mark.parametrize(
    "text",
    [
        "task-0123456789abcdef ended",
        "run-2026",
        "the bearer of news",
        "authorization: none",
        "a token a day",
        "http://a.test/x@y",
    ],
)
def test_other_words_stay_as_they_are(text):
    assert redact(text) == text


@pytest.mark.parametrize("lines", [JsonLines(), PlainLines()])
def test_a_log_s_lines_hold_none_in_message_fields_or_traceback(lines):
    try:
        json.loads(KEY)
    except ValueError as raised:
        error = ValueError(f"refused {KEY}").with_traceback(raised.__traceback__)
        record = logging.LogRecord(
            "x", logging.ERROR, "f", 1, "with %s", (KEY,), (type(error), error, error.__traceback__)
        )
    record.header = f"Bearer {KEY}"
    line = RedactedLines(lines).format(record)

    assert "canary" not in line
    assert "ValueError: refused [secret]" in line


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_secret_is_covered_wherever_the_pieces_of_an_answer_part(size):
    text = (
        b"the key sk-oat-1 sk-oat-12345678 is sk-oat-12345678sk-oat-sk-oat-12345678 or not: "
        b"sk-oat-1234567"
    )
    veil = Redactor(["sk-oat-12345678", "short"])
    shown = (
        b"".join(veil.over(text[at : at + size]) for at in range(0, len(text), size)) + veil.rest()
    )
    assert shown == text.replace(b"sk-oat-12345678", b"*" * 15)
    assert Redactor([]).over(b"sk-") == b"sk-"
