"""The `if` of a hook, which decides from a tool's arguments or a note before a process is started.

`Bash(git *)`, `Edit(src/**)`, `WebFetch(domain:example.com)` are Claude Code's; `Note(Daily/**
status=draft)` is ours. Where a hook guards an action, whatever cannot be parsed with certainty
counts as a match: asking once too often does less harm than not asking.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from parachuted.hooks.claude_tools import TOOL_EVENTS
from parachuted.hooks.hook import is_blocking
from parachuted.hooks.hook_event import HookEvent
from parachuted.keys.path_globs import PathGlob

OccurrenceTest = Callable[[HookEvent], bool]

_RULE = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*(?:\((.*)\)\s*)?", re.DOTALL)
_NOTE = "Note"
_PATHS = ("file_path", "notebook_path", "path")
_LONGEST_LINE = 10_000
_QUOTED = r"""'[^']*'|"(?:[^"\\]|\\.)*\"|\\."""
_PIECE = re.compile(rf"""(?P<between>&&|\|[|&]?|;;?|&|\n)|{_QUOTED}|[^'"\\;|&\n]+""", re.DOTALL)
_ASSIGNMENTS = re.compile(rf"""\s*(?:\w+=(?:{_QUOTED}|[^\s'"\\])*\s+)*""", re.DOTALL)
_PAIR = re.compile(r"""\s+([\w-]+)=("[^"]*"|'[^']*'|[^\s"']*)\s*$""")
_SUBSTITUTION = re.compile(r"\$\(|`|<\(|>\(|<<|[(){}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paths:
    """A pattern of files, and the folder that it begins at: the file's own place, the vault, or the
    whole machine.
    """

    globs: tuple[PathGlob, ...]
    root: str  # "cwd", "vault" or "/"

    def means(self, path: str, hook_event: HookEvent) -> bool:
        folder = {"cwd": hook_event.folder, "vault": hook_event.vault, "/": Path("/")}[self.root]
        relative = posixpath.relpath(posixpath.join(hook_event.folder, path), folder)
        return (
            not relative.startswith("../")
            and relative not in {".", ".."}
            and any(glob.matches(relative) for glob in self.globs)
        )


def compile_rule(text: str, event: str) -> OccurrenceTest:
    """What decides it.

    Raises ValueError, with the reason, for a rule that is none or that can never hold for that
    event.
    """
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is not a rule such as 'Bash(git *)' or 'Note(Daily/**)'")
    name, inside = found[1], (found[2] or "").strip()
    if name == _NOTE:
        return _note_rule(inside)
    if event not in TOOL_EVENTS:
        raise ValueError(
            f"{text[:80]!r} is about a tool, and {event} is not; here only 'Note(...)' can hold"
        )
    return _tool_rule(name, inside)


def tool_of(rule: str) -> str | None:
    """The tool that a rule is about; None if it is about notes or is not a rule."""
    found = _RULE.fullmatch(rule)
    return None if found is None or found[1] == _NOTE else found[1]


def _tool_rule(name: str, inside: str) -> OccurrenceTest:
    test = _argument_rule(name, inside)

    def holds(hook_event: HookEvent) -> bool:
        tool = hook_event.data.get("tool_name")
        if not isinstance(tool, str) or not (
            tool == name or (name.startswith("mcp__") and tool.startswith(f"{name}__"))
        ):
            return False
        arguments = hook_event.data.get("tool_input")
        return test is None or (isinstance(arguments, Mapping) and test(arguments, hook_event))

    return holds


def _argument_rule(
    name: str, inside: str
) -> Callable[[Mapping[str, object], HookEvent], bool] | None:
    """What is between the brackets.

    A command has spaces and stars, a file has a place, a page has a host.
    """
    if inside in {"", "*"}:
        return None
    if inside.startswith("domain:"):
        domain = inside.removeprefix("domain:").strip().lower()
        return lambda arguments, _: _is_host(arguments.get("url"), domain)
    command = _command_pattern(inside)
    if name == "Bash":
        return lambda arguments, _: _is_command(arguments.get("command"), command)
    paths = compile_paths(inside)

    def holds(arguments: Mapping[str, object], hook_event: HookEvent) -> bool:
        path = next(
            (arguments[field] for field in _PATHS if isinstance(arguments.get(field), str)), None
        )
        if isinstance(path, str):
            return paths.means(path, hook_event)
        return any(
            isinstance(value, str) and command.fullmatch(value) for value in arguments.values()
        )

    return holds


def compile_paths(pattern: str) -> _Paths:
    """Claude Code's patterns of files: `//` begins at the root, `~/` at home, `/` at the vault, all
    else where the work is done.

    A name alone means it at any depth; a folder's name means all that is in it.
    """
    root, spelled = "cwd", pattern.removeprefix("./")
    if pattern.startswith("~/"):
        root, spelled = "/", posixpath.expanduser(pattern).lstrip("/")
    elif pattern.startswith("/"):
        root, spelled = ("/" if pattern.startswith("//") else "vault"), pattern.lstrip("/")
    elif "/" not in pattern.rstrip("/"):
        spelled = f"**/{pattern}"
    spelled = spelled.rstrip("/")
    below = () if spelled.endswith("**") else (PathGlob(f"{spelled}/**"),)
    alone = () if pattern.endswith("/") else (PathGlob(spelled),)
    return _Paths(globs=(*alone, *below), root=root)


def _command_pattern(inside: str) -> re.Pattern[str]:
    """`*` matches anything.

    After a space it begins a new word: `git *` does not match `gitk`, but matches `git` alone.
    """
    spelled = f"{inside[:-2]} *" if inside.endswith(":*") else inside
    bare, is_open = (spelled[:-2], True) if spelled.endswith(" *") else (spelled, False)
    first, *rest = map(re.escape, bare.split("*"))
    more = r"(?:\s.*)?" if is_open else ""
    if not rest:
        return re.compile(first + more, re.DOTALL)
    *between, last = rest
    passed = "".join(
        f"(?>.*?{piece})" for piece in between
    )  # never gone back into, or a long text would take its square
    ending = rf"(?>.*?{last}(?=\s|\Z)){more}" if is_open else f".*{last}"
    return re.compile(first + passed + ending, re.DOTALL)


def _is_command(command: object, pattern: re.Pattern[str]) -> bool:
    """Whether one of the commands in that line is meant; so is a line that cannot be taken
    apart.
    """
    if not isinstance(command, str):
        return False
    if (
        len(command) > _LONGEST_LINE
        or _SUBSTITUTION.search(command)
        or pattern.fullmatch(command.strip())
    ):
        return True
    try:
        return any(pattern.fullmatch(one) for one in _commands(command))
    except ValueError:
        return True  # a quote that is not closed


def _commands(line: str) -> Iterator[str]:
    """The commands of a line, each without the assignments before it.

    Raises ValueError for a quote that is not closed.
    """
    found, end = "", 0
    for piece in _PIECE.finditer(line):
        if piece.start() != end:
            raise ValueError("a quote is not closed")
        end = piece.end()
        if piece.lastgroup != "between":
            found += piece[0]
            continue
        yield _bare(found).strip()
        found = ""
    if end != len(line):
        raise ValueError("a quote is not closed")
    yield _bare(found).strip()


def _bare(command: str) -> str:
    found = _ASSIGNMENTS.match(command)
    return command[found.end() :] if found else command


def _is_host(url: object, domain: str) -> bool:
    try:
        host = (urlsplit(url).hostname or "") if isinstance(url, str) else ""
    except ValueError:
        return False
    return host == domain or (domain.startswith("*.") and host.endswith(domain[1:]))


def _note_rule(inside: str) -> OccurrenceTest:
    """`Note(Daily/** status=draft type=entry)`: the path in the vault, and frontmatter values."""
    wanted: list[tuple[str, re.Pattern[str]]] = []
    rest = f" {inside}"
    while found := _PAIR.search(rest):
        wanted.append((found[1], _value_pattern(found[2])))
        rest = rest[: found.start()]
    place = rest.strip()
    glob = (
        PathGlob(f"{place}**" if place.endswith("/") else place)
        if place not in {"", "*", "**"}
        else None
    )

    def holds(hook_event: HookEvent) -> bool:
        path = _note_path(hook_event)
        if path is None or (glob is not None and not glob.matches(path)):
            return False
        if not wanted:
            return True
        frontmatter = hook_event.data.get("frontmatter")
        if not isinstance(frontmatter, Mapping):
            return is_blocking(hook_event.event)
        return all(_has(frontmatter.get(key), pattern) for key, pattern in wanted)

    return holds


def _value_pattern(spelled: str) -> re.Pattern[str]:
    quoted = spelled[:1] in {'"', "'"}
    return re.compile(
        re.escape(spelled[1:-1]) if quoted else ".*".join(map(re.escape, spelled.split("*"))),
        re.DOTALL,
    )


def _has(value: object, pattern: re.Pattern[str]) -> bool:
    values = value if isinstance(value, list | tuple) else (value,)
    return any(pattern.fullmatch(_spelled(one)) for one in values)


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _note_path(hook_event: HookEvent) -> str | None:
    """The vault's path that it is about, also where a tool names the file by its whole path."""
    if hook_event.path is not None:
        return hook_event.path
    arguments = hook_event.data.get("tool_input")
    if not isinstance(arguments, Mapping):
        return None
    path = next(
        (arguments[field] for field in _PATHS if isinstance(arguments.get(field), str)), None
    )
    if not isinstance(path, str):
        return None
    relative = posixpath.relpath(posixpath.join(hook_event.folder, path), hook_event.vault)
    return None if relative.startswith("../") or relative in {".", ".."} else relative
