"""Agent tools: what an agent of a module may do with notes, and the tools of modules that it may
call.

Each goes through the same bounded access as the module itself, only narrower. Arguments come from a
model that may have read anyone's text, so whatever is wrong with them is answered as text and
changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from parachuted.access.authority import Authority
from parachuted.access.origin import Taint
from parachuted.agents import Tool, ToolResult
from parachuted.errors import ConflictError, NotFoundError, ParachuteError
from parachuted.runs.bounded_vault import BoundedVault

_LARGEST_CONTENT = 256 << 10
_LARGEST_ANSWER = 256 << 10
_MOST_LISTED = 500
_MOST_FOUND = 50
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff\ud800-\udfff]")
_CHANGED = "the note was changed in the same place meanwhile; read it again, then decide again"

_LEFT_OUT_OF_LIST = (
    "more came from strangers and are left out: a pattern that begins with their folder lists "
    "them, and read_note reads them; "
    "after that you may write no more than your own lane, and suggest the rest"
)
_LEFT_OUT_OF_SEARCH = (
    "more were found in texts of strangers, and are left out: list_notes with the folder they lie "
    "in finds them; "
    "after reading one you may write no more than your own lane, and suggest the rest"
)
LIST = "List the paths of the notes that you may read; a pattern such as Work/** narrows it down."
READ = "Read one note."
SEARCH = (
    'Find notes by words, the likeliest first. "a phrase", begin*, tag:name and -without work too.'
)
WRITE = (
    "Give a note a new whole text, or make a new note. Read a note that is there before you "
    "replace it."
)
APPEND = "Add text at the end of a section of a note; the section is made where there is none."
EDIT = (
    "Replace the text of one section of a note; headings of the same or a higher level do not "
    "belong into the text."
)


@runtime_checkable
class AnswerWithStatus(Protocol):
    """A module's answer that has a status of HTTP's beside its body."""

    @property
    def status(self) -> int:
        """From 200 to 599."""
        ...

    @property
    def body(self) -> object: ...


class DeclaredTool(Protocol):
    """A module's tool, as it declares it."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def schema(self) -> Mapping[str, object]: ...

    @property
    def agent(self) -> str:
        """The agent of its module that it is for; empty: all."""
        ...

    @property
    def writes(self) -> bool:
        """Whether it is of no use to an agent that may not write notes."""
        ...


CallTool = Callable[[str, str, Mapping[str, object]], Awaitable[object]]


_PATH = {"type": "string", "description": "The note's path in the vault, as list_notes gives it."}
_TEXT = {"type": "string", "description": "Markdown."}
_SECTION = {"type": "string", "description": "The section's heading."}
_QUERY = {"type": "string", "description": "What to look for."}
_PATTERN = {"type": "string", "description": "A pattern of paths; ** stands for any folders."}


