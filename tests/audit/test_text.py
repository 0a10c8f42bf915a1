from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.audit.chain import SECRET, clean

SECRETS = [
    "para_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z",
    "sk-ant-api03-AbCdEfGhIjKlMnOp_qrstuv-AA",
    "sk-proj-abcdefghijkl1234",
    "Bearer abcdef123456",
    "bearer%20abcdef123456",
    "Authorization: canary-value",
    "X-API-Key=canary",
    "api_key: 'canary'",
    "token=canary-123",
    '"password": "canary"',
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_abcdefghijklmnopqrstuvwxyz",
    "xoxb-1234567890-abcdef",
    "AKIAABCDEFGHIJKLMNOP",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "123456789:AAabcdefghijklmnopqrstuvwxyz012345",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "Basic dXNlcjpwYXNzd29yZA==",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIcanary",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_is_reported(secret):
    reported = clean(f"Notes/{secret}", 300)

    assert SECRET in reported
    assert "canary" not in reported
    assert secret.split()[-1].strip("'\"") not in reported


@pytest.mark.parametrize("secret", SECRETS[:3])
@pytest.mark.parametrize("place", [150, 180, 199, 200, 1190, 1210, 1400, 1700])
def test_no_part_of_a_secret_is_reported_wherever_the_text_is_cut(secret, place):
    for text in (f"{'a ' * (place // 2)}{secret}", f"{secret} " * 60 + " " * place + secret):
        reported = clean(text + "b" * 5000, 200)

        assert len(reported) <= 200
        assert secret[:12] not in reported
        assert secret[5:17] not in reported


def test_a_text_that_is_mostly_secrets_shows_no_begin_of_the_next_one():
    assert "para_" not in clean(f"Bearer {'a' * 596} " * 2 + SECRETS[0] * 100, 200)


@pytest.mark.parametrize(
    "plain",
    [
        "GET /api/health",
        "Projects/garden/AGENTS.md",
        "para:daily:x7y8z9abcdef",
        "Areas/bearer of news.md",
        "日記/今日.md",
        "café",
        "Basic rules.md",
        "c" * 64,
    ],
)
def test_what_is_not_a_secret_is_reported_as_it_is(plain):
    assert clean(plain, 300) == plain


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("a\r\nb", "a\\x0d\\x0ab"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\0", "\\x00"),
        ("\x85", "\\x85"),
        ("a\udcff", "a\\xff"),
        ("\ud800", "\\ud800"),
        ("\u202egnp", "\\u202egnp"),
        ("\U000e0041", "\\U000e0041"),
        ("\ufeffa", "\\ufeffa"),
    ],
)
def test_what_cannot_be_seen_is_reported_as_an_escape(text, reported):
    assert clean(text, 100) == reported


@given(st.text(st.characters(), max_size=3000), st.integers(1, 600))
def test_whatever_comes_is_bounded_one_line_and_utf8(text, most):
    reported = clean(text, most)

    assert len(reported) <= most
    assert len(reported.splitlines()) <= 1
    reported.encode()
    assert clean(reported, most) == reported or SECRET in reported


def test_ten_million_characters_take_no_time_and_no_room():
    assert len(clean("x" * 10_000_000, 200)) == 200
    assert clean("b" * 10_000_000, 5) == "bbbb…"
