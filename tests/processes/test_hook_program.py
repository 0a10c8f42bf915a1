"""What a keeper's program needs to know of this machine, and how little it loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from parachuted.processes.hook_program import descendants, frame, processes

LOADS = (
    "import sys; sys.path.append(sys.argv[1]); import parachuted.processes.hook_program; "
    "print(*sorted(sys.modules))"
)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")
def test_a_process_is_reported_with_its_parent_group_and_session():
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        found = {pid: rest for pid, *rest in processes()}
    finally:
        child.kill()
        child.wait()

    assert found[child.pid] == [os.getpid(), child.pid, child.pid, True]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="there is no /proc")
def test_grandchildren_are_descendants_and_the_dead_are_not():
    child = subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo $!; wait"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    grandchild = int(child.stdout.readline())
    try:
        found = descendants(os.getpid())
    finally:
        os.killpg(child.pid, 9)
        child.stdout.close()
        child.wait()

    assert found.keys() >= {child.pid, grandchild}
    assert found[grandchild] == child.pid
    assert not descendants(os.getpid()).keys() & {child.pid, grandchild}


def test_what_starts_for_each_keeper_is_small():
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOADS, Path(__file__).parents[2]],
        capture_output=True,
        text=True,
        check=True,
    )

    assert {
        "asyncio",
        "json",
        "dataclasses",
        "typing",
        "pathlib",
        "subprocess",
        "threading",
    }.isdisjoint(done.stdout.split())


def test_a_message_says_how_long_it_is():
    message = frame(([b"x"], {}, b"/", b"", 1.0, 1))

    assert int.from_bytes(message[:8], "big") == len(message) - 8