@dataclass(slots=True, kw_only=True)
class NoteTools:
    """The tools over notes for one run.

    `read` holds the digest of each note as the agent last saw it: what its edits are decided on.
    """

    vault: BoundedVault
    may_write: bool
    read: dict[str, str] = field(default_factory=dict)

    def tools(self) -> tuple[Tool, ...]:
        text = {"path": _PATH, "text": _TEXT}
        section = {"path": _PATH, "section": _SECTION, "text": _TEXT}
        reading = (
            _note_tool("list_notes", LIST, _schema({}, pattern=_PATTERN), self._list),
            _note_tool("read_note", READ, _schema({"path": _PATH}), self._read),
            _note_tool("search_notes", SEARCH, _schema({"query": _QUERY}), self._search),
        )
        if not self.may_write:
            return reading
        return (
            *reading,
            _note_tool("write_note", WRITE, _schema(text), self._write),
            _note_tool("append_note", APPEND, _schema(section), self._append),
            _note_tool("edit_section", EDIT, _schema(section), self._edit),
        )

    async def _list(self, given: Mapping[str, str]) -> str:
        found = await self.vault.list(given.get("pattern") or "**")
        more = (
            f"\n(and {len(found) - _MOST_LISTED} more; narrow it down with a pattern)"
            if len(found) > _MOST_LISTED
            else ""
        )
        listed = ("\n".join(found[:_MOST_LISTED]) + more) or "No note that you see matches."
        left_out = self.vault.strangers_left_out
        return f"{listed}\n({left_out} {_LEFT_OUT_OF_LIST})" if left_out else listed

    async def _read(self, given: Mapping[str, str]) -> str:
        data, digest = await self.vault.read_with_digest(given["path"])
        self.read[given["path"]] = digest
        return _cut(data.decode("utf-8", "replace"))

    async def _search(self, given: Mapping[str, str]) -> str:
        hits = await self.vault.search(given["query"], _MOST_FOUND)
        found = [{"path": hit.path, "title": hit.title, "snippet": hit.snippet} for hit in hits]
        shown = (
            _cut(json.dumps(found, ensure_ascii=False, indent=1)) if found else "Nothing was found."
        )
        left_out = self.vault.strangers_left_out
        return f"{shown}\n({left_out} {_LEFT_OUT_OF_SEARCH})" if left_out else shown

    async def _write(self, given: Mapping[str, str]) -> str:
        path, text = given["path"], _text(given["text"])
        base = self.read.get(path)
        if base is None and await self.vault.exists(path):
            raise NotFoundError(
                f"{path} is there already, and you have not read it; read it, then decide what "
                "its whole text is to be"
            )
        digest = await (
            self.vault.create(path, text)
            if base is None
            else self.vault.write(path, text, base=base)
        )
        return self._wrote(path, digest)

    async def _append(self, given: Mapping[str, str]) -> str:
        path = given["path"]
        await self.vault.append(path, given["section"], _text(given["text"]))
        self.read.pop(path, None)
        return f"{path} is written."

    async def _edit(self, given: Mapping[str, str]) -> str:
        path = given["path"]
        digest = await self.vault.replace_section(
            path, given["section"], _text(given["text"]), base=self.read.get(path)
        )
        return self._wrote(path, digest)

    def _wrote(self, path: str, digest: str) -> str:
        """What others' edits were merged in has not been read, but those are kept by the next merge
        too.
        """
        self.read[path] = digest
        return f"{path} is written."


def is_for(module: str, spec: DeclaredTool, agent: str) -> bool:
    """Whether the module's tool is for that agent, a `module/agent`."""
    return not spec.agent or agent == f"{module}/{spec.agent}"


def module_tools(
    offered: Iterable[tuple[str, DeclaredTool]],
    allowed: Sequence[str],
    own: str,
    taken: Iterable[str],
    call: CallTool,
) -> tuple[Tool, ...]:
    """The tools of modules whose names are allowed, the module's own first.

    One name from several other modules means none of them.
    """
    by_name: dict[str, list[tuple[str, DeclaredTool]]] = {}
    for module, spec in offered:
        by_name.setdefault(spec.name, []).append((module, spec))
    names = set(taken)
    made = []
    for name in dict.fromkeys(allowed):
        found = [one for one in by_name.get(name, ()) if one[0] == own] or by_name.get(name, [])
        if len(found) == 1 and name not in names:
            made.append(_module_tool(*found[0], call))
    return tuple(made)


def _module_tool(module: str, spec: DeclaredTool, call: CallTool) -> Tool:
    async def called(arguments: Mapping[str, object]) -> ToolResult:
        try:
            answer = await call(module, spec.name, arguments)
        except ParachuteError as error:
            return ToolResult.of_error(error)
        failed = isinstance(answer, AnswerWithStatus) and answer.status >= 400  # noqa: PLR2004  as HTTP has it
        body = answer.body if isinstance(answer, AnswerWithStatus) else answer
        text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, indent=1)
        return ToolResult(text=_cut(text), is_error=failed)

    return Tool(
        name=spec.name,
        description=spec.description,
        schema=spec.schema,
        call=called,
        server=spec.agent or module,
    )


def _note_tool(
    name: str,
    description: str,
    schema: Mapping[str, object],
    act: Callable[[Mapping[str, str]], Awaitable[str]],
) -> Tool:
    """The act as a tool: arguments were checked by the schema, and what is refused is reported to
    the agent.
    """

    async def call(arguments: Mapping[str, object]) -> ToolResult:
        try:
            return ToolResult(
                text=await act({name: str(value) for name, value in arguments.items()})
            )
        except ConflictError:
            return ToolResult(text=_CHANGED, is_error=True)
        except ParachuteError as error:
            return ToolResult.of_error(error)

    return Tool(name=name, description=description, schema=schema, call=call, server="vault")


