"""Which hooks match an event.

Claude Code's rules for a matcher; where the subject is a path, the vault's globs.

On events about a file of the vault a matcher is a list of globs: without a slash, it is compared
with the file's name; ending with a slash, it means everything below that folder. A matcher with a
character that only regular expressions use is one of those, compared with the whole path, in
JavaScript's syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from parachuted.heavy import load_heavy_here
from parachuted.hooks.claude_tools import TOOL_EVENTS, forms
from parachuted.hooks.hook import Hook
from parachuted.hooks.hook_event import HookEvent
from parachuted.hooks.rules import compile_rule
from parachuted.keys.path_globs import PathGlob

_EVERYTHING = frozenset({"", "*"})
_NAMES = re.compile(r"[a-zA-Z0-9_, |-]+")
_BETWEEN = re.compile(r"[|,]")
_REGULAR = re.compile(r"[\^$\\()\[\]{}+]|\.\*|\.\?")
_NO_SUBJECT = frozenset({"prompt.before", "stop.before"})
_NO_PATH = frozenset(
    {
        *TOOL_EVENTS,
        "session.start",
        "session.end",
        "session.notification",
        "compact.before",
        "module.load.before",
        "brain.mention.detected",
        "hook.failed",
        "vault.problem",
    }
)


Match = Callable[[HookEvent], HookEvent | None]
"""The occurrence as the hook receives it; None: the hook does not match."""


def compile_hook(hook: Hook) -> Match:
    """What decides whether it is to run, and by which names of a tool.

    Raises ValueError, with the reason, where it can never be.
    """
    matcher = compile_matcher(hook.matcher, hook.event)
    condition = None if hook.condition is None else compile_rule(hook.condition, hook.event)

    def matches(hook_event: HookEvent) -> bool:
        subject = hook_event.subject
        return (subject is None or matcher(subject)) and (
            condition is None or condition(hook_event)
        )

    return lambda hook_event: next(filter(matches, forms(hook_event)), None)


def compile_matcher(text: str | None, event: str) -> Callable[[str], bool]:
    """What decides it from the subject.

    Raises ValueError for what is neither names, nor a glob, nor a regular expression.
    """
    if text is None or text in _EVERYTHING or event in _NO_SUBJECT:
        return lambda _: True
    if _is_about_paths(event) and not _REGULAR.search(text):
        tests = [_compile_glob(piece.strip()) for piece in _BETWEEN.split(text) if piece.strip()]
        return lambda subject: any(test(subject) for test in tests)
    if _NAMES.fullmatch(text):
        names = frozenset(piece.strip() for piece in _BETWEEN.split(text))
        return names.__contains__
    test: Callable[[str], bool] = load_heavy_here("expressions").compile_expression(text)
    return test


def _is_about_paths(event: str) -> bool:
    return event not in _NO_PATH and not event.startswith("module.")


def _compile_glob(text: str) -> Callable[[str], bool]:
    if "/" in text:
        return PathGlob(f"{text}**" if text.endswith("/") else text.removeprefix("./")).matches
    glob = PathGlob(text)
    return lambda path: glob.matches(path.rpartition("/")[2])
