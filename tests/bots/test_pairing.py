"""Codes for strangers: how many, how long, and for whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from modules.bots.connector import Incoming
from modules.bots.pairing import Pairing
from modules.bots.store import Store
from parachuted.errors import NotFoundError

MINUTE = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def message(sender: str) -> Incoming:
    return Incoming(
        update_id="1", kind="message", chat_id="c", chat_type="dm", sender_id=sender, text="Hello"
    )


@pytest.fixture
def store(tmp_path: Path):
    store = Store(tmp_path / "bots.db")
    yield store
    store.close()


async def test_three_unanswered_codes_are_followed_by_an_hour_of_silence(store: Store):
    clock = Clock()
    pairing = Pairing(store, clock)
    codes = []
    for _ in range(3):
        codes.append(await pairing.code_for("matrix", message("eve")))
        assert await pairing.code_for("matrix", message("eve")) is None  # that one is still good
        clock.now += 11 * MINUTE
    assert all(code and len(code) == 6 and code.isalpha() for code in codes)
    assert len(set(codes)) == 3
    assert await pairing.code_for("matrix", message("eve")) is None
    assert await pairing.code_for("matrix", message("ana")) is not None
    clock.now += 61 * MINUTE
    assert await pairing.code_for("matrix", message("eve")) is not None


async def test_a_code_that_was_denied_was_one_of_three(store: Store):
    clock = Clock()
    pairing = Pairing(store, clock)
    for _ in range(3):
        assert await pairing.deny(str(await pairing.code_for("matrix", message("eve"))))
        assert await pairing.pending() == []
    assert await pairing.code_for("matrix", message("eve")) is None
    clock.now += 51 * MINUTE
    assert await pairing.code_for("matrix", message("eve")) is not None


@pytest.mark.parametrize("passed", [10 * MINUTE, -10 * MINUTE])  # the clock may be set back
async def test_a_code_is_good_for_ten_minutes_and_once(store: Store, passed: float):
    clock = Clock()
    pairing = Pairing(store, clock)
    code = str(await pairing.code_for("matrix", message("ana")))
    assert (await pairing.take(code.lower())).sender_id == "ana"
    with pytest.raises(NotFoundError, match="ten minutes"):
        await pairing.take(code)
    code = str(await pairing.code_for("matrix", message("ana")))
    clock.now += passed
    assert await pairing.pending() == []
    with pytest.raises(NotFoundError, match="ten minutes"):
        await pairing.take(code)
    assert await pairing.code_for("matrix", message("ana"))


async def test_the_list_of_strangers_is_bounded(store: Store):
    pairing = Pairing(store, Clock())
    codes = [await pairing.code_for("matrix", message(f"s{number}")) for number in range(80)]
    assert len([code for code in codes if code]) == len(await store.pairings()) == 50
