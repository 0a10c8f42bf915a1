"""Grant: all that one run of an agent may do, made by `build_grant` alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal, TypeAlias

from parachuted.access.agent_config import AgentConfig, AgentNarrowing, SandboxConfig, is_outside
from parachuted.access.paths import is_code, is_control, is_hidden
from parachuted.keys import EVERYWHERE, NOWHERE, AccessGrant, PathGlob


class ExactPaths(PathGlob):
    """Exactly these files, whatever `?` and `*` are in their names. As fast for many as for one."""

    __slots__ = ("folders", "paths")
    paths: frozenset[str]
    folders: frozenset[str]

    def __init__(self, paths: Iterable[str]) -> None:
        object.__setattr__(self, "paths", frozenset(paths))
        object.__setattr__(
            self,
            "folders",
            frozenset(folder for path in self.paths for folder in _folders_of(path)),
        )
        object.__setattr__(self, "text", ", ".join(sorted(self.paths)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExactPaths) and other.paths == self.paths

    def __hash__(self) -> int:
        return hash(self.paths)

    def __repr__(self) -> str:
        return f"ExactPaths({sorted(self.paths)!r})"

    def matches(self, path: str) -> bool:
        return path in self.paths

    def enters(self, folder: str) -> bool:
        return folder in self.folders

    def covers(self, other: PathGlob) -> bool:
        return isinstance(other, ExactPaths) and other.paths <= self.paths

    def _names(self) -> list[str]:
        return ["\0"]  # no pattern but ** is known to cover them


def _folders_of(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:end]) for end in range(len(names))]


def grant_of(patterns: Iterable[str]) -> AccessGrant:
    """The union of the patterns; none grants nothing. Raises ValueError."""
    globs = tuple(map(PathGlob, patterns))
    return AccessGrant(alternatives=((globs,),)) if globs else NOWHERE


def exactly(paths: Iterable[str]) -> AccessGrant:
    files = ExactPaths(paths)
    return AccessGrant(alternatives=(((files,),),)) if files.text else NOWHERE


def any_of(grant: AccessGrant, other: AccessGrant) -> AccessGrant:
    if grant.alternatives is None or other.alternatives is None:
        return grant if grant.alternatives is None else other
    return AccessGrant(alternatives=(*grant.alternatives, *other.alternatives))


def within(grant: AccessGrant, config: AgentConfig) -> AccessGrant:
    """What the grant sees and each of the config's lists names; without lists, nothing."""
    lists = [config.paths, config.sandbox.allowed_paths if config.sandbox else ()]
    given = [paths for paths in lists if paths]
    if not given:
        return NOWHERE
    more = tuple(
        tuple(PathGlob(path) for path in paths if not is_outside(path) and "${" not in path)
        for paths in given
    )
    return grant.both(AccessGrant(alternatives=(more,)))


@dataclass(frozen=True, slots=True)
class CallerGrant:
    """The paths that a caller may reach: all, those of an untrusted module, the lane of a run."""

    reads: AccessGrant = EVERYWHERE
    writes: AccessGrant = EVERYWHERE

    @property
    def is_limited(self) -> bool:
        return self.reads.alternatives is not None or self.writes.alternatives is not None

    def both(self, other: CallerGrant) -> CallerGrant:
        return CallerGrant(self.reads.both(other.reads), self.writes.both(other.writes))


Entry: TypeAlias = Literal[
    "bubble", "chat", "schedule", "bot", "module", "maintenance", "cli", "http"
]
"""How a run was asked for: it decides who is informed and asked, never what the agent may do."""

Network: TypeAlias = Literal["none", "bridge"] | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What an agent may do in one run.

    `tainted_writes` are files that it may write even after it has read strangers' text; `outside`
    folders beside the vault, of which it reads a copy. `tools` are modules' tools; of other modules
    only those that provide one of `interfaces` (None: any). `native` are the CLI's own tools, which
    run in a container alone. `bash`: no shell, any command, or these programs. `asks`: whether a
    person may be asked for more while it works.
    """

    agent: str
    reads: AccessGrant
    writes: AccessGrant
    tainted_writes: AccessGrant
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
        return bool(self.native)

    def may_read(self, path: str) -> bool:
        """Hidden files and modules' code never exist for it."""
        return not is_hidden(path) and not is_code(path) and self.reads.sees(path)

    def may_write(self, path: str, *, tainted: bool = False) -> bool:
        """Whether it may create, change or remove that file, which is never a control file."""
        return (
            not is_control(path)
            and self.writes.sees(path)
            and (not tainted or self.tainted_writes.sees(path))
        )

    def both(self, asking: Grant) -> Grant:
        """The rights of this agent for an agent that asks it for help."""
        bash, network = narrower(self.bash, asking.bash), _common(self.network, asking.network)
        lost = {"Bash"} if not bash else set()
        lost |= {"WebFetch"} if network == "none" else set()
        return replace(
            self,
            reads=self.reads.both(asking.reads),
            writes=self.writes.both(asking.writes),
            tainted_writes=self.tainted_writes.both(asking.tainted_writes),
            outside=tuple(path for path in self.outside if path in asking.outside),
            interfaces=in_both(self.interfaces, asking.interfaces),
            native=tuple(tool for tool in self.native if tool not in lost),
            bash=bash,
            network=network,
            asks=self.asks and asking.asks,
        )


