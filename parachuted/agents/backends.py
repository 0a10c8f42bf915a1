"""Chooses the agent backend, and says why."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from parachuted.agents.credentials import CredentialSource
from parachuted.agents.job import Backend, Job, Step
from parachuted.agents.offline import OfflineBackend
from parachuted.processes.heavy import WITHOUT_AGENT_SDK, has_agent_sdk, load_heavy
from parachuted.texts.redact import redact

if TYPE_CHECKING:  # a command that only asks which backend it would be does without them
    from parachuted.agents.gateway.gateway import Gateway
    from parachuted.agents.sandbox.sandboxes import Sandboxes

BackendName: TypeAlias = Literal["claude", "offline"]
SEE_STATUS = "; see `parachute auth status`"


def available_memory() -> int | None:
    """The bytes that programs can still have; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["MemAvailable"].split()[0]) << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeSettings:
    """`folder` is private to the backend, outside the vault; `env` is the daemon's environment.
    The client of a conversation is kept open for `idle_s` seconds after a turn, unless memory is
    short.
    """

    model: str
    folder: Path
    env: Mapping[str, str]
    gateway: Gateway
    sandboxes: Sandboxes | None = None
    platform: str = sys.platform
    idle_s: float = 300.0
    available_memory: Callable[[], int | None] = available_memory


def choose_backend(
    name: Literal["auto", "claude", "offline"],
    login: CredentialSource | None,
    base_url: str | None,
) -> tuple[BackendName, str]:
    if name == "offline":
        return "offline", "offline, since agent.backend says so"
    if name == "auto" and login is None and base_url is None:
        return "offline", "offline, with no model, since no login was found" + SEE_STATUS
    if not has_agent_sdk():
        if name == "auto":
            return "offline", f"offline, with no model, since {WITHOUT_AGENT_SDK}"
        return "claude", f"claude, since agent.backend says so, though {WITHOUT_AGENT_SDK}"
    reason = "since agent.backend says so, though no login was found"
    if base_url is not None:
        is_key = login is not None and login.kind in {"auth_token", "api_key"}
        sent = f", with the key from {login.place}" if login is not None and is_key else ""
        reason = redact(f"with the model server at {base_url}{sent}")
    elif login is not None:
        reason = f"with the login from {login.place}"
    return "claude", f"claude, {reason}"


def make_backend(name: BackendName, settings: ClaudeSettings) -> Backend:
    """`claude` is only loaded at its first run."""
    return OfflineBackend() if name == "offline" else _Claude(settings)


class _Claude:
    name = "claude"

    def __init__(self, settings: ClaudeSettings) -> None:
        self._settings = settings
        self._backend: Backend | None = None
        self._loading = asyncio.Lock()

    async def run(self, job: Job) -> AsyncIterator[Step]:
        backend = await self._load()
        async with aclosing(cast("AsyncGenerator[Step, None]", backend.run(job))) as steps:
            async for step in steps:
                yield step

    async def close(self) -> None:
        if self._backend is not None:
            await self._backend.close()

    async def _load(self) -> Backend:
        async with self._loading:
            if self._backend is None:
                module = await load_heavy("claude")
                self._backend = cast("Backend", module.ClaudeBackend(self._settings))
            return self._backend
