"""Which hooks match an event.

A matcher is `*` or nothing (everything), names joined by `|`, or a regular expression in RE2's
syntax, found anywhere in the subject in time linear in its length. On events about a file of the
vault, any other matcher is a list of globs: without a slash, one is compared with the
file's name; one that ends with a slash means everything below that folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from parachuted.heavy import load_heavy_here
from parachuted.hooks.hook import Hook
from parachuted.hooks.hook_event import HookEvent
from parachuted.hooks.tool_names import FULL_NAME, TOOL_EVENTS
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


def compile_hook(hook: Hook) -> Callable[[HookEvent], bool]:
    """What decides whether the hook is to run.

    A tool matches by the name that it has here and by the one that the model sees. Raises
    ValueError, with the reason, where the hook can never match.
    """
    test = compile_matcher(hook.matcher, hook.event)

    def matches(hook_event: HookEvent) -> bool:
        subject, full_name = hook_event.subject, hook_event.data.get(FULL_NAME)
        return subject is None or test(subject) or (isinstance(full_name, str) and test(full_name))

    return matches


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
    return _compile_expression(text)


def _compile_expression(text: str) -> Callable[[str], bool]:
    re2 = load_heavy_here("re2")
    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(text.encode("utf-8", "replace"), options)
    except re2.error as error:
        raise ValueError(
            f"the matcher {text[:80]!r} is not a regular expression of RE2's (which has no "
            "look-around, no back-references), so it never matches"
        ) from error
    return lambda subject: expression.search(subject.encode("utf-8", "replace")) is not None


def _is_about_paths(event: str) -> bool:
    return event not in _NO_PATH and not event.startswith("module.")


def _compile_glob(text: str) -> Callable[[str], bool]:
    if "/" in text:
        return PathGlob(f"{text}**" if text.endswith("/") else text.removeprefix("./")).matches
    glob = PathGlob(text)
    return lambda path: glob.matches(path.rpartition("/")[2])