PRESENT: frozenset[Entry] = frozenset({"chat", "bot", "maintenance", "cli", "http"})
"""The ways by which a person asks and waits for the answer."""
EXPLICIT: frozenset[Entry] = frozenset({"chat", "maintenance", "cli", "http"})
"""The ways by which the vault's own person names the agent; a bot's sender may be anyone."""
CURATOR = "curator"

MAINTENANCE = AgentConfig(
    description="System maintenance with local-only access",
    sandbox=SandboxConfig(
        workspace_access="rw",
        allowed_paths=(".parachute/**", "Modules/**", "Chat/**", "Daily/**", "Brain/**"),
        network="none",
        memory="1g",
        cpus=2.0,
    ),
    capabilities=("read", "write", "bash"),
    requires_explicit_invocation=True,
)
"""It may write Chat, Daily and Brain; of `.parachute/` and `Modules/` it sees copies."""

_READS, _WRITES = ("Read", "Glob", "Grep"), ("Write", "Edit")
_WIDEST: dict[str, object] = {
    "workspace_access": "rw",
    "memory": "999999g",
    "cpus": 64.0,
    "pids_limit": 65_536,
}


def build_grant(
    config: AgentConfig,
    *,
    agent: str,
    bounds_read: AccessGrant,
    bounds_write: AccessGrant,
    entry: Entry,
    folder: str | None = None,
    narrowing: Sequence[AgentConfig] = (),
    tools: Sequence[str] = (),
) -> Grant:
    """What an agent may do in one run.

    The bounds are what its module or owner may touch, `tools` modules' tools that it may call,
    `folder` is `${CWD}`; `narrowing_of` makes `narrowing` from what a person wrote. Raises
    ValueError for patterns that the folder makes senseless.
    """
    every = [one.at(folder) for one in (config, *narrowing)]
    reads = reduce(
        lambda grant, one: within(grant, one) if one.may_read else NOWHERE, every, bounds_read
    )
    writes = reduce(
        lambda grant, one: within(grant, one) if one.may_write else NOWHERE, every, bounds_write
    )
    bash = reduce(narrower, (one.bash or False for one in every))
    network = reduce(narrower, map(_network, every))
    outside = tuple(
        path
        for path in config.outside_paths
        if config.may_read and all(_leaves(one, path) for one in narrowing)
    )
    native = _native(every, bash=bash, network=network, outside=outside)
    reach: Network = (
        "none"
        if network is False or not {"Bash", "WebFetch"}.intersection(native)
        else "bridge"
        if network is True
        else network
    )
    return Grant(
        agent=agent,
        reads=reads,
        writes=writes,
        tainted_writes=grant_of(
            one for one in every[0].lane if not is_outside(one) and "${" not in one
        ).both(writes),
        outside=outside,
        tools=tuple(tools),
        interfaces=reduce(in_both, (agent_config.allowed_interfaces for agent_config in every)),
        native=native,
        bash=bash,
        network=reach,
        sandbox=_sandbox(every, reach),
        asks=entry in PRESENT,
    )


def curator_grant(*, own: str, watched: Iterable[str]) -> Grant:
    """A bubble run reads these notes and writes its own: our tools, no shell, no network."""
    mine = exactly([own])
    return Grant(
        agent=CURATOR,
        reads=exactly(dict.fromkeys([own, *watched])),
        writes=mine,
        tainted_writes=mine,
    )


def may_begin(config: AgentConfig, entry: Entry) -> str | None:
    """Why such a run may not be started that way, or None."""
    if config.requires_explicit_invocation and entry not in EXPLICIT:
        return f"it begins only when a person asks for it by name, and never by way of {entry}"
    return None


def narrowing_of(override: AgentConfig, entry: Mapping[str, object]) -> AgentConfig:
    """The bounds that an entry of modules.yaml sets: keys that are not in `entry` set none."""
    box = entry.get("sandbox")
    said = (
        {name: getattr(override.sandbox, name) for name in box}
        if override.sandbox is not None and isinstance(box, Mapping)
        else {}
    )
    speaks = "capabilities" in entry
    paths = override.paths if "paths" in entry else ("**",)  # a list of none is none
    return AgentConfig(
        paths=paths,
        lane=override.lane,
        capabilities=override.capabilities if speaks else ("read", "write", "webfetch"),
        bash=override.bash if "bash" in entry or speaks else True,
        network=override.network if "network" in entry else said.get("network") not in {"none", ()},
        sandbox=SandboxConfig(
            **{
                **_WIDEST,
                **said,
                "allowed_paths": said.get("allowed_paths") or (("**",) if paths else ()),
            }
        ),
        allowed_interfaces=override.allowed_interfaces,
    )


