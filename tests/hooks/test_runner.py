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

from parachuted.hooks.runner import ConcurrencyLimit, HookRunner

LONG = 30.0
MEGABYTES = b"x" * 5_000_000
FORGETFUL = "trap '' TERM INT HUP; while :; do sleep 999; done"


@pytest.fixture
def run(tmp_path):
    async def run(command=None, *, argv=None, stdin=b"", runner=None, **more):
        how = {"cwd": tmp_path, "timeout_s": LONG, **more}
        env = {"PATH": os.environ["PATH"], **how.pop("env", {})}
        words = ["/bin/sh", "-c", command] if argv is None else argv
        return await (runner or HookRunner()).run(words, stdin=stdin, env=env, **how)

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


async def test_words_are_run_as_they_are_with_no_shell(run):
    ran = await run(argv=["printf", "%s|", "$(id)", "; rm -rf *", "`x`", "a b"])

    assert ran.stdout == b"$(id)|; rm -rf *|`x`|a b|"


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
    "missing": (None, 0o755, "there is no "),
    "interpreter": (b"#!/no/such/python3\n", 0o755, "there is no /no/such/python3, which "),
    "crlf": (b"#!/bin/sh\r\necho hi\r\n", 0o755, "save it with Unix ones"),
    "forbidden": (b"#!/bin/sh\n", 0o644, "may not be run; `chmod +x "),
    "not-a-program": (b"\x7fELF but not really", 0o755, "could not be started"),
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


async def test_a_folder_that_is_gone_is_named(run, tmp_path):
    ran = await run(argv=["true"], cwd=tmp_path / "gone")

    assert ran.problem == f"there is no folder {tmp_path / 'gone'}"


@pytest.mark.parametrize("program", ["no-such-program", "bad\0name"])
async def test_a_program_that_cannot_be_is_a_problem_in_words(run, program):
    ran = await run(argv=[program])

    assert ran.exit_code is None
    assert ran.problem


async def test_no_more_run_at_a_time_than_there_are_places(run):
    runner = HookRunner(concurrency=2, patience_s=LONG)
    overlap = 'touch "$$.run"; ls *.run | wc -l; sleep 0.05; rm "$$.run"'

    ran = await asyncio.gather(*(run(overlap, runner=runner) for _ in range(8)))

    assert max(int(one.stdout) for one in ran) <= 2


async def test_a_hook_that_may_not_run_when_its_turn_comes_does_not(run, tmp_path):
    runner = HookRunner(concurrency=1)

    def changed():
        return "it has changed" if (tmp_path / "first").exists() else None

    first, second = await asyncio.gather(
        run("sleep 0.05; touch first", runner=runner),
        run("touch second", runner=runner, refusal=changed),
    )

    assert first.exit_code == 0
    assert (second.exit_code, second.problem) == (None, "it has changed")
    assert not (tmp_path / "second").exists()


async def test_the_background_leaves_places_for_what_is_waited_for(run):
    runner = HookRunner(concurrency=2)
    waits = "until test -e done; do sleep 0.01; done"

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(run(waits, runner=runner, is_background=True))
        await asyncio.wait_for(run("touch done", runner=runner), LONG)


async def test_a_hook_inside_a_hook_gets_its_turn_though_all_places_are_taken():
    places = ConcurrencyLimit(2, patience_s=0.01)
    inside: list[int] = []

    async def write(number):
        async with places.slot():
            await asyncio.sleep(0)
            async with places.slot():  # as a hook does that writes something itself
                inside.append(number)

    await asyncio.wait_for(asyncio.gather(*(write(number) for number in range(10))), LONG)

    assert sorted(inside) == list(range(10))


async def test_a_cancelled_wait_takes_no_place_along():
    places = ConcurrencyLimit(1, patience_s=60)
    started, end = asyncio.Event(), asyncio.Event()

    async def hold():
        async with places.slot():
            started.set()
            await end.wait()

    async def pass_through():
        async with places.slot():
            pass

    async with asyncio.TaskGroup() as group:
        group.create_task(hold())
        await started.wait()
        waiting, at_its_turn, last = (group.create_task(pass_through()) for _ in range(3))
        await asyncio.sleep(0)
        waiting.cancel()
        end.set()
        await asyncio.sleep(0)
        at_its_turn.cancel()

    assert last.done()


async def test_a_cancel_at_the_moment_of_a_programs_end_is_not_lost(run, monkeypatch):
    def end_and_cancel(output):
        output.has_exited.set()
        task.cancel()

    monkeypatch.setattr("parachuted.hooks.runner._Output.process_exited", end_and_cancel)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run("exit 0"))

    assert task.cancelled()


async def test_the_loop_is_not_held_by_a_hundred_megabytes(run):
    longest, last, is_going = 0.0, time.thread_time(), True

    async def watch():
        nonlocal longest, last
        while is_going:
            await asyncio.sleep(0.001)
            longest, last = max(longest, time.thread_time() - last), time.thread_time()

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        await run("head -c 100000000 /dev/zero")
        is_going = False

    assert longest < 0.25
