"""What tests of Chat share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from parachuted.testing import ModuleHarness
from tests.chat.chat_of import running_chat
from tests.chat.live_turns import talking

__all__ = ["talking"]


@pytest.fixture
async def chat(vault: Path) -> AsyncIterator[ModuleHarness]:
    async with running_chat(vault) as module:
        yield module
