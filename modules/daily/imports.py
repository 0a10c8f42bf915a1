"""Imports of other journals, as entries with ids of their own, and the export.

Day One's JSON, and notes called by their date (Obsidian's daily notes, plain markdown). The id of
an entry follows from what it is imported from, so that a second import finds it.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from functools import partial
from itertools import groupby
from zoneinfo import ZoneInfo

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import BytesResponse, Finding, Module, command, read_each, reading, route

from .days import Days
from .entry import Entry, JournalError, front_end, front_values, key_of_text, split
from .layouts import Dated, Layout

_PLACE = "Daily/"
_DATE = re.compile(r"(?P<day>\d{4}-?\d\d-?\d\d)(?!\d)[ _.-]*(?P<rest>[^/]*)\.(?:md|markdown|txt)")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!>~|])")
_MOMENT = re.compile(r"!\[[^\]]*\]\(dayone-moment:[^)]*\)")
_HEADING = re.compile(r"\s*# +(?P<title>[^\n]+)\n*")
_OFFSET = re.compile(r"(?:GMT|UTC)?(?P<sign>[+-])(?P<hours>[01]?\d|2[0-3]):?(?P<minutes>[0-5]\d)?")
_MEDIA = ("photos", "audios", "videos", "pdfAttachments")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """`media` is how many pictures and recordings stay where they are."""

    key: str
    source: str
    at: datetime
    title: str
    body: str
    media: int = 0
    warning: str = ""


def read_source(path: str, data: bytes, left_out: list[Finding]) -> list[Imported]:
    """`left_out` gets what is not an entry. ValueError: it is of no known kind."""
    text = data.decode("utf-8-sig")
    if path.endswith(".json"):
        return _day_one(path, text, left_out)
    if match := _DATE.fullmatch(path.rpartition("/")[2]):
        return [_dated_note(path, text, match["day"], match["rest"])]
    raise JournalError("it is neither Day One's JSON nor a note called by its date")


def is_known(path: str) -> bool:
    return path.endswith(".json") or _DATE.fullmatch(path.rpartition("/")[2]) is not None


def _day_one(path: str, text: str, left_out: list[Finding]) -> list[Imported]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise JournalError("it is not valid JSON") from error
    found = document.get("entries") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise JournalError("it has no list of entries, as an export of Day One has")
    places = ((f"{path}, entry {number}", one) for number, one in enumerate(found, 1))
    entries, more = read_each(
        ((place, (place, one)) for place, one in places), lambda read: _day_one_entry(path, *read)
    )
    left_out += more
    return entries


def _day_one_entry(path: str, place: str, entry: object) -> Imported:
    # half characters, which no file and no answer can hold, become question marks
    entry = json.loads(json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace"))
    if not isinstance(entry, dict):
        raise JournalError("it is not an entry")
    at, text = _moment(entry), entry.get("text")
    media = sum(len(files) for kind in _MEDIA if isinstance(files := entry.get(kind), list))
    said = text if isinstance(text, str) else ""
    words = _ESCAPED.sub(r"\1", _MOMENT.sub("", said)).strip()
    if not words:
        raise JournalError("it has no text")
    title, body = _titled(words)
    uuid, zone = entry.get("uuid"), entry.get("timeZone")
    is_zone = not zone or _zone(zone) is not None
    source = uuid if isinstance(uuid, str) and uuid else f"{at.isoformat()}:{words}"
    return Imported(
        key=key_of_text(f"dayone:{source}"),
        source=path,
        at=at,
        title=title,
        body=body,
        media=media,
        warning=""
        if is_zone
        else f"{place}: its time zone {str(zone)[:40]!r} is not known; this machine's is taken",
    )


def _dated_note(path: str, text: str, day: str, rest: str) -> Imported:
    try:
        found = date.fromisoformat(day)
    except ValueError as error:
        raise JournalError("its name is not a date") from error
    lines = split(text)
    body = "".join(lines[front_end(lines) :]).strip()
    if not body:
        raise JournalError("it is empty")
    values = front_values(lines)
    named = values.get("title")
    title, body = _titled(body)
    title = title or (named if isinstance(named, str) else "") or rest.strip()
    at = datetime.combine(found, time()).astimezone()
    return Imported(
        key=key_of_text(f"note:{day}:{rest}:{body}"), source=path, at=at, title=title, body=body
    )


def _titled(text: str) -> tuple[str, str]:
    match = _HEADING.match(text)
    if match is None or not text[match.end() :].strip():
        return "", text
    return match["title"].strip(), text[match.end() :].strip()


def _moment(entry: Mapping[str, object]) -> datetime:
    """In its own time zone."""
    said = entry.get("creationDate")
    try:
        at = datetime.fromisoformat(said if isinstance(said, str) else "")
        at.astimezone()
        return at.astimezone(_zone(entry.get("timeZone")))
    except (ValueError, OverflowError, OSError) as error:
        raise JournalError(
            f"{str(said)[:40]!r} is no date" if said else "it has no date"
        ) from error


def _zone(name: object) -> tzinfo | None:
    if not isinstance(name, str) or not name:
        return None
    if offset := _OFFSET.fullmatch(name):
        hours = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0))
        return timezone(-hours if offset["sign"] == "-" else hours)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEntry:
    """An entry that an import would add, or added, or found."""

    id: str
    day: str
    title: str
    source: str
    is_there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import would do, or did; `media` stay where they are."""

    entries: list[PlannedEntry]
    added: int
    already_there: int
    media: int
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    run: str | None = None
    summary: str


