"""What a sandbox is, and the engine's container options for it. The same grant gives the same
container.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from parachuted.access.agent_config import SandboxConfig
from parachuted.access.grant import Network
from parachuted.agents.job import RunSandbox
from parachuted.errors import AgentUnavailableError

VAULT_IN_BOX = "/vault"
HOME_IN_BOX = "/home/agent"
SOCKETS_IN_BOX = "/sockets"
OUTSIDE_IN_BOX = "/outside"
CLI_IN_BOX = "/opt/parachute/claude"
GATEWAY_SOCKET = "gateway.sock"
BUILT_IMAGE, HOST_IMAGE = "parachute-sandbox:latest", "parachute-sandbox:host"
PROXY_SOCKET = "proxy.sock"
RELAY_PORT = 3128
MARK = ".slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """A command to run in a sandbox with the folders of its slot.

    `command` and `env` use the container's paths (`CLI_IN_BOX`, `HOME_IN_BOX`); `cli` is the file
    on this machine mounted at `CLI_IN_BOX`.
    """

    sandbox: RunSandbox
    command: tuple[str, ...]
    env: Mapping[str, str]
    cli: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOwner:
    """Whose a container is: the user that it runs as, the daemon, and which life of that."""

    user: tuple[int, int]
    daemon: str
    life: str

    @property
    def labels(self) -> dict[str, str]:
        return {LABEL: self.daemon, LIFE_LABEL: self.life}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerProgram:
    """A program of this machine that runs in a container of its own, with the system's programs.

    `command` and `readable` (files and folders that it may read) are paths of this machine, which
    are the container's too. `writable` are folders that it may write.
    """

    command: tuple[str, ...]
    env: Mapping[str, str]
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    config: SandboxConfig = field(default_factory=SandboxConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSlot:
    """The folders of one run, made before it and gone after it: `work` is seen as /vault, `home` as
    its HOME, `sockets` as /sockets (read only), `outside` as /outside (read only). All belong to
    the user that the container runs as.
    """

    id: str
    work: Path
    home: Path
    sockets: Path
    outside: Path

    def sandbox(self, config: SandboxConfig, network: Network = "none") -> RunSandbox:
        """The sandbox of a run with these folders."""
        return RunSandbox(
            config=config,
            work=self.work,
            is_writable=config.workspace_access == "rw",
            home=self.home,
            sockets=self.sockets,
            network=network,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image, and what of this machine is mounted into it, read-only."""

    name: str
    kind: Literal["built", "host"]
    mounts: tuple[str, ...] = ()


LABEL = "org.parachuted.daemon"
LIFE_LABEL = "org.parachuted.life"
_OPEN_FILES = 16_384
_LARGEST_FILE = 256 << 20
_SHARED_MEMORY = 64 << 20
_TMP, _SMALL = 256 << 20, 16 << 20
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_ENV = {"PATH": _PATH, "LANG": "C.UTF-8", "TMPDIR": "/tmp", "HOME": HOME_IN_BOX}  # noqa: S108  in the container, a tmpfs of its own


def container_options(
    spec: SandboxSpec, slot: SandboxSlot, image: Image, owner: ContainerOwner
) -> dict[str, object]:
    """The body of the engine's `POST /containers/create` for a run's container: the command, its
    environment, and the filtering proxy's socket if the sandbox has a network.
    """
    env, relay = {**_ENV, **spec.env}, None
    if spec.sandbox.network not in ("none", ()):
        proxy = f"http://127.0.0.1:{RELAY_PORT}"
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            env |= {name: proxy, name.lower(): proxy}
        env |= dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1")
        source = _text_of("relay.py")
        relay = {"port": RELAY_PORT, "socket": f"{SOCKETS_IN_BOX}/{PROXY_SOCKET}", "source": source}
    instructions = {"command": spec.command, "mark": f"{SOCKETS_IN_BOX}/{MARK}", "relay": relay}
    return {
        **_walled(spec.sandbox.config, image, owner, _mounts(spec, slot)),
        "WorkingDir": VAULT_IN_BOX,
        "Entrypoint": ["python3", "-I", "-S", "-c", _text_of("inside.py")],
        "Cmd": [json.dumps(instructions)],
        "Env": [f"{name}={value}" for name, value in env.items()],
    }


