from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from parachuted.keys import USUAL, mint, parse_end, parse_words
from parachuted.keys.api_key import hash_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_key_is_para_and_thirty_two_letters_or_digits_never_the_same():
    made = [mint("phone", USUAL, now=NOW) for _ in range(50)]

    assert all(re.fullmatch(r"para_[A-Za-z0-9]{32}", one.secret) for one in made)
    assert len({one.secret for one in made}) == len({one.key.id for one in made}) == 50
    assert made[0].key.key_hash == hash_of(made[0].secret)
    assert made[0].secret not in repr(made[0].key)


@pytest.mark.parametrize("name", ["", " a", "a\nb", "x" * 101, "\x1b[31m", "a\u202eb", "\udcff"])
def test_a_name_is_one_line_that_can_be_shown(name):
    with pytest.raises(ValueError, match="name of a key"):
        mint(name, USUAL, now=NOW)


def test_nobody_is_no_name_for_a_key():
    with pytest.raises(ValueError, match="no key can be called nobody"):
        mint("nobody", USUAL, now=NOW)


def test_a_key_does_not_end_before_it_begins():
    with pytest.raises(ValueError, match="over before"):
        mint("a", USUAL, now=NOW, expires=NOW)


@pytest.mark.parametrize(
    ("words", "after"),
    [
        ("90d", timedelta(days=90)),
        ("12h", timedelta(hours=12)),
        ("2w", timedelta(weeks=2)),
        ("1y", timedelta(days=365)),
        ("2026-03-02T12:00:00Z", timedelta(days=1)),
    ],
)
def test_an_end_may_be_a_span_or_a_time(words, after):
    assert parse_end(words, NOW) == NOW + after


@pytest.mark.parametrize(
    "words", ["", "d", "0d", "-1d", "1.5d", "90", "soon", "999999y", "99999y", "90 d", "٣d"]
)
def test_an_end_is_nothing_else(words):
    with pytest.raises(ValueError, match="should be a span"):
        parse_end(words, NOW)


def test_words_are_a_scope():
    scope = parse_words("daily:read, write", ["Daily/**"])

    assert (scope.module, scope.capabilities) == ("daily", {"read", "write"})
    assert scope.paths is not None
    assert parse_words("*:read", []).paths is None


@pytest.mark.parametrize(
    "words",
    ["daily", "daily:", "daily:all", ":read", "daily:read,", "Daily:read", "daily:read:write"],
)
def test_other_words_are_none(words):
    with pytest.raises(ValueError, match="should be"):
        parse_words(words, [])
