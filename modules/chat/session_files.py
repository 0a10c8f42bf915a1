"""The files of sessions: reads them, and keeps the index as they are, by any author."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from weakref import WeakValueDictionary

from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.modules import (
    Finding,
    Note,
    SetKey,
    VaultAccess,
    is_conflict_copy,
    is_shortened,
    read_each,
    reading,
    retry_on_conflict,
    visible_to_agents,
)

from .messages import Conversation, Message, chain_digest, read_conversation
from .session import FOLDER, Session, name_says, read_session
from .session_index import Entry, SessionIndex

_AT_ONCE: Final = 100
_OPENED = re.compile(r"\ufeff?---[ \t]*\r?\n")
_KEY = re.compile(r"[\"']?[A-Za-z_][\w .-]*[\"']?[ \t]*:(?:\s|\Z)")
_MARKER = re.compile(r"^(?:(<{7})(?: [^\r\n]*)?|(={7})|(>{7})(?: [^\r\n]*)?)\r?$", re.MULTILINE)
_FENCE = re.compile(
    r"^ {0,3}(`{3,}|~{3,})[^\n]*$.*?(?:^ {0,3}\1[`~]*[ \t]*\r?$|\Z)", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Defect:
    why: str
    can_append: bool


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A file as one read found it. `is_shortened`: the reader may not see a private part."""

    note: Note
    conversation: Conversation
    session: Session
    problems: tuple[str, ...]
    is_shortened: bool
    defect: Defect | None = None

    @property
    def messages(self) -> list[Message]:
        return self.conversation.messages


class SessionFiles:
    """What decides on a file and then writes it does so inside `lock(session_id)`."""

    def __init__(self, vault: VaultAccess, index: SessionIndex) -> None:
        self._vault, self.index = vault, index
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._unreadable: dict[str, Finding] = {}
        self._last: SessionFile | None = None  # a long one takes long to read

    @property
    def unreadable(self) -> list[Finding]:
        return list(self._unreadable.values())

    def lock(self, session_id: str) -> asyncio.Lock:
        return self._locks.setdefault(session_id, asyncio.Lock())

    async def path_of(self, session_id: str) -> str:
        for path in self.index.paths_of(session_id):
            if await self._vault.exists(path):
                return path
        raise NotFoundError(f"There is no session {session_id[:80]}.")

    async def read(self, session_id: str) -> SessionFile:
        return await self.read_at(await self.path_of(session_id))

    async def read_at(self, path: str) -> SessionFile:
        """NotFoundError; EditRefusedError: it is not text."""
        return await asyncio.to_thread(self._interpret, await self._vault.note(path))

    async def load(self) -> None:
        known = await asyncio.to_thread(self.index.digests)
        present = [one for one in await self._vault.list(f"{FOLDER}**") if is_session_path(one)]
        gone = [path for path in known if path not in set(present)]
        gone_by_id = {one.id: path for path in gone if (one := self.index.get_session(path))}
        self._unreadable.clear()
        stream, changed = self._vault.read_notes(present), list[Note]()
        async for note in stream:
            if known.get(note.path) != note.digest:
                changed.append(note)
            if len(changed) == _AT_ONCE:
                await self._load_some(changed, known, gone_by_id)
                changed.clear()
        await self._load_some(changed, known, gone_by_id)
        for path, said in stream.left_out.items():
            self._unreadable[path] = Finding(path=path, problem=said)
        await asyncio.to_thread(self.index.remove, gone)

    async def _load_some(
        self, notes: Sequence[Note], known: Mapping[str, str], gone_by_id: dict[str, str]
    ) -> None:
        named, kept = [(note.path, note) for note in notes], list[SessionFile]()
        files, findings = await asyncio.to_thread(read_each, named, self._interpret)
        self._unreadable |= {finding.path: finding for finding in findings if finding.path}
        for file in files:
            path = file.note.path
            if path not in known and (source := gone_by_id.pop(file.session.id, None)):
                await asyncio.to_thread(self.index.move, source, path)
            elif self.index.digest_of(path) != known.get(path):
                continue  # written meanwhile
            with self._reading(path):
                if self.title_by_hand(file) is not None:
                    await self._follow(file)
                else:
                    kept.append(file)
        await self.keep(kept)

    async def look(self, path: str, digest: str | None = None, *, by_person: bool = True) -> None:
        if not is_session_path(path):
            return
        known = self.index.digest_of(path)
        if known is not None and known == digest:
            return
        with self._reading(path):
            try:
                file = await self.read_at(path)
            except NotFoundError:
                await self._forget(path)
                return
            except ActRefusedError:  # one who may read it will say that it changed
                return
            async with self.lock(file.session.id):
                with contextlib.suppress(NotFoundError):
                    await self._follow(await self.read_at(path), by_person=by_person)

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        found: list[Finding] = []
        self._unreadable.pop(path, None)
        with reading(path, found):
            yield
        if found:
            self._unreadable[path] = found[0]

    async def _forget(self, path: str) -> None:
        """Nothing is at that path now. A session that is just being renamed stays listed."""
        listed = self.index.get_session(path)
        if listed is None:
            return
        async with self.lock(listed.id):
            if not await self._vault.exists(path):
                await asyncio.to_thread(self.index.remove, [path])

    async def follow_move(self, source: str, path: str, *, by_person: bool = True) -> None:
        if self.index.digest_of(source) is not None and is_session_path(path):
            await asyncio.to_thread(self.index.move, source, path)
            self._unreadable.pop(source, None)
            with self._reading(path):
                file = await self.read_at(path)
                async with self.lock(file.session.id):
                    await self._follow(file, by_person=by_person, is_renamed=True)
        else:
            await self.look(source)
            await self.look(path, by_person=by_person)

    def _interpret(self, note: Note) -> SessionFile:
        """A text with a defect no longer says whose it is: it stays the session that was listed."""
        last = self._last
        is_same = last is not None and last.note.text == note.text
        file = _session_file(note, last.conversation if last is not None and is_same else None)
        self._last = file
        listed = self.index.get_session(note.path) if file.defect is not None else None
        return file if listed is None else _as_listed(file, listed)

    async def keep(self, files: Iterable[SessionFile]) -> None:
        whole = [file for file in files if not file.is_shortened]
        await asyncio.to_thread(lambda: self.index.put(list(map(_entry, whole))))

    async def follow(self, path: str) -> Session:
        file = await self.read_at(path)
        await self.keep([file])
        return file.session

    def title_by_hand(self, file: SessionFile) -> str | None:
        """The title that a person gave by editing the file, if it is not known as theirs."""
        known = self.index.get_session(file.note.path)
        is_new = known is not None and file.session.title != known.title
        return file.session.title if is_new and file.session.title_source != "user" else None

    async def _follow(
        self, file: SessionFile, *, by_person: bool = True, is_renamed: bool = False
    ) -> None:
        """Put the file into the index; a title that a person edited is theirs from now on."""
        path, title = file.note.path, self.title_by_hand(file) if by_person else None
        if title is None and by_person and is_renamed:
            title = name_says(path, file.session)
        if title is not None and not file.is_shortened and file.defect is None:
            edits = [SetKey("title", title), SetKey("title_source", "user")]

            async def write() -> None:
                base = await self._vault.digest(path)
                await self._vault.edit(path, edits, base=base)

            with self._reading(path):
                await retry_on_conflict(write)
                file = await self.read_at(path)
        await self.keep([file])


