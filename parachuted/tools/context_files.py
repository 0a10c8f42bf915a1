"""The context-file tools of a curator.

The grant is two lists of paths, fixed at the start of the run. Arguments come from a model that may
have read untrusted text, so each is checked, and mistakes are answered as text and change nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime

from parachuted.access.filter import ignored
from parachuted.access.origin import UNTRUSTED, Origin, Taint
from parachuted.access.origins import Origins
from parachuted.access.private_text import edit_keeping_private, without_private
from parachuted.access.run_records import QuotedPaths
from parachuted.agents import Tool, ToolResult
from parachuted.agents.extract import describe
from parachuted.errors import (
    ConflictError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.vault import (
    AppendToSection,
    Author,
    FileContent,
    ParsedNote,
    ReplaceSection,
    Section,
    Store,
    VaultPath,
    WriteResult,
    parse_note,
    printable,
)

HISTORY = "History"
UPDATE_CONTEXT = "update_context"
_SERVER = "curator"
STANDARD_SECTIONS = ("Facts", "Current Focus", HISTORY, "Watching")
_LARGEST_CONTENT = 64 << 10
_LARGEST_ANSWER = 256 << 10
_SHOWN = 100
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff\ud800-\udfff]")


@dataclass(slots=True, kw_only=True)
class ContextGrant:
    """What one run may touch: `own` to read and write, unless it is a control file, `watched` to
    read.

    `past`: those of `watched` that changed and are not watched any more. `left_out`: how many more
    are watched than one run may read.
    """

    own: VaultPath
    watched: tuple[VaultPath, ...]
    is_writable: bool = True
    past: frozenset[VaultPath] = frozenset()
    left_out: int = 0


@dataclass(slots=True, kw_only=True)
class ContextFiles:
    """The tools of one run, and a record of what they did.

    `read` holds the digest of each text as the agent last saw it.

    `trouble` is what the disk did at the last write that it refused, and none followed.

    `taint` is what it has read of strangers' texts, as `origins` knows them: its own note is its
    lane, and what it then writes there is no more to be trusted than that. `quoted` is what the
    run's record may quote of what it was shown.
    """

    store: Store
    grant: ContextGrant
    author: Author
    clock: Callable[[], datetime]
    read: dict[str, str] = field(default_factory=dict)
    written: list[WriteResult] = field(default_factory=list)
    declined: str | None = None
    trouble: str | None = None
    origins: Origins | None = None
    taint: Taint = field(default_factory=Taint)
    quoted: QuotedPaths = field(default_factory=QuotedPaths)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def tools(self) -> tuple[Tool, ...]:
        path = {"type": "string", "description": "Vault path as list_context_files gives it."}
        section = {
            "type": "string",
            "description": "Heading of the section, such as Facts, Current Focus or History.",
        }
        content = {
            "type": "string",
            "description": "The section's new markdown text without its heading; for History only "
            "the lines to add.",
        }
        reason = {"type": "string", "description": "Why nothing needs to change, in one sentence."}
        return (
            Tool(
                server=_SERVER,
                name="list_context_files",
                description=LIST,
                schema=_listing_schema(),
                call=self.list_context_files,
            ),
            Tool(
                server=_SERVER,
                name="read_context",
                description=READ,
                schema=_schema(file_path=path),
                call=self.read_context,
            ),
            Tool(
                server=_SERVER,
                name=UPDATE_CONTEXT,
                description=UPDATE,
                schema=_schema(file_path=path, section=section, content=content),
                call=self.update_context,
            ),
            Tool(
                server=_SERVER,
                name="no_change",
                description=NO_CHANGE,
                schema=_schema(reason=reason),
                call=self.no_change,
            ),
        )

    async def list_context_files(self, arguments: Mapping[str, object]) -> ToolResult:
        """Paths, levels, titles and descriptions of the files of the grant, as JSON.

        Strangers' are counted, until they are asked for.
        """
        return ToolResult(
            text=await asyncio.to_thread(
                self._listing, wants_all=arguments.get("strangers") is True
            )
        )

    async def read_context(self, arguments: Mapping[str, object]) -> ToolResult:
        path = self._granted(arguments.get("file_path"), (self.grant.own, *self.grant.watched))
        if path is None:
            return _refused(
                f"{_shown(arguments.get('file_path'))} is not among the files of this task; call "
                "list_context_files"
            )
        try:
            content = await asyncio.to_thread(self._read, path)
        except ParachuteError as error:
            return _refused(error.message)
        self.read[path] = content.digest
        self.saw(path, content.data)
        data = without_private(content.data)
        text = data[:_LARGEST_ANSWER].decode("utf-8", "replace")
        return ToolResult(
            text=text
            if len(data) <= _LARGEST_ANSWER
            else f"{text}\n(cut: the file has {len(data)} bytes)"
        )

    async def update_context(self, arguments: Mapping[str, object]) -> ToolResult:
        """Replace one section of the watcher's own note; History only grows."""
        path = self._granted(arguments.get("file_path"), (self.grant.own,))
        section, content = arguments.get("section"), arguments.get("content")
        if path is None:
            return _refused(
                f"this task may write only {printable(self.grant.own)}, not "
                f"{_shown(arguments.get('file_path'))}"
            )
        if not self.grant.is_writable:
            return _refused(
                f"{printable(path)} belongs to a program or to a person's decisions, and no agent "
                "writes it"
            )
        if not isinstance(section, str) or not isinstance(content, str):
            return _refused("section and content must be texts")
        text = content.replace("\r\n", "\n")
        problem = _problem(text)
        if problem is not None:
            return _refused(problem)
        async with self._turn:
            return await run_uninterrupted(self._update, path, section.strip(), text)

    async def no_change(self, arguments: Mapping[str, object]) -> ToolResult:
        reason = arguments.get("reason")
        if not isinstance(reason, str) or not reason.strip():
            return _refused("reason must be a sentence")
        self.declined = " ".join(_UNPRINTABLE.sub(" ", reason).split())[:500]
        return ToolResult(text="Noted. Nothing was written.")

    def saw(self, path: str, data: bytes, digest: str | None = None) -> None:
        self.quoted.add(printable(path))
        self.taint.read(printable(path), self._origin(path, data, digest))

    def _origin(self, path: str, data: bytes, digest: str | None = None) -> Origin:
        return self.origins.of_text(path, data, digest) if self.origins is not None else "you"

    def _read(self, path: VaultPath) -> FileContent:
        """The file itself, unless it is ignored by now.

        A link that has come to stand there since leads to what was not granted.
        """
        if self.store.root.ignore.hides(path):
            raise ignored(path)
        if self.store.resolve(path) != path:
            raise PathRefusedError(
                f"{printable(path)} is a link now, so it is not what this task was given"
            )
        return self.store.read(path, keep=True)

    def _update(self, path: VaultPath, section: str, content: str) -> ToolResult:
        try:
            present = self._read(path).data
            note = parse_note(present)
            found = note.section(section) if section else None
            name = section if found is not None else _standard(section)
            if name is None:
                return _refused(
                    f"there is no section {_shown(section)}; there are {', '.join(_headings(note))}"
                )
            if not content.strip() and _is_history(found.title if found is not None else name):
                return _refused(f"{HISTORY} only grows, and there is nothing to add")
            if found is not None and _is_above_history(found, note):
                return _refused(
                    f"{_shown(section)} holds the section {HISTORY}, which only grows; name one "
                    "of the sections in it"
                )
            edit = edit_keeping_private(self._edit(name, content, found), present)
            with self._recorded(path) as record:
                written = self.store.edit(path, edit, self.author, base=self.read.get(path))
                record(written.after)
        except ConflictError:
            return _refused(
                "a person changed this section meanwhile; read the file again, then decide again"
            )
        except ParachuteError as error:
            if isinstance(error, StorageFailedError):
                self.trouble = error.message
            return ToolResult.of_error(error)
        self.trouble = None
        self.written.append(written)
        if (
            written.after is not None and not written.merged
        ):  # what was merged in, the agent has not read
            self.read[path] = written.after
        return ToolResult(
            text=f"{name} of {printable(path)} is written."
            if written.changed
            else f"{name} already says that."
        )

    def _recorded(self, path: VaultPath) -> AbstractContextManager[Callable[[str | None], None]]:
        if self.origins is None:
            return contextlib.nullcontext(lambda _digest: None)
        return self.origins.writing(path, self.taint.origin)

    def _edit(
        self, name: str, content: str, found: Section | None
    ) -> ReplaceSection | AppendToSection:
        if not _is_history(found.title if found is not None else name):
            return ReplaceSection(section=name, content=content, create=True)
        stamp = f"<!-- Added by {self.author.by} on {self.clock():%Y-%m-%d %H:%M} UTC -->"
        return AppendToSection(section=name, content=f"\n{stamp}\n{content.strip()}", create=True)

    def _listing(self, *, wants_all: bool) -> str:
        """Names are texts too: a list alone does not count as reading a stranger's, unless it is
        asked for.
        """
        shown, left_out = [], 0
        for path in (self.grant.own, *self.grant.watched):
            data = b""
            try:
                data = self._read(path).data
            except NotFoundError:
                continue
            except ParachuteError as error:
                problem = error.message
            else:
                problem = ""
            note, origin = parse_note(without_private(data)), self._origin(path, data)
            if origin in UNTRUSTED and not (wants_all or self.taint):
                left_out += 1
                continue
            self.quoted.add(printable(path))
            self.taint.read(printable(path), origin)
            level = (
                "self"
                if path == self.grant.own
                else "no longer watched"
                if path in self.grant.past
                else "watched"
            )
            shown.append(
                {
                    "path": printable(path),
                    "level": level,
                    "title": note.title,
                    "description": problem or describe(note) or None,
                }
            )
        listed = json.dumps(shown, ensure_ascii=False, indent=1)
        notes = [f"({left_out} {STRANGERS})"] if left_out else []
        notes += [f"({self.grant.left_out} {LEFT_OUT})"] if self.grant.left_out else []
        return "\n".join([listed, *notes])

    @staticmethod
    def _granted(given: object, allowed: Sequence[VaultPath]) -> VaultPath | None:
        return next((path for path in allowed if given in (str(path), printable(path))), None)


