"""What a module's Python files declare, found by parsing them, without running anything.

It serves the consent screen, which shows literals. What only running code reveals (a computed name,
a base class from a package) is not found here; `unshown` refuses it when the module is loaded, so
nothing runs that was not shown.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.modules.registry.declaration import ModuleDeclaration
from parachuted.modules.registry.difference import LARGEST
from parachuted.modules.registry.manifest import Manifest
from parachuted.modules.registry.module_tree import KeepingSink, TreeRefusedError, read_tree
from parachuted.modules.timing import parse_timing

_PUBLIC = "parachuted.modules"
_MARKS = frozenset({"mcp_tool", "event", "schedule"})
_SUFFIX = ".py"
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


def found_in(sources: Mapping[str, bytes]) -> CodeInspection:
    """What these files declare, by path.

    One that is not Python, too large or too deep holds nothing.
    """
    found = CodeInspection()
    for _, source in sorted(sources.items()):
        try:
            with _PARSING:
                tree = ast.parse(source) if len(source) <= LARGEST else None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
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
    """Whether a file of that path is looked through."""
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
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == _PUBLIC:
            names |= {
                alias.asname: alias.name
                for alias in node.names
                if alias.asname and alias.name in _MARKS
            }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call):
                    _mark(names.get(_last_name(decorator.func), ""), decorator, node, found)
        elif isinstance(node, ast.ClassDef):
            for name, value in _attributes(node):
                texts = set(_texts(value))
                found.agents |= texts if name == "agents" else set()
                found.provides |= texts if name == "provides" else set()


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
    """The texts of a list, the keys of a mapping, as far as they are literals."""
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
