"""Narrowing: what one run of an agent does without that the agent may do otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass

from parachuted.access.agent_config import AgentConfig, PathList, SandboxConfig, is_outside
from parachuted.access.grant import Grant
from parachuted.access.granting import narrowing_of
from parachuted.access.patterns import all_of, grant_of


def _sandbox(value: object) -> object:
    if isinstance(value, SandboxConfig):
        return asdict(value)
    if isinstance(value, Mapping):
        SandboxConfig(**value)  # raises for what it does not take
    return value


_Name: TypeAlias = Annotated[str, Field(max_length=200)]
_Names: TypeAlias = Annotated[tuple[_Name, ...], Field(max_length=500)]


@dataclass(
    frozen=True, slots=True, kw_only=True, config=ConfigDict(defer_build=True, extra="forbid")
)
class AgentNarrowing:
    """What one run of an agent may do at most; None leaves that as it is, and an empty list takes
    all of it.

    `read` and `write` are patterns of the vault, `tools` the names of modules' tools,
    `capabilities` as an `AgentConfig` has them. `sandbox` is a `SandboxConfig`, or those of its
    fields alone that are to be narrowed.
    """

    read: PathList | None = None
    write: PathList | None = None
    tools: _Names | None = None
    capabilities: tuple[str, ...] | None = None
    sandbox: Annotated[Mapping[str, object] | None, BeforeValidator(_sandbox)] = None

    @property
    def config(self) -> AgentConfig:
        """Its capabilities and its sandbox, as a person's overrides have them. ValueError."""
        said = {
            name: value
            for name, value in (("capabilities", self.capabilities), ("sandbox", self.sandbox))
            if value is not None
        }
        return narrowing_of(AgentConfig(**said), said)  # type: ignore[arg-type]

    def of(self, grant: Grant) -> Grant:
        """The grant within these paths and tools."""
        reads, writes, outside, tools = grant.reads, grant.writes, grant.outside, grant.tools
        if self.read is not None:
            reads = all_of(reads, grant_of(one for one in self.read if not is_outside(one)))
            outside = tuple(one for one in outside if one in self.read)
        if self.write is not None:
            writes = all_of(writes, grant_of(one for one in self.write if not is_outside(one)))
        if self.tools is not None:
            tools = tuple(one for one in tools if one in self.tools)
        return replace(
            grant,
            reads=reads,
            writes=writes,
            lane=all_of(grant.lane, writes),
            outside=outside,
            tools=tools,
        )


WIDEST = AgentNarrowing()
"""A narrowing that takes nothing."""