def _problem(content: str) -> str | None:
    if (
        len(content) > _LARGEST_CONTENT
        or len(content.encode("utf-8", "surrogatepass")) > _LARGEST_CONTENT
    ):
        return f"the content is larger than {_LARGEST_CONTENT} bytes; a context file is kept short"
    found = _UNPRINTABLE.search(content)
    return (
        None
        if found is None
        else f"the content holds the character {found[0]!r} at {found.start()}, which is not text"
    )


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


def _headings(note: ParsedNote) -> list[str]:
    return list(
        dict.fromkeys(
            [section.title for section in note.sections][:40] + list(STANDARD_SECTIONS[:3])
        )
    )


def _schema(**properties: Mapping[str, str]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _listing_schema() -> dict[str, object]:
    strangers = {
        "type": "boolean",
        "description": "List those of strangers too; what you write then counts as following from "
        "them.",
    }
    return {"type": "object", "properties": {"strangers": strangers}, "additionalProperties": False}


def _refused(text: str) -> ToolResult:
    return ToolResult(text=text, is_error=True)


def _shown(value: object) -> str:
    """What was sent, as it may stand in an answer, whatever its size and depth."""
    return repr(value[:_SHOWN]) if isinstance(value, str) else reprlib.repr(value)


STRANGERS = (
    "more came from strangers and are left out; strangers: true lists them too, if the "
    "task needs them"
)
LEFT_OUT = "more are watched than one run may read; these are the ones that changed last"
LIST = (
    "List the context files of this task: your own note (level self) and those it watches, "
    "with title and description."
)
READ = "Read one context file of this task."
UPDATE = (
    "Replace the text of one section of your own note. The section History only grows: there, "
    "give just the lines to add, and they are "
    "stamped with the date for you. Headings of the same or a higher level do not belong into the "
    "content."
)
NO_CHANGE = (
    "Say that the changes need no update of your note, and why. Prefer this to rewording "
    "what is still true."
)
