"""What comes into the journal from another one, and what leaves it: imports and exports."""

from __future__ import annotations

import datetime as dt
import html
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, Literal

from parachuted.errors import EditRefusedError
from parachuted.modules import BytesResponse, Module, command, route

from .days import Days
from .imports import ImportReport, Imports, UndoneImport
from .layouts import Dated
from .listing import listed_import

_LARGEST_ZIP: Final = 15 << 20
_STYLE = "body{max-width:40em;margin:2em auto;font:1em/1.5 serif}article{margin-bottom:2em}"
_BLANK = re.compile(r"\n\s*\n")


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
    """The same as a page that loads nothing."""
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
