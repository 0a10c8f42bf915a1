"""Imports into the vault, which are undone as a whole, and exports."""

from __future__ import annotations

import asyncio
import datetime as dt
import html
import io
import re
import secrets
import zipfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Final, Literal, cast

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import BytesResponse, Finding, Module, command, reading, route

from .days import Days, digest_of
from .entry import Entry
from .importing import Imported, is_known, read_source
from .layouts import Dated, Layout, journal_path

_STATE = "import/"
_PLACE = "Daily/"
_AS_IT_IS = ""  # the import was cut short


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEntry:
    """`origin` is whose text it counts as: `imported`, or `you`."""

    id: str
    day: str
    title: str
    source: str
    is_there: bool
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import would do, or did; `unknown` are files by kind, `media` stay where they are."""

    entries: list[PlannedEntry]
    added: int
    already_there: int
    media: int
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    import_id: str | None = None
    run: str | None = None
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneImport:
    """How many entries were removed; `kept` are those that were changed since."""

    removed: int
    kept: list[str]


class Imports:
    def __init__(
        self, module: Module, days: Days, layout: Layout, look: Callable[[str], Awaitable[None]]
    ) -> None:
        self._module, self._days, self._layout, self._look = module, days, layout, look
        self._turn = asyncio.Lock()

    async def run(self, source: str, *, is_dry: bool, is_own: bool) -> ImportReport:
        """`is_own`: as the person's own words. What cannot be imported is in the report."""
        async with self._turn:
            paths = await self._paths(source)
            unknown = Counter(_kind(path) for path in paths if not is_known(path))
            left_out = list[Finding]()
            found = await self._found(source, filter(is_known, paths), left_out)
            there = self._days.present({one.key for one in found})
            plan: list[tuple[Imported, bool]] = []
            for one in found:
                plan.append((one, one.key in there))
                there.add(one.key)  # what the files hold twice is imported once
            new = [one for one, is_there in plan if not is_there]
            added, import_id, run = {one.key for one in new}, None, None
            if not is_dry and new:
                import_id = secrets.token_hex(6)
                written: list[Dated] = []
                try:
                    await self._write(import_id, new, written, left_out, is_own=is_own)
                finally:
                    for path in sorted({dated.path for dated in written}):
                        await self._look(path)
                added = {dated.entry.key for dated in written}
                run = self._module.current_call.own_run
            again = len(plan) - len(new)
            return ImportReport(
                entries=[
                    _planned(one, is_there=is_there, is_own=is_own)
                    for one, is_there in plan
                    if is_there or one.key in added
                ],
                added=len(added),
                already_there=again,
                media=sum(one.left_out for one in found),
                problems=list(map(_said, left_out)),
                warnings=[one.warning for one in found if one.warning],
                unknown=dict(sorted(unknown.items())),
                import_id=import_id if added else None,
                run=run,
                summary=_summary(len(added), run, is_dry=is_dry)
                + _not_added(again, len(left_out))
                + _left_out(unknown),
            )

    async def _write(
        self,
        import_id: str,
        new: Sequence[Imported],
        written: list[Dated],
        left_out: list[Finding],
        *,
        is_own: bool,
    ) -> None:
        vault, state = self._module.vault, self._module.state
        days = dict.fromkeys(journal_path(one.at.date().isoformat()) for one in new)
        files = [path for path in days if not await vault.exists(path)]
        # before they are written: what is cut short can be undone too
        marks = {_id_of(one): _AS_IT_IS for one in new}
        await state.put(_STATE + import_id, {"marks": marks, "files": files})
        try:
            for one in new:
                with reading(f"{one.source}, {one.at:%Y-%m-%d %H:%M}", left_out):
                    written.append(await self._add(one, is_own=is_own))
                    continue
                del marks[_id_of(one)]
        finally:
            marks |= {dated.id: digest_of(dated.entry) for dated in written}
            await state.put(_STATE + import_id, {"marks": marks, "files": files})

    async def undo(self, import_id: str) -> UndoneImport:
        async with self._turn:
            made = await self._module.state.get(_STATE + import_id)
            if not isinstance(made, dict):
                raise NotFoundError(f"There is no import {import_id[:80]}.")
            marks = cast("Mapping[str, str]", made["marks"])
            kept, paths, removed = [], set(), 0
            for entry_id, digest in marks.items():
                try:
                    dated = await self._days.find(entry_id)
                except NotFoundError:
                    continue
                if digest in {_AS_IT_IS, digest_of(dated.entry)}:
                    await self._days.delete(dated)
                    paths.add(dated.path)
                    removed += 1
                else:
                    kept.append(entry_id)
            await self._days.remove_empty(paths.intersection(made["files"]))
            await self._module.state.delete(_STATE + import_id)
            for path in sorted(paths):
                await self._look(path)
            return UndoneImport(removed=removed, kept=kept)

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
        found: list[Imported] = []
        for path in paths:
            with reading(path, left_out):
                data = await self._module.vault.read_bytes(path)
                found += read_source(path, data, left_out)
        if not found and not left_out:
            raise NotFoundError(f"There is nothing to import in {source[:200]}.")
        return sorted(found, key=lambda one: one.at)

    async def _add(self, one: Imported, *, is_own: bool) -> Dated:
        put = partial(self._module.vault.import_note, is_own=is_own)
        new = Entry(key=one.key, title=one.title, body=one.body)
        made = await self._days.create(new, one.at, layout=self._layout, put=put)
        return await self._days.again(made)


