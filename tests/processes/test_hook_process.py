"""A hook process runs one program after another, and ends what it runs when it ends, in any way."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from parachuted.processes.hook_process import HookProcess, HookProcessLostError, ProcessOrder


def order(script, **changed):
    given = {
        "env": {"PATH": os.environ["PATH"]},
        "cwd": Path("/"),
        "stdin": b"",
        "timeout_s": 20.0,
        "cap": 1000,
        **changed,
    }
    return ProcessOrder(argv=["/bin/sh", "-c", script], **given)


@pytest.fixture
async def hook_process():
    hook_process = await HookProcess.start()
    yield hook_process
    await hook_process.close()


def running(word):
    found = set()
    for process in psutil.process_iter(["cmdline"]):
        if word in (process.info["cmdline"] or ()):
            found.add(process.pid)
    return found


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


async def test_it_runs_one_program_after_another(hook_process):
    said = [(await hook_process.run(order(f"echo {number}"))).stdout for number in range(3)]

    assert said == [b"0\n", b"1\n", b"2\n"]
    assert hook_process.is_ready


async def test_it_holds_no_more_descriptors_after_thirty_programs_than_after_one(hook_process):
    await hook_process.run(order("true"))
    before = psutil.Process(hook_process.pid).num_fds()
    for number in range(30):
        await hook_process.run(
            order(
                "exit 1" if number % 2 else "sleep 9 &",
                cwd=Path("/") if number % 3 else Path("/no/such/folder"),
            )
        )

    assert psutil.Process(hook_process.pid).num_fds() == before


async def test_it_tells_a_folder_that_is_gone_from_a_program_that_is_gone(hook_process):
    no_folder = await hook_process.run(order("true", cwd=Path("/no/such/folder")))
    no_program = await hook_process.run(
        ProcessOrder(argv=["/no/such"], env={}, cwd=Path("/"), stdin=b"", timeout_s=30, cap=1)
    )

    assert (no_folder.failed, no_program.failed) == ("folder", "program")
    assert hook_process.is_ready


async def test_words_and_input_need_not_be_text(hook_process, tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff"
    ran = await hook_process.run(
        ProcessOrder(
            argv=["/bin/cat", path], env={}, cwd=tmp_path, stdin=b"", timeout_s=30, cap=1000
        )
    )

    assert ran.exit_code == 1


async def test_it_is_of_no_use_once_it_is_closed(hook_process):
    await hook_process.close()

    assert not hook_process.is_ready
    with pytest.raises(HookProcessLostError):
        await hook_process.run(order("true"))


async def test_a_program_that_outlives_its_killed_hook_process_is_found_by_its_mark():
    hook_process = await HookProcess.start()
    with pytest.raises(HookProcessLostError):
        await hook_process.run(
            order("setsid sleep 97531 & setsid sleep 97531 & kill -9 $PPID; sleep 97531")
        )

    assert running("97531") == set()


OWNER = """
import asyncio, os
from pathlib import Path
from parachuted.processes.hook_process import HookProcess, ProcessOrder
async def main():
    keeper = await HookProcess.start()
    await keeper.run(ProcessOrder(argv=["/bin/sh", "-c", "(env -i setsid sleep 97532 &) ; sleep 97532"], env=dict(os.environ), cwd=Path("/"),
                           stdin=b"", timeout_s=600, cap=10))
asyncio.run(main())
"""  # noqa: E501


def test_nothing_is_left_when_the_owner_is_killed():
    owner = subprocess.Popen([sys.executable, "-c", OWNER], cwd=Path(__file__).parents[2])
    try:
        wait_for(lambda: len(running("97532")) == 2)
    finally:
        owner.kill()
        owner.wait()

    wait_for(lambda: running("97532") == set())


async def test_a_cancelled_program_has_ended_when_the_caller_goes_on(hook_process):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await hook_process.run(order("trap '' TERM; while :; do sleep 97533; done"))

    assert running("97533") == set()
