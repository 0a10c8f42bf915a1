"""The container itself, with a shell script that behaves as no CLI does.

What holds for a process as well is in test_transport.py.
"""

from __future__ import annotations

import asyncio
import logging

import pytest
from claude_agent_sdk import CLIConnectionError, CLIJSONDecodeError, ProcessError

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents import RunSandbox
from parachuted.agents.claude.transport import AgentContainer
from parachuted.agents.sandbox.options import SandboxSpec, find_cli


@pytest.fixture
async def shell(boxes):
    """Opens a container of that configuration with a script in it; what it was opened with takes it
    away.
    """
    async with (
        asyncio.timeout(30),
        boxes.prepare() as slot,
    ):
        config = SandboxConfig(memory="64m", pids_limit=16)
        box = RunSandbox(
            config=config, work=slot.work, home=slot.home, sockets=slot.sockets, is_writable=True
        )

        def open_on(script):
            return boxes.open(
                SandboxSpec(
                    sandbox=box,
                    sockets=slot.sockets,
                    command=("sh", "-c", script),
                    env={},
                    run="r",
                    agent="a",
                    cli=find_cli(),
                )
            )

        yield open_on


async def drain(transport):
    async for _message in transport.read_messages():
        pass


async def test_one_that_never_stops_talking_is_cut_off(shell):
    async with shell("yes '{}'") as container:
        transport = AgentContainer(container)
        await transport.connect()
        with pytest.raises(CLIJSONDecodeError, match=r"100001 lines .* more than any agent says"):
            await drain(transport)
        await transport.close()


async def test_what_it_ended_of_is_reported_in_words(shell):
    async with shell("python3 -c 'x = bytearray(1 << 28); print(len(x))'") as container:
        transport = AgentContainer(container)
        await transport.connect()
        with pytest.raises(ProcessError, match="more memory than its sandbox has"):
            await anext(transport.read_messages(), None)


async def test_it_takes_nothing_before_it_is_connected_nor_after_it_was_closed(shell):
    async with shell("cat") as container:
        transport = AgentContainer(container)
        with pytest.raises(CLIConnectionError):
            await transport.write("early")
        await transport.connect()
        assert transport.is_ready()
        await transport.close()
        await transport.close()
        transport.kill()
        with pytest.raises(CLIConnectionError):
            await transport.write("late")
    assert not transport.is_ready()


async def test_who_has_stopped_listening_does_not_hold_the_end_up(shell, caplog):
    caplog.set_level(logging.WARNING)
    async with shell("kill -STOP $$") as container:
        transport = AgentContainer(container)
        await transport.connect()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await transport.write("x" * 64_000_000)
        async with asyncio.timeout(30):
            await transport.close()
