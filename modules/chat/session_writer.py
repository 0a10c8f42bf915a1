"""Writes sessions' files: makes them, appends to them, changes their fields, and names them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from parachuted.errors import ActRefusedError, ConflictError, EditRefusedError, NotFoundError
from parachuted.modules import NoteEdit, RemoveKey, ReplaceSpan, SetKey, VaultAccess

from .messages import Message, append_messages, compose_message, one_line_json
from .session import (
    FOLDER,
    NewSession,
    Session,
    SessionFields,
    day_of,
    edits_of,
    file_name,
    is_named,
    is_named_by_us,
    now,
    untitled,
)
from .session_files import SessionFile, SessionFiles, appended

_ATTEMPTS: Final = 8
_APPEND_ATTEMPTS: Final = 40  # others may write at the end of the file all the time
_LONGEST_PAUSE_S: Final = 0.2
_MOST_TWINS: Final = 1_000
_MOST_FORKS: Final = 50
_LINKS = re.compile(r"(?:\n\n!\[\[[^\]\n]+\]\])+\Z")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[ ._/-][A-Za-z0-9]+)*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


NewFile: TypeAlias = Callable[[str, str], Awaitable[str]]


class TitleProtectedError(EditRefusedError):
    """The person gave this session its title; it is not overwritten."""


class SessionWriter:
    """Each method but `create` is called inside the session's lock."""

    def __init__(self, vault: VaultAccess, files: SessionFiles) -> None:
        self._vault, self._files = vault, files
        self._making = set[str]()  # else those that are made at once try each name in turn

    async def create(
        self, fields: NewSession, messages: Sequence[Message], write: NewFile
    ) -> Session:
        """Make a file with these fields, `title` and `created_at` among them."""
        lines = [
            f"{edit.key}: {_yaml(edit.value)}\n"
            for edit in edits_of(fields, {})
            if isinstance(edit, SetKey)
        ]
        text = append_messages(f"---\n{''.join(lines)}---\n", messages)
        day, index = day_of(fields["created_at"]), self._files.index
        title = fields.get("title") or untitled(fields["para_id"])
        for number in range(1, _MOST_TWINS):
            path = FOLDER + file_name(title, day, number)
            if path in self._making or index.digest_of(path) is not None:
                continue
            if index.was_anothers(path, fields["id"]):
                continue
            self._making.add(path)
            try:
                await write(path, text)
                return await self._files.follow(path)
            except ConflictError:
                continue
            finally:
                self._making.discard(path)
        raise EditRefusedError(f"{_MOST_TWINS} sessions of one day have this title")

    async def append(
        self, session_id: str, messages: Sequence[Message], *, is_strangers: bool = False
    ) -> None:
        """Put messages at the end; those that are there already are left out.

        `is_strangers` marks the file as strangers' text. EditRefusedError: the file is to be mended
        first.
        """
        for attempt in range(_APPEND_ATTEMPTS):
            file = await self._files.read(session_id)
            there = {one.id for one in file.messages}
            new = [one for one in messages if one.id not in there]
            if not new:
                return
            note = file.note
            text = append_messages(note.text, new)
            try:
                refuse_append(file)
                edits = [*identity(file), *await self._fork(file)]
                if is_strangers and not note.frontmatter.get("origin"):
                    refuse_change(file)
                    mark = SetKey("origin", "stranger")
                    await self._vault.edit(note.path, [mark], base=note.digest)
                    file = await self._files.read(session_id)
                    note = file.note
                    text = append_messages(note.text, new)
                if file.is_shortened:  # the places that were read are not those of the file
                    digest = await self._vault.write(note.path, text, base=note.digest)
                else:
                    end = len(note.text)
                    digest = await self._vault.edit(
                        note.path,
                        [ReplaceSpan(end, end, text[end:]), *edits],
                        base=note.digest,
                    )
            except ConflictError:
                if attempt == _APPEND_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(min(attempt / 100, _LONGEST_PAUSE_S))
            else:
                known = await asyncio.to_thread(appended, file, text, digest)
                if known is None:  # others wrote meanwhile, or the frontmatter changed too
                    await self._files.follow(note.path)
                else:
                    await self._files.keep([known])
                return

    async def change(self, session_id: str, fields: SessionFields) -> Session:
        """Raises TitleProtectedError."""
        for attempt in range(_ATTEMPTS):
            file = await self._files.read(session_id)
            refuse_change(file)
            wanted = await self._allowed(file, fields)
            present = file.note.frontmatter
            edits = [one for one in edits_of(wanted, present) if not _stands(one, present)]
            if not edits:
                break
            try:
                await self._vault.edit(
                    file.note.path, [*edits, *identity(file)], base=file.note.digest
                )
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                break
        session = await self._files.follow(file.note.path)
        is_ours = is_named_by_us(file.note.path, file.session)
        return await self._renamed(session) if "title" in fields and is_ours else session

    async def change_message(self, session_id: str, message_id: str, content: str | None) -> None:
        """Give a message another text; the files that came with it stay. None: take it out."""
        for attempt in range(_ATTEMPTS):
            file = await self._files.read(session_id)
            refuse_change(file)
            start = len(file.conversation.head)
            for part in file.conversation.parts:
                if part.message is not None and part.message.id == message_id:
                    break
                start += len(part.raw)
            else:
                raise NotFoundError(f"The session has no message {message_id[:80]}.")
            end, text = start + len(part.raw), ""
            if content is not None:
                links = _LINKS.search(part.message.content)
                said = content.strip() + (links[0] if links else "")
                text = compose_message(replace(part.message, content=said))
                text += part.raw[len(part.raw.rstrip()) + 1 :]
            whole = file.note.text[:start] + text + file.note.text[end:]
            try:
                await self._vault.write(file.note.path, whole, base=file.note.digest)
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                await self._files.follow(file.note.path)
                return

    async def _allowed(self, file: SessionFile, fields: SessionFields) -> SessionFields:
        """Raises TitleProtectedError where the title is the person's, also one that was typed into
        the file a moment ago, or is the file's name.
        """
        if "title" not in fields or fields["title_source"] == "user":
            return fields
        by_hand = self._files.title_by_hand(file)
        if by_hand is not None:
            await self._vault.edit(
                file.note.path, [SetKey("title_source", "user")], base=file.note.digest
            )
            await self._files.follow(file.note.path)
        is_theirs = by_hand is not None or file.session.title_source == "user"
        if is_theirs or not is_named_by_us(file.note.path, file.session):
            raise TitleProtectedError
        return fields

    async def _renamed(self, session: Session) -> Session:
        if is_named(session.path, session.title):
            return session
        folder = session.path.rpartition("/")[0]
        for number in range(1, _MOST_TWINS):
            name = file_name(session.title, day_of(session.created_at), number)
            target = f"{folder}/{name}"
            is_taken = self._files.index.was_anothers(target, session.id)
            if is_taken or await self._vault.exists(target):
                continue
            try:
                await self._vault.move(session.path, target)
            except ConflictError:
                continue
            except ActRefusedError:  # the title stands in the file, whatever its name
                return session
            await asyncio.to_thread(self._files.index.move, session.path, target)
            return await self._files.follow(target)
        return session

    async def _fork(self, file: SessionFile) -> list[NoteEdit]:
        """What records that earlier messages are not those that were there."""
        if file.is_shortened or file.defect is not None:
            return []
        index, path = self._files.index, file.note.path
        if index.is_without_edits(path, file.note.digest):
            return []
        before = await asyncio.to_thread(index.known_messages, path)
        present = {one.id: one.digest for one in file.messages}
        changed = [one for one in before if present.get(one, before[one]) != before[one]]
        removed = [one for one in before if one not in present]
        if not (changed or removed):
            return []
        fork = {"at": now(), "changed": changed, "removed": removed}
        forks = [*file.session.forks, fork][-_MOST_FORKS:]
        return [SetKey("forks", one_line_json(forks))]


def identity(file: SessionFile) -> list[NoteEdit]:
    """What gives a file made by hand the id that it has been listed by."""
    if file.defect is not None:
        return []
    session, present = file.session, file.note.frontmatter
    found = {"id": session.id, "para_id": session.para_id}
    return [SetKey(key, value) for key, value in found.items() if not present.get(key)]


def refuse_change(file: SessionFile) -> None:
    """EditRefusedError where the file is left as it is until a person mends it."""
    if file.defect is not None:
        raise EditRefusedError(
            f"{file.note.path} is left as it is until you mend it: {file.defect.why}"
        )


def refuse_append(file: SessionFile) -> None:
    if file.defect is not None and not file.defect.can_append:
        refuse_change(file)


def _stands(edit: NoteEdit, present: Mapping[str, object]) -> bool:
    match edit:
        case SetKey():
            value = list(edit.value) if isinstance(edit.value, tuple) else edit.value
            return edit.key in present and present[edit.key] == value
        case RemoveKey():
            return edit.key not in present
        case _:
            return False


def _yaml(value: object) -> str:
    """One value of new frontmatter, on one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return str(value) if is_plain else one_line_json(value)
