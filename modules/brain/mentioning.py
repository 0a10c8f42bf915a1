"""Mentioning: which entities a text names, what follows from it, and what people answered."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.modules import Module, Note, reading

from .compose import new_file, texts_in
from .entity import Entity
from .mentions import LINKED_FROM, ORDINARY, Mention, hide, wikilinks
from .rows import MentionRow
from .store import ENTITIES, without_private
from .words import fold_name, slug
from .writing import Writer

_ANSWERS: Final = "answers"
_LIKELY: Final = "likely/"  # by the path of an entry, whose module suggests them
_SUGGESTING: Final = "module:daily"
_ACCEPTED: Final = frozenset({"approved", "modified"})
SUGGESTED_FROM: Final = 0.5
_ANNOUNCED: Final = "mentions/"
_EXCERPT: Final = 300  # characters
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


class MentionFinder:
    def __init__(self, module: Module, writer: Writer) -> None:
        self._vault, self._state, self._publish = module.vault, module.state, module.publish
        self._suggest, self._store, self._writer = module.suggest, writer.store, writer
        self._one_at_a_time = asyncio.Lock()  # of two that begin together, both would suggest

    async def suggest(self, text: str, least: float = 0.0) -> list[MentionRow]:
        return [row_of(mention, entity) for mention, entity in await self._mentions(text, least)]

    async def detect(self, path: str, text: str, entry_id: str | None) -> list[MentionRow]:
        """The same for a saved text, with its links; each that may be referred to has a para-id."""
        found: list[MentionRow] = []
        likely: dict[str, str] = {}
        for mention, entity in (*await self._mentions(text), *await self._linked(text)):
            named = entity
            if mention.confidence >= SUGGESTED_FROM and not entity.para_id:
                try:
                    await self._writer.id_of(entity.path)
                except ActRefusedError:  # the caller may not write that file
                    continue
                named = self._store.index.at(entity.path) or entity
            found.append(row_of(mention, named))
            if SUGGESTED_FROM <= mention.confidence <= LINKED_FROM:
                likely[named.key] = mention.text
        await self._expect(path, likely)
        await self._announce(entry_id or path, found)
        return found

    async def surest(self, text: str, entity: Entity) -> Mention | None:
        mentions = [one for one, named in await self._mentions(text) if named.path == entity.path]
        return max(mentions, key=lambda mention: mention.confidence, default=None)

    async def excerpt(self, note: Note, entity: Entity) -> str:
        text = without_private(note)[note.body_start :]
        best = await self.surest(text, entity)
        if best is None:
            return ""
        before, after = text[: best.start].rpartition("\n\n")[2], text[best.start :]
        words = " ".join((before + after.partition("\n\n")[0]).split())
        return words if len(words) <= _EXCERPT else f"{words[: _EXCERPT - 1].rstrip()}…"

    async def _announce(self, source: str, mention_rows: Iterable[MentionRow]) -> None:
        sure: dict[str, float] = {}
        for row in mention_rows:
            if ":" in row["para_id"]:
                sure[row["para_id"]] = max(row["confidence"], sure.get(row["para_id"], 0))
        if not sure:
            return
        source_id = "_".join(source.replace("/", ":").split())[:200]
        announced = set(texts_in(await self._state.get(_ANNOUNCED + source_id)))
        for para_id, confidence in sure.items():
            if para_id not in announced:
                self._publish(
                    "brain.mention.detected",
                    source_id=source_id,
                    para_id=para_id,
                    confidence=confidence,
                )
        if set(sure) - announced:
            await self._state.put(_ANNOUNCED + source_id, sorted(announced | set(sure)))

    async def _linked(self, text: str) -> list[tuple[Mention, Entity]]:
        await self._store.ready()
        links = [(place, self._store.index.linked(place[2])) for place in wikilinks(text)]
        seen = await self._store.present(entity.path for _, entity in links if entity)
        return [
            (Mention(entity.key, start, end, text[start:end], 1.0), entity)
            for (start, end, _), entity in links
            if entity and entity.path in seen
        ]

    async def _mentions(self, text: str, least: float = 0.0) -> list[tuple[Mention, Entity]]:
        await self._store.ready()
        index = self._store.index
        scanned = [one for one in index.mentions.scan(text) if one.confidence >= least]
        found = {mention.id: index.find(mention.id) for mention in scanned}
        seen = await self._store.present(entity.path for entity in found.values() if entity)
        return [
            (mention, entity)
            for mention in scanned
            if (entity := found[mention.id]) and entity.path in seen
        ]

    async def load(self) -> None:
        held = await self._state.get(_ANSWERS)
        for key, phrase, accepted, *_ in held["names"] if isinstance(held, dict) else ():
            known = self._store.index.mentions.answers
            known[key, phrase] = bool(accepted) or known.get((key, phrase), False)

    async def record(self, key: str, text: str, *, accepted: bool) -> None:
        """Learn from a person's answer: whether `text` means that entity."""
        names = self._store.index.mentions
        names.record(key, text, accepted=accepted)
        held = [[*place, answer] for place, answer in sorted(names.answers.items())]
        await self._state.put(_ANSWERS, {"names": held})

    async def _expect(self, path: str, likely: Mapping[str, str]) -> None:
        """These mentions are suggested for the note at that path, by the module that asked."""
        held = await self._state.get(_LIKELY + path, {}) if likely else {}
        if isinstance(held, dict) and not likely.items() <= held.items():
            await self._state.put(_LIKELY + path, {**held, **likely})

    async def resolved(self, path: str, source: str, status: str) -> None:
        """Learn from what became of Daily's suggestion for that entry."""
        if source != _SUGGESTING or status not in {*_ACCEPTED, "rejected"}:
            return
        likely = await self._state.get(_LIKELY + path)
        if not isinstance(likely, dict):
            return
        there: list[str] = []
        with reading(path, []):  # what is gone, or no text, mentions nothing
            there = mentions_of(await self._vault.note(path))
        await self._state.delete(_LIKELY + path)
        for para_id, text in likely.items():
            await self.record(para_id, str(text), accepted=para_id in there)

    async def offer_new(self, path: str, text: str) -> None:
        if new := dict(names_in(text)):
            async with self._one_at_a_time:
                await self._offer_new(path, new)

    async def _offer_new(self, path: str, new: dict[str, str]) -> None:
        await self._store.ready()
        types, index = self._store.types.by_name, self._store.index
        asked = texts_in(await self._state.get(_ASKED))
        suggested: list[str] = []
        for name, kind in list(new.items()):
            folder = types[kind].folder if kind in types else ""
            is_known = bool(index.mentions.scan(name) or index.resolve(name))
            if is_known or fold_name(name) in asked or not (folder and slug(name)):
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
            suggested.append(fold_name(name))
            if len(suggested) == _MOST:
                break
        if suggested:
            await self._state.put(_ASKED, [*asked, *suggested][-_MOST_ASKED:])


def row_of(mention: Mention, entity: Entity) -> MentionRow:
    return MentionRow(
        para_id=entity.key,
        name=entity.name,
        type=entity.type,
        start=mention.start,
        end=mention.end,
        text=mention.text,
        confidence=mention.confidence,
    )


def mentions_of(note: Note) -> list[str]:
    return texts_in(note.frontmatter.get("mentions"))


def names_in(text: str) -> Iterator[tuple[str, str]]:
    """Names in the text with the type that the words before them suggest, in order."""
    visible = hide(text)
    for match in _PERSON.finditer(visible):
        words: list[str] = []
        for word in match[1].split(" "):
            if not word[0].isupper() or fold_name(word) in ORDINARY:
                break
            words.append(word)
        if words and len(words[0]) >= _SHORTEST:
            yield " ".join(words), "person"
    for match in _TOPIC.finditer(visible):
        if not any(fold_name(word) in ORDINARY for word in match[1].split(" ")):
            yield match[1], "topic"
