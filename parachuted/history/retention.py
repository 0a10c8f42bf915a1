"""Retention: limits the history by age and size, never dropping the last copy of what may be
wanted. Rows go before the texts that only they name, so a pass that is killed loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from parachuted.bubbling import PendingChanges
from parachuted.errors import ParachuteError
from parachuted.suggestions import Suggestions
from parachuted.vault import ObjectStore, VaultIndex, WriteJournal

_MEGABYTE = 1_000_000
_FRESH = timedelta(days=1)
_NAMED_BY_NONE = timedelta(days=30)
_HORIZON = timedelta(days=2)
_CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """Days that the history is kept, and megabytes that its texts may take; 0: no limit."""

    days: int = 90
    megabytes: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySize:
    """`seen_bytes` are of texts that were only seen, `record_bytes` of the database."""

    texts: int
    text_bytes: int
    seen_bytes: int
    record_bytes: int
    writes: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """`over_bytes`: by how much what must stay exceeds the limit."""

    writes: int
    runs: int
    texts: int
    text_bytes: int
    over_bytes: int


class Retention:
    """Drops what is too old or too much. `clock` is one that no jump of the wall clock moves."""

    def __init__(
        self,
        *,
        history: WriteJournal,
        objects: ObjectStore,
        keep: RetentionLimits,
        clock: Callable[[], datetime],
    ) -> None:
        self.keep = keep
        self._history, self._objects, self._clock = history, objects, clock
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def size(self) -> HistorySize:
        """The current size. Blocks on the disk. Raises StorageFailedError, OSError."""
        texts = text_bytes = 0
        for stored_object in self._objects.kept():
            texts, text_bytes = texts + 1, text_bytes + stored_object.size
        with self._history.reading() as database:
            writes, since = database.execute("SELECT count(*), min(at) FROM writes").fetchone()
            (pages,), (page,) = (
                database.execute(f"PRAGMA {name}").fetchone()
                for name in ("page_count", "page_size")
            )
        return HistorySize(
            texts=texts,
            text_bytes=text_bytes,
            seen_bytes=self._objects.seen_size(),
            record_bytes=int(pages) * int(page),
            writes=int(writes),
            since=datetime.fromisoformat(since) if since else None,
        )

    def prune(self, wanted: Iterable[str]) -> Pruned:
        """One pass. `wanted` are the digests of texts on the disk now and of those that reviews,
        suggestions and runs may yet want. Blocks. Raises StorageFailedError, OSError, having
        dropped a part.
        """
        now, writes, runs = self._clock(), 0, 0
        too_old = now - timedelta(days=self.keep.days) if self.keep.days else None
        if too_old is not None:
            horizon = now + _HORIZON  # later dates are a wrong clock's, as old as their neighbours
            span = (too_old.isoformat(), horizon.isoformat())
            writes = self._each(_OLD_WRITES, span, self._history.drop_writes)
            runs = self._each(_OLD_RUNS, span, self._history.drop_runs)
            self._history.drop_sightings(too_old, horizon)
        texts, freed, over = self._drop_texts(now, too_old, set(wanted))
        return Pruned(writes=writes, runs=runs, texts=texts, text_bytes=freed, over_bytes=over)

    def _each(self, sql: str, span: tuple[str, str], drop: Callable[[list[Any]], None]) -> int:
        with self._history.reading() as database:
            rows = [row[0] for row in database.execute(sql, (*span, *span))]
        dropped = 0
        while dropped < len(rows) and not self._stopping.is_set():
            piece = rows[dropped : dropped + _CHUNK]
            drop(piece)
            dropped += len(piece)
        return dropped

    def _drop_texts(
        self, now: datetime, too_old: datetime | None, wanted: set[str]
    ) -> tuple[int, int, int]:
        """First all that nothing names any more, then the oldest while they are too many. Returns
        how many went, their bytes, and the bytes that are over the limit still.
        """
        unnamed = max(filter(None, (too_old, now - _NAMED_BY_NONE))).timestamp()
        named, held = self._named_texts(wanted)
        fresh, most = (now - _FRESH).timestamp(), self.keep.megabytes * _MEGABYTE
        texts = freed = total = 0
        may_go: list[tuple[bool, float, str, int]] = []
        for stored_object in self._objects.kept():
            if self._stopping.is_set():
                break
            total += stored_object.size
            if stored_object.digest not in held and stored_object.used <= fresh:
                is_wanted = stored_object.digest in named or stored_object.used >= unnamed
                last = named.get(stored_object.digest, stored_object.used)
                may_go.append((is_wanted, last, stored_object.digest, stored_object.size))
        for is_wanted, _last, digest, size in sorted(may_go):
            is_enough = is_wanted and (not most or total - freed <= most)
            if is_enough or self._stopping.is_set():
                break
            if self._objects.drop_if_unused(digest, fresh):
                texts, freed = texts + 1, freed + size
        return texts, freed, max(0, total - freed - most) if most else 0

    def _named_texts(self, wanted: set[str]) -> tuple[dict[str, float], set[str]]:
        """The texts that writes name, with when that was last; and those that may not go."""
        with self._history.reading() as database:
            named = {digest: _moment(at) for digest, at in database.execute(_NAMED)}
            held = {
                digest
                for row in itertools.chain(database.execute(_LAST), database.execute(_AT_WORK))
                for digest in row
                if digest
            }
        return named, held | wanted


def _moment(at: str) -> float:
    moment = datetime.fromisoformat(at)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


_UNENDED = "SELECT id FROM runs WHERE outcome IN ('running', 'waiting')"
_NO_ROW = 2**63 - 1
_OLD_WRITES = (
    f"SELECT id FROM writes WHERE id < (SELECT coalesce(min(id), {_NO_ROW}) FROM writes WHERE at "  # noqa: S608
    ">= ? AND at <= ?) "
    "AND (at < ? OR at > ?) AND state != 'intended' AND id < (SELECT max(id) FROM writes) "
    f"AND (run IS NULL OR run NOT IN ({_UNENDED})) "
    # who wrote the present text decides what it may start
    "AND (key = '' OR id < (SELECT max(id) FROM writes AS others WHERE others.path = writes.path)) "
    "ORDER BY id"
)
_OLD_RUNS = (
    f"SELECT id FROM runs WHERE rowid < (SELECT coalesce(min(rowid), {_NO_ROW}) FROM runs WHERE "  # noqa: S608
    "started >= ? AND started <= ?) "
    "AND (started < ? OR started > ?) AND outcome NOT IN ('running', 'waiting') "
    "AND NOT EXISTS (SELECT 1 FROM writes WHERE writes.run = runs.id) ORDER BY id"
)
_NAMED = (
    "SELECT digest, max(at) FROM (SELECT before AS digest, at FROM writes WHERE state != 'void' "
    "AND before IS NOT NULL "
    "UNION ALL SELECT after, at FROM writes WHERE state != 'void' AND after IS NOT NULL) GROUP BY "
    "digest"
)
# of each path the text that our last write left, or, where that took the file away, the one it had
_LAST = (
    "SELECT coalesce(after, before) FROM writes WHERE id IN (SELECT max(id) FROM writes WHERE "
    "state != 'void' GROUP BY path) "
    "AND NOT (operation = 'Move' AND after IS NULL)"
)
_AT_WORK = f"SELECT before, after FROM writes WHERE state = 'intended' OR run IN ({_UNENDED})"  # noqa: S608  constants


log = logging.getLogger(__name__)

_SOON_S = 20.0
_LOOK_EVERY_S = 1800.0
_DAILY = timedelta(days=1)


class HistoryPruning:
    """Prunes in the background. `wanted` gives the digests of texts that must stay."""

    def __init__(
        self,
        retention: Retention,
        *,
        wanted: Callable[[], Awaitable[set[str]]],
        clock: Callable[[], datetime],
        report: Callable[[str, str | None], None],
        soon_s: float = _SOON_S,
    ) -> None:
        self._retention, self._wanted, self._clock = retention, wanted, clock
        self._report, self._soon_s = report, soon_s
        self.known: HistorySize | None = None
        """As it was measured last."""

    async def run(self) -> None:
        """Until cancelled. Days follow the clock, since a laptop sleeps."""
        await asyncio.sleep(self._soon_s)
        last: datetime | None = None
        while True:
            now = self._clock()
            if last is None or abs(now - last) >= _DAILY:
                last = now
                await self.prune()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def prune(self) -> Pruned | None:
        """One pass now; None when the disk refused. A cancelled caller waits for its end."""
        wanted = await self._wanted()
        running = asyncio.get_running_loop().run_in_executor(None, self._retention.prune, wanted)
        try:
            pruned = await asyncio.shield(running)
        except asyncio.CancelledError:
            self._retention.stop()
            await asyncio.wait([running])
            running.exception()
            raise
        except (ParachuteError, OSError) as error:
            says = "the history could not be brought to its size, and is tried again tomorrow"
            self._report("history size", f"{says}: {error}")
            return None
        self._report("history size", None)
        with contextlib.suppress(ParachuteError, OSError):  # the next pass reports it
            await self.size()
        if pruned.writes or pruned.runs or pruned.texts:
            log.info("the history was pruned", extra=asdict(pruned))
        return pruned

    async def size(self) -> HistorySize:
        """Raises StorageFailedError, OSError."""
        self.known = await asyncio.to_thread(self._retention.size)
        return self.known


_FOLDERS_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTexts:
    index: VaultIndex
    reviews: PendingChanges
    suggestions: Suggestions
    objects: ObjectStore

    async def needed(self) -> set[str]:
        """Digests of the vault's texts and of those that suggestions and reviews compare with.
        Reviews come last: a text that changes meanwhile is among theirs by then.
        """
        needed: set[str] = set()
        for number, folder in enumerate(self.index.all_folders()):
            needed |= self._digests(folder)
            if number % _FOLDERS_AT_ONCE == 0:
                await asyncio.sleep(0)
        needed |= self.suggestions.bases()
        return needed | self.reviews.digests()

    def forget_unneeded(self) -> None:
        """Drop the texts that no review needs. Blocks; call it before changes are followed."""
        present = set[str]().union(*map(self._digests, self.index.all_folders()))
        self.objects.forget_seen(present | self.reviews.digests())

    def _digests(self, folder: str) -> set[str]:
        entries = self.index.entries(folder).values()
        return {digest for entry in entries if (digest := entry.digest) is not None}
