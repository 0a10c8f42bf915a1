"""Why a valid hook never runs: nothing fires its event, or its tools do not exist here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from parachuted.events.catalog import CATALOG
from parachuted.hooks.claude_tools import CLI_TOOLS, OUR_TOOLS, TOOL_EVENTS
from parachuted.hooks.hook import Hook
from parachuted.hooks.hook_event import HookEvent
from parachuted.hooks.matching import compile_hook
from parachuted.hooks.rules import tool_of

UNFIRED = frozenset({"session.end", "compact.before"})
"""Events of the core that nothing fires yet."""

_AT = datetime(2026, 1, 6, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTools:
    """The modules that run, and the tools that they offer."""

    modules: frozenset[str]
    tools: frozenset[str]


def why_idle(hook: Hook, offered: OfferedTools | None) -> str | None:
    """A sentence for a person; None: it may run.

    `offered` is None where it is not known which modules run.
    """
    if hook.event in TOOL_EVENTS:
        return _fits_no_tool(hook, offered)
    if hook.event in UNFIRED:
        return f"nothing here fires {hook.event}"
    kind = CATALOG.get(hook.event)
    publisher = hook.event.partition(".")[0] if kind is None else kind.publisher
    if publisher is None or offered is None or publisher in offered.modules:
        return None
    return (
        f"nothing here fires {hook.event}, which the module {publisher} publishes: it does not run"
    )


def _fits_no_tool(hook: Hook, offered: OfferedTools | None) -> str | None:
    tool = tool_of(hook.condition) if hook.condition is not None else None
    try:
        matches = compile_hook(replace(hook, condition=tool))
    except ValueError:
        return None  # the problems of its file say why
    names: Collection[str] = {
        *OUR_TOOLS,
        *CLI_TOOLS,
        *(offered.tools if offered is not None else ()),
    }
    calls = (
        HookEvent(event=hook.event, at=_AT, data={"tool_name": name}, vault=Path("/"))
        for name in names
    )
    if any(matches(one) is not None for one in calls):
        return None
    means = f"its matcher {hook.matcher!r}" if hook.matcher else f"its rule {hook.condition!r}"
    return f"{means} fits no tool that exists here"
