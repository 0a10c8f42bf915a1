"""What a person is shown before approving a module, with nothing hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from parachuted.access.agent_config import AgentConfig
from parachuted.modules.registry.approved import TrustLevel
from parachuted.modules.registry.code_inspection import CodeInspection
from parachuted.modules.registry.manifest import Manifest
from parachuted.modules.registry.module_tree import ModuleTree
from parachuted.visible import USUAL_COLUMNS, fact, quoted, visible, wrapped

_NOTHING = "nothing"
_HOOKS = {
    "prompt.before": "prompt.before (reads each prompt of an agent, may refuse it or add to it)",
    "stop.before": "stop.before (reads what an agent says last, may have a conversation go on)",
    "compact.before": "compact.before (may object when a session is summed up, or add to how)",
}
_PEOPLE = (
    "acts for people that it knows from elsewhere: what it says they wrote counts as your words, "
    "and what they allow as allowed by you"
)
_IN_DAEMON = "no host for its agents; its code runs inside the daemon, and may reach any"
_ANY_COMMAND, _ANY_HOST, _ONLY = "any command", "any host", "only "
_MOST = 10_000  # characters of what is approved: it is shown whole
_SHOWN_ELSEWHERE = frozenset({"module", "says", "from", "holds"})  # by the difference of the files
_RUNS = {
    "verified": "inside the daemon: its files are signed by the makers of parachuted",
    "trusted": "inside the daemon, with all that the daemon may do, the network too: its "
    "permissions bound what it is offered, not what its code could do",
    "untrusted": "in a container, held to its permissions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConsent:
    """One agent of the module."""

    name: str
    description: str
    may: str
    paths: tuple[str, ...]
    lane: tuple[str, ...]
    bash: str
    network: str

    def lines(self) -> tuple[str, ...]:
        return (
            fact("agent", f"{self.name} may {self.may}"),
            *((quoted("  says", self.description),) if self.description else ()),
            *_each("  where", self.paths, _NOTHING),
            *(
                quoted("  always", f"{path} (written even after it has read a stranger's text)")
                for path in self.lane
            ),
            _words("  shell", self.bash),
            _words("  network", self.network),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What approving would allow. Every text in it has its hidden characters spelled out already.

    `digest` is that of the files: an approval names it. `added` are the lines that the
    approved version did not have.
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
    folders: tuple[str, ...]
    hooks: tuple[str, ...]
    people: bool
    network: tuple[str, ...]
    agents: tuple[AgentConsent, ...]
    tools: tuple[str, ...]
    hears: tuple[str, ...]
    schedules: tuple[str, ...]
    provides: tuple[str, ...]
    requires: tuple[str, ...]
    prefix: str
    pages: str
    dependencies: tuple[str, ...]
    files: int
    size: int
    notes: tuple[str, ...]
    added: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """All of it, a line each: what the module says in its own words stands behind a mark, which
        nothing else does.

        What decides comes last, where it is in sight when the question is asked.
        """
        return (
            fact("module", f"{self.name} {self.version}"),
            quoted("says", self.description or "nothing of itself"),
            quoted("from", f"{self.source}{f' at {self.commit}' if self.commit else ''}", _MOST),
            fact("holds", f"{self.files:,} files, {self.size:,} bytes"),
            *(quoted("note", note) for note in self.notes),
            *_each("installs", self.dependencies, _NOTHING),
            quoted("answers", f"at {self.prefix}{self.pages}", _MOST),
            *_each("provides", self.provides, _NOTHING),
            *_each("hears", self.hears, _NOTHING),
            *_each("schedule", self.schedules, "nothing runs by the clock"),
            *(quoted("tool", tool) for tool in self.tools or ("none for agents",)),
            *(line for agent in self.agents for line in agent.lines()),
            *_each("calls", self.requires, "no interface of other modules"),
            *_each("uses", self.mcp, "no tool of other modules"),
            *_each("network", self.network, _NOTHING if self.trust == "untrusted" else _IN_DAEMON),
            _words("shell", self.bash),
            *_each("reads", self.reads, _NOTHING),
            *_each("writes", self.writes, _NOTHING),
            *(quoted("outside", f"{one} (outside the vault, to read)") for one in self.folders),
            *(fact("hooks", one) for one in self.hooks),
            *((fact("people", _PEOPLE),) if self.people else ()),
            fact("runs", _RUNS[self.trust]),
        )

    def text(self, columns: int = USUAL_COLUMNS) -> str:
        """The consent screen, for a terminal of that width."""
        *lines, runs = self.lines()
        if self.added:
            lines += [fact("new", "since it was approved are these lines:"), *self.added]
        pieces = [piece for line in (*lines, runs) for piece in wrapped(line, columns)]
        return "".join(
            f"{piece}\n" for piece in (*pieces, fact("digest", self.digest))
        )  # which is copied, so it is in one piece

    def since(self, approved: Consent) -> tuple[str, ...]:
        """The lines of what it asks for that the other one does not have, those of an agent below
        its name.
        """
        known, found = set(_with_agent(approved.lines())), list[str]()
        for agent, line in _with_agent(self.lines()):
            if (agent, line) not in known and line.split(maxsplit=1)[0] not in _SHOWN_ELSEWHERE:
                found += [agent] if agent and agent not in found and agent != line else []
                found.append(line)
        return tuple(found)


def consent_for(
    manifest: Manifest,
    tree: ModuleTree,
    code: CodeInspection,
    *,
    source: str,
    commit: str | None,
    trust: TrustLevel,
) -> Consent:
    """What that manifest, with those files, asks for; `code` is what the files declare besides."""
    agents = tuple(_agent(name, agent) for name, agent in sorted(manifest.agents.items()))
    agents += tuple(_agent_in_code(name) for name in sorted(code.agents - manifest.agents.keys()))
    tools = {
        tool.name: tool.description or code.tools.get(tool.name, "") for tool in manifest.mcp_tools
    }
    return Consent(
        name=visible(manifest.name),
        version=visible(manifest.version),
        description=visible(" ".join(manifest.description.split())),
        digest=tree.digest,
        source=visible(source),
        commit=commit and visible(commit),
        trust=trust,
        reads=_all(manifest.permissions.read),
        writes=_all(manifest.permissions.write),
        bash=_yes_or_list(manifest.permissions.bash),
        mcp=_all(manifest.permissions.mcp),
        folders=_all(manifest.permissions.folders),
        hooks=tuple(_HOOKS[one] for one in manifest.permissions.hooks),
        people=manifest.permissions.people,
        network=tuple(
            f"{agent.name}: {agent.network}" for agent in agents if agent.network != "no"
        ),
        agents=agents,
        tools=_all(
            [
                f"{name}: {' '.join(says.split())}" if says else name
                for name, says in {**code.tools, **tools}.items()
            ]
        ),
        hears=_all(sorted({hook.event for hook in manifest.hooks} | code.events)),
        schedules=_all(sorted(code.schedules)),
        provides=_all(sorted({*manifest.provides, *code.provides})),
        requires=_all(manifest.optional_requires),
        prefix=visible(manifest.prefix),
        pages="" if manifest.static is None else f", with pages at {manifest.static.prefix}/",
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
    network = (
        (_ANY_HOST if not hosts else visible(_ONLY + ", ".join(hosts)))
        if agent.wants_network
        else "no"
    )
    return AgentConsent(
        name=visible(name),
        description=visible(" ".join(agent.description.split())),
        may="read and write" if agent.may_write else "read" if agent.may_read else "reach no note",
        paths=_all(paths),
        lane=_all(agent.lane) if agent.may_write else (),
        bash=_yes_or_list(agent.bash),
        network=network,
    )


def _agent_in_code(name: str) -> AgentConsent:
    """What reaches further than this is refused when it is loaded, unless the manifest says it."""
    within = "within what the module itself reads and writes; only its code says more"
    return AgentConsent(
        name=visible(name),
        description="",
        may="read and write",
        paths=(within,),
        lane=(),
        bash="no",
        network="no",
    )


def _all(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(visible(text) for text in texts)


def _each(label: str, texts: Sequence[str], nothing: str) -> tuple[str, ...]:
    return tuple(quoted(label, text, _MOST) for text in texts) or (fact(label, nothing),)


def _words(label: str, words: str) -> str:
    return quoted(label, words, _MOST) if words.startswith(_ONLY) else fact(label, words)


def _with_agent(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    agent = ""
    for line in lines:
        agent = line if line.startswith("agent ") else agent if line.startswith("  ") else ""
        yield agent, line


def _yes_or_list(value: bool | tuple[str, ...]) -> str:  # noqa: FBT001  it is one or the other
    if isinstance(value, tuple):
        return visible(_ONLY + ", ".join(value)) if value else "no"
    return _ANY_COMMAND if value else "no"
