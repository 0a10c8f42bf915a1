"""Boxed: a daemon whose agents are the real CLI, in real containers, against a scripted model."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from parachuted.agents.choice import choose_agent
from parachuted.config import load_settings
from parachuted.daemon import Daemon
from parachuted.home_files.vault_state import state_folder
from parachuted.testing import ScriptedMessages, ToolUse
from tests.stories.daemon_rig import DaemonRig

KEY = "sk-ant-api03-CANARY-OF-THE-DAEMON-0123456789"


@dataclass
class SandboxedDaemon:
    """The daemon, and the model that its agents ask."""

    daemon_rig: DaemonRig
    api: ScriptedMessages


@contextlib.asynccontextmanager
async def boxed(
    engine: Mapping[str, str], home: Path, vault: Path, **flags: object
) -> AsyncIterator[SandboxedDaemon]:
    """Start it.

    Where the engine has no image for sandboxes yet, one is made of this machine's own programs.
    """
    async with ScriptedMessages() as api:
        more = {key.replace("__", "."): value for key, value in flags.items()}
        reported = {
            "vault": str(vault),
            "port": 0,
            "bubble.quiet_s": 0.05,
            "agent.base_url": api.url,
            "agent.backend": "claude",
            **more,
        }
        settings = load_settings(home, {}, reported)
        env = {**engine, "ANTHROPIC_API_KEY": KEY}
        chosen = choose_agent(settings, state_folder(home, vault), env, home)
        assert chosen.sandboxes is not None
        if (await chosen.sandboxes.status()).image is None:
            async for _line in chosen.sandboxes.build(offline=True):
                pass
        daemon = Daemon(settings, home, chosen)
        daemon_rig = DaemonRig(daemon=daemon, vault=vault)
        daemon.watched.bus.subscribe(daemon_rig.events.append)
        ready = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(daemon.run(ready.set), name="daemon")
            await asyncio.wait_for(ready.wait(), 20)
            try:
                yield SandboxedDaemon(daemon_rig=daemon_rig, api=api)
            finally:
                daemon.stop()


def native(tool: str, **arguments: object) -> ToolUse:
    """A block by which the model asks for one of the CLI's own tools."""
    return ToolUse(name=tool, input=arguments)
