"""Mentions: which of Brain's entities an entry speaks of, by their para-ids.

Brain finds them. Those it is sure of stand in `mentions` of the entry's file; the others are
suggested to a person, once each. What a person put there stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from parachuted.errors import ConflictError, NotFoundError, ParachuteError
from parachuted.modules import Module, RemoveKey, SetKey

from .by_path import ByPath
from .layouts import Dated
from .lines import front_values, split

KEY = "mentions"
_SURE = 0.8
_LIKELY = 0.5
_ATTEMPTS = 4


class Brain(Protocol):
    """What is asked of Brain."""

    async def detect_mentions(
        self, path: str, text: str, entry_id: str
    ) -> Sequence[Mapping[str, Any]]:
        """Each mention: `para_id`, `name`, `text` and `confidence` from 0 to 1, among others."""
        ...


class Mentions:
    """Keeps `mentions` of each file of entries, by asking Brain while there is one.

    `_linked` holds what was written for each entry, so that what an entry no longer mentions can be
    taken out again; `_asked` what was suggested, so that nothing is suggested twice.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._linked: ByPath[list[str]] = ByPath(module.state, "linked/")
        self._asked: ByPath[list[str]] = ByPath(module.state, "asked/")

    async def load(self) -> None:
        """Read what was kept."""
        await self._linked.load()
        await self._asked.load()

    def of(self, dated: Dated) -> list[str]:
        """The para-ids that an entry mentions, as far as is known."""
        linked = self._linked.get(dated.path).get(dated.mark, [])
        return list(dict.fromkeys((*dated.entry.mentions, *linked)))

    async def follow(self, path: str, changed: Sequence[Dated], present: Iterable[str]) -> None:
        """Bring `mentions` of a file up to date.

        `changed` are its entries with a new text, `present` the marks of all that it holds. They
        are saved already: what fails here is logged.
        """
        brain = cast("Brain | None", self._module.get_interface("BrainInterface"))
        gone = self._linked.get(path).keys() - set(present)
        if brain and (changed or gone):
            try:
                await self._follow(brain, path, changed, gone)
            except NotFoundError:
                self._linked.put(path, {})  # and so is what it mentioned
            except ParachuteError as error:
                self._module.log.warning(
                    "the mentions of an entry could not be brought up to date",
                    extra={"path": path, "error": error.message},
                )
            await self._linked.save()
            await self._asked.save()

    async def _follow(
        self, brain: Brain, path: str, changed: Sequence[Dated], gone: Iterable[str]
    ) -> None:
        before = self._linked.get(path)
        after = {name: ids for name, ids in before.items() if name not in gone}
        likely: dict[str, list[Mapping[str, Any]]] = {}
        for dated in changed:
            rows = (
                await brain.detect_mentions(path, text, dated.id) if (text := _text(dated)) else ()
            )
            after[dated.mark] = _ids(row for row in rows if row["confidence"] > _SURE)
            likely[dated.mark] = [row for row in rows if _LIKELY <= row["confidence"] <= _SURE]
        self._linked.put(path, {name: ids for name, ids in after.items() if ids})
        taken_out = set(_all(before)) - set(_all(after))
        wanted = await self._write(path, _all(after), taken_out)
        for name, rows in likely.items():
            await self._suggest(path, name, rows, wanted)

    async def _write(self, path: str, found: Sequence[str], taken_out: set[str]) -> list[str]:
        """Put these into `mentions`, and take those out; returns what stands there then."""
        for attempt in range(_ATTEMPTS):
            note = await self._module.vault.note(path)
            there = _listed(note.text)
            kept = (one for one in there if one not in taken_out)
            wanted = list(dict.fromkeys((*kept, *found)))
            edit = SetKey(KEY, wanted) if wanted else RemoveKey(KEY)
            try:
                if wanted != there:
                    await self._module.vault.edit(path, [edit], base=note.digest)
            except ConflictError:  # a person changed `mentions` meanwhile
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return wanted
        raise AssertionError

    async def _suggest(
        self, path: str, name: str, rows: Sequence[Mapping[str, Any]], there: Sequence[str]
    ) -> None:
        asked = self._asked.get(path)
        already = {*there, *asked.get(name, ())}
        new = {str(row["para_id"]): row for row in rows if row["para_id"] not in already}
        if not new:
            return
        self._asked.put(path, {**asked, name: [*asked.get(name, ()), *new]})
        told = ", ".join(
            f"{row['name']} ({row['text']!r}, {row['confidence']:.0%})" for row in new.values()
        )
        await self._module.suggest(
            "update",
            path,
            {"key": KEY, "value": [*there, *new]},
            reasoning=f"The entry may mention {told}.",
        )


def _text(dated: Dated) -> str:
    entry = dated.shown
    if entry is None:
        return ""
    return entry.body if entry.title == entry.created else f"{entry.title}\n\n{entry.body}"


def _listed(text: str) -> list[str]:
    value = front_values(split(text)).get(KEY, ())
    return [value] if isinstance(value, str) else list(value)


def _ids(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(str(row["para_id"]) for row in rows))


def _all(linked: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(one for ids in linked.values() for one in ids))
