"""Writes sessions' files: makes them, appends to them, changes their fields, and names them.

What a crash left in the log of messages, and what a file refuses, is tried again when the file
changes, with the next message of its session, and at the next start. It is dropped only when its
session is deleted.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.modules import (
    Finding,
    Module,
    NoteEdit,
    RemoveKey,
    ReplaceSpan,
    SetKey,
    VaultAccess,
    retry_on_conflict,
)

from .messages import Message, ToolUse, append_messages, compose_message, one_line_json
from .session import (
    FOLDER,
    Fields,
    Session,
    day_of,
    edits_of,
    file_name,
    is_named,
    is_named_by_us,
    now,
    untitled,
)
from .session_files import SessionFile, SessionFiles, appended

_APPEND_ATTEMPTS: Final = 40  # others may write at the end of the file all the time
_MOST_TWINS: Final = 1_000
_MOST_FORKS: Final = 50
_LINKS = re.compile(r"(?:\n\n!\[\[[^\]\n]+\]\])+\Z")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[ ._/-][A-Za-z0-9]+)*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


NewFile: TypeAlias = Callable[[str, str], Awaitable[str]]
_MOST_BYTES: Final = 4 << 20


class TitleProtectedError(EditRefusedError):
    """The person gave this session its title."""


class SessionWriter:
    """Each method but `create` is called inside the session's lock."""

    def __init__(self, vault: VaultAccess, files: SessionFiles) -> None:
        self._vault, self._files = vault, files
        self._making = set[str]()  # else those that are made at once try each name in turn

    async def create(self, fields: Fields, messages: Sequence[Message], write: NewFile) -> Session:
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

        async def write() -> None:
            file = await self._files.read(session_id)
            there = {message.id for message in file.messages}
            new = [message for message in messages if message.id not in there]
            if not new:
                return
            refuse_append(file)
            if is_strangers and not file.note.frontmatter.get("origin"):
                refuse_change(file)
                mark = SetKey("origin", "stranger")
                await self._vault.edit(file.note.path, [mark], base=file.note.digest)
                file = await self._files.read(session_id)
            note, end = file.note, len(file.note.text)
            text = append_messages(note.text, new)
            if file.is_shortened:  # the places that were read are not those of the file
                digest = await self._vault.write(note.path, text, base=note.digest)
            else:
                edits = [ReplaceSpan(end, end, text[end:]), *identity(file)]
                edits += await self._fork(file)
                digest = await self._vault.edit(note.path, edits, base=note.digest)
            known = await asyncio.to_thread(appended, file, text, digest)
            if known is None:  # others wrote meanwhile, or the frontmatter changed too
                await self._files.follow(note.path)
            else:
                await self._files.keep([known])

        await retry_on_conflict(write, _APPEND_ATTEMPTS)

    async def change(self, session_id: str, fields: Fields) -> Session:
        async def write() -> SessionFile:
            file = await self._files.read(session_id)
            refuse_change(file)
            present = file.note.frontmatter
            edits = edits_of(await self._allowed(file, fields), present)
            if edits := [edit for edit in edits if not _stands(edit, present)]:
                edits += identity(file)
                await self._vault.edit(file.note.path, edits, base=file.note.digest)
            return file

        file = await retry_on_conflict(write)
        session = await self._files.follow(file.note.path)
        is_ours = is_named_by_us(file.note.path, file.session)
        return await self._renamed(session) if "title" in fields and is_ours else session

    async def change_message(self, session_id: str, message_id: str, content: str | None) -> None:
        """Give a message another text; the files that came with it stay. None: take it out."""

        async def write() -> None:
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
            await self._vault.write(file.note.path, whole, base=file.note.digest)
            await self._files.follow(file.note.path)

        await retry_on_conflict(write)

    async def _allowed(self, file: SessionFile, fields: Fields) -> Fields:
        """A title that is the person's, also one typed a moment ago, is not overwritten."""
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
        if file.is_shortened or file.defect is not None:
            return []
        index, path = self._files.index, file.note.path
        if index.is_without_edits(path, file.note.digest):
            return []
        before = await asyncio.to_thread(index.known_messages, path)
        present = {message.id: message.digest for message in file.messages}
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


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    message: Message
    is_strangers: bool = False


