"""Context tools: how a curator reads the notes of its task, and writes its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial

from parachuted.access.grant import CURATOR
from parachuted.agents.extract import describe
from parachuted.agents.job import Tool
from parachuted.errors import (
    ActRefusedError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.granted_files import GrantedFiles, Objection
from parachuted.runs.note_values import FileChange
from parachuted.tools.definitions import UNPRINTABLE, agent_tools, plain, tool, tools_in
from parachuted.vault import (
    AppendToSection,
    FileContent,
    ParsedNote,
    ReplaceSection,
    Section,
    VaultPath,
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


class ContextTools:
    """`past` are those of `watched` that are not watched any more; `left_out`: how many more are.

    `declined` is why nothing needs to be written; `trouble` what the disk did at the last write, if
    it refused.
    """

    def __init__(
        self,
        files: GrantedFiles,
        own: VaultPath,
        watched: Sequence[VaultPath] = (),
        *,
        past: frozenset[VaultPath] = frozenset(),
        left_out: int = 0,
    ) -> None:
        self._files, self._own, self._watched = files, own, watched
        self._past, self._left_out = past, left_out
        self.declined: str | None = None
        self.trouble: str | None = None
        self._digests: dict[str, str] = {}  # of each text as the agent last had it
        self._turn = asyncio.Lock()

    def tools(self) -> tuple[Tool, ...]:
        return agent_tools(self, tools_in(ContextTools))

    @tool(
        "List the context files of this task: your own note (level self) and those it watches, "
        "with title and description.",
        _SERVER,
    )
    async def list_context_files(self, strangers: bool = False) -> str:  # noqa: FBT001, FBT002  by name
        """As JSON; strangers' files are counted, until they are asked for."""
        return await run_uninterrupted(partial(self._listing, wants_all=strangers))

    @tool(
        "Read one context file of this task, by its path as list_context_files gives it.", _SERVER
    )
    async def read_context(self, file_path: str) -> str:
        path = _named(file_path, (self._own, *self._watched))
        if path is None:
            why = "is not among the files of this task; call list_context_files"
            raise NotFoundError(f"{file_path[:_SHOWN]!r} {why}")
        data = (await run_uninterrupted(self.read, path)).data
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
        if _named(file_path, (self._own,)) is None:
            raise PathRefusedError(f"this task may write only {printable(self._own)}")
        text = plain(content).replace("\r\n", "\n")
        if len(text.encode()) > _LARGEST_CONTENT:
            raise EditRefusedError(f"the content is larger than {_LARGEST_CONTENT} bytes")
        async with self._turn:
            try:
                return await run_uninterrupted(self._update, section.strip(), text)
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

    def read(self, path: VaultPath) -> FileContent:
        """What it may see of that note, on which its edits are then based. Blocks on the disk."""
        content = self._files.read(path, keep=True)
        self._digests[path] = content.digest
        return content

    def _update(self, section: str, content: str) -> str:
        path, files = self._own, self._files
        note = parse_note(files.read(path).data)
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
            why = f"holds the section {HISTORY}, which only grows; name a section in it"
            raise EditRefusedError(f"{section[:_SHOWN]!r} {why}")
        wanted: AppendToSection | ReplaceSection
        if is_history:
            now = files.store.clock()
            stamp = f"<!-- Added by {CURATOR} on {now:%Y-%m-%d %H:%M} UTC -->"
            added = f"\n{stamp}\n{content.strip()}"
            wanted = AppendToSection(section=name, content=added, create=True)
        else:
            wanted = ReplaceSection(section=name, content=content, create=True)
        written = files.write(FileChange(path, wanted, base=self._digests.get(path)))
        if isinstance(written, Objection):
            raise ActRefusedError(written.why)
        self.trouble = None
        if written.after is not None and not written.merged:  # what was merged in is not read
            self._digests[path] = written.after
        if not written.changed:
            return f"{name} already says that."
        return f"{name} of {printable(path)} is written."

    def _listing(self, *, wants_all: bool) -> str:
        """A list alone counts as reading a stranger's text only where strangers' are asked for."""
        listed, left_out = [], 0
        files, user = self._files, self._files.user
        for path in (self._own, *self._watched):
            content, real, problem = None, path, ""
            try:
                real = files.find(path)
                content = files.peek(real)
                is_strangers = user.strangers.is_text(real, content.data)
            except NotFoundError:
                continue
            except ParachuteError as error:  # where its name, too, may be a stranger's
                problem, is_strangers = error.message, user.strangers.is_place(path)
            if is_strangers and not (wants_all or user.taint):
                left_out += 1
                continue
            if is_strangers:
                user.taint.read(path)
            note = parse_note(b"" if content is None else files.disclosed(real, content).data)
            level = "no longer watched" if path in self._past else "watched"
            listed.append(
                {
                    "path": printable(path),
                    "level": "self" if path == self._own else level,
                    "title": note.title,
                    "description": problem or describe(note) or None,
                }
            )
        notes = [f"({left_out} {_STRANGERS})"] if left_out else []
        notes += [f"({self._left_out} {_LEFT_OUT})"] if self._left_out else []
        return "\n".join([json.dumps(listed, ensure_ascii=False, indent=1), *notes])


def _named(path: str, allowed: Sequence[VaultPath]) -> VaultPath | None:
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
