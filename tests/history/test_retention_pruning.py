"""Pruning in the background: soon after the start, daily, ended at once, and its failures told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from parachuted.errors import StorageFailedError
from parachuted.history import HistorySize, Retention, RetentionLimits
from parachuted.history.retention import HistoryPruning, KeptTexts, Pruned
from parachuted.vault import IndexEntry, VaultIndex

NOTHING = Pruned(writes=0, runs=0, texts=0, text_bytes=0, over_bytes=0)
SIZE = HistorySize(texts=1, text_bytes=2, seen_bytes=3, record_bytes=4, writes=5, since=None)


class Counting(Retention):
    """A retention that counts, does what it is told, and drops nothing."""

    def __init__(self, does: Callable[[Counting], Pruned] = lambda _self: NOTHING) -> None:
        self.keep, self.passes, self.does = RetentionLimits(), [], does
        self.stopped = threading.Event()

    def prune(self, wanted: Iterable[str]) -> Pruned:
        self.passes.append(set(wanted))
        return self.does(self)

    def stop(self) -> None:
        self.stopped.set()

    def size(self) -> HistorySize:
        return SIZE


def pruning(
    retention: Retention, reported: dict[str, str | None], now: list[datetime] | None = None
) -> HistoryPruning:
    async def wanted() -> set[str]:
        return {"a"}

    moments = now or [datetime(2026, 1, 5, tzinfo=UTC)]
    return HistoryPruning(
        retention, wanted=wanted, clock=lambda: moments[0], report=reported.__setitem__, soon_s=0
    )


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


async def test_it_is_done_soon_after_the_start_and_then_daily_by_the_clock(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("parachuted.history.retention._LOOK_EVERY_S", 0.001)
    retention, now = Counting(), [datetime(2026, 1, 5, tzinfo=UTC)]
    async with asyncio.TaskGroup() as group:
        running = group.create_task(pruning(retention, {}, now).run(), name="pruning")
        await until(lambda: retention.passes)
        now[0] += timedelta(hours=23)
        await asyncio.sleep(0.01)
        assert retention.passes == [{"a"}]
        now[0] += timedelta(hours=1)
        await until(lambda: len(retention.passes) == 2)
        running.cancel()


async def test_a_pass_that_dropped_nothing_is_not_worth_a_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level("INFO")
    await pruning(Counting(), {}).prune()
    assert not caplog.records

    await pruning(Counting(lambda _self: replace(NOTHING, texts=1)), {}).prune()
    assert [record.getMessage() for record in caplog.records] == ["the history was pruned"]


async def test_who_ends_it_waits_for_the_pass_which_is_reported_to_end():
    began = threading.Event()

    def slow(retention: Counting) -> Pruned:
        began.set()
        assert retention.stopped.wait(60)
        return NOTHING

    async with asyncio.TaskGroup() as group:
        running = group.create_task(pruning(Counting(slow), {}).run(), name="pruning")
        await until(began.is_set)
        running.cancel()
    assert running.cancelled()


@pytest.mark.parametrize(
    "error", [StorageFailedError("the disk is full"), OSError("the disk is full")]
)
async def test_a_disk_that_refuses_is_reported_until_it_does_not(error: Exception):
    reported: dict[str, str | None] = {}
    errors = [error]

    def refuse(_retention: Counting) -> Pruned:
        if errors:
            raise errors.pop()
        return NOTHING

    one = pruning(Counting(refuse), reported)
    assert await one.prune() is None
    assert "the disk is full" in str(reported["history size"])
    assert await one.prune() == NOTHING
    assert reported["history size"] is None


async def test_the_size_that_was_measured_last_is_known():
    one = pruning(Counting(), {})
    assert one.known is None
    await one.prune()
    assert one.known == await one.size() == SIZE


async def test_the_texts_of_the_vault_of_reviews_and_suggestions_are_needed():
    index, kept = VaultIndex(), []
    for path, digest in (("Folder/a.md", "a"), ("b.bin", None)):
        index.set(path, IndexEntry(mtime_ns=1, ctime_ns=1, size=1, inode=1, digest=digest))
    texts = KeptTexts(
        index=index,
        reviews=SimpleNamespace(digests=lambda: {"reviewed"}),
        suggestions=SimpleNamespace(bases=lambda: {"suggested"}),
        objects=SimpleNamespace(forget_seen=kept.append),
    )
    texts.forget_unneeded()

    assert await texts.needed() == {"a", "reviewed", "suggested"}
    assert kept == [{"a", "reviewed"}]
