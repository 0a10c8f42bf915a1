"""Sessions: conversations as files, one note each below `Chat/sessions/`.

What is known of them between reads is in memory and made of the files; words are found by the
vault's own search.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias
from weakref import WeakValueDictionary

from parachuted.errors import ActRefusedError, ConflictError, EditRefusedError, NotFoundError
from parachuted.modules import (
    Finding,
    Module,
    Note,
    NoteEdit,
    ReplaceSpan,
    SetKey,
    is_conflict_copy,
    is_shortened,
    reading,
    retry_on_conflict,
)

from .messages import (
    Conversation,
    Message,
    append_messages,
    chain_digest,
    compose_message,
    new_message_id,
    read_conversation,
)
from .session import (
    FOLDER,
    Fields,
    Session,
    check_value,
    day_of,
    edits_of,
    file_name,
    is_named,
    is_named_by_us,
    name_says,
    new_frontmatter,
    now,
    read_session,
    untitled,
)

_APPEND_ATTEMPTS: Final = 40  # others may write at the end of the file all the time
_MOST_TWINS: Final = 1_000
_MOST_FOUND: Final = 100
_OPENED = re.compile(r"\ufeff?---[ \t]*\r?\n")
_KEY = re.compile(r"[\"']?[A-Za-z_][\w .-]*[\"']?[ \t]*:(?:\s|\Z)")
_LINKS = re.compile(r"(?:\n\n!\[\[[^\]\n]+\]\])+\Z")
NewFile: TypeAlias = Callable[[str, str], Awaitable[str]]


class TitleProtectedError(EditRefusedError):
    """The person gave this session its title."""


@dataclass(frozen=True, slots=True)
class Defect:
    why: str
    can_append: bool


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A file as one read found it."""

    note: Note
    conversation: Conversation
    session: Session
    problems: tuple[str, ...]
    defect: Defect | None = None

    @property
    def messages(self) -> list[Message]:
        return self.conversation.messages


@dataclass(frozen=True, slots=True)
class _Listed:
    session: Session
    digest: str
    problems: tuple[str, ...]


