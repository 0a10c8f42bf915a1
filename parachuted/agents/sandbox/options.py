"""Options: what the engine is asked for, so that a container is a wall."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.job import RunSandbox

VAULT_IN_BOX = "/vault"
HOME_IN_BOX = "/home/agent"
SOCKETS_IN_BOX = "/sockets"
OUTSIDE_IN_BOX = "/outside"
CLI_IN_BOX = "/opt/parachute/claude"
GATEWAY_SOCKET, PROXY_SOCKET = "gateway.sock", "proxy.sock"
BUILT_IMAGE, HOST_IMAGE = "parachute-sandbox:latest", "parachute-sandbox:host"
LABEL, LIFE_LABEL = "org.parachuted.daemon", "org.parachuted.life"
MOST_BYTES, MOST_FILES = 512 << 20, 200_000

_RELAY_PORT = 3128
_LIMITS = (("nofile", 16_384), ("fsize", 256 << 20), ("core", 0))
_TMPFS = (("/tmp", 256 << 20), ("/run", 16 << 20), ("/var/tmp", 16 << 20))  # noqa: S108  in the container
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_ENV = {"PATH": _PATH, "LANG": "C.UTF-8", "TMPDIR": "/tmp", "HOME": HOME_IN_BOX}  # noqa: S108  in the container, a tmpfs of its own


def container_user() -> tuple[int, int]:
    """This process's own; where that is root, 1000."""
    return (os.getuid(), os.getgid()) if os.getuid() else (1000, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOwner:
    """The user that a container runs as, the daemon whose it is, and which life of that."""

    user: tuple[int, int]
    daemon: str
    life: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerProgram:
    """A program of this machine in a container of its own; paths are the same in there."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    config: SandboxConfig = field(default_factory=SandboxConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    name: str
    kind: Literal["built", "host"]
    mounts: tuple[str, ...] = ()


def sandbox_options(
    sandbox: RunSandbox, env: Mapping[str, str], cli: Path, image: Image, owner: ContainerOwner
) -> dict[str, object]:
    """The body of the engine's `POST /containers/create` for a run, whose program comes later.

    Where an agent's files are, is memory that the kernel bounds (`MOST_BYTES`, `MOST_FILES`).
    """
    relay: list[str] = []
    if sandbox.network not in ("none", ()):
        proxy = f"http://127.0.0.1:{_RELAY_PORT}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
        env = {**env, **dict.fromkeys(names, proxy)}
        env |= dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1")
        relay = [str(_RELAY_PORT), f"{SOCKETS_IN_BOX}/{PROXY_SOCKET}"]
    mounts = [
        _memory(VAULT_IN_BOX, mode="0777" if sandbox.is_writable else "0755"),
        _memory(HOME_IN_BOX, mode="0777"),
        _memory(OUTSIDE_IN_BOX, mode="0755"),
        _bind(sandbox.folder.sockets, SOCKETS_IN_BOX),
        _bind(cli, CLI_IN_BOX),
    ]
    entry = ("python3", "-I", "-S", "-c", packaged_text("inside.py"), *relay)
    return _walled(sandbox.config, image, owner, mounts, entry, env, VAULT_IN_BOX)


def program_options(
    program: ContainerProgram, image: Image, owner: ContainerOwner
) -> dict[str, object]:
    """The same for a program."""
    mounts = [
        *(_bind(path, path) for path in program.readable),
        *(_bind(path, path, is_writable=True) for path in program.writable),
    ]
    env = {"HOME": "/tmp", **program.env}  # noqa: S108  in the container
    return _walled(program.config, image, owner, mounts, program.command, env, "/")


def _walled(
    config: SandboxConfig,
    image: Image,
    owner: ContainerOwner,
    mounts: list[dict[str, object]],
    entry: tuple[str, ...],
    env: Mapping[str, str],
    folder: str,
) -> dict[str, object]:
    """No network, no capability, no way to more rights, a root that cannot be written, the default
    seccomp profile (by not naming one), and limits on memory (without swap), processors, processes
    and files.
    """
    return {
        "Image": image.name,
        "Labels": {LABEL: owner.daemon, LIFE_LABEL: owner.life},
        "User": f"{owner.user[0]}:{owner.user[1]}",
        "WorkingDir": folder,
        "Entrypoint": list(entry),
        "Env": [f"{name}={value}" for name, value in {**_ENV, **env}.items()],
        "Hostname": "sandbox",
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": True,
        "StdinOnce": True,
        "HostConfig": {
            "NetworkMode": "none",
            "ReadonlyRootfs": config.read_only_root,
            "CapDrop": list(config.cap_drop),
            "SecurityOpt": ["no-new-privileges:true"],
            "Memory": config.memory_bytes,
            "MemorySwap": config.memory_bytes,
            "NanoCpus": round(config.cpus * 1_000_000_000),
            "PidsLimit": config.pids_limit,
            "IpcMode": "private",
            "ShmSize": 64 << 20,
            "OomScoreAdj": 500,
            "Ulimits": [{"Name": name, "Soft": most, "Hard": most} for name, most in _LIMITS],
            "LogConfig": {"Type": "none", "Config": {}},
            "Init": False,  # our first process is one; over this machine's /sbin none can be put
            "Tmpfs": {
                path: f"rw,nosuid,nodev,noexec,size={size},mode=1777" for path, size in _TMPFS
            },
            "Mounts": [*(_bind(path, path) for path in image.mounts), *mounts],
        },
    }


def _bind(
    source: Path | str, target: Path | str, *, is_writable: bool = False
) -> dict[str, object]:
    """That folder alone: what is mounted below it, now or later, on either side, does not cross."""
    return {
        "Type": "bind",
        "Source": str(source),
        "Target": str(target),
        "ReadOnly": not is_writable,
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
    }


def _memory(target: str, *, mode: str) -> dict[str, object]:
    """Gone with its container. Unlike a `Tmpfs` the engine can fill and read it."""
    bounds = f"size={MOST_BYTES},nr_inodes={MOST_FILES},mode={mode},nosuid,nodev"
    driver = {"Name": "local", "Options": {"type": "tmpfs", "device": "tmpfs", "o": bounds}}
    options = {"NoCopy": True, "DriverConfig": driver}
    return {"Type": "volume", "Target": target, "VolumeOptions": options}


def packaged_text(name: str) -> str:
    return (files("parachuted.agents.sandbox") / name).read_text("utf-8")


def find_bundled_cli() -> Path | None:
    """In the agent SDK's wheel, found without importing that."""
    spec = find_spec("claude_agent_sdk")
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        cli = Path(place) / "_bundled" / "claude"
        if cli.is_file():
            return cli.resolve()
    return None
