"""Which hooks match an event: a matcher is `*` or nothing (everything), names joined by `|`, or a
regular expression of RE2's, found anywhere in the subject in time linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from parachuted.hooks.hook import Hook
from parachuted.hooks.hook_event import FULL_NAME, HookEvent
from parachuted.processes.heavy import load_heavy_here

_NAMES = re.compile(r"[\w ,|-]+", re.ASCII)
_GLOB = re.compile(r"^\*.|\*\*|/\*|/\?")


def compile_hook(hook: Hook) -> Callable[[HookEvent], bool]:
    """What decides whether the hook runs: a tool matches by either name, a file by a name in its
    path. Raises ValueError, with the reason, where the hook can never match.
    """
    test = _compile_matcher(hook.matcher)

    def matches(hook_event: HookEvent) -> bool:
        subject, full_name = hook_event.subject, hook_event.data.get(FULL_NAME)
        return subject is None or test(subject) or (isinstance(full_name, str) and test(full_name))

    return matches


def _compile_matcher(text: str | None) -> Callable[[str], bool]:
    if text is None or text in {"", "*"}:
        return lambda _: True
    if _NAMES.fullmatch(text):
        names = frozenset(name.strip() for name in re.split("[|,]", text))
        return lambda subject: not names.isdisjoint(subject.split("/"))
    if _GLOB.search(text):
        raise ValueError(
            f"the matcher {text[:80]!r} looks like a glob; as a regular expression `Daily/**` is "
            "`^Daily/`, and `*.md` is `\\.md$`"
        )
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
