"""What comes into the journal from another one, and what leaves it: imports and exports."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final, Literal

from parachuted.errors import EditRefusedError
from parachuted.modules import BytesResponse, Module, command, route

from .days import Days
from .exporting import as_html, as_markdown, as_zip
from .imports import ImportReport, Imports, UndoneImport
from .layouts import Dated
from .listing import listed_import

_LARGEST_ZIP: Final = 15 << 20


class TransferRoutes(Module):
    """Imports and exports; what they use is made in `on_enable`."""

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
        name = f"journal-{first}-{last}"
        if format == "zip":
            return BytesResponse(
                data=await self._zipped(found),
                content_type="application/zip",
                filename=f"{name}.zip",
            )
        if format == "html":
            return BytesResponse(
                data=as_html(found).encode(), content_type="text/html", filename=f"{name}.html"
            )
        return BytesResponse(
            data=as_markdown(found).encode(), content_type="text/markdown", filename=f"{name}.md"
        )

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
        """Show what an import of a folder below Daily/ would add, or with --apply add it: as a
        stranger's text, or with --trust as yours, where you wrote all of it.
        """
        report = await self.import_journal(source, dry_run=not apply, trust=trust)
        return listed_import(report, is_applied=apply) if as_text else report

    @command("export")
    async def export_command(self, first: dt.date, last: dt.date) -> str:
        """The entries of these days (YYYY-MM-DD) as one markdown text."""
        return as_markdown(await self._days.between(first, last))