class AppendLog:
    """One durable line a message, whatever the length of its file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = asyncio.Lock()
        self._open: dict[tuple[str, str], bytes] = {}
        self._file: int | None = None

    def load(self) -> dict[str, list[LoggedMessage]]:
        found: dict[str, list[LoggedMessage]] = {}
        try:
            lines = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return found
        for line in lines:
            try:
                said = json.loads(line)
                session_id, message = said["session"], _message(said["message"])
            except (ValueError, KeyError, TypeError):
                continue
            key = (session_id, message.id)
            if key not in self._open:
                self._open[key] = line + b"\n"
                logged = LoggedMessage(message, bool(said.get("origin")))
                found.setdefault(session_id, []).append(logged)
        self._write_again()
        return found

    async def append(self, session_id: str, logged: LoggedMessage) -> None:
        """It is on the disk when this returns. StorageFailedError."""
        said: dict[str, object] = {"session": session_id, "message": asdict(logged.message)}
        if logged.is_strangers:
            said["origin"] = "stranger"
        line = json.dumps(said, default=str).encode() + b"\n"
        async with self._lock:
            try:
                await asyncio.to_thread(self._write, line)
            except OSError as error:
                raise StorageFailedError(
                    f"the message could not be kept: {error.strerror}", errno=error.errno
                ) from error
            self._open[session_id, logged.message.id] = line

    async def done(self, session_id: str, messages: Iterable[Message]) -> None:
        async with self._lock:
            for message in messages:
                self._open.pop((session_id, message.id), None)
            await asyncio.to_thread(self._shorten)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _shorten(self) -> None:
        if not self._open and self._file is not None:
            os.ftruncate(self._file, 0)
        elif not self._open:
            self._path.unlink(missing_ok=True)
        elif self._file is not None and os.fstat(self._file).st_size > max(
            _MOST_BYTES, 2 * sum(map(len, self._open.values()))
        ):
            self._write_again()

    def _write_again(self) -> None:
        self.close()
        if not self._open:
            self._path.unlink(missing_ok=True)
            return
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("wb") as file:
            file.writelines(self._open.values())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)

    def _write(self, line: bytes) -> None:
        if self._file is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        at = os.fstat(self._file).st_size
        try:
            left = line
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, at)  # no half line before the next
            raise


@dataclass(slots=True)
class _Waiting:
    messages: list[LoggedMessage] = field(default_factory=list)
    error: ParachuteError | None = None


class UnwrittenMessages:
    """`write` and `drop` are called inside the session's lock."""

    def __init__(self, module: Module, files: SessionFiles, writer: SessionWriter) -> None:
        self._module, self._files, self._writer = module, files, writer
        self.log = AppendLog(module.data_folder / "appends.jsonl")
        self._waiting: dict[str, _Waiting] = {}

    async def load(self) -> None:
        for session_id, messages in (await asyncio.to_thread(self.log.load)).items():
            async with self._files.lock(session_id):
                await self.write(session_id, messages)
                waiting = self._waiting.get(session_id)
                if waiting is not None and isinstance(waiting.error, NotFoundError):
                    self._module.log.info("a message's session is gone", extra={"id": session_id})
                    await self.drop(session_id)

    async def retry(self, session_id: str) -> None:
        async with self._files.lock(session_id):
            if session_id in self._waiting:
                await self.write(session_id, ())

    async def write(self, session_id: str, messages: Sequence[LoggedMessage]) -> None:
        waiting = self._waiting.setdefault(session_id, _Waiting())
        waiting.messages += messages
        try:
            await self._writer.append(
                session_id,
                [message.message for message in waiting.messages],
                is_strangers=any(message.is_strangers for message in waiting.messages),
            )
        except ParachuteError as error:
            waiting.error = error
            self._module.log.warning(
                "messages wait for their file", extra={"id": session_id, "why": error.message}
            )
            return
        await self.drop(session_id)

    async def drop(self, session_id: str, only: Message | None = None) -> None:
        waiting = self._waiting.get(session_id)
        if waiting is None:
            return
        messages = [message.message for message in waiting.messages]
        if only is not None:
            waiting.messages = [
                message for message in waiting.messages if message.message is not only
            ]
        if only is None or not waiting.messages:
            del self._waiting[session_id]
        await self.log.done(session_id, messages if only is None else [only])

    def error_of(self, session_id: str, message: Message) -> ParachuteError | None:
        waiting = self._waiting.get(session_id)
        if waiting is None or all(one.message is not message for one in waiting.messages):
            return None
        return waiting.error

    def last(self, session_id: str) -> Message | None:
        waiting = self._waiting.get(session_id)
        return waiting.messages[-1].message if waiting and waiting.messages else None

    def findings(self, paths: Collection[str]) -> list[Finding]:
        return [
            Finding(
                problem=f"{_count(waiting.messages)} not in this file: "
                f"{waiting.error.message if waiting.error else 'they are being written'}",
                path=path,
                advice="they are kept; mend the file, or allow Chat to write it, and they are "
                "written when the file changes, with the next message of the conversation, or when "
                "the daemon starts",
            )
            for session_id, waiting in self._waiting.items()
            for path in self._files.index.paths_of(session_id)
            if path in paths
        ]


def _count(messages: Sequence[LoggedMessage]) -> str:
    return "1 message is" if len(messages) == 1 else f"{len(messages)} messages are"


def _message(said: dict[str, Any]) -> Message:
    tools = tuple(ToolUse(**tool) for tool in said.pop("tools"))
    return Message(**said, tools=tools)
