"""Boxed: a daemon whose agents are the real CLI, in real containers, against a scripted model."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from parachuted.agents.choice import choose_agent
from parachuted.daemon import Daemon
from parachuted.home_files.vault_state import state_folder
from parachuted.testing import ScriptedMessages, ToolUse
from tests.engine import have_image
from tests.stories.daemon_rig import DaemonRig, at_work, settings_of

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
    """Start it, with an image of this machine's own programs."""
    async with ScriptedMessages() as api:
        asked = {"agent.base_url": api.url, "agent.backend": "claude"}
        settings = settings_of(home, vault, {**asked, **flags})
        env = {**engine, "ANTHROPIC_API_KEY": KEY}
        chosen = choose_agent(settings, state_folder(home, vault), env, home)
        assert chosen.sandboxes is not None
        await have_image(chosen.sandboxes)
        async with at_work(Daemon(settings, home, chosen), vault) as daemon_rig:
            yield SandboxedDaemon(daemon_rig=daemon_rig, api=api)


def native(tool: str, **arguments: object) -> ToolUse:
    """A block by which the model asks for one of the CLI's own tools."""
    return ToolUse(name=tool, input=arguments)
