"""Answers: what people said of suggested mentions, from which their confidence learns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from parachuted.modules import Note, StateAccess, reading

from .compose import texts_in
from .mentions import Mention, MentionHistory
from .store import EntityStore
from .view import View

_ANSWERS: Final = "answers"
_OFFERED: Final = "offered/"  # by the id of a suggestion of Brain's own
_LIKELY: Final = "likely/"  # by the path of an entry, whose module suggests them
_SUGGESTING: Final = "module:daily"
_ACCEPTED: Final = frozenset({"approved", "modified"})

Suggest = Callable[..., Awaitable[str]]


class MentionAnswers:
    """Suggests mentions, remembers what was suggested, and learns from the answers."""

    def __init__(
        self, store: EntityStore, view: View, state: StateAccess, suggest: Suggest
    ) -> None:
        self._store, self._view = store, view
        self._state, self._suggest = state, suggest

    async def load(self) -> None:
        held = await self._state.get(_ANSWERS)
        if isinstance(held, dict):
            self._view.index.mentions.history = MentionHistory.from_json(held)

    async def record(self, key: str, text: str, *, accepted: bool, manner: str = "") -> None:
        """Learn whether `text` means the entity of that key."""
        history = self._view.index.mentions.history
        history.record(key, text, accepted=accepted, manner=manner)
        await self._state.put(_ANSWERS, history.to_json())

    async def expect(self, path: str, likely: Iterable[Mention]) -> None:
        """These mentions are suggested for the note at that path, by the module that asked."""
        new = {one.id: [one.text, one.manner] for one in likely}
        held = await self._held(_LIKELY + path) if new else {}
        if any(held.get(key) != one for key, one in new.items()):
            await self._state.put(_LIKELY + path, {**held, **new})

    async def suggest(self, note: Note, para_id: str, mention: Mention) -> None:
        made = await self._suggest(
            "update",
            note.path,
            {"key": "mentions", "value": [*mentions_of(note), para_id]},
            reasoning=f"The entry may mention {mention.name} ({mention.text!r}, "
            f"{mention.confidence:.0%}).",
        )
        await self._state.put(_OFFERED + made, {para_id: [mention.text, mention.manner]})

    async def resolved(self, suggestion: str, path: str, source: str, status: str) -> None:
        offered = await self._held(_OFFERED + suggestion)
        if offered:
            await self._state.delete(_OFFERED + suggestion)
            if status in _ACCEPTED or status == "rejected":
                await self._learn(offered, offered if status in _ACCEPTED else ())
            return
        likely = await self._held(_LIKELY + path) if source == _SUGGESTING else {}
        if not likely or (status not in _ACCEPTED and status != "rejected"):
            return
        there: list[str] = []
        with reading(path, []):  # what is gone, or no text, mentions nothing
            there = mentions_of(await self._store.note(path))
        await self._state.delete(_LIKELY + path)
        await self._learn(likely, there)

    async def _learn(self, offered: Mapping[str, list[str]], accepted: Iterable[str]) -> None:
        yes = set(accepted)
        for para_id, (text, manner) in offered.items():
            await self.record(para_id, text, accepted=para_id in yes, manner=manner)

    async def _held(self, key: str) -> dict[str, list[str]]:
        held = await self._state.get(key)
        return dict(held) if isinstance(held, dict) else {}


def mentions_of(note: Note) -> list[str]:
    return texts_in(note.frontmatter.get("mentions"))
