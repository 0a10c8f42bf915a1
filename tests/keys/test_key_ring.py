"""The keys as they are at this moment, however keys.yaml is changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from parachuted.errors import UntrustedError
from parachuted.keys import USUAL, KeyFile, KeyRing, mint
from parachuted.keys.api_key import MintedKey

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ring(home, clock) -> KeyRing:
    return KeyRing(KeyFile(home), clock)


@pytest.fixture
def made(ring) -> MintedKey:
    """A key that is in the file."""
    made = mint("phone", USUAL, now=NOW)
    ring.file.add(made.key)
    return made


def test_a_key_is_found_as_soon_as_it_is_made_and_not_once_it_is_gone(ring):
    made = mint("phone", USUAL, now=NOW)
    assert ring.find(made.secret) is None
    ring.file.add(made.key)
    assert ring.find(made.secret) == made.key
    ring.file.remove(made.key.id)
    assert ring.find(made.secret) is None


def test_only_the_whole_key_is_the_key(ring, made):
    for given in (
        made.secret[:-1],
        made.secret + "x",
        made.secret.upper(),
        made.key.key_hash,
        made.key.id,
        "",
        "x" * 10_000,
        "\udcff",
        "é",
    ):
        assert ring.find(given) is None


def test_what_another_program_changes_in_place_counts_at_once(ring, made):
    assert ring.find(made.secret)

    for _ in range(20):
        with ring.file.path.open("r+b") as file:
            text = file.read()
            file.seek(0)
            file.write(
                text.replace(b"- read", b"- reax")
                if b"- read" in text
                else text.replace(b"- reax", b"- read")
            )
        assert (ring.find(made.secret) is None) is (b"- read" in text)


def test_it_is_read_again_only_when_it_changed(ring, monkeypatch, made):
    ring.find(made.secret)
    monkeypatch.setattr("parachuted.keys.key_ring._UNSETTLED_S", -1.0)
    ring.file.path.chmod(0o600)
    ring.find(made.secret)
    opened: list[str] = []
    monkeypatch.setattr(KeyFile, "load", lambda _file: opened.append("x"))
    for _ in range(100):
        assert ring.find(made.secret)
    assert opened == []


def test_a_file_that_is_not_to_be_trusted_opens_nothing_and_says_so(ring, made):
    identity = ring.use(made.key)
    ring.file.path.chmod(0o644)
    ring.look()

    assert (ring.find(made.secret), ring.keys) == (None, ())
    assert "others may read" in (ring.problem or "")
    assert not ring.holds(identity)
    ring.file.path.chmod(0o600)
    assert ring.find(made.secret) == made.key
    assert ring.problem is None
    assert ring.holds(identity)


def test_who_was_let_in_is_let_in_until_the_key_is_over_or_says_otherwise(ring, clock):
    made = mint("phone", USUAL, now=NOW, expires=NOW + timedelta(hours=1))
    ring.file.add(made.key)
    ring.look()
    identity = ring.use(made.key)

    assert ring.holds(identity)
    clock.now = NOW + timedelta(hours=1)
    assert not ring.holds(identity)
    clock.now = NOW
    text = ring.file.path.read_text()
    ring.file.path.write_text(text.replace("    - write\n", ""))
    ring.look()
    assert ring.find(made.secret)
    assert not ring.holds(identity)


def test_the_last_use_is_kept_in_memory_and_written_when_asked(ring, clock, made):
    ring.look()
    before = ring.file.path.read_bytes()
    for second in range(100):
        clock.now = NOW + timedelta(seconds=second)
        ring.use(made.key)

    assert ring.file.path.read_bytes() == before
    assert ring.last_used(made.key) == clock.now
    ring.flush()
    assert ring.file.load().keys[0].last_used == clock.now
    ring.look()
    assert ring.last_used(ring.keys[0]) == clock.now


def test_no_use_is_written_without_need_or_lost_on_failure(ring, made):
    mark = ring.file.mark()
    ring.look()
    ring.flush()
    assert ring.file.mark() == mark
    ring.use(made.key)
    ring.file.path.chmod(0o644)
    with pytest.raises(UntrustedError):
        ring.flush()
    ring.file.path.chmod(0o600)
    ring.look()
    ring.flush()
    assert ring.file.load().keys[0].last_used == NOW


def test_it_tells_when_a_key_is_about_to_expire(ring, clock):
    made = mint("phone", USUAL, now=NOW, expires=NOW + timedelta(seconds=10))
    ring.file.add(made.key)
    ring.look()

    assert not ring.ends_within(5)
    clock.now += timedelta(seconds=6)
    assert ring.ends_within(5)
    clock.now += timedelta(seconds=6)
    assert not ring.ends_within(5)
