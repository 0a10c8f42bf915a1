"""A chat that runs alone, and what tests do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from parachuted.access.caller import Caller, acting
from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import ModuleHarness, running_module

_PATIENCE_S = 120.0


@asynccontextmanager
async def running_chat(vault: Path, **options: Any) -> AsyncIterator[ModuleHarness]:
    """Chat on that vault; the options are those of `running_module`.

    What gives up after seconds, so that no turn waits for it, has a minute: a busy machine is slow.
    """
    async with running_module(bundled_folder("modules") / "chat", vault=vault, **options) as module:
        inside = module.instance
        for one in (inside.bridge, inside.write_back, inside.turns.work.parts):
            assert one.limit_s > 0
            one.limit_s = _PATIENCE_S
        yield module


@asynccontextmanager
async def restarted(module: ModuleHarness) -> AsyncIterator[Path]:
    """The module's data folder; when the block ends the module is enabled once more."""
    chat = module.instance
    yield chat.data_folder
    await chat.on_enable()


def conversations(module: ModuleHarness) -> Any:
    return module.interface("ConversationInterface")


async def session(module: ModuleHarness, session_id: str) -> dict[str, Any]:
    """A session with its messages, as the app gets it."""
    found = await module.request("GET", f"/{session_id}")
    assert isinstance(found, dict)
    return found


async def texts(module: ModuleHarness, session_id: str) -> list[str]:
    return [one["content"] for one in (await session(module, session_id))["messages"]]


def files(vault: Path) -> list[str]:
    return sorted(path.name for path in (vault / "Chat/sessions").glob("*.md"))


def sessions_of(module: ModuleHarness) -> Any:
    """Its `Sessions`, for what is no route; call it inside `acting_as_owner`."""
    return module.instance.sessions


def acting_as_owner() -> Any:
    """Inside, calls of the module's own code are on its own behalf."""
    return acting(Caller())