class Sessions:
    """Whatever takes the id of a session raises NotFoundError where there is none."""

    def __init__(self, module: Module) -> None:
        self._module, self._vault = module, module.vault
        self._listed: dict[str, _Listed] = {}  # by path
        self._unreadable: dict[str, Finding] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._making = asyncio.Lock()
        self._loaded = asyncio.Event()

    async def load(self) -> None:
        try:
            stream = self._vault.read_notes(f"{FOLDER}**")
            async for note in stream:
                if is_session_path(note.path) and note.path not in self._listed:
                    with self._reading(note.path):
                        self._keep(await asyncio.to_thread(self._interpret, note))
            for path, said in stream.left_out.items():
                if is_session_path(path):
                    self._unreadable[path] = Finding(path=path, problem=said)
        finally:
            self._loaded.set()

    async def look(self, path: str, digest: str | None = None) -> None:
        """Follow what another program did there."""
        listed = self._listed.get(path)
        if not is_session_path(path) or (listed is not None and listed.digest == digest):
            return
        with self._reading(path):
            try:
                await self._follow(path)
            except NotFoundError:
                async with self._lock(listed.session.id if listed else path):
                    if not await self._vault.exists(path):  # else we are renaming it
                        self._listed.pop(path, None)
            except ActRefusedError:  # who may read it will say that it changed
                pass

    async def follow_move(self, source: str, path: str, *, by_person: bool) -> None:
        """Who renames a session's file renames the session."""
        listed = self._listed.get(source)
        if listed is None or not is_session_path(path):
            await self.look(source)
            await self.look(path)
            return
        with self._reading(path):
            async with self._lock(listed.session.id):
                self._moved(source, path)
                file = await self._read_at(path)
                title = name_says(path, file.session) if by_person else None
                if title is not None and file.defect is None:
                    edits = [SetKey("title", title), SetKey("title_source", "user")]
                    await self._vault.edit(path, edits, base=file.note.digest)
                await self._follow(path)

    async def read(self, session_id: str) -> SessionFile:
        listed_id = await self._known(session_id)
        try:
            return await self._read(session_id)
        except NotFoundError:
            async with self._lock(listed_id):  # while its file gets another name
                return await self._read(session_id)

    async def get(self, session_id: str) -> Session:
        return (await self.read(session_id)).session

    async def messages(self, session_id: str) -> list[Message]:
        return (await self.read(session_id)).messages

    async def get_with_messages(self, session_id: str) -> tuple[Session, list[Message]]:
        file = await self.read(session_id)
        return file.session, file.messages

    async def known_ids(self, ids: Iterable[str]) -> set[str]:
        await self._loaded.wait()
        return {session_id for session_id in ids if self._paths_of(session_id)}

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
        """The newest first. `search` and `topic` are words of the file: 100 sessions at most."""
        await self._loaded.wait()
        words = f"{search} {topic}".strip()
        beginning = "*" if words[-1:].isalnum() else ""  # people search while they type
        query = f"path:{FOLDER} {words}{beginning}"
        hits = await self._vault.search(query, _MOST_FOUND) if words else ()
        paths = {hit.path for hit in hits}
        sessions = sorted(
            (
                session
                for session in self._first_of_each_id()
                if (not words or session.path in paths)
                and archived in {None, session.archived}
                and (tag is None or tag in session.tags)
                and workspace in {None, session.workspace}
            ),
            key=lambda session: session.id,
        )
        sessions.sort(key=lambda session: session.updated_at, reverse=True)
        if cursor is not None:
            updated, _, last = cursor.partition(" ")
            sessions = [one for one in sessions if _follows(one, updated, last)]
        is_last = len(sessions) <= limit
        sessions = sessions[:limit]
        return sessions, None if is_last else f"{sessions[-1].updated_at} {sessions[-1].id}"

    async def count(self) -> tuple[int, int, int]:
        """Sessions, archived ones among them, and messages."""
        await self._loaded.wait()
        sessions = self._first_of_each_id()
        archived = sum(session.archived for session in sessions)
        return len(sessions), archived, sum(session.message_count for session in sessions)

    async def get_by_bot_link(self, platform: str, chat_id: str) -> Session | None:
        """The newest that belongs to that chat."""
        await self._loaded.wait()
        linked = [
            listed.session
            for listed in self._listed.values()
            if (link := listed.session.linked_bot) is not None
            and (link.platform, link.chat_id) == (platform, chat_id)
        ]
        return max(linked, key=lambda session: session.updated_at, default=None)

    async def find_para(self, para_id: str) -> tuple[Session, str | None] | None:
        """The session with that para-id, or the one with that message and the message's id."""
        await self._loaded.wait()
        with contextlib.suppress(NotFoundError):
            return await self.get(para_id), None
        short = para_id.rpartition(":")[2]
        async for note in self._vault.read_notes(list(self._listed)):
            if short in note.text:
                file = self._interpret(note)
                if any(message.id == short for message in file.messages):
                    return file.session, short
        return None

    async def findings(self) -> list[Finding]:
        await self._loaded.wait()
        findings = [
            Finding(problem=problem, path=path, advice="repair it by hand; it is left as it is")
            for path, listed in self._listed.items()
            for problem in listed.problems
        ]
        findings += [
            replace(finding, advice="mend it, save it as UTF-8 text, or take it out of this folder")
            for finding in self._unreadable.values()
        ]
        for listed in self._first_of_each_id():
            others = [path for path in self._paths_of(listed.id) if path != listed.path]
            if others:
                problem = f"the session {listed.id} is also in {', '.join(others)}"
                advice = "give one of them another id, or remove it; the first of them is shown"
                findings.append(Finding(problem=problem, path=listed.path, advice=advice))
        return findings

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
        new: Fields = {
            "title": None,
            "title_source": "user" if fields.get("title") else "default",
            "id": session_id,
            "para_id": f"para:chat:{new_message_id()}",
            "created_at": now(),
        }
        new |= {name: one for name, one in fields.items() if one is not None}
        text = append_messages(new_frontmatter(new), messages)
        async with self._making:
            if self._paths_of(session_id):
                raise conflict(f"there is a session {session_id[:80]}")
            title = new["title"] or untitled(new["para_id"])
            for path in self._free_names(title, day_of(new["created_at"])):
                with contextlib.suppress(ConflictError):
                    await (write or self._vault.create)(path, text)
                    break
            else:
                raise EditRefusedError(f"{_MOST_TWINS} sessions of one day have this title")
            session = await self._follow(path)
        if announce:
            self._module.publish(
                "chat.session.created",
                session_id=_word(session.id),
                title=session.title or "",
                module="chat",
                source=session.source,
            )
        return session

    async def append(self, session_id: str, message: Message) -> None:
        """It is in the file when this returns. EditRefusedError: the file is to be mended first."""
        session_id = await self._known(session_id)

        async def write() -> Session:
            file = await self._read(session_id)
            if any(message.id == other.id for other in file.messages):
                return file.session
            if file.defect is not None and not file.defect.can_append:
                refuse_change(file)
            note, end = file.note, len(file.note.text)
            text = append_messages(note.text, [message])
            if is_shortened(note.text):  # the places that were read are not those of the file
                await self._vault.write(note.path, text, base=note.digest)
            else:
                edits = [ReplaceSpan(end, end, text[end:]), *_identity(file)]
                await self._vault.edit(note.path, edits, base=note.digest)
            return await self._follow(note.path)

        async with self._lock(session_id):
            session = await retry_on_conflict(write, _APPEND_ATTEMPTS)
        self._module.publish(
            "chat.session.message",
            session_id=_word(session_id),
            message_id=_word(message.id),
            role=message.role,
            source=_word(message.meta.get("source", "parachute")),
            message_count=session.message_count,
        )

    async def change(self, session_id: str, **fields: Any) -> Session:  # noqa: ANN401  the same
        """None takes a field out; a `title` needs its `title_source`. EditRefusedError."""
        if "title" in fields and "title_source" not in fields:
            raise EditRefusedError("say by `title_source` who gives the title: ai or user")
        for name, value in fields.items():
            check_value(name, value)
        session_id = await self._known(session_id)

        async def write() -> SessionFile:
            file = await self._read(session_id)
            refuse_change(file)
            is_theirs = file.session.title_source == "user" or not is_named_by_us(
                file.note.path, file.session
            )
            if "title" in fields and fields["title_source"] != "user" and is_theirs:
                raise TitleProtectedError
            if edits := edits_of(fields, file.note.frontmatter):
                edits += _identity(file)
                await self._vault.edit(file.note.path, edits, base=file.note.digest)
            return file

        async with self._lock(session_id):
            file = await retry_on_conflict(write)
            session = await self._follow(file.note.path)
            is_ours = is_named_by_us(file.note.path, file.session)
            return await self._renamed(session) if "title" in fields and is_ours else session

    async def change_message(self, session_id: str, message_id: str, content: str | None) -> None:
        """Give a message another text; the files that came with it stay. None: take it out."""
        session_id = await self._known(session_id)

        async def write() -> None:
            file = await self._read(session_id)
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
            await self._follow(file.note.path)

        async with self._lock(session_id):
            await retry_on_conflict(write)

    async def delete(self, session_id: str) -> None:
        async with self._lock(await self._known(session_id)):
            path = (await self._read(session_id)).note.path
            await self._vault.delete(path)
            self._listed.pop(path, None)

    def _lock(self, session_id: str) -> asyncio.Lock:
        return self._locks.setdefault(session_id, asyncio.Lock())

    def _paths_of(self, session_id: str) -> list[str]:
        return sorted(
            path
            for path, listed in self._listed.items()
            if session_id in {listed.session.id, listed.session.para_id}
        )

    def _first_of_each_id(self) -> list[Session]:
        found: dict[str, Session] = {}
        for path in sorted(self._listed):
            found.setdefault(self._listed[path].session.id, self._listed[path].session)
        return list(found.values())

    async def _known(self, session_id: str) -> str:
        """The id by which it is locked, for what may be its para-id."""
        await self._loaded.wait()
        for path in self._paths_of(session_id):
            return self._listed[path].session.id
        raise _no_session(session_id)

    async def _read(self, session_id: str) -> SessionFile:
        for path in self._paths_of(session_id):
            with contextlib.suppress(NotFoundError):
                return await self._read_at(path)
        raise _no_session(session_id)

    async def _read_at(self, path: str) -> SessionFile:
        return await asyncio.to_thread(self._interpret, await self._vault.note(path))

    def _interpret(self, note: Note) -> SessionFile:
        conversation = read_conversation(note.text, note.body_start)
        session, problems = read_session(
            note.path,
            note.frontmatter,
            conversation,
            chain_digest(conversation.messages),
            note.modified,
        )
        defect = _defect_in(note.text, note.frontmatter, note.body_start)
        if defect is not None:  # the text no longer says whose it is
            problems.append(defect.why)
            listed = self._listed.get(note.path)
            if listed is not None:
                session = replace(
                    listed.session,
                    updated_at=max(listed.session.updated_at, session.updated_at),
                    message_count=session.message_count,
                    history=session.history,
                )
        return SessionFile(note, conversation, session, tuple(problems), defect)

    async def _follow(self, path: str) -> Session:
        file = await self._read_at(path)
        self._keep(file)
        return file.session

    def _keep(self, file: SessionFile) -> None:
        if not is_shortened(file.note.text):
            self._listed[file.note.path] = _Listed(file.session, file.note.digest, file.problems)

    def _moved(self, source: str, target: str) -> None:
        listed = self._listed.pop(source, None)
        self._unreadable.pop(source, None)
        if listed is not None:
            session = replace(listed.session, path=target)
            self._listed[target] = replace(listed, session=session)

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        findings: list[Finding] = []
        self._unreadable.pop(path, None)
        with reading(path, findings):
            yield
        if findings:
            self._unreadable[path] = findings[0]

    def _free_names(self, title: str | None, day: str) -> Iterator[str]:
        for number in range(1, _MOST_TWINS):
            path = FOLDER + file_name(title, day, number)
            if path not in self._listed:
                yield path

    async def _renamed(self, session: Session) -> Session:
        if is_named(session.path, session.title):
            return session
        folder = session.path.rpartition("/")[0]
        for path in self._free_names(session.title, day_of(session.created_at)):
            target = f"{folder}/{path.rpartition('/')[2]}"
            try:
                await self._vault.move(session.path, target)
            except ConflictError:
                continue
            except ActRefusedError:  # the title stands in the file, whatever its name
                break
            self._moved(session.path, target)
            return await self._follow(target)
        return session


