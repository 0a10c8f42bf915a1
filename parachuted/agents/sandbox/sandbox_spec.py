"""What is requested of a container, and the paths inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.job import RunSandbox

VAULT_IN_BOX = "/vault"
HOME_IN_BOX = "/home/agent"
SOCKETS_IN_BOX = "/sockets"
OUTSIDE_IN_BOX = "/outside"
CLI_IN_BOX = "/opt/parachute/claude"
GATEWAY_SOCKET = "gateway.sock"
BUILT_IMAGE, HOST_IMAGE = "parachute-sandbox:latest", "parachute-sandbox:host"
PROXY_SOCKET = "proxy.sock"
RELAY_PORT = 3128


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """A command to run in a sandbox with the folders of its slot.

    `sockets` is the slot's folder of sockets; `command` and `env` use the container's paths
    (`CLI_IN_BOX`, `HOME_IN_BOX`); `run` and `agent` label the container; `cli` is the file on this
    machine mounted at `CLI_IN_BOX`.
    """

    sandbox: RunSandbox
    sockets: Path
    command: tuple[str, ...]
    env: Mapping[str, str]
    run: str
    agent: str
    cli: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerShape:
    """What must be known before a container starts; everything else can be sent to it later."""

    config: SandboxConfig
    is_writable: bool
    cli: Path


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image, and what of this machine is mounted into it, read-only.

    `id` changes when it is rebuilt.
    """

    name: str
    kind: Literal["built", "host"]
    mounts: tuple[str, ...] = ()
    id: str = ""
