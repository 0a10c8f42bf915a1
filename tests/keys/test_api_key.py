from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from parachuted.keys import ApiKey, KeyScope, PathGlob, key_document
from parachuted.keys.api_key import hash_of, parse_key, time_text

HASH = hash_of("para_x")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAILY = {"module": "daily", "capabilities": ["read"]}
ENTRY = {
    "id": "k_1",
    "key_hash": HASH,
    "name": "phone",
    "created": "2026-01-01T00:00:00Z",
    "last_used": None,
    "expires": "2026-03-01T12:00:00Z",
    "scopes": [{"module": "daily", "capabilities": ["read", "write"], "paths": ["Daily/**"]}],
}


def test_an_entry_is_a_key_and_a_key_an_entry():
    key = parse_key(ENTRY)

    assert (key.id, key.name, key.last_used) == ("k_1", "phone", None)
    assert key.scopes == (
        KeyScope(
            module="daily", capabilities=frozenset({"read", "write"}), paths=(PathGlob("Daily/**"),)
        ),
    )
    assert key_document(key) == ENTRY
    assert HASH.startswith("sha256:")
    assert len(HASH) == 71


def test_an_entry_as_the_specification_has_it_needs_no_more():
    key = parse_key(
        {"key_hash": HASH, "name": "iPhone", "scopes": [{"module": "*", "capabilities": ["admin"]}]}
    )

    assert key.id == f"k_{HASH[7:19]}"
    assert (key.created, key.expires, key.scopes[0].paths) == (None, None, None)


def test_a_key_is_over_at_its_end_and_not_before():
    key = parse_key(ENTRY)

    assert [key.is_over(NOW + timedelta(seconds=by)) for by in (-1, 0, 1)] == [False, True, True]
    assert not parse_key({**ENTRY, "expires": "9999-12-31T23:59:59Z"}).is_over(NOW)
    assert parse_key({**ENTRY, "expires": "2026-03-01"}).expires == NOW.replace(hour=0)
    assert parse_key({**ENTRY, "expires": "2026-03-01T12:00:00+02:00"}).expires == NOW - timedelta(
        hours=2
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"key_hash": None}, "key_hash"),
        ({"key_hash": "sha256:abc"}, "key_hash"),
        ({"key_hash": HASH.upper()}, "key_hash"),
        ({"scopes": None}, "scopes: Field required"),
        ({"scopes": "daily"}, "scopes: Input should be a list"),
        ({"scopes": ["daily"]}, "scopes.0: Input should be a dictionary"),
        ({"scopes": [DAILY | {"but_not": ["x"]}]}, "scopes.0.but_not: Unknown field"),
        ({"scopes": [DAILY | {"capabilities": ["wrote"]}]}, "capabilities.0: .* 'read', 'write'"),
        ({"scopes": [DAILY | {"capabilities": ["read", "wrote"]}]}, "capabilities.1: "),
        ({"scopes": [DAILY | {"capabilities": []}]}, "capabilities: .* at least 1 item"),
        ({"scopes": [DAILY | {"capabilities": "read"}]}, "capabilities: Input should be a list"),
        ({"scopes": [DAILY | {"module": "Daily!"}]}, "module: should be the name"),
        ({"scopes": [{"capabilities": ["read"]}]}, "module: Field required"),
        ({"scopes": [DAILY | {"paths": None}]}, "paths says nothing"),
        ({"scopes": [DAILY | {"paths": "Daily/**"}]}, "paths: Input should be a list"),
        ({"scopes": [DAILY | {"paths": ["../x"]}]}, "not a pattern"),
        ({"expires": None}, "expires says nothing"),
        ({"expires": "soon"}, "expires: should be a time"),
        ({"created": ["x"]}, "created: should be a time"),
        ({"name": "x" * 101}, "name: .* at most 100"),
        ({"name": "a\nb"}, "name: should be one line"),
        ({"expiry": "2026-01-01"}, "expiry: Unknown field"),
    ],
)
def test_what_is_not_understood_wholly_is_refused_with_the_reason(change, why):
    with pytest.raises(ValueError, match=why):
        parse_key({**ENTRY, **change})


def test_it_says_who_asks():
    identity = ApiKey(id="k", key_hash=HASH, name="n", scopes=()).identity()

    assert (identity.kind, identity.id, identity.name) == ("key", "k", "n")
    assert time_text(None) is None
