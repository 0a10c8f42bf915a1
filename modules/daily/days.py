"""The days on disk: which files hold entries, and where each entry is.

Both layouts are read: `Daily/journals/DATE.md`, many entries a file, and `Daily/entries/*.md`, one
a file. What is known here is derived from the files, and follows them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import sqlite3
from collections import Counter, defaultdict
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Final, Protocol, TypedDict

from parachuted.errors import ActRefusedError, ConflictError, EditRefusedError, NotFoundError
from parachuted.modules import (
    Finding,
    VaultAccess,
    is_shortened,
    reading,
    retry_on_conflict,
)

from . import entries, journal, layouts
from .by_path import ByPath
from .entry import KEY_LENGTH, KEY_LETTERS, Entry, JournalError, short_id
from .layouts import ENTRIES, JOURNALS, UNKNOWN_DAY, Dated, Layout, has_id

_MOST_HITS = 200
_IDS: Final = "Daily/ids.jsonl"


class Changes(TypedDict):
    created: list[Dated]
    updated: list[Dated]


class Put(Protocol):
    async def __call__(self, path: str, text: str, *, base: str | None = None) -> str: ...


class Days:
    """In memory is where each entry is, never its text: each caller gets what it may read."""

    def __init__(self, vault: VaultAccess, database: sqlite3.Connection) -> None:
        self._vault, self._database = vault, database
        self._seen: ByPath[str] = ByPath(database, "seen")
        self._looking, self._writing = asyncio.Lock(), asyncio.Lock()
        self._days: dict[str, str] = {}
        self._texts: dict[str, bytes] = {}
        self._findings: dict[str, list[Finding]] = {}

    async def findings(self) -> list[Finding]:
        advice = "call the file by a day of the calendar"
        misnamed = filter(layouts.is_misnamed, await self._vault.list(f"{JOURNALS}*.md"))
        findings = [Finding(path=path, problem="no such day", advice=advice) for path in misnamed]
        return findings + [
            finding for path in sorted(self._findings) for finding in self._findings[path]
        ]

    async def load(self) -> Changes:
        """What was written while the daemon was off is new, except on the first start."""
        found = Changes(created=[], updated=[])
        present = await self._paths()
        gone = set(self._seen).difference(present)  # last, so that what moved is still known
        unread = dict.fromkeys((*present, *sorted(gone)))
        notes = self._vault.read_notes(present)
        async for note in notes:
            with self._reading(note.path):
                entries = layouts.read(note.path, note.text)
                del unread[note.path]
                _add(found, self._compare(note.path, entries))
        for path, said in notes.left_out.items():
            self._findings[path] = [Finding(path=path, problem=said)]
        for path in unread:
            _add(found, self._compare(path, ()))
        if self._database.execute("PRAGMA user_version").fetchone()[0]:
            return found
        self._database.execute("PRAGMA user_version = 1")
        return Changes(created=[], updated=[])

    async def look(self, path: str) -> Changes:
        if not layouts.owns(path):
            return Changes(created=[], updated=[])
        async with self._looking:  # two looks at once would both find the same entry new
            return await self._look(path)

    async def follow_move(self, source: str, path: str) -> None:
        """Its entries are not new there."""
        async with self._looking:
            self._texts.pop(path, None)
            if layouts.owns(path):
                self._seen.move(source, path)

    async def _look(self, path: str) -> Changes:
        dated_entries: Sequence[Dated] = ()
        before = self._texts.pop(path, None)
        with self._reading(path), suppress(NotFoundError):
            try:
                text = await self._vault.read(path)
            except ActRefusedError:  # one who may read it will say that it changed
                return Changes(created=[], updated=[])
            if is_shortened(text):  # read for an agent; the file's event shows all of it
                return Changes(created=[], updated=[])
            present = self._texts[path] = _digest(text)
            if before == present:
                return Changes(created=[], updated=[])
            dated_entries = layouts.read(path, text)
        return self._compare(path, dated_entries)

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        findings: list[Finding] = []
        with reading(path, findings):
            yield
        self._findings.pop(path, None)
        if findings:
            self._findings[path] = findings

    def _compare(self, path: str, found: Sequence[Dated]) -> Changes:
        before = self._seen.get(path)
        now = {dated.mark: digest_of(dated.entry) for dated in found}
        self._days[path] = found[0].day if found else UNKNOWN_DAY
        if now == before:
            return Changes(created=[], updated=[])
        elsewhere = {mark: self._seen.path_of(mark) for mark in now.keys() - before.keys()}
        self._seen.put(path, now)
        gone = [mark for mark in before if mark not in now]
        before = {
            **before,  # and what was moved or copied here, which is not new
            **{mark: now[mark] for mark in elsewhere if has_id(mark) and elsewhere[mark]},
        }
        unmatched = [dated for dated in found if dated.mark not in before]
        renamed = sum(not has_id(mark) for mark in gone)
        typed = [dated for dated in unmatched if dated.entry.is_typed][:renamed]
        new = {dated.mark for dated in unmatched} - {dated.mark for dated in typed}
        updated = [dated for dated in found if before.get(dated.mark, "") != now[dated.mark]]
        return Changes(
            created=[dated for dated in unmatched if dated.mark in new],
            updated=[dated for dated in updated if dated.mark not in new],
        )

    async def whole(self, path: str) -> Sequence[Dated] | None:
        """All entries of a file; None where what an agent reads of it is a part."""
        with reading(path, []), suppress(NotFoundError):  # the last look has the finding
            text = await self._vault.read(path)
            return None if is_shortened(text) else layouts.read(path, text)
        return ()

    def marks(self, path: str) -> Collection[str]:
        return self._seen.get(path).keys()

    def duplicates(self) -> dict[str, list[str]]:
        files: defaultdict[str, list[str]] = defaultdict(list)
        for path in sorted(self._seen):
            for mark in filter(has_id, self._seen.get(path)):
                files[mark].append(path)
        return {mark: paths for mark, paths in files.items() if len(paths) > 1}

    async def newest(self, day: str | None = None) -> AsyncIterator[Dated]:
        by_day: defaultdict[str, list[str]] = defaultdict(list)
        for path in await self._paths():
            by_day[self._day_of(path)].append(path)
        for one in sorted(by_day, reverse=True) if day is None else [day]:
            dated_entries = [dated for path in by_day[one] for dated in await self._entries(path)]
            for dated in reversed(layouts.in_order(dated_entries)):
                yield dated

    async def between(self, first: date, last: date) -> list[Dated]:
        dated_entries = []
        async for dated_entry in self.newest():
            if dated_entry.day < first.isoformat():
                break
            if dated_entry.day <= last.isoformat():
                dated_entries.append(dated_entry)
        return dated_entries[::-1]

    async def some(
        self, number: int, day: str | None = None, *, for_agents: bool = False
    ) -> list[Dated]:
        dated_entries: list[Dated] = []
        async for dated_entry in self.newest(day):
            if len(dated_entries) == number:
                break
            if dated_entry.visible or not for_agents:
                dated_entries.append(dated_entry)
        return dated_entries

    async def count(self, day: str | None = None) -> int:
        paths = [path for path in await self._paths() if day in {None, self._day_of(path)}]
        return sum(len(self._seen.get(path)) for path in paths)

    async def counts(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for path in await self._paths():
            found[self._day_of(path)] += len(self._seen.get(path))
        return {day: count for day, count in found.items() if count}

    async def find(self, entry_id: str) -> Dated:
        """The entry of that id, in any spelling. Raises NotFoundError."""
        wanted = short_id(entry_id)
        day, _, place = wanted.partition(".")
        key, _, fingerprint = place.partition("-")
        own_file = f"{ENTRIES}{wanted}.md"
        else_at = own_file if self._seen.get(own_file) else layouts.journal_path(day)
        for path in [*self._seen.paths_of(wanted)] or [else_at]:
            for dated in await self._entries(path) if self._seen.get(path) else ():
                is_typed = dated.entry.key == key and dated.fingerprint == fingerprint
                if path == own_file or dated.entry.key == wanted or is_typed:
                    return dated
        if dated_entry := await self._registered(wanted):
            return dated_entry
        raise NotFoundError(f"There is no entry {entry_id}.")

    async def again(self, dated: Dated) -> Dated:
        for entry in await self._entries(dated.path):
            if entry.entry.key == dated.entry.key:
                return entry
        raise NotFoundError(f"There is no entry {dated.id} any more.")

    async def _registered(self, wanted: str) -> Dated | None:
        """The entry that the app's own list finds: one with an id that looks like a word."""
        path = None
        with reading(_IDS, []), suppress(NotFoundError):  # it only helps
            path = read_ids(await self._vault.read(_IDS)).get(wanted)
        for dated in await self._entries(path) if path and self._seen.get(path) else ():
            words = dated.entry.title.partition(" ")[0]
            if words.startswith("para:") and short_id(words) == wanted:
                return dated
        return None

    async def search(self, query: str, limit: int, *, for_agents: bool = False) -> list[Dated]:
        """The newest entries that hold all of these words; `for_agents`: in what they may see."""
        words = query.casefold().split()
        dated_entries: list[Dated] = []
        for path in {hit.path for hit in await self._vault.search(query, _MOST_HITS)}:
            if layouts.owns(path):
                dated_entries += await self._entries(path)
        texts = [(one, one.visible if for_agents else one.entry) for one in dated_entries]
        dated_entries = [one for one, entry in texts if entry and _holds(entry, words)]
        by_day: defaultdict[str, list[Dated]] = defaultdict(list)
        for one in sorted(dated_entries, key=lambda one: (one.path, one.entry.lines)):
            by_day[one.day].append(one)
        newest = [one for day in sorted(by_day) for one in layouts.in_order(by_day[day])]
        return newest[::-1][:limit]

    async def _paths(self) -> list[str]:
        found = [path for at in (JOURNALS, ENTRIES) for path in await self._vault.list(f"{at}*.md")]
        return [path for path in found if layouts.owns(path)]

    def _day_of(self, path: str) -> str:
        return layouts.day_of(path) or self._days.get(path, UNKNOWN_DAY)

    async def _entries(self, path: str) -> tuple[Dated, ...]:
        with reading(path, []), suppress(NotFoundError):  # the last look has the finding
            return layouts.read(path, await self._vault.read(path))
        return ()

    async def create(
        self,
        new: Entry,
        at: datetime,
        *,
        layout: Layout,
        put: Put | None = None,
    ) -> Dated:
        """`put` writes the file, if it is not an ordinary note. EditRefusedError."""
        here = _here(at)
        at = at if at.tzinfo else here
        day, clock = at.date().isoformat(), f"{at:%H:%M}"
        is_elsewhere = at.utcoffset() != here.utcoffset()
        entry = replace(
            new,
            key=new.key or self._new_key(),
            module="daily",
            title=new.title or clock,
            created=clock,
            zone=timezone(at.utcoffset() or timedelta()) if is_elsewhere else None,
            at=at if layout == "entries" else None,
        )
        try:
            if layout == "journals":
                path = await self._append(day, entry, put or self._put)
            else:
                path = f"{ENTRIES}{entries.file_name(entry, at)}"
                await (put or self._put)(path, entries.compose(entry, at))
        except JournalError as error:
            raise EditRefusedError(str(error)) from error
        visible = None if entry.is_private else entry
        return Dated(entry=entry, path=path, day=day, mark=entry.key, visible=visible)

    async def _append(self, day: str, entry: Entry, put: Put) -> str:
        path = layouts.journal_path(day)
        async with self._writing:
            try:
                await put(path, journal.append(journal.new_journal(day), entry))
            except ConflictError:  # the day has a file now
                await self._change(path, lambda text: journal.append(text, entry), put)
        return path

    async def _put(self, path: str, text: str, *, base: str | None = None) -> str:
        if base is None:
            return await self._vault.create(path, text)
        return await self._vault.write(path, text, base=base)

    async def change(
        self, dated: Dated, *, content: str | None = None, title: str | None = None
    ) -> None:
        await self.rewrite(
            dated, lambda text: layouts.edited(dated, text, content=content, title=title)
        )

    async def rewrite(self, dated: Dated, edit: Callable[[str], str]) -> None:
        """`edit` is called again when somebody else wrote meanwhile."""
        async with self._writing:
            await self._change(dated.path, edit)

    async def delete(self, dated: Dated) -> None:
        """A day that then holds nothing else stays."""
        async with self._writing:
            if layouts.day_of(dated.path):
                await self._change(dated.path, lambda text: journal.remove(text, dated.entry.key))
            else:
                await self._vault.delete(dated.path)

    async def _change(self, path: str, edit: Callable[[str], str], put: Put | None = None) -> None:
        async def write() -> None:
            base = await self._vault.digest(path)
            text = await self._vault.read(path)  # what came since the base is merged with itself
            await (put or self._put)(path, edit(text), base=base)

        try:
            await retry_on_conflict(write)
        except JournalError as error:
            raise NotFoundError(str(error)) from error

    def present(self, keys: Collection[str]) -> set[str]:
        return {key for key in keys if self._seen.path_of(key) is not None}

    def _new_key(self) -> str:
        while True:
            key = "".join(secrets.choice(KEY_LETTERS) for _ in range(KEY_LENGTH))
            if self._seen.path_of(key) is None:
                return key


def _here(at: datetime) -> datetime:
    bare = at.replace(tzinfo=None)
    with suppress(OverflowError, OSError, ValueError):
        return bare.astimezone()
    return bare.replace(tzinfo=UTC)


def _add(changes: Changes, more: Changes) -> None:
    changes["created"] += more["created"]
    changes["updated"] += more["updated"]


def _holds(entry: Entry, words: list[str]) -> bool:
    text = f"{entry.title}\n{entry.body}".casefold()
    return all(word in text for word in words)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def digest_of(entry: Entry) -> str:
    return hashlib.blake2b(f"{entry.title}\n{entry.body}".encode(), digest_size=12).hexdigest()


def read_ids(text: str) -> Mapping[str, str]:
    """The file of each entry by its id, as the app wrote them, one object a line."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        try:
            one = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(one, dict) or one.get("type") in {"message", "asset", "session"}:
            continue
        name, path = one.get("id"), one.get("path")
        if isinstance(name, str) and isinstance(path, str) and path:
            _, _, below = path.replace("\\", "/").rpartition("Daily/")
            found[short_id(name)] = "Daily/" + below
    return found
