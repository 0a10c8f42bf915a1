"""A process at the end of a pipe: what it says is read, and of it nothing is left."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.host_process import ModuleHostProcess, new_mark
from parachuted.modules.hosting.isolation import IsolatedLaunch
from parachuted.modules.hosting.isolation_rules import IsolationRules
from parachuted.modules.hosting.rpc import RpcConnection

WALLS = IsolationRules(landlock=False, seccomp=False, readable=(), memory=1, most_open=1)


class EndCounter:
    def __init__(self):
        self.count = 0

    async def __call__(self):
        self.count += 1


def lives(pid):
    return Path(f"/proc/{pid}/cwd").exists()


def held(code, end=None, command=None):
    words = command or (sys.executable, "-I", "-S", "-c", code)
    env = {"PATH": "/usr/bin:/bin", "PARACHUTE_MODULE": "a mark"}
    return IsolatedLaunch(
        kind="process", command=words, env=env, cwd=Path("/"), rules=WALLS, end=end or EndCounter()
    )


async def nobody(_ask):
    raise AssertionError


async def lived(code, feed=b""):
    """Let it live until it ends; the process, and what it printed."""
    printed = []
    process = await ModuleHostProcess.start(held(code), "a mark")
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        talk = RpcConnection(process.send, nobody, group)
        listening = group.create_task(process.listen(printed.append))
        process.send(feed)
        await process.read(talk)
        await process.close()
        await listening
    return process, printed


async def test_why_it_ended_is_reported_with_what_it_said_last():
    process, printed = await lived("import sys; print('oh no', file=sys.stderr); sys.exit(3)")

    assert process.reason == "it ended with code 3\noh no"
    assert printed == ["oh no"]


async def test_one_that_was_killed_names_the_signal():
    process, _ = await lived("import os; os.kill(os.getpid(), 11)")

    assert process.reason == "it was ended by SIGSEGV"


@pytest.mark.parametrize(
    "said", ["'x' * 100", "'\\0\\0\\0\\2{}'", "'\\xff\\xff\\xff\\xff'", "'{' * 1000000"]
)
async def test_one_that_says_what_is_not_a_frame_is_ended(said):
    began = time.monotonic()
    process, _ = await lived(
        f"import sys, time; sys.stdout.buffer.write(({said}).encode('latin-1')); "
        "sys.stdout.flush(); time.sleep(600)"
    )

    assert "rules of the pipe" in process.reason
    assert time.monotonic() - began < 30


async def test_one_that_closes_its_pipe_and_stays_is_ended():
    process, _ = await lived("import os, time; os.close(1); time.sleep(600)")

    assert not lives(process.pid)


async def test_one_that_does_not_read_is_ended_before_it_costs_memory(monkeypatch):
    monkeypatch.setattr("parachuted.modules.hosting.host_process._MOST_UNREAD", 1_000_000)

    process, _ = await lived("import time; time.sleep(600)", feed=b"x" * 2_000_000)

    assert process.reason == "it does not read what it is sent"


async def test_a_line_without_an_end_is_cut():
    _, printed = await lived("import sys; sys.stderr.write('x' * 1000000)")

    assert [len(line) for line in printed] == [2000]


async def test_a_stray_that_holds_the_pipe_delays_nothing_and_is_ended():
    began = time.monotonic()
    code = (
        "import subprocess, sys; print(subprocess.Popen(['setsid', 'sleep', '600']).pid, "
        "file=sys.stderr)"
    )
    _, printed = await lived(code)

    assert time.monotonic() - began < 30
    assert not lives(printed[0])


async def test_its_cage_is_ended_with_it_and_also_when_it_never_began():
    ended = EndCounter()
    process = await ModuleHostProcess.start(held("", ended), "a mark")
    await process.close()
    assert ended.count == 1

    with pytest.raises(ModuleFailedError, match="could not be started"):
        await ModuleHostProcess.start(held("", ended, command=("/not/there",)), "a mark")
    assert ended.count == 2


async def test_sending_to_one_that_is_gone_is_nothing():
    process, _ = await lived("")

    process.send(b"x")
    process.kill("late")
    await process.close()


def test_marks_are_never_the_same():
    assert new_mark() != new_mark()
    assert os.environ.get("PARACHUTE_MODULE") is None
