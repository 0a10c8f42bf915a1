"""Agent config: the instructions and permissions of a module's agent, checked when it is made,
and what one run of it does without.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass

from parachuted.keys.path_globs import PathGlob

AgentCapability: TypeAlias = Literal["read", "write", "bash", "webfetch"]

_STRICT = ConfigDict(extra="forbid")
_CWD = "${CWD}"
_TOOLS: dict[str, tuple[AgentCapability, ...]] = {
    **dict.fromkeys(("read", "glob", "grep", "ls"), ("read",)),
    **dict.fromkeys(("write", "edit", "multiedit"), ("read", "write")),
    "bash": ("bash",),
    "webfetch": ("webfetch",),
}
_ACCESS: dict[str, tuple[AgentCapability, ...]] = {
    "none": (),
    "ro": ("read",),
    "rw": ("read", "write"),
}
_CAPABILITIES: tuple[AgentCapability, ...] = ("read", "write", "bash", "webfetch")
_INSTEAD = {"websearch": "WebFetch, with network: true beside it", "computer": "Bash"}
_HOST = re.compile(
    r"(\*\.)?[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+(:\d{1,5})?"
)
_MEMORY = re.compile(r"[1-9]\d{0,8}[kmg]?b?", re.IGNORECASE)
_MEMORY_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3}


def is_outside(path: str) -> bool:
    """Whether the path is outside the vault: in a person's home, or elsewhere on the disk."""
    return path.startswith(("~", "/"))


def normal_pattern(text: str) -> str:
    """`Brain/` means everything below it. Raises ValueError."""
    pattern = f"{text}**" if text.endswith("/") else text
    return PathGlob(pattern).text


def module_of_agent(name: str) -> str | None:
    """A module's agent is named `module/agent`, one of the daemon's own by one word."""
    module, slash, _agent = name.partition("/")
    return module if slash else None


def _paths(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("should be a list of paths")  # noqa: TRY004  pydantic takes a ValueError for its caller's mistake
    if not isinstance(value, Sequence):
        return value
    return tuple(_path(one) if isinstance(one, str) else one for one in value)


def _path(text: str) -> str:
    if is_outside(text):
        if "\0" in text or ".." in text.split("/") or len(text) > 1_000:  # noqa: PLR2004  as a pattern's
            raise ValueError(f"{text[:80]!r} is not a path")
        return text
    if text == _CWD or text.startswith(f"{_CWD}/"):
        rest = text[len(_CWD) + 1 :]
        return f"{_CWD}/{normal_pattern(rest) if rest else '**'}"
    return normal_pattern(text)


def _capabilities(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("should be a list, such as [read, write]")  # noqa: TRY004  the same
    if not isinstance(value, Sequence):
        return value
    found: set[str] = set()
    for one in value:
        word = one.lower() if isinstance(one, str) else ""
        if word not in _TOOLS:
            instead = f"; use {_INSTEAD[word]}" if word in _INSTEAD else ""
            raise ValueError(
                f"{str(one)[:80]!r} is not one of read, write (or Read, Glob, Grep, Write, Edit), "
                f"Bash, WebFetch{instead}"
            )
        found.update(_TOOLS[word])
    return tuple(word for word in _CAPABILITIES if word in found)


def _yes_or_list(value: object) -> object:
    if isinstance(value, str):
        said = {"true": True, "false": False, "yes": True, "no": False}.get(value.lower())
        if said is None:
            raise ValueError("should be true, false or a list")
        return said
    if isinstance(value, bool):
        return value
    if not isinstance(value, Sequence) or not all(
        isinstance(one, str) and one.strip() for one in value
    ):
        raise ValueError("should be true, false or a list of texts")
    return tuple(value)


def _hosts(value: object) -> object:
    found = _yes_or_list(value)
    for one in found if isinstance(found, tuple) else ():
        if not _HOST.fullmatch(one):
            raise ValueError(f"{one[:80]!r} is not the name of a host, such as api.telegram.org")
    return found


def _sandbox_network(value: object) -> object:
    if value in ("none", "bridge"):
        return value
    if isinstance(value, str | bool) or not isinstance(value, Sequence):
        raise ValueError("should be one of none, bridge, or a list of hosts")  # noqa: TRY004  the same
    return _hosts(value)


def _memory(value: object) -> object:
    if not isinstance(value, str) or not _MEMORY.fullmatch(value):
        raise ValueError("should be a size such as 512m or 2g")
    return value.lower().removesuffix("b")


def _cap_drop(value: object) -> object:
    """A sandbox never has capabilities: a list that would keep some is refused."""
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or "ALL" not in [one.upper() for one in value if isinstance(one, str)]
    ):
        raise ValueError("should be [ALL]: no agent keeps a capability")
    return ("ALL",)


YesOrList: TypeAlias = Annotated[bool | tuple[str, ...], BeforeValidator(_yes_or_list)]
PathList: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_paths), Field(max_length=200)]


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class SandboxConfig:
    workspace_access: Literal["none", "ro", "rw"] = "none"
    allowed_paths: PathList = ()
    network: Annotated[
        Literal["none", "bridge"] | tuple[str, ...], BeforeValidator(_sandbox_network)
    ] = "none"
    memory: Annotated[str, BeforeValidator(_memory)] = "512m"
    cpus: Annotated[float, Field(gt=0, le=64)] = 1.0
    pids_limit: Annotated[int, Field(ge=1, le=65_536)] = 256
    read_only_root: bool = True
    cap_drop: Annotated[tuple[str, ...], BeforeValidator(_cap_drop)] = ("ALL",)

    @property
    def memory_bytes(self) -> int:
        number = self.memory.rstrip("kmg")
        return int(number) * _MEMORY_UNITS.get(self.memory.removeprefix(number), 1)


