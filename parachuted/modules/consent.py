"""Consent: what a person is told before a module is approved, with nothing hidden in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parachuted.grants.agent_config import AgentConfig
from parachuted.modules.approved import TrustLevel
from parachuted.modules.manifest import Manifest
from parachuted.modules.tree import Tree
from parachuted.modules.visible import visible

_NOTHING = "nothing"
_RUNS = {
    "verified": "inside the daemon: its files are signed by the makers of parachuted",
    "trusted": "inside the daemon, with all that the daemon may do: its permissions bound what it is offered, not what its code could do",
    "untrusted": "in a process of its own, held to its permissions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConsent:
    """One agent of the module."""

    name: str
    description: str
    may: str
    paths: tuple[str, ...]
    bash: str
    network: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What approving would allow. Every text in it has its hidden characters spelled out already.

    `digest` is that of the files: whoever says yes says it to this. `added` are the lines that the approved version did not have.
    """

    name: str
    version: str
    description: str
    digest: str
    source: str
    commit: str | None
    trust: TrustLevel
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    bash: str
    mcp: tuple[str, ...]
    network: tuple[str, ...]
    agents: tuple[AgentConsent, ...]
    tools: tuple[str, ...]
    hears: tuple[str, ...]
    provides: tuple[str, ...]
    prefix: str
    dependencies: tuple[str, ...]
    files: int
    size: int
    notes: tuple[str, ...]
    added: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """All of it, a line each."""
        return (
            f"{self.name} {self.version}: {self.description or 'no description'}",
            f"from      {self.source}{f' at {self.commit}' if self.commit else ''}, {self.files} files, {self.size:,} bytes",
            f"runs      {_RUNS[self.trust]}",
            f"reads     {_listed(self.reads)}",
            f"writes    {_listed(self.writes)}",
            f"shell     {self.bash}",
            f"network   {_listed(self.network)}",
            f"uses      {_listed(self.mcp)} of other modules' tools",
            *(f"agent     {_agent_line(agent)}" for agent in self.agents),
            *(f"tool      {tool}" for tool in self.tools),
            f"hears     {_listed(self.hears) if self.hears else 'nothing that the manifest names'}",
            f"provides  {_listed(self.provides)}",
            f"answers   at {self.prefix}",
            f"installs  {_listed(self.dependencies)}",
            *(f"note      {note}" for note in self.notes),
        )

    def text(self) -> str:
        """The consent screen."""
        new = "".join(f"new since it was approved: {line}\n" for line in self.added)
        return "\n".join([*self.lines(), f"digest    {self.digest}"]) + "\n" + new


def consent_for(manifest: Manifest, tree: Tree, *, source: str, commit: str | None, trust: TrustLevel) -> Consent:
    """What that manifest, with those files, asks for."""
    agents = tuple(_agent(name, agent) for name, agent in sorted(manifest.agents.items()))
    return Consent(
        name=visible(manifest.name),
        version=visible(manifest.version),
        description=visible(manifest.description),
        digest=tree.digest,
        source=visible(source),
        commit=commit and visible(commit),
        trust=trust,
        reads=_all(manifest.permissions.read),
        writes=_all(manifest.permissions.write),
        bash=_yes_or_list(manifest.permissions.bash),
        mcp=_all(manifest.permissions.mcp),
        network=tuple(f"{agent.name}: {agent.network}" for agent in agents if agent.network != "no"),
        agents=agents,
        tools=tuple(visible(f"{tool.name}: {tool.description}" if tool.description else tool.name) for tool in manifest.mcp_tools),
        hears=_all([hook.event for hook in manifest.hooks]),
        provides=_all(manifest.provides),
        prefix=visible(manifest.prefix),
        dependencies=_all(manifest.dependencies),
        files=len(tree.files),
        size=tree.size,
        notes=_all(manifest.notes),
    )


def _agent(name: str, agent: AgentConfig) -> AgentConsent:
    sandbox = agent.sandbox
    paths = [*agent.paths, *(sandbox.allowed_paths if sandbox else ())]
    hosts = list(agent.network) if isinstance(agent.network, tuple) else []
    if sandbox and isinstance(sandbox.network, tuple):
        hosts += sandbox.network
    network = ("any host" if not hosts else visible(", ".join(hosts))) if agent.wants_network else "no"
    return AgentConsent(
        name=visible(name),
        description=visible(agent.description),
        may=("read and write" if agent.may_write else "read" if agent.may_read else "reach no note") + _lane(agent),
        paths=_all(paths),
        bash=_yes_or_list(agent.bash),
        network=network,
    )


def _lane(agent: AgentConfig) -> str:
    return f" (and write {_listed(_all(agent.lane))} even after it has read a stranger's text)" if agent.may_write and agent.lane else ""


def _agent_line(agent: AgentConsent) -> str:
    told = f" ({agent.description})" if agent.description else ""
    return f"{agent.name}{told}: may {agent.may}: {_listed(agent.paths)}; shell: {agent.bash}; network: {agent.network}"


def _all(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(visible(text) for text in texts)


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(texts) or _NOTHING


def _yes_or_list(value: bool | tuple[str, ...]) -> str:  # noqa: FBT001  it is one or the other
    if isinstance(value, tuple):
        return visible(", ".join(value)) or "no"
    return "any command" if value else "no"
