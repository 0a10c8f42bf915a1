"""A hook's program gets its words, its input and its environment, and no more; the outcome is told
in words, and nothing of its process group is left.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from dataclasses import dataclass

import psutil
import pytest

from parachuted.hooks.runner import run_program

LONG = 30.0
MEGABYTES = b"x" * 5_000_000
FORGETFUL = "trap '' TERM INT HUP; while :; do sleep 999; done"


@pytest.fixture
def run(tmp_path):
    async def run(command=None, *, argv=None, stdin=b"", **more):
        how = {"cwd": tmp_path, "timeout_s": LONG, **more}
        env = {"PATH": os.environ["PATH"], **how.pop("env", {})}
        words = ["/bin/sh", "-c", command] if argv is None else argv
        return await run_program(words, stdin=stdin, env=env, **how)

    return run


def running(word):
    """The living processes below this one that have that word."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            if word in child.cmdline():
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


async def until(condition):
    deadline = time.monotonic() + LONG
    while not condition() and time.monotonic() < deadline:
        await asyncio.sleep(0.005)
    assert condition()


async def test_a_program_gets_its_input_and_its_output_comes_back(run):
    ran = await run("cat; echo trouble >&2; exit 5", stdin=b'{"event": "file.modified"}\n')

    assert ran.stdout == b'{"event": "file.modified"}\n'
    assert (ran.exit_code, ran.stderr, ran.problem) == (5, b"trouble\n", None)
    assert not ran.timed_out
    assert ran.took_ms > 0


async def test_the_environment_is_what_was_given(run, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    tell = "import json, os; print(json.dumps(dict(os.environ)))"

    env = {"PARACHUTE_EVENT": "file.modified", "LC_ALL": "C.UTF-8"}
    ran = await run(argv=[sys.executable, "-I", "-S", "-c", tell], env=env)

    assert json.loads(ran.stdout).keys() == {"PATH", *env}


async def test_a_program_has_no_descriptor_of_ours_and_a_session_of_its_own(run, tmp_path):
    tell = (
        "import os; print(sorted(os.listdir('/proc/self/fd')), os.getsid(0) == os.getpid(), "
        "os.getcwd())"
    )

    ran = await run(argv=[sys.executable, "-I", "-S", "-c", tell])

    listed = "['0', '1', '2', '3']"  # 3 is the listing's own
    assert ran.stdout.decode().strip() == f"{listed} True {tmp_path}"


async def test_the_limit_ends_it_and_says_so(run):
    ran = await run("echo before; sleep 999", timeout_s=3)

    assert (ran.exit_code, ran.timed_out, ran.stdout) == (None, True, b"before\n")
    assert ran.problem == "it had not finished within 3 s"


async def test_a_program_that_is_asked_to_end_may_tidy_up_first(run, tmp_path):
    ran = await run("trap 'rm lock; exit' TERM; touch lock; sleep 999 & wait", timeout_s=0.3)

    assert ran.timed_out
    assert not (tmp_path / "lock").exists()


async def test_a_cancelled_run_leaves_nothing(run):
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run("sleep 98765 & sleep 98765"))
        await until(lambda: len(running("98765")) == 2)
        task.cancel()

    await until(lambda: not running("98765"))


@dataclass(frozen=True, kw_only=True)
class HostileHook:
    """A hook and how it is to end: `code` None with `timed_out`."""

    script: str
    code: int | None = 0
    limit: float = LONG
    stdin: bytes = b"{}\n"
    out: bytes | None = None


def hangs(script, limit=0.3, **how):
    return HostileHook(script=script, code=None, limit=limit, **how)


HOSTILE = {
    "hangs": hangs("sleep 999"),
    "ignores every polite signal": hangs(FORGETFUL),
    "stops itself": hangs("kill -STOP $$"),
    "stops its child and waits for it": hangs("sleep 999 & kill -STOP $!; wait"),
    "turns round and round": hangs("while :; do :; done"),
    "leaves a child that holds the pipe": HostileHook(script="sleep 999 & exit 0"),
    "leaves a child that ignores signals": HostileHook(script=f"({FORGETFUL}) & exit 0"),
    "leaves fifty": HostileHook(script="for i in $(seq 50); do sleep 999 & done"),
    "never reads stdin": HostileHook(script="exit 0", stdin=MEGABYTES),
    "never reads stdin, and hangs": hangs("sleep 999", stdin=MEGABYTES),
    "closes stdin and goes on": HostileHook(
        script="exec <&-; sleep 0.05; echo done", stdin=MEGABYTES, out=b"done\n"
    ),
    "reads half of stdin": HostileHook(
        script="head -c 100000 | wc -c", stdin=MEGABYTES, out=b"100000\n"
    ),
    "reads all of a large stdin": HostileHook(script="wc -c", stdin=MEGABYTES, out=b"5000000\n"),
    "closes its outputs and goes on": HostileHook(
        script="exec >&- 2>&-; sleep 0.05; exit 7", code=7
    ),
    "prints more than is kept": HostileHook(script="head -c 100000000 /dev/zero"),
    "prints without end": hangs("exec yes", limit=1.0),
    "complains without end": hangs("exec yes >&2", limit=1.0),
    "prints late": HostileHook(script="(sleep 0.01; echo late) & exit 0", out=b"late\n"),
    "is killed": HostileHook(script="kill -KILL $$", code=-signal.SIGKILL),
    "says 2 and no word": HostileHook(script="exit 2", code=2, out=b""),
}


@pytest.mark.parametrize("hook", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_hook_is_back_in_time_and_leaves_nothing(run, hook):
    before = psutil.Process().num_fds()

    ran = await run(hook.script, stdin=hook.stdin, timeout_s=hook.limit)

    assert (ran.exit_code, ran.timed_out) == (hook.code, hook.code is None)
    assert len(ran.stdout) <= 8_000_000 >= len(ran.stderr)
    assert hook.out is None or ran.stdout == hook.out
    await until(lambda: not running("999"))
    await until(lambda: psutil.Process().num_fds() <= before + 1)  # the loop's own, once


CANNOT_START = {
    "missing": (None, 0o755, "No such file"),
    "interpreter": (b"#!/no/such/python3\n", 0o755, "the program in its first line"),
    "forbidden": (b"#!/bin/sh\n", 0o644, "Permission denied"),
    "not-a-program": (b"\x7fELF but not really", 0o755, "Exec format error"),
    "bad\0name": (None, 0o755, "null byte"),
}


@pytest.mark.parametrize("name", CANNOT_START)
async def test_a_program_that_cannot_be_started_says_why(run, name, tmp_path):
    content, mode, words = CANNOT_START[name]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)

    ran = await run(argv=[str(path)])

    assert words in (ran.problem or ""), ran
    assert not ran.was_started


async def test_a_cancel_at_the_moment_of_a_programs_end_is_not_lost(run, monkeypatch):
    def end_and_cancel(output):
        output.has_exited.set()
        task.cancel()

    monkeypatch.setattr("parachuted.hooks.runner._Output.process_exited", end_and_cancel)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run("exit 0"))

    assert task.cancelled()
