"""A process is ended with all that it started, wherever that went."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from parachuted.processes.reaper import find_family, kill_family, signal_group

MARK = "PARACHUTE_TEST_MARK"

ZOO = {
    "a child in the background": "sleep $N & sleep $N",
    "a child in a session of its own": "setsid sleep $N & sleep $N",
    "a grandchild whose parents are gone": "(setsid sh -c 'sleep $N & exit' &) ; sleep $N",
    "one that ignores signals": "trap '' TERM INT HUP; while :; do sleep $N; done",
    "a child that forgot the mark": f"env -u {MARK} setsid sleep $N & sleep $N",
    "many": "for i in 1 2 3 4 5 6 7 8; do setsid sleep $N & done; sleep $N",
    "one that is gone, and left a child": "setsid sleep $N & exit",
}


def still_running(seconds):
    """The processes that name that number, found without the code under test."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if seconds.encode() in file.read_bytes().split(b"\0"):
                found.add(int(file.parent.name))
    return found


def wait_for(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def seconds():
    return str(10_000_000 + time.monotonic_ns() % 10_000_000)


@pytest.fixture
def start(tmp_path, seconds):
    started = []

    def start(script):
        mark = f"{MARK}={tmp_path}"
        env = {**os.environ, MARK: str(tmp_path)}
        process = subprocess.Popen(
            ["sh", "-c", script.replace("$N", seconds)], env=env, start_new_session=True
        )
        started.append((process, mark))
        return process, mark

    yield start
    for process, _mark in started:
        process.kill()
        process.wait()
    for pid in still_running(seconds):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("script", ZOO.values(), ids=ZOO)
def test_nothing_of_the_family_is_left(start, script, seconds):
    process, mark = start(script)
    count = 9 if "for" in script else script.count("sleep")
    wait_for(lambda: len(still_running(seconds)) >= count)

    kill_family(mark)

    process.wait(timeout=30)
    wait_for(lambda: still_running(seconds) == set())


def test_the_group_is_ended_at_once(start, seconds):
    process, _mark = start("sleep $N & sleep $N")
    wait_for(lambda: len(still_running(seconds)) == 2)

    signal_group(process.pid, signal.SIGKILL)

    assert process.wait(timeout=30) == -9
    wait_for(lambda: still_running(seconds) == set())


def test_strangers_and_we_ourselves_are_not_of_the_family(start):
    process, mark = start("sleep $N")
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        family = find_family(mark)
        assert process.pid in family
        assert not family & {stranger.pid, os.getpid(), os.getppid(), 1}
    finally:
        stranger.kill()
        stranger.wait()


def test_ending_what_has_ended_is_nothing(start):
    process, mark = start("true")
    process.wait()

    signal_group(process.pid, signal.SIGKILL)
    kill_family(mark)
