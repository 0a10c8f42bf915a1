"""Modules that are loaded at first use, since they cost more time and memory than all the rest."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
import threading
from importlib.util import find_spec
from types import ModuleType

from parachuted.errors import AgentUnavailableError

HEAVY = {
    "claude": "parachuted.agents.claude.backend",  # with claude_agent_sdk and mcp: 0.8 s, 40 MB
    "mcp": "parachuted.mcp.protocol",  # with mcp: 0.5 s, 28 MB
    "mcp_client": "parachuted.mcp.connection",  # with mcp and httpx2
    "sandbox": "parachuted.agents.sandbox.engine",  # with docker: 100 ms, 8 MB
    "jsonschema": "jsonschema.validators",  # 60 ms, 3 MB
    # with the vault: 100 ms, 5 MB in a module's process; only a text with private parts needs it
    "private": "parachuted.access.private_text",
    "re2": "re2",  # 3 MB; only a hook whose matcher is an expression needs it
    # with multiprocessing: 25 ms, 1 MB; only a module's schedule needs it
    "scheduler": "apscheduler.schedulers.asyncio",
    "watchfiles": "watchfiles",  # on Linux only where `watch.engine` says so
}
WITHOUT_AGENT_SDK = (
    "the Claude Agent SDK is not installed; `pip install 'parachuted[claude]'` installs it"
)


def has_agent_sdk() -> bool:
    return find_spec("claude_agent_sdk") is not None


async def load_heavy(part: str) -> ModuleType:
    """Import a part named in the table, off the event loop; never one that is half imported. Raises
    AgentUnavailableError for `claude` where its extra is not installed.
    """
    return await asyncio.to_thread(load_heavy_here, part)


def load_heavy_here(part: str) -> ModuleType:
    if part == "claude" and not has_agent_sdk():
        raise AgentUnavailableError(WITHOUT_AGENT_SDK)
    return importlib.import_module(HEAVY[part])


def expect_heavy(part: str) -> None:
    """Begin to import, in a thread, a part that will be needed in a moment."""
    if HEAVY[part] not in sys.modules:
        threading.Thread(target=_load_ahead, args=(part,), name=f"load {part}", daemon=True).start()


def _load_ahead(part: str) -> None:
    with contextlib.suppress(AgentUnavailableError):  # the run that needs it says so
        load_heavy_here(part)