def is_session_path(path: str) -> bool:
    return path.startswith(FOLDER) and path.endswith(".md") and not is_conflict_copy(path)


def refuse_change(file: SessionFile) -> None:
    """EditRefusedError where the file is left as it is until a person mends it."""
    if file.defect is not None:
        raise EditRefusedError(
            f"{file.note.path} is left as it is until you mend it: {file.defect.why}"
        )


def conflict(why: str) -> ConflictError:
    """What keeps something from being made, where no text of a file does."""
    return ConflictError(why, base=b"", ours=b"", theirs=b"", is_known=False)


def _no_session(session_id: str) -> NotFoundError:
    return NotFoundError(f"There is no session {session_id[:80]}.")


def _identity(file: SessionFile) -> list[NoteEdit]:
    """What gives a file made by hand the id that it has been listed by."""
    if file.defect is not None:
        return []
    session, present = file.session, file.note.frontmatter
    found = {"id": session.id, "para_id": session.para_id}
    return [SetKey(key, value) for key, value in found.items() if not present.get(key)]


def _defect_in(text: str, frontmatter: object, body_start: int) -> Defect | None:
    opened = _OPENED.match(text)
    if opened is not None and body_start == 0 and _KEY.match(text, opened.end()):
        return Defect("no second line --- closes the frontmatter", can_append=False)
    if opened is not None and not frontmatter and body_start:
        lines = text[opened.end() : body_start].splitlines()[:-1]
        if any(line.strip() and not line.lstrip().startswith("#") for line in lines):
            return Defect("the frontmatter is not YAML", can_append=True)
    return None


def _word(value: object) -> str:
    return re.sub(r"[\s/\\]+", "_", str(value))[:200] or "_"


def _follows(session: Session, updated: str, last: str) -> bool:
    return session.updated_at < updated or (session.updated_at == updated and session.id > last)