def _planned(one: Imported, *, is_there: bool, is_own: bool) -> PlannedEntry:
    return PlannedEntry(
        id=_id_of(one),
        day=one.at.date().isoformat(),
        title=one.title,
        source=one.source,
        is_there=is_there,
        origin="you" if is_own else "imported",
    )


def _summary(count: int, run: str | None, *, is_dry: bool) -> str:
    entries = "1 entry" if count == 1 else f"{count:,} entries"
    if not count:
        return "Nothing was written."
    if is_dry:
        return f"Nothing was written. Add --apply (`dry_run: false` in a request) to add {entries}."
    return f"{entries} added; `parachute undo {run}` takes {'it' if count == 1 else 'them'} back."


def _not_added(there: int, left_out: int) -> str:
    said = f" Already there: {there:,}." if there else ""
    return f"{said} Left out, as `problems` says: {left_out:,}." if left_out else said


def _said(finding: Finding) -> str:
    line = f", line {finding.line}" if finding.line is not None else ""
    return f"{finding.path}{line}: {finding.problem}"


def _left_out(unknown: Mapping[str, int]) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(unknown.items()))
    said = "Neither Day One's JSON nor notes called by their date, and left out"
    return f" {said}: {kinds}." if kinds else ""


def _kind(path: str) -> str:
    name = path.rpartition("/")[2]
    return f".{name.rpartition('.')[2].lower()}" if "." in name[1:] else "without a suffix"


def _id_of(one: Imported) -> str:
    return f"para:daily:{one.key}"


_LARGEST_ZIP: Final = 15 << 20
_STYLE = "body{max-width:40em;margin:2em auto;font:1em/1.5 serif}article{margin-bottom:2em}"
_BLANK = re.compile(r"\n\s*\n")


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

    @route("POST", "/import/{import_id}/undo", timeout_s=600)
    async def undo_import(self, import_id: str) -> UndoneImport:
        """Remove what an import added, but for entries that were changed since."""
        return await self._imports.undo(import_id)

    @route("GET", "/export", timeout_s=120)
    async def export_journal(
        self,
        first: dt.date,
        last: dt.date,
        format: Literal["markdown", "html", "zip"] = "markdown",  # noqa: A002  its name in the URL
    ) -> BytesResponse:
        """The days from `first` to `last` as one markdown file, a page of HTML, or a zip."""
        found = await self._days.between(first, last)
        match format:
            case "zip":
                data, kind, suffix = await self._zipped(found), "application/zip", "zip"
            case "html":
                data, kind, suffix = as_html(found).encode(), "text/html", "html"
            case "markdown":
                data, kind, suffix = as_markdown(found).encode(), "text/markdown", "md"
        name = f"journal-{first}-{last}.{suffix}"
        return BytesResponse(data=data, content_type=kind, filename=name)

    async def _zipped(self, found: Sequence[Dated]) -> bytes:
        media = (
            f"Daily/{name}" for one in found for name in (one.entry.audio, one.entry.image) if name
        )
        paths = dict.fromkeys((*(one.path for one in found), *media))
        files: dict[str, bytes] = {}
        for path in paths:
            if await self.vault.exists(path):
                files[path] = await self.vault.read_bytes(path)
                if sum(map(len, files.values())) > _LARGEST_ZIP:
                    raise EditRefusedError("These days hold more than 15 MB; choose fewer.")
        return as_zip(files)

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


def as_html(entries: Sequence[Dated]) -> str:
    parts = []
    for day, ones in groupby(entries, key=lambda one: one.day):
        parts.append(f"<h1>{day}</h1>")
        for one in ones:
            paragraphs = "".join(
                f"<p>{html.escape(text).replace(chr(10), '<br>')}</p>"
                for text in _BLANK.split(one.entry.body)
            )
            title = html.escape(one.entry.title or one.entry.created)
            parts.append(f"<article><h2>{title}</h2>{paragraphs}</article>")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html><head><meta charset="utf-8"><title>Journal</title>'
        f"<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def as_zip(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return made.getvalue()
