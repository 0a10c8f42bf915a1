"""Context files: the tools of a curator, on two lists of paths that are fixed for the run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from parachuted.access.filter import ignored
from parachuted.access.private_text import edit_keeping_private, without_private
from parachuted.access.strangers import MARK, Strangers, Taint, says_stranger
from parachuted.agents.extract import describe
from parachuted.agents.job import Tool
from parachuted.errors import (
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.tools.definitions import UNPRINTABLE, agent_tools, plain, tool, tools_in
from parachuted.vault import (
    AppendToSection,
    Author,
    FileContent,
    ParsedNote,
    ReplaceSection,
    Section,
    SeveralEdits,
    Store,
    VaultPath,
    WriteResult,
    parse_note,
    printable,
)

HISTORY = "History"
_SERVER = "curator"
STANDARD_SECTIONS = ("Facts", "Current Focus", HISTORY, "Watching")
_LARGEST_CONTENT = 64 << 10
_LARGEST_ANSWER = 256 << 10
_SHOWN = 100
_STRANGERS = (
    "more came from strangers and are left out; strangers: true lists them too, if the "
    "task needs them; what you write then counts as following from them"
)
_LEFT_OUT = "more are watched than one run may read; these are the ones that changed last"


@dataclass(slots=True, kw_only=True)
class ContextGrant:
    """`past`: those of `watched` that are not watched any more; `left_out`: how many more are."""

    own: VaultPath
    watched: tuple[VaultPath, ...]
    is_writable: bool = True
    past: frozenset[VaultPath] = frozenset()
    left_out: int = 0


@dataclass(slots=True, kw_only=True)
class ContextFiles:
    """The tools of one run. `read` holds the digest of each text as the agent last saw it;
    `trouble` is what the disk did at the last write, if it refused. Its own note is the run's lane,
    and is marked where it writes after reading strangers' text.
    """

    store: Store
    grant: ContextGrant
    author: Author
    clock: Callable[[], datetime]
    read: dict[str, str] = field(default_factory=dict)
    written: list[WriteResult] = field(default_factory=list)
    declined: str | None = None
    trouble: str | None = None
    strangers: Strangers = field(default_factory=Strangers)
    taint: Taint = field(default_factory=Taint)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def tools(self) -> tuple[Tool, ...]:
        return agent_tools(self, tools_in(ContextFiles))

    @tool(
        "List the context files of this task: your own note (level self) and those it watches, "
        "with title and description.",
        _SERVER,
    )
    async def list_context_files(self, strangers: bool = False) -> str:  # noqa: FBT001, FBT002  by name
        """As JSON; strangers' files are counted, until they are asked for."""
        return await asyncio.to_thread(self._listing, wants_all=strangers)

    @tool(
        "Read one context file of this task, by its path as list_context_files gives it.", _SERVER
    )
    async def read_context(self, file_path: str) -> str:
        path = _granted(file_path, (self.grant.own, *self.grant.watched))
        if path is None:
            raise NotFoundError(
                f"{file_path[:_SHOWN]!r} is not among the files of this task; call "
                "list_context_files"
            )
        content = await asyncio.to_thread(self._read, path)
        self.read[path] = content.digest
        self.saw(path, content.data)
        data = without_private(content.data)
        text = data[:_LARGEST_ANSWER].decode("utf-8", "replace")
        is_cut = len(data) > _LARGEST_ANSWER
        return f"{text}\n(cut: the file has {len(data)} bytes)" if is_cut else text

    @tool(
        "Replace the text of one section of your own note, such as Facts or Current Focus, by "
        "markdown without its heading. The section History only grows: there, give just the lines "
        "to add, and they are stamped with the date for you. Headings of the same or a higher "
        "level do not belong into the content.",
        _SERVER,
    )
    async def update_context(self, file_path: str, section: str, content: str) -> str:
        path = _granted(file_path, (self.grant.own,))
        if path is None:
            raise PathRefusedError(
                f"this task may write only {printable(self.grant.own)}, not {file_path[:_SHOWN]!r}"
            )
        if not self.grant.is_writable:
            raise PathRefusedError(
                f"{printable(path)} belongs to a program or to a person's decisions, and no agent "
                "writes it"
            )
        text = plain(content).replace("\r\n", "\n")
        if len(text.encode()) > _LARGEST_CONTENT:
            raise EditRefusedError(
                f"the content is larger than {_LARGEST_CONTENT} bytes; a context file is kept short"
            )
        async with self._turn:
            try:
                return await run_uninterrupted(self._update, path, section.strip(), text)
            except StorageFailedError as error:
                self.trouble = error.message
                raise

    @tool(
        "Say that the changes need no update of your note, and why, in one sentence. Prefer this "
        "to rewording what is still true.",
        _SERVER,
    )
    async def no_change(self, reason: str) -> str:
        if not reason.strip():
            raise EditRefusedError("reason must be a sentence")
        self.declined = " ".join(UNPRINTABLE.sub(" ", reason).split())[:500]
        return "Noted. Nothing was written."

    def saw(self, path: str, data: bytes) -> None:
        if self.strangers.is_text(path, data):
            self.taint.read(path)

    def _read(self, path: VaultPath) -> FileContent:
        """A link that stands there by now leads to what was not granted."""
        if self.store.root.ignore.hides(path):
            raise ignored(path)
        if self.store.resolve(path) != path:
            raise PathRefusedError(
                f"{printable(path)} is a link now, so it is not what this task was given"
            )
        return self.store.read(path, keep=True)

    def _update(self, path: VaultPath, section: str, content: str) -> str:
        present = self._read(path).data
        note = parse_note(present)
        found = note.section(section) if section else None
        name = section if found is not None else _standard(section)
        if name is None:
            titles = [known.title for known in note.sections][:40]
            there = ", ".join(dict.fromkeys([*titles, *STANDARD_SECTIONS[:3]]))
            raise NotFoundError(f"there is no section {section[:_SHOWN]!r}; there are {there}")
        is_history = _is_history(found.title if found is not None else name)
        if is_history and not content.strip():
            raise EditRefusedError(f"{HISTORY} only grows, and there is nothing to add")
        if found is not None and _is_above_history(found, note):
            raise EditRefusedError(
                f"{section[:_SHOWN]!r} holds the section {HISTORY}, which only grows; name one "
                "of the sections in it"
            )
        wanted: AppendToSection | ReplaceSection
        if is_history:
            stamp = f"<!-- Added by {self.author.by} on {self.clock():%Y-%m-%d %H:%M} UTC -->"
            added = f"\n{stamp}\n{content.strip()}"
            wanted = AppendToSection(section=name, content=added, create=True)
        else:
            wanted = ReplaceSection(section=name, content=content, create=True)
        edit = edit_keeping_private(wanted, present)
        if self.taint and not says_stranger(present):
            edit = SeveralEdits(edits=(edit, MARK))
        written = self.store.edit(path, edit, self.author, base=self.read.get(path))
        self.trouble = None
        self.written.append(written)
        if written.after is not None and not written.merged:  # what was merged in is not read
            self.read[path] = written.after
        if not written.changed:
            return f"{name} already says that."
        return f"{name} of {printable(path)} is written."

    def _listing(self, *, wants_all: bool) -> str:
        """A list alone counts as reading a stranger's text only where strangers' are asked for."""
        shown, left_out, own = [], 0, self.grant.own
        for path in (own, *self.grant.watched):
            data, problem = b"", ""
            try:
                data = self._read(path).data
            except NotFoundError:
                continue
            except ParachuteError as error:
                problem = error.message
            note = parse_note(without_private(data))
            if self.strangers.is_text(path, data) and not (wants_all or self.taint):
                left_out += 1
                continue
            self.saw(path, data)
            level = "no longer watched" if path in self.grant.past else "watched"
            shown.append(
                {
                    "path": printable(path),
                    "level": "self" if path == own else level,
                    "title": note.title,
                    "description": problem or describe(note) or None,
                }
            )
        listed = json.dumps(shown, ensure_ascii=False, indent=1)
        notes = [f"({left_out} {_STRANGERS})"] if left_out else []
        notes += [f"({self.grant.left_out} {_LEFT_OUT})"] if self.grant.left_out else []
        return "\n".join([listed, *notes])


def _granted(path: str, allowed: Sequence[VaultPath]) -> VaultPath | None:
    return next((known for known in allowed if path in (str(known), printable(known))), None)


def _standard(section: str) -> str | None:
    plain = " ".join(section.lstrip("#").casefold().split())
    return next((name for name in STANDARD_SECTIONS if name.casefold() == plain), None)


def _is_history(title: str) -> bool:
    return " ".join(title.casefold().split()) == HISTORY.casefold()


def _is_above_history(found: Section, note: ParsedNote) -> bool:
    """Whether replacing that section would take the History with it."""
    return any(
        found.start < section.start < found.stop and _is_history(section.title)
        for section in note.sections
    )
