"""Narrowed: what a run's `AgentNarrowing` leaves of a grant and of a configuration.

Apart from the narrowing itself, which the module API shows: that is imported without the vault.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from parachuted.access.agent_config import AgentConfig, is_outside
from parachuted.access.grant import Grant, all_of, grant_of, narrowing_of
from parachuted.access.narrowing import AgentNarrowing


def narrowing_configs(narrowing: AgentNarrowing) -> tuple[AgentConfig, ...]:
    """Its capabilities and its sandbox as a person's overrides have them; none where it names
    neither. Raises ValueError.
    """
    said = {
        name: value
        for name, value in (
            ("capabilities", narrowing.capabilities),
            ("sandbox", narrowing.sandbox),
        )
        if value is not None
    }
    return (narrowing_of(AgentConfig(**said), said),) if said else ()  # type: ignore[arg-type]


def narrowed_grant(grant: Grant, narrowing: AgentNarrowing) -> Grant:
    """The grant within the narrowing's paths and tools."""
    reads, writes, outside, tools = grant.reads, grant.writes, grant.outside, grant.tools
    if narrowing.read is not None:
        reads = all_of(reads, grant_of(one for one in narrowing.read if not is_outside(one)))
        outside = tuple(one for one in outside if one in narrowing.read)
    if narrowing.write is not None:
        writes = all_of(writes, grant_of(one for one in narrowing.write if not is_outside(one)))
    if narrowing.tools is not None:
        tools = tuple(one for one in tools if _is_named(one, narrowing.tools))
    if narrowing.mcps is not None:
        tools = tuple(one for one in tools if "__" not in one or _is_named(one, narrowing.mcps))
    return replace(
        grant,
        reads=reads,
        writes=writes,
        lane=all_of(grant.lane, writes),
        outside=outside,
        tools=tools,
    )


def _is_named(tool: str, names: Iterable[str]) -> bool:
    """Whether the tool, or the MCP server that it is of, is among them."""
    wanted = {one.removeprefix("mcp__") for one in names}
    return not wanted.isdisjoint({tool, tool.partition("__")[0]})