class Imports:
    def __init__(
        self, module: Module, days: Days, layout: Layout, look: Callable[[str], Awaitable[None]]
    ) -> None:
        self._module, self._days, self._layout, self._look = module, days, layout, look
        self._turn = asyncio.Lock()

    async def run(self, source: str, *, is_dry: bool, is_own: bool) -> ImportReport:
        """`is_own`: as the person's own words. What cannot be imported is in the report."""
        async with self._turn:
            paths, left_out = await self._paths(source), list[Finding]()
            known = list(filter(is_known, paths))
            imported_items = await self._found(source, known, left_out)
            there = self._days.present({one.key for one in imported_items})
            plan: list[tuple[Imported, bool]] = []
            for one in imported_items:
                plan.append((one, one.key in there))
                there.add(one.key)  # what the files hold twice is imported once
            new = [one for one, is_there in plan if not is_there]
            added, run = {one.key for one in new}, None
            if not is_dry and new:
                added = await self._write(new, left_out, is_own=is_own)
                run = self._module.current_call.own_run
            return ImportReport(
                entries=[
                    _planned(one, is_there=is_there)
                    for one, is_there in plan
                    if is_there or one.key in added
                ],
                added=len(added),
                already_there=len(plan) - len(new),
                media=sum(one.media for one in imported_items),
                problems=list(map(_said, left_out)),
                warnings=[one.warning for one in imported_items if one.warning],
                run=run,
                summary=_summary(len(added), run, is_dry=is_dry)
                + _not_added(len(plan) - len(new), len(left_out), len(paths) - len(known)),
            )

    async def _write(
        self, new: Sequence[Imported], left_out: list[Finding], *, is_own: bool
    ) -> set[str]:
        put = partial(self._module.vault.import_note, is_own=is_own)
        written: list[Dated] = []
        try:
            for one in new:
                with reading(f"{one.source}, {one.at:%Y-%m-%d %H:%M}", left_out):
                    entry = Entry(key=one.key, title=one.title, body=one.body)
                    made = await self._days.create(entry, one.at, layout=self._layout, put=put)
                    written.append(await self._days.again(made))
        finally:
            for path in sorted({dated.path for dated in written}):
                await self._look(path)
        return {dated.entry.key for dated in written}

    async def _paths(self, source: str) -> list[str]:
        if not source.startswith(_PLACE):
            raise EditRefusedError(
                f"Copy what is to be imported below {_PLACE} of the vault first, such as with "
                f"`cp -r FOLDER VAULT/{_PLACE}import`; then import {_PLACE}import."
            )
        vault = self._module.vault
        is_file = await vault.exists(source)
        return [source] if is_file else await vault.list(f"{source.rstrip('/')}/**", looks=True)

    async def _found(
        self, source: str, paths: Iterable[str], left_out: list[Finding]
    ) -> list[Imported]:
        imported_items: list[Imported] = []
        for path in paths:
            with reading(path, left_out):
                data = await self._module.vault.read_bytes(path)
                imported_items += read_source(path, data, left_out)
        if not imported_items and not left_out:
            raise NotFoundError(f"There is nothing to import in {source[:200]}.")
        return sorted(imported_items, key=lambda imported_item: imported_item.at)


