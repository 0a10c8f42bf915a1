"""Mentions: which of Brain's entities an entry speaks of, by their para-ids.

Brain finds them. Those it is sure of stand in `mentions` of the entry's file; the others are
suggested to a person, once each. What a person put there stays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.modules import Module, RemoveKey, SetKey, retry_on_conflict

from .by_path import ByPath
from .entry import front_values, split
from .layouts import Dated

KEY = "mentions"
_SURE = 0.8
_LIKELY = 0.5


class Mentions:
    """`_linked` is what was written, `_asked` suggested, `_due` not yet brought up to date."""

    def __init__(
        self,
        module: Module,
        database: sqlite3.Connection,
        read: Callable[[str], Awaitable[Sequence[Dated] | None]],
    ) -> None:
        self._module, self._read = module, read
        self._linked: ByPath[list[str]] = ByPath(database, "linked")
        self._asked: ByPath[list[str]] = ByPath(database, "asked")
        self._due: ByPath[bool] = ByPath(database, "due")

    def of(self, dated: Dated) -> list[str]:
        linked = self._linked.get(dated.path).get(dated.mark, [])
        return list(dict.fromkeys((*dated.entry.mentions, *linked)))

    async def follow(self, path: str, changed: Sequence[Dated], present: Collection[str]) -> None:
        """What fails here is logged, and done by `follow_due`."""
        if changed:
            marks = {dated.mark: True for dated in changed}
            self._due.put(path, {**self._due.get(path), **marks})
        await self._bring_up(path, changed, present)

    async def follow_due(self) -> None:
        for path in [*self._due]:
            await self._bring_up(path)

    async def _bring_up(
        self, path: str, changed: Sequence[Dated] = (), present: Collection[str] | None = None
    ) -> None:
        brain: Any = self._module.get_interface("BrainInterface")
        due, linked = self._due.get(path), self._linked.get(path).keys()
        gone = () if present is None else linked - set(present)
        if brain is None or not (due or gone):
            return
        try:
            entries = changed
            if present is None or not changed or not due.keys() <= {one.mark for one in changed}:
                whole = await self._read(path)
                if whole is None:
                    return
                entries, present = whole, [dated_entry.mark for dated_entry in whole]
            await self._follow(brain, path, entries, present, due)
        except ParachuteError as error:
            self._module.log.warning(
                "the mentions of an entry could not be brought up to date",
                extra={"path": path, "error": error.message},
            )
        else:
            left = {mark: True for mark in self._due.get(path) if mark not in due}
            self._due.put(path, left)

    async def _follow(
        self,
        brain: Any,  # noqa: ANN401  another module's object
        path: str,
        entries: Sequence[Dated],
        present: Iterable[str],
        due: Collection[str],
    ) -> None:
        before = self._linked.get(path)
        after = {mark: before.get(mark, []) for mark in present}
        likely: dict[str, list[Mapping[str, Any]]] = {}
        for dated in entries:
            if dated.mark in due:
                rows = await _detected(brain, path, dated)
                after[dated.mark] = _sure(rows)
                likely[dated.mark] = [row for row in rows if _LIKELY <= row["confidence"] <= _SURE]
        if not set(_all(before)).issubset(_all(after)):  # other entries may name the same
            for dated in await self._read(path) or ():
                if dated.mark not in due:
                    rows = await _detected(brain, path, dated)
                    after[dated.mark] = _sure(rows)
        found = _all(after)
        taken_out = set(_all(before)).difference(found)
        must_look = found or taken_out or any(likely.values())
        wanted = await self._write(path, found, taken_out) if must_look else []
        self._linked.put(path, {mark: ids for mark, ids in after.items() if ids})
        for name, rows in likely.items():
            await self._suggest(path, name, rows, wanted)

    async def _write(self, path: str, found: Sequence[str], taken_out: set[str]) -> list[str]:
        vault = self._module.vault

        async def write() -> list[str]:
            try:
                base = await vault.digest(path)
                there = _listed(await vault.read(path))
            except NotFoundError:  # and so is what it mentioned
                return []
            others = (one for one in there if one not in taken_out)
            wanted = list(dict.fromkeys((*others, *found)))
            if wanted != there:
                edit = SetKey(KEY, wanted) if wanted else RemoveKey(KEY)
                await vault.edit(path, [edit], base=base)
            return wanted

        return await retry_on_conflict(write)

    async def _suggest(
        self, path: str, name: str, rows: Sequence[Mapping[str, Any]], there: Sequence[str]
    ) -> None:
        asked = self._asked.get(path)
        already = {*there, *asked.get(name, ())}
        new = {str(row["para_id"]): row for row in rows if row["para_id"] not in already}
        if not new:
            return
        self._asked.put(path, {**asked, name: [*asked.get(name, ()), *new]})
        names = ", ".join(
            f"{row['name']} ({row['text']!r}, {row['confidence']:.0%})" for row in new.values()
        )
        await self._module.suggest(
            "update",
            path,
            {"key": KEY, "value": [*there, *new]},
            reasoning=f"The entry may mention {names}.",
        )


def _text(dated: Dated) -> str:
    entry = dated.visible
    if entry is None:
        return ""
    return entry.body if entry.title == entry.created else f"{entry.title}\n\n{entry.body}"


def _listed(text: str) -> list[str]:
    value = front_values(split(text)).get(KEY, ())
    return [value] if isinstance(value, str) else list(value)


async def _detected(
    brain: Any,  # noqa: ANN401  another module's object
    path: str,
    dated: Dated,
) -> list[Mapping[str, Any]]:
    """Each mention: `para_id`, `name`, `text` and `confidence` from 0 to 1, among others."""
    text = _text(dated)
    return list(await brain.detect_mentions(path, text, dated.id)) if text else []


def _sure(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(row["para_id"]) for row in rows if row["confidence"] > _SURE))


def _all(linked: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(entry_id for ids in linked.values() for entry_id in ids))