def is_session_path(path: str) -> bool:
    return path.startswith(FOLDER) and path.endswith(".md") and not is_conflict_copy(path)


def appended(file: SessionFile, text: str, digest: str) -> SessionFile | None:
    """The file once `text` is written; None: `digest` says that something else stands there."""
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        return None
    changed: dict[str, Any] = {"text": text, "digest": digest, "modified": datetime.now(UTC)}
    unread: dict[str, Any] = dict.fromkeys(("find_sections", "find_links"), lambda _: ())
    note = replace(file.note, **changed, **unread)
    new = read_conversation(text[len(file.note.text) :])
    parts = (*file.conversation.parts, *new.parts)
    new_file = _session_file(note, Conversation(file.conversation.head, parts))
    return new_file if new_file.defect is None else _as_listed(new_file, file.session)


def _session_file(note: Note, conversation: Conversation | None = None) -> SessionFile:
    conversation = conversation or read_conversation(note.text, note.body_start)
    session, problems = read_session(
        note.path,
        note.frontmatter,
        conversation,
        chain_digest(conversation.messages),
        note.modified,
    )
    defect = _defect_in(note.text, note.frontmatter, note.body_start)
    if defect is not None:
        problems.append(defect.why)
    return SessionFile(
        note, conversation, session, tuple(problems), is_shortened(note.text), defect
    )


def _as_listed(file: SessionFile, listed: Session) -> SessionFile:
    read = file.session
    session = replace(
        listed,
        path=read.path,
        updated_at=max(listed.updated_at, read.updated_at),
        message_count=read.message_count,
        history=read.history,
    )
    return replace(file, session=session)


def _entry(file: SessionFile) -> Entry:
    note, conversation = file.note, file.conversation
    if "private" in note.text.lower():
        visible = visible_to_agents(note.text)
        conversation = read_conversation(visible) if visible != note.text else conversation
    return Entry(
        session=file.session,
        digest=note.digest,
        problems=file.problems,
        messages=file.messages,
        body="\n".join(message.content for message in conversation.messages),
    )


def _defect_in(text: str, frontmatter: Mapping[str, object], body_start: int) -> Defect | None:
    opened = _OPENED.match(text)
    if opened is not None and body_start == 0 and _KEY.match(text, opened.end()):
        return Defect("no second line --- closes the frontmatter", can_append=False)
    if _has_markers(text):
        return Defect("it holds conflict markers (<<<<<<<)", can_append=True)
    if opened is not None and not frontmatter and body_start:
        lines = text[opened.end() : body_start].splitlines()[:-1]
        if any(line.strip() and not line.lstrip().startswith("#") for line in lines):
            return Defect("the frontmatter is not YAML", can_append=True)
    return None


def _has_markers(text: str) -> bool:
    """Whether a merge left both texts here; an example in a code fence is none."""
    if "<<<<<<<" not in text or ">>>>>>>" not in text:
        return False
    awaited = 1
    for marker in _MARKER.finditer(_FENCE.sub("", text)):
        if marker.lastindex == awaited == len(marker.groups()):
            return True
        if marker.lastindex == 1:
            awaited = 2
        elif marker.lastindex == awaited == 2:  # noqa: PLR2004  the second of the three
            awaited = 3
    return False
