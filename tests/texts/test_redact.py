"""No text that a person or an agent sees holds a secret."""

from __future__ import annotations

import json
import logging

import pytest

from parachuted.cli.logs import JsonLines, PlainLines
from parachuted.texts.redact import RedactedLines, redact

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