def program_options(
    program: ContainerProgram, image: Image, owner: ContainerOwner
) -> dict[str, object]:
    """The same for a program."""
    mounts = [
        *(_bind(str(path), str(path), is_writable=False) for path in program.readable),
        *(_bind(str(path), str(path), is_writable=True) for path in program.writable),
    ]
    env = {**_ENV, "HOME": "/tmp", **program.env}  # noqa: S108  in the container
    return {
        **_walled(program.config, image, owner, mounts),
        "Entrypoint": list(program.command),
        "Env": [f"{name}={value}" for name, value in env.items()],
    }


def _walled(
    config: SandboxConfig, image: Image, owner: ContainerOwner, mounts: list[dict[str, object]]
) -> dict[str, object]:
    """No network at all, no capability, no way to more rights, a root that cannot be written, the
    default seccomp profile (the engine's own, by not naming one), and limits on memory (without
    swap), processors, processes, open files and the size of a file.
    """
    return {
        "Image": image.name,
        "Labels": owner.labels,
        "User": f"{owner.user[0]}:{owner.user[1]}",
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": True,
        "StdinOnce": True,
        "Tty": False,
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": config.read_only_root,
            "Privileged": False,
            "CapDrop": list(config.cap_drop),
            "CapAdd": [],
            "SecurityOpt": ["no-new-privileges:true"],
            "Memory": config.memory_bytes,
            "MemorySwap": config.memory_bytes,
            "NanoCpus": round(config.cpus * 1_000_000_000),
            "PidsLimit": config.pids_limit,
            "IpcMode": "private",
            "ShmSize": _SHARED_MEMORY,
            "OomScoreAdj": 500,
            "Ulimits": [
                _limit("nofile", _OPEN_FILES),
                _limit("fsize", _LARGEST_FILE),
                _limit("core", 0),
            ],
            "LogConfig": {"Type": "none", "Config": {}},
            "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
            "AutoRemove": False,
            "Init": False,  # our first process is one; over this machine's /sbin none can be put
            "Tmpfs": {
                path: _tmpfs(size)
                for path, size in (("/tmp", _TMP), ("/run", _SMALL), ("/var/tmp", _SMALL))  # noqa: S108  the same
            },
            "Mounts": [
                *(_bind(path, path, is_writable=False) for path in image.mounts),
                *mounts,
            ],
        },
    }


def _mounts(spec: SandboxSpec, slot: SandboxSlot) -> list[dict[str, object]]:
    return [
        _bind(str(slot.work), VAULT_IN_BOX, is_writable=spec.sandbox.is_writable),
        _bind(str(slot.home), HOME_IN_BOX, is_writable=True),
        _bind(str(slot.sockets), SOCKETS_IN_BOX, is_writable=False),
        _bind(str(slot.outside), OUTSIDE_IN_BOX, is_writable=False),
        _bind(str(spec.cli), CLI_IN_BOX, is_writable=False),
    ]


def _bind(source: str, target: str, *, is_writable: bool) -> dict[str, object]:
    """That folder alone: what is mounted below it, now or later, on either side, does not cross."""
    options = {"Propagation": "rprivate", "NonRecursive": True}
    return {
        "Type": "bind",
        "Source": source,
        "Target": target,
        "ReadOnly": not is_writable,
        "BindOptions": options,
    }


def _limit(name: str, value: int) -> Mapping[str, object]:
    return {"Name": name, "Soft": value, "Hard": value}


def _tmpfs(size: int) -> str:
    return f"rw,nosuid,nodev,noexec,size={size},mode=1777"


def _text_of(name: str) -> str:
    return (files("parachuted.agents.sandbox") / name).read_text("utf-8")


def find_cli() -> Path | None:
    """The CLI in the agent SDK's wheel, found without importing that."""
    found = find_spec("claude_agent_sdk")
    for place in (found.submodule_search_locations or []) if found is not None else []:
        cli = Path(place) / "_bundled" / "claude"
        if cli.is_file():
            return cli.resolve()
    return None


def check_cli(cli: Path) -> Path:
    """A program of this machine's owner, and nothing else, is ever mounted as the CLI."""
    found = cli.resolve()
    try:
        mode = found.stat().st_mode
    except OSError as error:
        raise AgentUnavailableError(f"there is no program {cli}: {error.strerror}") from error
    if not stat.S_ISREG(mode) or not mode & stat.S_IXUSR or mode & stat.S_IWOTH:
        raise AgentUnavailableError(f"{cli} is not a program that only its owner can change")
    return found
