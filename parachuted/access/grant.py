"""Grant: all that one run of an agent may do.

It is built by one function, in access/granting.py, however the run was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from parachuted.access.agent_config import SandboxConfig
from parachuted.access.paths import is_code, is_control, is_hidden
from parachuted.keys import AccessGrant

Network: TypeAlias = Literal["none", "bridge"] | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What an agent may do in one run.

    `reads` and `writes` are files of the vault; `lane` those that it may write even after it has
    read strangers' text; `outside` folders beside the vault, of which it reads a copy. `tools` are
    the names of modules' tools that it may call; of modules that are not its own, those alone that
    provide one of `interfaces` (None: any). `native` are the CLI's own tools (Read, Glob, Grep,
    Write, Edit, Bash, WebFetch), which run in a container alone. `bash`: no shell, any command, or
    these programs. `asks`: whether a person may be asked for more while it works.
    """

    agent: str
    reads: AccessGrant
    writes: AccessGrant
    lane: AccessGrant
    outside: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    interfaces: tuple[str, ...] | None = None
    native: tuple[str, ...] = ()
    bash: bool | tuple[str, ...] = False
    network: Network = "none"
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    asks: bool = False

    @property
    def needs_container(self) -> bool:
        """Whether it can only run in a container; our own tools need none."""
        return bool(self.native)

    def may_read(self, path: str) -> bool:
        """Whether that file of the vault exists for it; hidden files and modules' code never do."""
        return not is_hidden(path) and not is_code(path) and self.reads.sees(path)

    def may_enter(self, folder: str) -> bool:
        """Whether a file that it may read could be below that folder."""
        return not is_hidden(folder) and not is_code(folder) and self.reads.enters(folder)

    def may_write(self, path: str, *, tainted: bool = False) -> bool:
        """Whether it may create, change or remove that file: never a control file, and only its
        lane once it has read untrusted text.
        """
        return (
            not is_control(path)
            and self.writes.sees(path)
            and (not tainted or self.lane.sees(path))
        )


_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """How an agent comes by each of the three; None: it does not."""

    private: str | None
    untrusted: str | None
    outward: str | None

    @property
    def is_whole(self) -> bool:
        return None not in (self.private, self.untrusted, self.outward)


def exposure(
    grant: Grant, *, private_files: int, untrusted_files: int, calls: Sequence[str] = ()
) -> Exposure:
    """What an agent of that grant has.

    The numbers count the files that it may read; `calls` are the modules' tools that it may call,
    which may bring in and send out whatever their modules do.
    """
    private = [
        *([f"{private_files} notes"] if private_files else []),
        *(["folders beside the vault"] if grant.outside else []),
    ]
    untrusted = [*([f"{untrusted_files} notes of strangers"] if untrusted_files else [])]
    outward = []
    if grant.network != "none":
        reach = (
            "any public host" if grant.network == "bridge" else ", ".join(grant.network[:_SHOWN])
        )
        untrusted.append(f"what {reach} answers")
        outward.append(f"the network ({reach})")
    if calls:
        tools = f"the tools {', '.join(calls[:_SHOWN])}{' and more' if len(calls) > _SHOWN else ''}"
        untrusted.append(f"what {tools} answer")
        outward.append(tools)
    return Exposure(private=_join(private), untrusted=_join(untrusted), outward=_join(outward))


def _join(found: Sequence[str]) -> str | None:
    return "; ".join(found) or None
