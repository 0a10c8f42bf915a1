"""The process itself, with shell scripts in the CLI's place: it must end when we say, however it
behaves.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from claude_agent_sdk import CLINotFoundError, ProcessError

from parachuted.agents.claude.transport import AgentProcess
from parachuted.processes.reaper import find_family


@pytest.fixture
async def start(tmp_path):
    started = []

    async def start(script):
        process = AgentProcess(
            ["sh", "-c", script], env={"PATH": os.environ["PATH"], "ONLY": "this"}, cwd=tmp_path
        )
        await process.connect()
        started.append(process)
        return process

    yield start
    for process in started:
        await process.close()


async def read(process):
    return [message async for message in process.read_messages()]


async def read_nothing(process):
    with pytest.raises(ProcessError):
        await read(process)


ZOO = {
    "sleeps": "sleep 60",
    "holds the pipes in another session": "setsid sleep 60 & sleep 60",
    "ignores signals and the end of its "
    "input": "trap '' TERM INT HUP PIPE; while :; do sleep 60; done",
    "is gone, while a child holds its pipes": "setsid sleep 60 & exit 0",
    "never stops printing": 'yes \'{"type": "x"}\'',
    "never stops complaining": "yes complaint >&2",
    "closes its pipes": "exec <&- >&- 2>&-; sleep 60",
}


@pytest.mark.parametrize("script", ZOO.values(), ids=ZOO)
async def test_closing_leaves_nothing_of_it(start, script):
    process = await start(script)
    pid, mark = process._child.get_pid(), process._mark
    async with asyncio.timeout(30):
        while len(find_family(pid, mark)) < ("sleep" in script) + (
            "setsid" in script and "exit" not in script
        ):
            await asyncio.sleep(0.01)
    began = time.monotonic()
    await process.close()

    assert find_family(pid, mark) == set()
    assert time.monotonic() - began < 20


async def test_grace_ends(start):
    process = await start(ZOO["ignores signals and the end of its input"])
    pid, mark = process._child.get_pid(), process._mark
    process.allow_grace(0.3)
    began = time.monotonic()
    await process.close()

    assert find_family(pid, mark) == set()
    assert time.monotonic() - began < 20


async def test_a_process_with_grace_ends_by_itself(start, tmp_path):
    process = await start(f"cat >/dev/null; sleep 0.2; echo over > {tmp_path}/over")
    process.allow_grace(5)
    await process.close()

    assert (tmp_path / "over").exists()


async def test_closing_twice_or_before_the_start_is_nothing(tmp_path):
    process = AgentProcess(["true"], env={}, cwd=tmp_path)
    process.kill()
    await process.close()
    await process.connect()
    await process.close()
    await process.close()

    assert not process.is_ready()


@pytest.mark.parametrize("steps", range(0, 24, 2))
async def test_a_start_that_is_cancelled_at_any_step_leaves_nothing_of_it(tmp_path, steps):
    process = AgentProcess(["sleep", "60"], env={"PATH": os.environ["PATH"]}, cwd=tmp_path)
    starting = asyncio.get_running_loop().create_task(process.connect())
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting])
    await process.close()

    assert find_family(-1, process._mark) == set()


async def test_who_closes_it_and_is_cancelled_leaves_when_it_has_ended(start):
    process = await start(ZOO["holds the pipes in another session"])
    child, mark, loop = process._child, process._mark, asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as threads:
        loop.set_default_executor(threads)
        free = threading.Event()
        busy = loop.run_in_executor(None, free.wait)
        closing = asyncio.get_running_loop().create_task(process.close())
        async with asyncio.timeout(30):
            while not process._pipes.exited.is_set():  # it waits for the thread
                await asyncio.sleep(0.01)
        closing.cancel()
        await asyncio.sleep(0)
        free.set()
        await asyncio.wait([closing, busy])

    assert closing.cancelled()
    assert child.is_closing()
    assert find_family(child.get_pid(), mark) == set()


async def test_its_surroundings_are_what_it_was_given(start, tmp_path):
    process = await start(
        "env | cut -d= -f1 > names; pwd > place; cut -d' ' -f6 /proc/$$/stat > session"
    )
    pid = process._child.get_pid()
    await read_nothing(process)

    shells_own = {"PWD", "SHLVL", "OLDPWD", "_"}
    assert set((tmp_path / "names").read_text().split()) - shells_own == {
        "ONLY",
        "PARACHUTE_AGENT_RUN",
        "PATH",
    }
    assert (tmp_path / "place").read_text() == f"{tmp_path}\n"
    assert (tmp_path / "session").read_text() == f"{pid}\n"


async def test_a_program_that_is_not_there_is_a_named_error(tmp_path):
    with pytest.raises(CLINotFoundError):
        await AgentProcess([str(tmp_path / "nothing")], env={}, cwd=tmp_path).connect()


async def test_it_ends_with_us_when_we_are_killed(tmp_path):
    program = """
import asyncio, os, sys
from pathlib import Path
from parachuted.agents.claude.transport import AgentProcess

async def main():
    script = f"echo $$ > {sys.argv[1]}/pid; exec sleep 60"
    process = AgentProcess(["sh", "-c", script], env={"PATH": os.environ["PATH"]}, cwd=Path(sys.argv[1]))
    await process.connect()
    await asyncio.sleep(60)

asyncio.run(main())
"""  # noqa: E501
    daemon = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(tmp_path))
    async with asyncio.timeout(20):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            await asyncio.sleep(0.01)
        pid = int((tmp_path / "pid").read_text())
        daemon.kill()
        await daemon.wait()
        while pid in find_family(pid, "of nobody"):
            await asyncio.sleep(0.01)


async def test_complaints_go_to_the_log_line_by_line_and_cut(start, caplog):
    caplog.set_level(logging.INFO)
    process = await start(
        "printf 'one\\ntwo' >&2; printf '%5000s' x >&2; echo >&2; printf last >&2"
    )
    await read_nothing(process)
    await process.close()
    async with asyncio.timeout(30):
        while (
            len(caplog.records) < 3
        ):  # the end of one pipe is noticed apart from that of the other
            await asyncio.sleep(0.01)

    assert [record.args[0][:10] for record in caplog.records] == ["one", "two", "last"]
    assert max(len(record.getMessage()) for record in caplog.records) < 600
