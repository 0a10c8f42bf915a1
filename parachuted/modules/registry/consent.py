"""What a person is shown before approving a module, with nothing hidden: what its manifest asks
for, and how its files differ from the approved ones.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from parachuted.access.agent_config import AgentConfig
from parachuted.modules.registry.approved import TrustLevel
from parachuted.modules.registry.copies import ModuleTree, TreeRefusedError, read_tree
from parachuted.modules.registry.manifest import Manifest
from parachuted.visible import USUAL_COLUMNS, fact, quoted, visible, wrapped

# no settings of the machine's or the person's, and nothing that asks
QUIET_GIT: Mapping[str, str] = MappingProxyType(
    {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "LC_ALL": "C.UTF-8",
    }
)
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
_OF_CODE = "others that its code names stay within what it reads and writes"
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
            fact("agents", _OF_CODE),
            *_each("calls", self.requires, "no interface of other modules"),
            *_each("uses", self.mcp, "no tool of other modules"),
            *_each("network", self.network, _NOTHING if self.trust == "untrusted" else _IN_DAEMON),
            _words("shell", self.bash),
            *_each("reads", self.reads, _NOTHING),
            *_each("writes", self.writes, _NOTHING),
            *(quoted("outside", f"{name} (outside the vault, to read)") for name in self.folders),
            *(fact("hooks", hook) for hook in self.hooks),
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
    manifest: Manifest, tree: ModuleTree, *, source: str, commit: str | None, trust: TrustLevel
) -> Consent:
    """What that manifest, with those files, asks for."""
    agents = tuple(_agent(name, agent) for name, agent in sorted(manifest.agents.items()))
    permissions, pages = manifest.permissions, manifest.static
    return Consent(
        name=visible(manifest.name),
        version=visible(manifest.version),
        description=visible(" ".join(manifest.description.split())),
        digest=tree.digest,
        source=visible(source),
        commit=commit and visible(commit),
        trust=trust,
        reads=_all(permissions.read),
        writes=_all(permissions.write),
        bash=_yes_or_list(permissions.bash),
        mcp=_all(permissions.mcp),
        folders=_all(permissions.folders),
        hooks=tuple(_HOOKS[event] for event in permissions.hooks),
        people=permissions.people,
        network=tuple(
            f"{agent.name}: {agent.network}" for agent in agents if agent.network != "no"
        ),
        agents=agents,
        tools=_all(
            [
                f"{tool.name}: {' '.join(tool.description.split())}".removesuffix(": ")
                for tool in manifest.mcp_tools
            ]
        ),
        hears=_all(sorted({hook.event for hook in manifest.hooks})),
        schedules=_all(sorted(timing.words() for timing in manifest.schedules)),
        provides=_all(sorted(manifest.provides)),
        requires=_all(manifest.optional_requires),
        prefix=visible(manifest.prefix),
        pages="" if pages is None else f", with pages at {pages.prefix}/",
        dependencies=_all(manifest.dependencies),
        files=len(tree.files),
        size=tree.size,
        notes=_all(manifest.notes),
    )


def tree_difference(before: Path | None, after: Path, env: Mapping[str, str]) -> str:
    """How one private copy differs from another, or from nothing, as `git diff` has it; where there
    is no git, the names of the files that differ.

    What hides is spelled out, since a person approves by it. Raises TreeRefusedError.
    """
    program = shutil.which("git", path=env.get("PATH", os.defpath))
    with tempfile.TemporaryDirectory(prefix="parachute-empty-") as empty:
        old = Path(empty).resolve() if before is None else before
        if program is None:
            return _names_that_differ(old, after)
        options = ("--no-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-prefix")
        done = subprocess.run(  # noqa: S603  folders of the home, behind `--`
            [program, "-c", "core.quotePath=false", "diff", *options, "--", str(old), str(after)],
            env={**QUIET_GIT, "GIT_CEILING_DIRECTORIES": str(Path(empty).resolve().parent)},
            cwd=empty,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    if done.returncode > 1:
        says = done.stderr.decode(errors="replace").strip()[-1_000:]
        raise TreeRefusedError(f"what changed cannot be shown: git says {visible(says)}")
    lines = done.stdout.decode(errors="backslashreplace").removesuffix("\n").split("\n")
    return "".join(f"{line}\n" for line in _named(lines, (old, after))) if done.stdout else ""


def _named(lines: Sequence[str], folders: Sequence[Path]) -> Iterator[str]:
    """The lines of a diff, with the files called by their names in the module."""
    is_content = False
    for line in lines:
        is_content = not line.startswith("diff --git ") and (is_content or line.startswith("@@"))
        if not is_content:
            for folder in folders:
                line = line.replace(f"{str(folder).lstrip('/')}/", "")  # noqa: PLW2901
        yield visible(line, keep="\t")


def _names_that_differ(before: Path, after: Path) -> str:
    old, new = ({file.path: file for file in read_tree(folder).files} for folder in (before, after))
    names = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    changes = [
        f"{'new' if path not in old else 'gone' if path not in new else 'changed'}: {path}\n"
        for path in names
    ]
    says = "git is not installed, so what changed in these files cannot be shown:\n"
    return "".join([says, *changes]) if changes else ""


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
