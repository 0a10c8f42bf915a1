"""What a person is shown before approving a module: what it asks for, and how its files differ."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parachuted.access.agent_config import AgentConfig
from parachuted.errors import UnfitError
from parachuted.modules.registry.approved import ModuleRecord, TrustLevel, unverified
from parachuted.modules.registry.copies import ModuleTree
from parachuted.modules.registry.install import find_git, run_git
from parachuted.modules.registry.manifest import Manifest
from parachuted.texts.visible import USUAL_COLUMNS, fact, quoted, visible, wrapped

_NOTHING = "nothing"
_PEOPLE = (
    "acts for people that it knows from elsewhere: what it says they wrote counts as your words, "
    "and what they allow as allowed by you"
)
_IN_DAEMON = "no host for its agents; its code runs inside the daemon, and may reach any"
_OF_CODE = "others that its code names stay within what it reads and writes"
_ANY_COMMAND, _ANY_HOST, _ONLY = "any command", "any host", "only "
_MOST = 10_000  # characters of what is approved: it is shown whole
_RUNS = {
    "verified": "inside the daemon: it is part of this version of parachuted",
    "trusted": "inside the daemon, with all that the daemon may do, the network too: its "
    "permissions bound what it is offered, not what its code could do",
    "untrusted": "in a container, held to its permissions",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What a module asks for, with every hidden character spelled out. `digest`: of its files;
    `text`: what a terminal shows.
    """

    name: str
    version: str
    description: str
    digest: str
    source: str
    commit: str | None
    trust: TrustLevel
    lines: tuple[str, ...]
    text: str


def consent_for(
    manifest: Manifest,
    tree: ModuleTree,
    record: ModuleRecord,
    trust: TrustLevel,
    *,
    columns: int = USUAL_COLUMNS,
) -> Consent:
    lines = tuple(_lines(manifest, tree, record, trust))
    return Consent(
        name=manifest.name,
        version=visible(manifest.version),
        description=visible(manifest.description),
        digest=tree.digest,
        source=visible(record.source),
        commit=record.commit and visible(record.commit),
        trust=trust,
        lines=lines,
        text=_text(lines, tree.digest, columns),
    )


def _text(lines: Sequence[str], digest: str, columns: int) -> str:
    pieces = [piece for line in lines for piece in wrapped(line, columns)]
    # the digest is copied, so it is in one piece
    return "".join(f"{piece}\n" for piece in (*pieces, fact("digest", digest)))


def _lines(
    manifest: Manifest, tree: ModuleTree, record: ModuleRecord, trust: TrustLevel
) -> Iterator[str]:
    """What the module says in its own words stands behind a mark, which nothing else does. What
    decides comes last, where it can be read when the question is asked.
    """
    asked = manifest.permissions
    agents = sorted(manifest.agents.items())
    tools = [f"{tool.name}: {tool.description}".removesuffix(": ") for tool in manifest.mcp_tools]
    origin = f"{record.source} at {record.commit}" if record.commit else record.source
    networks = [
        f"{name}: {_words(_hosts(agent), _ANY_HOST)}" for name, agent in agents if _hosts(agent)
    ]
    yield fact("module", visible(f"{manifest.name} {manifest.version}"))
    yield quoted("says", manifest.description or "nothing of itself")
    yield quoted("from", origin, _MOST)
    yield fact("holds", f"{len(tree.files):,} files, {tree.size:,} bytes")
    for note in (*manifest.notes, *unverified(record, tree)):
        yield quoted("note", note)
    yield from _each("installs", manifest.dependencies)
    yield quoted("answers", f"at {manifest.prefix}", _MOST)
    yield from _each("provides", sorted(manifest.provides))
    yield from _each("hears", sorted({hook.event for hook in manifest.hooks}))
    timings = sorted(timing.words() for timing in manifest.schedules)
    yield from _each("schedule", timings, "nothing runs by the clock")
    for tool in tools or ["none for agents"]:
        yield quoted("tool", tool)
    for name, agent in agents:
        yield from _agent_lines(name, agent)
    yield fact("agents", _OF_CODE)
    yield from _each("calls", manifest.optional_requires, "no interface of other modules")
    yield from _each("uses", asked.mcp, "no tool of other modules")
    yield from _each("network", networks, _NOTHING if trust == "untrusted" else _IN_DAEMON)
    yield _said("shell", _words(asked.bash, _ANY_COMMAND))
    yield from _each("reads", asked.read)
    yield from _each("writes", asked.write)
    for folder in asked.folders:
        yield quoted("outside", f"{folder} (outside the vault, to read)")
    if asked.people:
        yield fact("people", _PEOPLE)
    yield fact("runs", _RUNS[trust])


def _agent_lines(name: str, agent: AgentConfig) -> tuple[str, ...]:
    may = "read and write" if agent.may_write else "read" if agent.may_read else "reach no note"
    paths = [*agent.paths, *(agent.sandbox.allowed_paths if agent.sandbox else ())]
    return (
        fact("agent", f"{name} may {may}"),
        *((quoted("  says", agent.description),) if agent.description else ()),
        *_each("  where", paths),
        *(
            quoted("  always", f"{path} (written even after it has read a stranger's text)")
            for path in (agent.lane if agent.may_write else ())
        ),
        _said("  shell", _words(agent.bash, _ANY_COMMAND)),
        _said("  network", _words(_hosts(agent), _ANY_HOST)),
    )


def _hosts(agent: AgentConfig) -> bool | tuple[str, ...]:
    networks = [agent.network, *([agent.sandbox.network] if agent.sandbox else [])]
    hosts = [host for network in networks if isinstance(network, tuple) for host in network]
    return agent.wants_network and (tuple(hosts) or True)


def _words(allowed: bool | tuple[str, ...], anything: str) -> str:  # noqa: FBT001  it is one or the other
    if isinstance(allowed, tuple) and allowed:
        return _ONLY + ", ".join(allowed)
    return anything if allowed else "no"


def _said(label: str, words: str) -> str:
    return quoted(label, words, _MOST) if words.startswith(_ONLY) else fact(label, words)


def _each(label: str, texts: Collection[str], nothing: str = _NOTHING) -> tuple[str, ...]:
    return tuple(quoted(label, text, _MOST) for text in texts) or (fact(label, nothing),)


def tree_difference(before: Path | None, after: Path, env: Mapping[str, str]) -> str:
    """How one private copy differs from another, or from nothing, as `git diff` has it, with all
    that hides spelled out. Raises UnfitError.
    """
    git = find_git(env)
    if git is None:
        return "git is not installed, so what changed in its files cannot be shown\n"
    with tempfile.TemporaryDirectory(prefix="parachute-empty-") as empty:
        old = Path(empty).resolve() if before is None else before
        options = ("--no-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-prefix")
        words = ["-c", "core.quotePath=false", "diff", *options, "--", str(old), str(after)]
        done = run_git(git, words, {}, empty)  # nor any settings of the person
    if done.returncode > 1:
        says = done.stderr.decode(errors="replace").strip()[-1_000:]
        raise UnfitError(f"what changed cannot be shown: git says {visible(says)}")
    lines = done.stdout.decode(errors="backslashreplace").removesuffix("\n").split("\n")
    return "".join(f"{line}\n" for line in _named(lines, (old, after))) if done.stdout else ""


def _named(lines: Sequence[str], folders: Sequence[Path]) -> Iterator[str]:
    """With the files called by their names in the module."""
    is_content = False
    for line in lines:
        is_content = not line.startswith("diff --git ") and (is_content or line.startswith("@@"))
        if not is_content:
            for folder in folders:
                line = line.replace(f"{str(folder).lstrip('/')}/", "")  # noqa: PLW2901
        yield visible(line, keep="\t")
