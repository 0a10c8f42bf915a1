"""Sessions: conversations as files, one note each below `Chat/sessions/`.

A message is kept on the disk before `append` returns, and stands in the file a moment later;
whatever is asked of a session waits for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from parachuted.errors import ConflictError, EditRefusedError, NotFoundError
from parachuted.modules import Finding, Module, reading

from .messages import Message, new_message_id
from .session import FOLDER, Fields, Session, check_value, now
from .session_files import SessionFile, SessionFiles
from .session_index import SessionIndex
from .session_writer import LoggedMessage, NewFile, SessionWriter, UnwrittenMessages, refuse_change

_PAUSE_S = 0.05
_SHARE = 4.0  # a file that takes long to write is written a fifth of the time at most
_LONGEST_PAUSE_S = 5.0


@dataclass(slots=True)
class _Batch:
    """Messages that one task appended, on their way into the file."""

    owner: asyncio.Task[object] | None
    messages: list[LoggedMessage] = field(default_factory=list)
    is_taken: bool = False
    is_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    writer: asyncio.Task[None] | None = None


class Sessions:
    """Whatever takes the id of a session raises NotFoundError where there is none."""

    def __init__(self, module: Module) -> None:
        self._module, self._vault = module, module.vault
        folder: Path = module.data_folder
        self._index = SessionIndex(folder / "sessions.db")
        self.files = SessionFiles(self._vault, self._index)
        self._writer = SessionWriter(self._vault, self.files)
        self._unwritten = UnwrittenMessages(module, self.files, self._writer)
        self._batches: dict[str, list[_Batch]] = {}
        self._spans: dict[str, float] = {}
        self._loaded = asyncio.Event()

    async def load(self) -> None:
        try:
            await self.files.load()
            await self._unwritten.load()
        finally:
            self._loaded.set()

    async def close(self) -> None:
        """Wait until all messages are in their files; the log keeps those that come too late."""
        try:
            for session_id in [*self._batches]:
                await self.settle(session_id)
        finally:
            self._unwritten.log.close()
            self._index.close()

    async def create(
        self,
        messages: Sequence[Message] = (),
        *,
        announce: bool = True,
        write: NewFile | None = None,
        **fields: Any,  # noqa: ANN401  of `Session`
    ) -> Session:
        """`write` makes the file, if it is no ordinary note. ConflictError: the `id` is taken."""
        await self._loaded.wait()
        session_id = fields.get("id") or str(uuid.uuid4())
        if await asyncio.to_thread(self._index.paths_of, session_id):
            raise conflict(f"there is a session {session_id[:80]}")
        new: Fields = {
            "title": None,
            "title_source": "user" if fields.get("title") else "default",
            "id": session_id,
            "para_id": f"para:chat:{new_message_id()}",
            "created_at": now(),
        }
        new |= {name: one for name, one in fields.items() if one is not None}
        session = await self._writer.create(new, messages, write or self._vault.create)
        if announce:
            self._module.publish(
                "chat.session.created",
                session_id=_word(session.id),
                title=session.title or "",
                module="chat",
                source=session.source,
            )
        return session

    async def known_ids(self, ids: Iterable[str]) -> set[str]:
        await self._loaded.wait()
        return {entry_id for entry_id in ids if self._index.paths_of(entry_id)}

    async def get(self, session_id: str) -> Session:
        return (await self.read(session_id)).session

    async def read(self, session_id: str) -> SessionFile:
        await self._loaded.wait()
        path = await self.path_of(session_id)
        indexed = self._index.get_session(path)
        await self.settle(session_id if indexed is None else indexed.id)
        try:
            return await self.files.read(session_id)
        except NotFoundError:
            async with self._renaming(session_id):
                return await self.files.read(session_id)

    async def messages(self, session_id: str) -> list[Message]:
        return (await self.read(session_id)).messages

    async def get_with_messages(self, session_id: str) -> tuple[Session, list[Message]]:
        file = await self.read(session_id)
        return file.session, file.messages

    def has_unwritten(self, session_id: str) -> bool:
        return self._unwritten.last(session_id) is not None

    async def append(self, session_id: str, message: Message) -> None:
        """It is on the disk when this returns; a caller with limited paths waits for the file."""
        await self._loaded.wait()
        call = self._module.current_call
        path = await self.path_of(session_id)
        indexed = self._index.get_session(path)
        session_id = indexed.id if indexed is not None else session_id
        logged = LoggedMessage(message, call.is_strangers)
        await self._unwritten.log.append(session_id, logged)
        batches = self._batches.setdefault(session_id, [])
        owner = asyncio.current_task()
        if not batches or batches[-1].is_taken or batches[-1].owner is not owner:
            batch = _Batch(owner)
            batches.append(batch)
            batch.writer = self._module.spawn(self._flush, session_id, batch, name="write messages")
        batches[-1].messages.append(logged)
        if call.is_limited:
            await self._written(session_id, batches[-1], message)
        waiting = sum(len(batch.messages) for batch in batches)
        self._module.publish(
            "chat.session.message",
            session_id=_word(session_id),
            message_id=_word(message.id),
            role=message.role,
            source=_word(message.meta.get("source", "parachute")),
            message_count=(indexed.message_count if indexed else 0) + waiting,
        )

    async def settle(self, session_id: str) -> None:
        """Wait until all that was appended stands in the file."""
        while batches := self._batches.get(session_id):
            for batch in batches:
                batch.is_wanted.set()
            writers = [batch.writer for batch in batches if batch.writer is not None]
            await asyncio.wait(writers)

    async def unwritten(self, session_id: str) -> Message | None:
        await self._loaded.wait()
        await self.settle(session_id)
        await self._unwritten.retry(session_id)
        return self._unwritten.last(session_id)

    async def ensure_written(self, session_id: str, message: Message) -> None:
        await self.settle(session_id)
        error = self._unwritten.error_of(session_id, message)
        if isinstance(error, EditRefusedError):
            raise EditRefusedError(
                f"{error.message}. Your message is kept, and is written once the file is mended."
            ) from error
        if error is not None:
            raise error

    async def retry_unwritten(self, path: str) -> None:
        await self._loaded.wait()
        session = self._index.get_session(path)
        if session is not None:
            await self._unwritten.retry(session.id)

    async def check_can_change(self, session_id: str) -> None:
        refuse_change(await self.read(session_id))

    async def change(self, session_id: str, **fields: Any) -> Session:  # noqa: ANN401  the same
        """None takes a field out; a `title` needs its `title_source`. EditRefusedError."""
        if "title" in fields and "title_source" not in fields:
            raise EditRefusedError("say by `title_source` who gives the title: ai or user")
        for name, value in fields.items():
            check_value(name, value)
        file = await self.read(session_id)
        async with self.files.lock(file.session.id):
            return await self._writer.change(file.session.id, fields)

    async def change_message(self, session_id: str, message_id: str, content: str | None) -> None:
        file = await self.read(session_id)
        async with self.files.lock(file.session.id):
            await self._writer.change_message(file.session.id, message_id, content)

    async def delete(self, session_id: str) -> None:
        known = (await self.read(session_id)).session.id
        async with self.files.lock(known):
            file = await self.read(known)  # a new title may have renamed it meanwhile
            await self._vault.delete(file.note.path)
            await asyncio.to_thread(self._index.remove, [file.note.path])
            await self._unwritten.drop(file.session.id)

    async def page(
        self,
        *,
        search: str = "",
        archived: bool | None = None,
        topic: str = "",
        tag: str | None = None,
        workspace: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> tuple[list[Session], str | None]:
        """`search` and `topic` are words of title, summary, tags and messages."""
        await self._loaded.wait()
        newest = partial(
            self._index.newest,
            words=f"{search} {topic}".strip(),
            archived=archived,
            tag=tag,
            workspace=workspace,
            after=_after(cursor),
            limit=limit + 1,
        )
        found = await asyncio.to_thread(newest)
        last = found[limit - 1] if len(found) > limit else None
        return found[:limit], None if last is None else f"{last.updated_at} {last.id}"

    async def count(self) -> tuple[int, int, int]:
        await self._loaded.wait()
        return await asyncio.to_thread(self._index.counts)

    async def get_by_bot_link(self, platform: str, chat_id: str) -> Session | None:
        await self._loaded.wait()
        paths = await asyncio.to_thread(self._index.paths_of_bot, platform, chat_id)
        for path in paths:
            with reading(path, []):  # the next one may be linked, too
                return (await self.files.read_at(path)).session
        return None

    async def find_para(self, para_id: str) -> tuple[Session, str | None] | None:
        """The session with that para-id, or the one with that message and the message's id."""
        await self._loaded.wait()
        short = para_id.rpartition(":")[2]
        by_message = await asyncio.to_thread(self._index.paths_with_message, short)
        found = [(path, None) for path in await asyncio.to_thread(self._index.paths_of, para_id)]
        for path, message in (*found, *((path, short) for path in by_message)):
            with reading(path, []):  # another file may have it, too
                return (await self.files.read_at(path)).session, message
        return None

    async def findings(self) -> list[Finding]:
        await self._loaded.wait()
        paths = set(await self._vault.list(f"{FOLDER}**"))
        found = [
            Finding(problem=problem, path=path, advice="repair it by hand; it is left as it is")
            for path, problems in (await asyncio.to_thread(self._index.problems)).items()
            for problem in problems
            if path in paths
        ]
        found += [
            replace(one, advice="mend it, save it as UTF-8 text, or take it out of this folder")
            for one in self.files.unreadable
            if one.path in paths
        ]
        found += self._unwritten.findings(paths)
        twins = await asyncio.to_thread(self._index.duplicates)
        for session_id, having in twins.items():
            first, *others = [path for path in having if path in paths] or [""]
            problem = f"the session {session_id} is also in {', '.join(others)}"
            advice = "give one of them another id, or remove it; the first of them is shown"
            if others:
                found.append(Finding(problem=problem, path=first, advice=advice))
        return found

    async def path_of(self, session_id: str) -> str:
        """The session's file; one that is just being renamed is waited for."""
        try:
            return await self.files.path_of(session_id)
        except NotFoundError:
            if not self._index.paths_of(session_id):
                raise
        async with self._renaming(session_id):
            return await self.files.path_of(session_id)

    def _renaming(self, session_id: str) -> asyncio.Lock:
        """What its writer holds while the file gets another name; asked by para-id, too."""
        paths = self._index.paths_of(session_id)
        listed = self._index.get_session(paths[0]) if paths else None
        return self.files.lock(session_id if listed is None else listed.id)

    async def _flush(self, session_id: str, batch: _Batch) -> None:
        """It waits a moment for more, the longer the longer the last write of that file took."""
        pause = _PAUSE_S + _SHARE * self._spans.get(session_id, 0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(pause, _LONGEST_PAUSE_S)):
                await batch.is_wanted.wait()
        async with self.files.lock(session_id):
            batch.is_taken = True
            started = time.monotonic()
            try:
                await self._unwritten.write(session_id, batch.messages)
            finally:
                self._batches[session_id].remove(batch)
                if not self._batches[session_id]:
                    del self._batches[session_id]
                self._spans[session_id] = time.monotonic() - started

    async def _written(self, session_id: str, batch: _Batch, message: Message) -> None:
        """What the file refuses is not kept: no other caller may write it for this one."""
        batch.is_wanted.set()
        if batch.writer is not None:
            await asyncio.wait([batch.writer])
        error = self._unwritten.error_of(session_id, message)
        if error is not None:
            async with self.files.lock(session_id):
                await self._unwritten.drop(session_id, message)
            raise error


def conflict(why: str) -> ConflictError:
    """What keeps something from being made, where no text of a file does."""
    return ConflictError(why, base=b"", ours=b"", theirs=b"", is_known=False)


def _word(value: object) -> str:
    return re.sub(r"[\s/\\]+", "_", str(value))[:200] or "_"


def _after(cursor: str | None) -> tuple[str, str] | None:
    if cursor is None:
        return None
    updated, blank, session_id = cursor.partition(" ")
    if not blank:
        raise EditRefusedError("this cursor is none that a page gave; leave it out")
    return updated, session_id
