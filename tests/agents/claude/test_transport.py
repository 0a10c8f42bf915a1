"""A container as the SDK reads it, with a shell script that behaves as no CLI does."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from claude_agent_sdk import CLIConnectionError, CLIJSONDecodeError, ProcessError

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.claude.launch import ContainerTransport, parse_line
from tests.agents.sandbox.conftest import made_by, opening


@pytest.fixture
async def shell(sandboxes, engine):
    async with asyncio.timeout(60), sandboxes.prepare() as folder:
        config = SandboxConfig(memory="64m", pids_limit=16)

        @asynccontextmanager
        async def open_on(script):
            async with opening(sandboxes, folder, "sh", "-c", script, config=config) as container:
                transport = ContainerTransport(container)
                await transport.connect()
                yield transport
                await transport.close()
                assert not transport.is_ready()

        yield open_on
    assert made_by(sandboxes, engine) == []


async def read(transport):
    return [message async for message in transport.read_messages()]


async def test_messages_are_lines_that_are_objects_and_what_is_written_arrives(shell):
    script = """echo noise; printf '{"a": 1}\\n\\n{"b": "\\\\u00e4'; sleep 0.1; echo '"}'"""
    async with shell(f"{script}; cat; sleep 0.2; echo '{{\"over\": 1}}'") as transport:
        await transport.write('{"text": "ä"}\n')
        await transport.end_input()

        said = [{"a": 1}, {"b": "ä"}, {"text": "ä"}, {"over": 1}]
        assert await read(transport) == said
        with pytest.raises(CLIConnectionError):
            await transport.write("more")


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        ("echo '{}'; exit 3", ProcessError, "exit code: 3"),
        ("echo nothing", ProcessError, "the agent's process failed"),
        (
            "python3 -c 'x = bytearray(1 << 28); print(len(x))'",
            ProcessError,
            "more memory than its sandbox has",
        ),
        ("yes '{}'", CLIJSONDecodeError, "100001 lines .* more than any agent says"),
        ("head -c 35000000 /dev/zero | tr '\\0' x", CLIJSONDecodeError, "a line longer than"),
    ],
)
async def test_a_bad_end_is_a_named_error(shell, script, error, says):
    async with shell(script) as transport:
        with pytest.raises(error, match=says):
            await read(transport)


@pytest.mark.parametrize("script", ["trap '' TERM INT HUP; sleep 60", "kill -STOP $$"])
async def test_one_that_does_not_end_is_not_waited_for_long(shell, script):
    began = time.monotonic()
    async with shell(script) as transport:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await transport.write("x" * 64_000_000)

    assert time.monotonic() - began < 30


@pytest.mark.parametrize("line", ["{broken", "{" + '"a":[' * 20_000])
def test_a_line_that_is_not_json_is_a_named_error(line):
    with pytest.raises(CLIJSONDecodeError):
        parse_line(line.encode())
