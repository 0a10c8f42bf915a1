"""The seal: made by a key that only its owner can read, and broken by any other word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parachuted.errors import StorageFailedError
from parachuted.suggestions.store import KEY_FILE, Sealer
from tests.suggestions.sample_suggestions import suggestion


def test_it_holds_for_what_was_sealed_and_for_the_next_life_with_the_same_key(home):
    made = suggestion()
    seal = Sealer(home).seal(made, "shown")
    assert Sealer(home).holds(seal, made, "shown")
    assert (home / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert len((home / KEY_FILE).read_text()) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"id": "s0000000002"},
        {"path": "b.md"},
        {"action": "delete"},
        {"payload": {"text": "y"}},
        {"reasoning": "x"},
        {"base": "0"},
        {"source_agent": "x"},
        {"status": "approved"},
        {"run": "r-2"},
        {"causes": ()},
        {"origin": "you"},
        {"modifications": {}},
        {"target_id": "x"},
        {"source_session": "x"},
        {"target_module": "x"},
        {"applied_run": "x"},
        {"outcome": "x"},
        {"resolved_by": "x"},
    ],
)
def test_it_breaks_with_any_field(home, change):
    sealer, made = Sealer(home), suggestion()
    assert not sealer.holds(sealer.seal(made, "shown"), replace(made, **change), "shown")


def test_it_breaks_with_what_is_shown_and_with_another_key(home):
    sealer, made = Sealer(home), suggestion()
    seal = sealer.seal(made, "shown")
    assert not sealer.holds(seal, made, "shown otherwise")
    assert not sealer.holds("", made, "shown")
    assert not sealer.holds("é" * 64, made, "shown")
    (home / KEY_FILE).unlink()
    assert not Sealer(home).holds(seal, made, "shown")


def test_a_key_that_others_could_read_or_that_is_none_seals_nothing(home):
    Sealer(home).seal(suggestion(), "")
    (home / KEY_FILE).chmod(0o644)
    with pytest.raises(StorageFailedError, match="chmod 600"):
        Sealer(home).seal(suggestion(), "")
    for text in ("", "zz", "00"):
        (home / KEY_FILE).write_text(text)
        (home / KEY_FILE).chmod(0o600)
        with pytest.raises(StorageFailedError, match="holds no key"):
            Sealer(home).seal(suggestion(), "")