def _text(content: str) -> str:
    text = content.replace("\r\n", "\n")
    found = _UNPRINTABLE.search(text)
    if found is not None:
        raise ParachuteError(
            f"the text holds the character {found[0]!r} at {found.start()}, which is not text"
        )
    if len(text.encode()) > _LARGEST_CONTENT:
        raise ParachuteError(
            f"the text is larger than {_LARGEST_CONTENT} bytes; split it into several notes"
        )
    return text


def _cut(text: str) -> str:
    return (
        text
        if len(text) <= _LARGEST_ANSWER
        else f"{text[:_LARGEST_ANSWER]}\n(cut: there are {len(text)} characters)"
    )


def _schema(
    required: Mapping[str, Mapping[str, str]], **optional: Mapping[str, str]
) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTrust:
    """What an agent's run must know of a module whose tool it calls: whether a person trusts it,
    and the interfaces that it provides.
    """

    is_trusted: bool = True
    provides: tuple[str, ...] = ()


class ModuleTools(Protocol):
    """The running modules, to agents."""

    def tools(self) -> Iterable[tuple[str, DeclaredTool]]: ...

    async def call_tool(
        self, module: str, tool: str, arguments: Mapping[str, object], authority: Authority
    ) -> object:
        """Call one. Raises NotFoundError where there is none of that name."""
        ...

    def trust_of(self, module: str) -> ModuleTrust:
        """How a module stands; one that may not run is not trusted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTool:
    """A tool of an MCP server that is not ours, as a person approved it. `name` is what agents call
    it by, `tool` what its server does.
    """

    name: str
    server: str
    tool: str
    description: str
    schema: Mapping[str, object]


class ServerToolCalls(Protocol):
    """How one run calls them."""

    async def call(self, server: str, tool: str, arguments: Mapping[str, object]) -> ToolResult:
        """What the tool answers; a failure is an answer too."""
        ...

    async def close(self) -> None:
        """End what the calls began."""
        ...


class ServerTools(Protocol):
    """The MCP servers that are not ours."""

    def tools(self) -> Sequence[ServerTool]:
        """The tools of those that a person approved. Blocks on the disk."""
        ...

    def open(self) -> ServerToolCalls:
        """For one run."""
        ...


MCP_SERVERS = "mcp_servers"
"""Among the tools that a manifest asks for: those of all MCP servers that the person approves."""


def server_tools(
    offered: Iterable[ServerTool],
    allowed: Sequence[str],
    present: Iterable[Tool],
    calls: ServerToolCalls,
    taint: Taint,
) -> tuple[Tool, ...]:
    """Those whose names are allowed, and none of `present` goes by. What one answers is a
    stranger's text.
    """
    names = {tool.full_name for tool in present}
    made = (_server_tool(one, calls, taint) for one in offered if one.name in allowed)
    return tuple(tool for tool in made if tool.full_name not in names)


def _server_tool(one: ServerTool, calls: ServerToolCalls, taint: Taint) -> Tool:
    async def called(arguments: Mapping[str, object]) -> ToolResult:
        answer = await calls.call(one.server, one.tool, arguments)
        taint.read_words(f"the MCP server {one.server}", "web")
        return replace(answer, text=_cut(answer.text))

    return Tool(
        name=one.name,
        description=one.description,
        schema=one.schema,
        call=called,
        server=one.server,
    )


class NoModuleTools:
    """There are no modules."""

    def tools(self) -> Sequence[tuple[str, DeclaredTool]]:
        return ()

    async def call_tool(
        self, module: str, tool: str, arguments: Mapping[str, object], authority: Authority
    ) -> object:
        del arguments, authority
        raise NotFoundError(f"there is no tool {tool} of a module {module}")

    def trust_of(self, module: str) -> ModuleTrust:
        del module
        return ModuleTrust(is_trusted=False)