@dataclass(frozen=True, slots=True, kw_only=True, config=_STRICT)
class AgentConfig:
    """One agent of a module. All it may touch lies within the module's own permissions too.

    `system_prompt`: the words themselves, or the name of a file of the module
    (`prompts/indexer.md`). `paths` or the sandbox's `allowed_paths` say where it may work, and
    where both do, both hold; with neither it sees no note. `capabilities` not given: what the
    sandbox's `workspace_access` says, else to read. `Bash` among them is `bash: true`; `WebFetch`
    fetches pages of the hosts that the network allows. `lane`: files that it may write even after
    it has read strangers' text. `allowed_interfaces`: of the interfaces that its module may use,
    these; None: all. `requires_explicit_invocation`: only a person begins it;
    `requires_explicit_approval`: a person must allow it again for each session.
    `load_cwd_claude_md`: it reads the context file of the folder that it works in. `orchestrates`:
    the agents whose suggestions it decides on before a person does, as far as it could write the
    same itself; `*`: all.
    """

    description: Annotated[str, Field(max_length=1_000)] = ""
    system_prompt: Annotated[str, Field(max_length=100_000)] = ""
    paths: PathList = ()
    capabilities: Annotated[tuple[AgentCapability, ...] | None, BeforeValidator(_capabilities)] = (
        None
    )
    bash: YesOrList = False
    network: Annotated[bool | tuple[str, ...], BeforeValidator(_hosts)] = False
    sandbox: SandboxConfig | None = None
    model: Annotated[str, Field(max_length=200)] | None = None
    allow_workspace_skills: bool = False
    allow_user_skills: bool = False
    lane: PathList = ()
    allowed_interfaces: Annotated[tuple[str, ...] | None, Field(max_length=200)] = None
    requires_explicit_approval: bool = False
    requires_explicit_invocation: bool = False
    load_cwd_claude_md: bool = False
    orchestrates: Annotated[tuple[str, ...], Field(max_length=50)] = ()

    def __post_init__(self) -> None:
        """`Bash` among the capabilities is said in one place from here on."""
        if self.capabilities and "bash" in self.capabilities:
            object.__setattr__(
                self,
                "capabilities",
                tuple(capability for capability in self.capabilities if capability != "bash"),
            )
            if self.bash is False:
                object.__setattr__(self, "bash", True)

    @property
    def prompt_file(self) -> str | None:
        """The file in the module's folder that holds the system prompt; None: it is the text
        itself.
        """
        text = self.system_prompt
        return text if re.fullmatch(r"[^\s\x00]+\.(md|txt)", text) else None

    @property
    def may_read(self) -> bool:
        return bool(self._allowed)

    @property
    def may_write(self) -> bool:
        return "write" in self._allowed

    @property
    def outside_paths(self) -> tuple[str, ...]:
        """Paths outside the vault, which need a sandbox with mounts."""
        return tuple(
            path
            for path in (*self.paths, *(self.sandbox.allowed_paths if self.sandbox else ()))
            if is_outside(path)
        )

    @property
    def wants_network(self) -> bool:
        return bool(self.network) or (
            self.sandbox is not None and self.sandbox.network not in ("none", ())
        )

    def at(self, folder: str | None) -> AgentConfig:
        """With `${CWD}` as that folder of the vault; without one, such paths match nothing."""
        sandbox = self.sandbox and replace(
            self.sandbox, allowed_paths=_placed(self.sandbox.allowed_paths, folder)
        )
        return replace(
            self,
            paths=_placed(self.paths, folder),
            lane=_placed(self.lane, folder),
            sandbox=sandbox,
        )

    @property
    def fetches(self) -> bool:
        """Whether it may fetch pages, where it has a network and nothing else was declared."""
        return self.capabilities is None or "webfetch" in self.capabilities

    @property
    def _allowed(self) -> tuple[AgentCapability, ...]:
        access = _ACCESS[self.sandbox.workspace_access] if self.sandbox else None
        if self.capabilities is None:
            return _ACCESS["ro"] if access is None else access
        return tuple(
            capability
            for capability in self.capabilities
            if capability in {"read", "write"} and (access is None or capability in access)
        )


def _placed(patterns: tuple[str, ...], folder: str | None) -> tuple[str, ...]:
    if folder is None:
        return patterns
    start = f"{folder.strip('/')}/".lstrip("/")
    return tuple(
        start + path.removeprefix(f"{_CWD}/") if path.startswith(_CWD) else path
        for path in patterns
    )


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