def in_both(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The intersection; None stands for all names."""
    return (
        one
        if other is None
        else other
        if one is None
        else tuple(name for name in one if name in other)
    )


def _network(config: AgentConfig) -> bool | tuple[str, ...]:
    """Where the config and its sandbox both limit the network, both hold."""
    boxed = config.sandbox.network if config.sandbox is not None else "none"
    if boxed in {"none", ()}:
        return config.network or False
    in_box = True if boxed == "bridge" else tuple(boxed)
    return in_box if config.network is False else narrower(config.network, in_box)


def narrower(one: bool | tuple[str, ...], other: bool | tuple[str, ...]) -> bool | tuple[str, ...]:  # noqa: FBT001  yes, no or a list
    """The intersection of what both allow of a shell's programs, or of hosts."""
    if one is True or other is True:
        return other if one is True else one
    if one is False or other is False:
        return False
    return tuple(name for name in one if name in other) or False


def _common(network: Network, other: Network) -> Network:
    if network == "none" or other == "none":
        return "none"
    if network == "bridge" or other == "bridge":
        return other if network == "bridge" else network
    return tuple(host for host in network if host in other) or "none"


def _native(
    every: Sequence[AgentConfig],
    *,
    bash: bool | tuple[str, ...],
    network: bool | tuple[str, ...],
    outside: Sequence[str],
) -> tuple[str, ...]:
    """The CLI tools that it needs: file tools with a shell or with files outside the vault."""
    fetches = bool(network) and all(one.fetches for one in every)
    files = _READS if (bash or outside) and all(one.may_read for one in every) else ()
    changes = _WRITES if bash and files and all(config.may_write for config in every) else ()
    return (*files, *changes, *(("Bash",) if bash else ()), *(("WebFetch",) if fetches else ()))


def _sandbox(every: Sequence[AgentConfig], network: Network) -> SandboxConfig:
    """The smaller of both sandboxes; `reads` and `writes` decide what of the vault it sees."""
    own = every[0].sandbox or SandboxConfig()
    boxes = [own, *(one.sandbox for one in every[1:] if one.sandbox is not None)]
    access: Literal["none", "ro", "rw"] = (
        "none"
        if not all(agent_config.may_read for agent_config in every)
        else "ro"
        if not all(config.may_write for config in every)
        else "rw"
    )
    return replace(
        own,
        workspace_access=access,
        network=network,
        memory=min(boxes, key=lambda box: box.memory_bytes).memory,
        cpus=min(box.cpus for box in boxes),
        pids_limit=min(box.pids_limit for box in boxes),
        read_only_root=any(box.read_only_root for box in boxes),
        cap_drop=tuple(dict.fromkeys(capability for box in boxes for capability in box.cap_drop)),
    )


def _leaves(config: AgentConfig, path: str) -> bool:
    return config.may_read and (config.paths == ("**",) or path in config.outside_paths)


def narrowing_configs(narrowing: AgentNarrowing) -> tuple[AgentConfig, ...]:
    """Its capabilities and sandbox as a config; none where it names neither. Raises ValueError."""
    said = {
        name: value
        for name, value in (
            ("capabilities", narrowing.capabilities),
            ("sandbox", narrowing.sandbox),
        )
        if value is not None
    }
    return (narrowing_of(AgentConfig(**said), said),) if said else ()  # type: ignore[arg-type]


def restricted_grant(grant: Grant, narrowing: AgentNarrowing) -> Grant:
    reads, writes, outside, tools = grant.reads, grant.writes, grant.outside, grant.tools
    if narrowing.read is not None:
        reads = reads.both(grant_of(one for one in narrowing.read if not is_outside(one)))
        outside = tuple(one for one in outside if one in narrowing.read)
    if narrowing.write is not None:
        writes = writes.both(grant_of(one for one in narrowing.write if not is_outside(one)))
    if narrowing.tools is not None:
        tools = tuple(tool for tool in tools if _is_named(tool, narrowing.tools))
    if narrowing.mcps is not None:
        tools = tuple(tool for tool in tools if "__" not in tool or _is_named(tool, narrowing.mcps))
    return replace(
        grant,
        reads=reads,
        writes=writes,
        tainted_writes=grant.tainted_writes.both(writes),
        outside=outside,
        tools=tools,
    )


def _is_named(tool: str, names: Iterable[str]) -> bool:
    """Whether the tool, or the MCP server that it is of, is among them."""
    wanted = {name.removeprefix("mcp__") for name in names}
    return not wanted.isdisjoint({tool, tool.partition("__")[0]})
