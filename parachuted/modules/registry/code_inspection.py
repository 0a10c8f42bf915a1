"""What a module's Python files declare, without running them, and how two trees differ.

Pure. Nothing is left out, since a person approves by it: a text too long to compare line by line is
shown old and new.

It serves the consent screen, which shows literals. What only running code reveals (a computed name,
a base class from a package) is not found here; `unshown` refuses it when the module is loaded, so
nothing runs that was not shown.
"""

from __future__ import annotations

import ast
import difflib
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.registry.manifest import Manifest
from parachuted.modules.registry.module_tree import (
    KeepingSink,
    ModuleTree,
    TreeFile,
    TreeRefusedError,
    read_tree,
)
from parachuted.modules.scheduling import parse_timing
from parachuted.visible import visible

LARGEST = 1_000_000
_MOST_LINES = 4_000


def tree_difference(
    old: ModuleTree | None,
    new: ModuleTree | None,
    old_bytes: Mapping[str, bytes],
    new_bytes: Mapping[str, bytes],
) -> str:
    """What changed from the old files to the new.

    Bytes of a file may be missing where it is too large to show; it is named then.
    """
    before = {file.path: file for file in old.files} if old else {}
    after = {file.path: file for file in new.files} if new else {}
    found: list[str] = []
    for path in sorted(before.keys() | after.keys()):
        was, now = before.get(path), after.get(path)
        if was != now:
            found += _file(path, was, now, old_bytes.get(path), new_bytes.get(path))
    return "".join(f"{line}\n" for line in found)


def _file(
    path: str, was: TreeFile | None, now: TreeFile | None, old: bytes | None, new: bytes | None
) -> Iterator[str]:
    if was and now and was.mode != now.mode:
        yield f"mode of {visible(path)}: {was.mode:o} -> {now.mode:o}"
    if was and now and was.digest == now.digest:
        return
    before, after = _lines(was, old), _lines(now, new)
    if before is None or after is None:
        yield f"binary {visible(path)}: {_described(was)} -> {_described(now)}"
        return
    yield f"--- {visible(path) if was else '/dev/null'}"
    yield f"+++ {visible(path) if now else '/dev/null'}"
    yield from _compared(before, after) or ["(empty)"]


def _compared(before: Sequence[str], after: Sequence[str]) -> list[str]:
    if len(before) + len(after) > _MOST_LINES:
        return [
            f"@@ -1,{len(before)} +1,{len(after)} @@",
            *(f"-{line}" for line in before),
            *(f"+{line}" for line in after),
        ]
    return [
        line.rstrip("\n") for line in list(difflib.unified_diff(before, after, lineterm=""))[2:]
    ]


def _lines(file: TreeFile | None, data: bytes | None) -> list[str] | None:
    """The lines as they may be shown; None: it is not text, or too large."""
    if file is None:
        return []
    if data is None or b"\0" in data:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    *lines, last = text.split("\n")
    return [visible(line, keep="\t") for line in lines] + (
        [f"{visible(last, keep=chr(9))} (no end of line)"] if last else []
    )


def _described(file: TreeFile | None) -> str:
    return f"{file.size:,} bytes sha256:{file.digest}" if file else "none"


_PUBLIC = "parachuted.modules"
_MARKS = frozenset({"mcp_tool", "event", "schedule"})
_SUFFIX = ".py"
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
_PARSING = threading.Lock()  # all threads share one depth of recursion in CPython's ast.parse


@dataclass(slots=True, kw_only=True)
class CodeInspection:
    """What was found: tools with descriptions, events, schedules in words, agents, and
    interfaces.
    """

    tools: dict[str, str] = field(default_factory=dict)
    events: set[str] = field(default_factory=set)
    schedules: set[str] = field(default_factory=set)
    agents: set[str] = field(default_factory=set)
    provides: set[str] = field(default_factory=set)

    def add(self, other: CodeInspection) -> None:
        """What another file declares; of tools of one name the first is kept."""
        self.tools = other.tools | self.tools
        self.events |= other.events
        self.schedules |= other.schedules
        self.agents |= other.agents
        self.provides |= other.provides


def found_in(sources: Mapping[str, bytes]) -> CodeInspection:
    """What these files declare, by path.

    One that is not Python, too large or too deep holds nothing.
    """
    found = CodeInspection()
    for _, source in sorted(sources.items()):
        found.add(found_in_file(source))
    return found


def found_in_file(source: bytes) -> CodeInspection:
    """The same for one file."""
    found = CodeInspection()
    try:
        with _PARSING:
            tree = ast.parse(source) if len(source) <= LARGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    if tree is not None:
        _look(tree, found)
    return found


