"""Unknown names: people and topics that an entry speaks of and Brain has no file for.

Each is suggested once. Only words after which a name stands are looked at, so that few are wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from parachuted.errors import ParachuteError
from parachuted.modules import StateAccess

from .answers import Suggest
from .compose import new_file
from .hiding import hide
from .mentions import ORDINARY
from .names import fold, slug
from .store import ENTITIES, EntityStore

_ASKED: Final = "unknown_names"
_MOST_ASKED: Final = 2_000
_MOST: Final = 3  # of one entry
_SHORTEST: Final = 3
_WORD: Final = r"[^\W\d_](?:[\w-]|['\u2019](?![sS]\b))*"
_PERSON: Final = re.compile(
    r"\b(?i:met(?: up)?(?: with)?|(?:lunch|dinner|breakfast|coffee|tea|talked|spoke|meeting|walk) "
    r"with|talked to|spoke to|called|phoned|emailed|thanked|visited|asked|told) "
    rf"({_WORD}(?: {_WORD}){{0,2}})"
)
_TOPIC: Final = re.compile(
    r"\b(?i:learn(?:ing|ed)? about|studying|(?:module|course|workshop|talk|book|lesson) "
    rf"(?:on|about)) ({_WORD}(?: {_WORD}){{1,2}})(?=[.,;:!?\n)]|\Z)"
)


class UnknownNames:
    """Suggests a file for each new name, and remembers which were suggested."""

    def __init__(self, store: EntityStore, state: StateAccess, suggest: Suggest) -> None:
        """`suggest` is the module's."""
        self._store, self._state, self._suggest = store, state, suggest

    async def offer(self, path: str, text: str) -> None:
        """Suggest what the entry at that path names and nobody has suggested yet. A caller who sees
        a part of the entities does not know what is unknown.
        """
        view = await self._store.view()
        new = dict(names_in(text))
        if not (new and view.is_whole):
            return
        held = await self._state.get(_ASKED, [])
        asked = [str(one) for one in held] if isinstance(held, list) else []
        suggested: list[str] = []
        for name, kind in list(new.items()):
            folder = view.types.by_name[kind].folder if kind in view.types.by_name else ""
            is_known = bool(view.mentions.scan(name) or view.index.resolve(name))
            if is_known or fold(name) in asked or not (folder and slug(name)):
                continue
            try:
                await self._suggest(
                    "create",
                    f"{ENTITIES}{folder}/{slug(name)}.md",
                    {"text": new_file(self._store.new_id(), kind, name, {})},
                    reasoning=f"{path} speaks of {name}, of whom or which Brain has no file.",
                )
            except ParachuteError:  # too many wait, or a file is there: the next entry asks again
                break
            suggested.append(fold(name))
            if len(suggested) == _MOST:
                break
        if suggested:
            await self._state.put(_ASKED, [*asked, *suggested][-_MOST_ASKED:])


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """Names in the text with the type that the words before them suggest, in order."""
    shown = hide(text)
    for found in _PERSON.finditer(shown):
        words: list[str] = []
        for word in found[1].split(" "):
            if not word[0].isupper() or fold(word) in ORDINARY:
                break
            words.append(word)
        if words and len(words[0]) >= _SHORTEST:
            yield " ".join(words), "person"
    for found in _TOPIC.finditer(shown):
        if not any(fold(word) in ORDINARY for word in found[1].split(" ")):
            yield found[1], "topic"
