"""What holds wherever the CLI is, as a process of ours and in a container, with shell scripts in
its place.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from claude_agent_sdk import CLIConnectionError, CLIJSONDecodeError, ProcessError

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents import RunSandbox
from parachuted.agents.claude.transport import (
    AgentContainer,
    AgentProcess,
    AgentTransport,
    parse_line,
)
from parachuted.agents.sandbox.options import SandboxSpec
from parachuted.agents.sandbox.sandboxes import Sandboxes

Start = Callable[[str], Awaitable[AgentTransport]]


@pytest.fixture(params=["process", "container"])
def place(request: pytest.FixtureRequest) -> Sandboxes | None:
    """Where it runs."""
    return request.getfixturevalue("boxes") if request.param == "container" else None


@pytest.fixture
async def start(place: Sandboxes | None, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts the shell on a script; when the test is over, nothing of it is left, on either
    side.
    """
    boxes = place
    async with AsyncExitStack() as stack:

        async def start(script: str) -> AgentTransport:
            transport: AgentTransport
            if boxes is None:
                transport = AgentProcess(
                    ["sh", "-c", script], env={"PATH": os.environ["PATH"]}, cwd=tmp_path
                )
            else:
                slot = await stack.enter_async_context(boxes.prepare())
                box = RunSandbox(
                    config=SandboxConfig(),
                    work=slot.work,
                    home=slot.home,
                    sockets=slot.sockets,
                    is_writable=True,
                )
                command = ("sh", "-c", script)
                spec = SandboxSpec(
                    sandbox=box,
                    sockets=slot.sockets,
                    command=command,
                    env={},
                    run="r",
                    agent="a",
                    cli=Path("/usr/bin/env"),
                )
                transport = AgentContainer(await stack.enter_async_context(boxes.open(spec)))
            await transport.connect()
            stack.push_async_callback(transport.close)
            return transport

        yield start
    if boxes is not None:
        assert await boxes.sweep() == 0


async def read(transport: AgentTransport) -> list[dict[str, object]]:
    return [message async for message in transport.read_messages()]


@pytest.mark.parametrize(
    "script",
    [
        "trap '' TERM INT HUP PIPE; echo '{}'; while :; do sleep 60; done",
        'yes \'{"type": "x"}\'',
        "setsid sleep 60 & echo '{}'",
    ],
)
async def test_it_ends_when_it_is_closed_however_it_behaves(start: Start, script: str) -> None:
    transport = await start(script)
    async with asyncio.timeout(30):
        await anext(aiter(transport.read_messages()))
    began = time.monotonic()
    await transport.close()

    assert time.monotonic() - began < 20
    assert not transport.is_ready()


async def test_to_kill_it_ends_it_though_no_one_waits(start: Start) -> None:
    transport = await start("echo '{}'; sleep 60")
    messages = aiter(transport.read_messages())
    await anext(messages)
    began = time.monotonic()
    transport.kill()
    with pytest.raises(ProcessError):
        await anext(messages, None)

    assert time.monotonic() - began < 20


async def test_one_with_grace_ends_by_itself(start: Start) -> None:
    transport = await start("cat >/dev/null; sleep 0.2; echo '{\"over\": 1}'")
    transport.allow_grace(5)
    seen: list[dict[str, object]] = []

    async def listen() -> None:
        seen.extend(await read(transport))

    async with asyncio.TaskGroup() as group:
        group.create_task(listen())
        await transport.close()

    assert seen == [{"over": 1}]


async def test_grace_has_an_end(start: Start) -> None:
    transport = await start("trap '' TERM INT HUP PIPE; while :; do sleep 60; done")
    transport.allow_grace(0.3)
    began = time.monotonic()
    await transport.close()

    assert 0.3 <= time.monotonic() - began < 20


async def test_messages_are_the_lines_that_are_objects(start: Start) -> None:
    transport = await start(
        """echo noise; printf '{"a": 1}\\n\\n{"b": "\\\\u00e4'; sleep 0.1; echo '"}'"""
    )

    assert await read(transport) == [{"a": 1}, {"b": "ä"}]


async def test_what_is_written_arrives_and_then_the_end(start: Start) -> None:
    transport = await start("cat")
    await transport.write('{"text": "ä"}\n')
    await transport.end_input()

    assert await read(transport) == [{"text": "ä"}]
    with pytest.raises(CLIConnectionError):
        await transport.write("more")


async def test_a_bad_end_is_reported(start: Start) -> None:
    transport = await start("echo '{}'; exit 3")

    with pytest.raises(ProcessError) as caught:
        await read(transport)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("line", ["{broken", "{" + '"a":[' * 20_000])
def test_a_line_that_is_not_json_is_a_named_error(line: str) -> None:
    with pytest.raises(CLIJSONDecodeError):
        parse_line(line.encode())


async def test_an_endless_line_is_a_named_error_and_does_not_fill_the_memory(start: Start) -> None:
    transport = await start("head -c 100000000 /dev/zero")

    with pytest.raises(CLIJSONDecodeError):
        await read(transport)