def found_in_copy(copy: Path) -> CodeInspection:
    """The same for the approved copy of a module. Blocks on the disk."""
    sources = KeepingSink(is_source, largest=LARGEST)
    try:
        read_tree(copy, sink=sources)
    except TreeRefusedError:
        return CodeInspection()  # then it is not loaded either
    return found_in(sources.kept)


def is_source(path: str) -> bool:
    return path.endswith(_SUFFIX)


def unshown(declared: ModuleDeclaration, manifest: Manifest, code: CodeInspection) -> list[str]:
    """What a loaded module has that was not shown at approval, each with what to do about it."""
    tools, events = (
        {one.name for one in manifest.mcp_tools} | code.tools.keys(),
        {one.event for one in manifest.hooks} | code.events,
    )
    found = [
        _SAY.format(
            f"the tool {one.name}", f"`mcp_tools: [{{name: {one.name}, handler: {one.handler}}}]`"
        )
        for one in declared.tools
        if one.name not in tools
    ]
    found += [
        _SAY.format(
            f"the listener {one.handler}",
            f"`hooks: [{{event: {one.event}, handler: {one.handler}}}]`",
        )
        for one in declared.events
        if one.event not in events
    ]
    found += [
        f"the hook {one.handler} was not shown when the module was approved: add {one.event} to "
        "`hooks` below `permissions` of manifest.yaml"
        for one in declared.hooks
        if one.event not in manifest.permissions.hooks
    ]
    found += [
        f"the schedule of {one.handler} was not shown when it was approved: write it in its "
        "decorator as a literal, such as every='15m'"
        for one in declared.schedules
        if one.timing.words() not in code.schedules
    ]
    agents, provided = manifest.agents.keys() | code.agents, {*manifest.provides, *code.provides}
    found += [
        _SAY.format(f"the agent {name}", f"`agents: {{{name}: ...}}`")
        for name in declared.agents
        if name not in agents
    ]
    found += [
        _SAY.format(f"the interface {name}", f"`provides: [{name}]`")
        for name in declared.provides
        if name not in provided
    ]
    return found


_SAY = (
    "{} was not shown when the module was approved, since only running code names it: add {} "
    "to manifest.yaml"
)


def _look(tree: ast.Module, found: CodeInspection) -> None:
    """Decorators by their own names, by other names that they were imported under, and as
    attributes.
    """
    names = {name: name for name in _MARKS}
    statements = list(_statements(tree))
    for node in statements:
        if isinstance(node, ast.ImportFrom) and node.module == _PUBLIC:
            names |= {
                alias.asname: alias.name
                for alias in node.names
                if alias.asname and alias.name in _MARKS
            }
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call):
                    _mark(names.get(_last_name(decorator.func), ""), decorator, node, found)
        elif isinstance(node, ast.ClassDef):
            for name, value in _attributes(node):
                texts = set(_texts(value))
                found.agents |= texts if name == "agents" else set()
                found.provides |= texts if name == "provides" else set()


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Every statement, outer ones first. Expressions, which are most of a tree, declare nothing."""
    waiting = deque[ast.AST]([tree])
    while waiting:
        node = waiting.popleft()
        yield node
        for inner in _BLOCKS:
            waiting.extend(getattr(node, inner, ()))


def _mark(
    name: str,
    call: ast.Call,
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    found: CodeInspection,
) -> None:
    given = {one.arg: one.value for one in call.keywords if one.arg is not None}
    text = _text(call.args[0] if call.args else given.get("name"))
    if name == "mcp_tool" and text is not None:
        found.tools.setdefault(
            text, _text(given.get("description")) or (ast.get_docstring(function) or "")
        )
    elif name == "event" and text is not None:
        found.events.add(text)
    elif name == "schedule":
        try:
            timing = parse_timing(
                every=_text(given.get("every")),
                at=_text(given.get("at")),
                cron=_text(given.get("cron")),
                timezone=_text(given.get("timezone")),
            )
            found.schedules.add(timing.words())
        except ValueError:
            return  # the decorator refuses it too


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for one in node.body:
        targets = (
            one.targets
            if isinstance(one, ast.Assign)
            else [one.target]
            if isinstance(one, ast.AnnAssign)
            else []
        )
        value = getattr(one, "value", None)
        yield from (
            (target.id, value)
            for target in targets
            if isinstance(target, ast.Name) and value is not None
        )


def _texts(value: ast.expr) -> Iterator[str]:
    items: list[ast.expr | None] = (
        list(value.elts) if isinstance(value, ast.List | ast.Tuple | ast.Set) else []
    )
    items += value.keys if isinstance(value, ast.Dict) else []
    yield from (text for text in map(_text, items) if text is not None)
    if isinstance(value, ast.Call):
        yield from (
            one.arg
            for one in value.keywords
            if _last_name(value.func) == "dict" and one.arg is not None
        )


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _last_name(node: ast.expr) -> str:
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )
