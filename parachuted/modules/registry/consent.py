"""What a person is shown before approving a module: what it asks for, and how its files differ."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from parachuted.access.agent_config import AgentConfig
from parachuted.modules.registry.approved import ModuleRecord, TrustLevel
from parachuted.modules.registry.copies import ModuleTree
from parachuted.modules.registry.install import run_git
from parachuted.modules.registry.manifest import Manifest
from parachuted.texts.visible import fact, quoted, visible, wrapped

_PEOPLE = (
    "acts for people that it knows from elsewhere: what it says they wrote counts as your words, "
    "and what they allow as allowed by you"
)
_MOST = 10_000  # characters of what is approved: it is shown whole
_RUNS = {
    "verified": "inside the daemon: it is part of this version of parachuted",
    "trusted": "inside the daemon, with all that the daemon may do, the network too: its "
    "permissions bound what it is offered, not what its code could do",
    "untrusted": "in a container, held to its permissions, with no network",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What a module asks for, with every hidden character spelled out. `digest`: of its files;
    `text`: what a terminal shows.
    """

    description: str
    digest: str
    commit: str | None
    trust: TrustLevel
    lines: tuple[str, ...]
    text: str


def consent_for(
    manifest: Manifest, tree: ModuleTree, record: ModuleRecord, trust: TrustLevel
) -> Consent:
    lines = tuple(_lines(manifest, tree, record, trust))
    # the digest is copied, so it is in one piece
    pieces = [*(piece for line in lines for piece in wrapped(line)), fact("digest", tree.digest)]
    return Consent(
        description=visible(manifest.description),
        digest=tree.digest,
        commit=record.commit and visible(record.commit),
        trust=trust,
        lines=lines,
        text="".join(f"{piece}\n" for piece in pieces),
    )


def _lines(
    manifest: Manifest, tree: ModuleTree, record: ModuleRecord, trust: TrustLevel
) -> Iterator[str]:
    """What the module says in its own words stands behind a mark, which nothing else does. What
    decides comes last, where it can be read when the question is asked.
    """
    permissions = manifest.permissions
    origin = f"{record.source} at {record.commit}" if record.commit else record.source
    yield fact("module", visible(f"{manifest.name} {manifest.version}"))
    yield quoted("says", manifest.description or "nothing of itself")
    yield quoted("from", origin, _MOST)
    yield fact("holds", f"{len(tree.files):,} files, {tree.size:,} bytes")
    yield from _each("installs", manifest.dependencies)
    yield quoted("answers", f"at {manifest.prefix}", _MOST)
    yield from _each("provides", sorted(manifest.provides))
    yield from _each("hears", sorted({hook.event for hook in manifest.hooks}))
    yield from _each("schedule", sorted(timing.words() for timing in manifest.schedules))
    tools = (f"{tool.name}: {tool.description}" for tool in manifest.mcp_tools)
    yield from _each("tool", [words.removesuffix(": ") for words in tools] or ["none for agents"])
    for name, agent in sorted(manifest.agents.items()):
        yield from _agent_lines(name, agent)
    yield fact("agents", "others that its code names stay within what it reads and writes")
    yield from _each("calls", manifest.optional_requires, "no interface of other modules")
    yield from _each("uses", permissions.mcp, "no tool of other modules")
    yield _allowed("shell", permissions.bash, "any command")
    yield from _each("reads", permissions.read)
    yield from _each("writes", permissions.write)
    for folder in permissions.folders:
        yield quoted("outside", f"{folder} (outside the vault, to read)")
    if permissions.people:
        yield fact("people", _PEOPLE)
    yield fact("runs", _RUNS[trust])


def _agent_lines(name: str, agent: AgentConfig) -> Iterator[str]:
    sandbox = agent.sandbox
    networks = [agent.network, *([sandbox.network] if sandbox else [])]
    hosts = tuple(host for network in networks if isinstance(network, tuple) for host in network)
    may = "read and write" if agent.may_write else "read" if agent.may_read else "reach no note"
    yield fact("agent", f"{name} may {may}")
    if agent.description:
        yield quoted("  says", agent.description)
    yield from _each("  where", [*agent.paths, *(sandbox.allowed_paths if sandbox else ())])
    for path in agent.lane if agent.may_write else ():
        yield quoted("  always", f"{path} (written even after it has read a stranger's text)")
    yield _allowed("  shell", agent.bash, "any command")
    yield _allowed("  network", agent.wants_network and (hosts or True), "any host")


def _allowed(label: str, allowed: bool | tuple[str, ...], anything: str) -> str:  # noqa: FBT001  it is one or the other
    if isinstance(allowed, tuple) and allowed:
        return quoted(label, f"only {', '.join(allowed)}", _MOST)
    return fact(label, anything if allowed else "no")


def _each(label: str, texts: Collection[str], nothing: str = "nothing") -> tuple[str, ...]:
    return tuple(quoted(label, text, _MOST) for text in texts) or (fact(label, nothing),)


def tree_difference(before: Path | None, after: Path, env: Mapping[str, str]) -> str:
    """How one private copy differs from another, or from nothing, as `git diff` has it, with all
    that hides spelled out. Raises UnfitError.
    """
    if shutil.which("git", path=env.get("PATH")) is None:
        return "git is not installed, so what changed in its files cannot be shown\n"
    with tempfile.TemporaryDirectory(prefix="parachute-empty-") as temporary:
        empty = Path(temporary).resolve()
        folders = (before or empty, after)
        options = ("--no-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-prefix")
        words = ["-c", "core.quotePath=false", "diff", *options, "--", *map(str, folders)]
        difference = run_git(words, env, empty, most_status=1)
    shown, is_content = list[str](), False
    for line in difference.removesuffix("\n").split("\n") if difference else []:
        is_content = not line.startswith("diff --git ") and (is_content or line.startswith("@@"))
        for folder in () if is_content else folders:  # files are named as in the module
            line = line.replace(f"{str(folder).lstrip('/')}/", "")  # noqa: PLW2901
        shown.append(visible(line, keep="\t"))
    return "".join(f"{line}\n" for line in shown)
