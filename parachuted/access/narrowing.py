"""Narrowing: what one run of an agent does without that the agent may do otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass

from parachuted.access.agent_config import PathList, SandboxConfig


def _sandbox(value: object) -> object:
    if isinstance(value, SandboxConfig):
        return asdict(value)
    if isinstance(value, Mapping):
        SandboxConfig(**value)  # raises for what it does not take
    return value


_Name: TypeAlias = Annotated[str, Field(max_length=200)]
_Names: TypeAlias = Annotated[tuple[_Name, ...], Field(max_length=500)]


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class AgentNarrowing:
    """What one run of an agent may do at most; None leaves that as it is, and an empty list takes
    all of it.

    `read` and `write` are patterns of the vault, `tools` the names of modules' tools, and of MCP
    servers (`github` for all of its tools, `github__get_issue` for one), `mcps` those of MCP
    servers alone, `skills` those of skills, `capabilities` as an `AgentConfig` has them. `sandbox`
    is a `SandboxConfig`, or those of its fields alone that are to be narrowed.
    """

    read: PathList | None = None
    write: PathList | None = None
    tools: _Names | None = None
    mcps: _Names | None = None
    skills: _Names | None = None
    capabilities: tuple[str, ...] | None = None
    sandbox: Annotated[Mapping[str, object] | None, BeforeValidator(_sandbox)] = None


WIDEST = AgentNarrowing()
