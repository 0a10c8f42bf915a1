"""Imports into the vault: the plan, the entries that it adds, and its undoing as a whole."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.modules import Module

from .days import Days, digest_of
from .entry import JournalError, Media
from .importing import Imported, is_known, read_source
from .layouts import Dated, Layout

_STATE = "import/"
_PLACE = "Daily/"
_AS_IT_IS = ""  # the import was cut short


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEntry:
    """An entry that an import adds, unless it is there already (`is_there`)."""

    id: str
    day: str
    title: str
    source: str
    is_there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import would do, or did: `import_id` undoes it, where it added something.

    `problems` are files that were left out, with the reason; `media` how many pictures and
    recordings stay where they are.
    """

    entries: list[PlannedEntry]
    added: int
    already_there: int
    media: int
    problems: list[str] = field(default_factory=list)
    import_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneImport:
    """How many entries were removed; `kept` are those that were changed since."""

    removed: int
    kept: list[str]


class Imports:
    """Imports from files below `Daily/`."""

    def __init__(self, module: Module, days: Days, layout: Layout) -> None:
        self._module, self._days, self._layout = module, days, layout
        self._turn = asyncio.Lock()

    async def run(self, source: str, *, is_dry: bool) -> tuple[ImportReport, list[str]]:
        """Import a file or a folder, or only plan it; the report, and the paths that were written.

        Raises NotFoundError where there is nothing to import.
        """
        async with self._turn:
            found, problems = await self._found(source)
            planned = [self._planned(one) for one in found]
            new = [one for one, plan in zip(found, planned, strict=True) if not plan.is_there]
            written: list[Dated] = []
            import_id = None
            if not is_dry and new:
                import_id, state = secrets.token_hex(6), self._module.state
                # before they are written: what is cut short can be undone too
                ids = {plan.id: _AS_IT_IS for plan in planned if not plan.is_there}
                await state.put(_STATE + import_id, ids)
                written = [await self._add(one) for one in new]
                marks = {dated.id: digest_of(dated.entry) for dated in written}
                await state.put(_STATE + import_id, marks)
            report = ImportReport(
                entries=planned,
                added=len(new),
                already_there=len(found) - len(new),
                media=sum(one.left_out for one in found),
                problems=problems,
                import_id=import_id,
            )
            return report, sorted({dated.path for dated in written})

    async def undo(self, import_id: str) -> tuple[UndoneImport, list[str]]:
        """Remove what an import added, but for entries that were changed since; and the paths that
        were written. Raises NotFoundError.
        """
        async with self._turn:
            marks = cast("Mapping[str, str]", await self._module.state.get(_STATE + import_id))
            if not marks:
                raise NotFoundError(f"There is no import {import_id[:80]}.")
            kept, paths = [], set()
            for entry_id, digest in marks.items():
                try:
                    dated = await self._days.find(entry_id)
                except NotFoundError:
                    continue
                if digest in {_AS_IT_IS, digest_of(dated.entry)}:
                    await self._days.delete(dated)
                    paths.add(dated.path)
                else:
                    kept.append(entry_id)
            await self._module.state.delete(_STATE + import_id)
            removed = len(marks) - len(kept)
            return UndoneImport(removed=removed, kept=kept), sorted(paths)

    async def _found(self, source: str) -> tuple[list[Imported], list[str]]:
        if not source.startswith(_PLACE):
            raise EditRefusedError(f"Put what is to be imported below {_PLACE} first.")
        vault = self._module.vault
        is_file = await vault.exists(source)
        paths = [source] if is_file else await vault.list(f"{source.rstrip('/')}/**")
        found: dict[str, Imported] = {}
        problems = []
        for path in filter(is_known, paths):
            try:
                found |= {one.key: one for one in read_source(path, await vault.read_bytes(path))}
            except JournalError as error:
                problems.append(str(error))
        if not found and not problems:
            raise NotFoundError(f"There is nothing to import in {source[:200]}.")
        return sorted(found.values(), key=lambda one: one.at), problems

    def _planned(self, one: Imported) -> PlannedEntry:
        return PlannedEntry(
            id=f"para:daily:{one.key}",
            day=one.at.date().isoformat(),
            title=one.title,
            source=one.source,
            is_there=self._days.has(one.key),
        )

    async def _add(self, one: Imported) -> Dated:
        made = await self._days.create(
            one.body, title=one.title, at=one.at, layout=self._layout, media=Media(), key=one.key
        )
        return await self._days.reread(made)