def _planned(imported_item: Imported, *, is_there: bool) -> PlannedEntry:
    return PlannedEntry(
        id=f"para:daily:{imported_item.key}",
        day=imported_item.at.date().isoformat(),
        title=imported_item.title,
        source=imported_item.source,
        is_there=is_there,
    )


def _summary(count: int, run: str | None, *, is_dry: bool) -> str:
    entries = "1 entry" if count == 1 else f"{count:,} entries"
    if not count:
        return "Nothing was written."
    if is_dry:
        return f"Nothing was written. Add --apply (`dry_run: false` in a request) to add {entries}."
    return f"{entries} added; `parachute undo {run}` takes {'it' if count == 1 else 'them'} back."


def _not_added(there: int, left_out: int, unknown: int) -> str:
    said = f" Already there: {there:,}." if there else ""
    said += f" Left out, as `problems` says: {left_out:,}." if left_out else ""
    return said + (f" Files of other kinds: {unknown:,}." if unknown else "")


def _said(finding: Finding) -> str:
    line = f", line {finding.line}" if finding.line is not None else ""
    return f"{finding.path}{line}: {finding.problem}"


def listed_import(report: ImportReport, *, is_applied: bool) -> str:
    new = "added" if is_applied else "new"
    lines = [
        f"{entry.day}  {entry.title or entry.source}  "
        f"({'there already' if entry.is_there else new})"
        for entry in report.entries
    ]
    lines += [f"left out: {problem}" for problem in report.problems]
    lines += report.warnings
    if report.media:
        lines.append(f"{report.media} pictures and recordings stay where they are.")
    return "\n".join([*lines, report.summary])


class TransferRoutes(Module):
    _days: Days
    _imports: Imports

    @route("POST", "/import", timeout_s=600)
    async def import_journal(
        self, source: str, *, dry_run: bool = True, trust: bool = False
    ) -> ImportReport:
        """Import Day One's JSON, or notes called by their date, from a file or a folder below
        `Daily/`. With `dry_run`, which is usual, it only says what it would do. What is imported
        counts as a stranger's text, or as yours with `trust`: where you wrote all of it.
        """
        return await self._imports.run(source, is_dry=dry_run, is_own=trust)

    @route("GET", "/export", timeout_s=120)
    async def export_journal(self, first: dt.date, last: dt.date) -> BytesResponse:
        """The days from `first` to `last` as one markdown file."""
        data = as_markdown(await self._days.between(first, last)).encode()
        name = f"journal-{first}-{last}.md"
        return BytesResponse(data=data, content_type="text/markdown", filename=name)

    @command("import")
    async def import_command(
        self, source: str, *, apply: bool = False, trust: bool = False, as_text: bool = False
    ) -> ImportReport | str:
        """Show what an import of a folder below Daily/ would add, or add it (--apply).

        It counts as a stranger's text, or with --trust as yours, where you wrote all of it.
        """
        report = await self.import_journal(source, dry_run=not apply, trust=trust)
        return listed_import(report, is_applied=apply) if as_text else report

    @command("export")
    async def export_command(self, first: dt.date, last: dt.date) -> str:
        """The entries of these days (YYYY-MM-DD) as one markdown text."""
        return as_markdown(await self._days.between(first, last))


def as_markdown(entries: Sequence[Dated]) -> str:
    parts = []
    for day, ones in groupby(entries, key=lambda one: one.day):
        parts.append(f"# {day}")
        parts += [f"## {one.entry.title or one.entry.created}\n\n{one.entry.body}" for one in ones]
    return "\n\n".join(parts).rstrip() + "\n"
