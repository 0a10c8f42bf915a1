"""Fixtures for MCP: one daemon for the tests of a file, each with notes in a folder of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.stories.daemon_rig import DaemonRig, shared_daemon


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon_rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DaemonRig]:
    async with shared_daemon(tmp_path_factory.mktemp("mcp")) as daemon_rig:
        yield daemon_rig
