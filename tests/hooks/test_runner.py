"""A hook's program gets its words, its input and its environment, and no more; what came of it is
told in words.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time

import psutil
import pytest

from parachuted.hooks.runner import HookRunner


@pytest.fixture
async def runner():
    runner = HookRunner(idle_s=30)
    yield runner
    await runner.close()


@pytest.fixture
def run(runner, tmp_path):
    async def run(command=None, *, argv=None, stdin=b"", timeout_s=20.0, env=None, **more):
        given = {"PATH": os.environ["PATH"], **(env or {})}
        return await runner.run(
            argv=argv,
            command=command,
            stdin=stdin,
            env=given,
            cwd=tmp_path,
            timeout_s=timeout_s,
            **more,
        )

    return run


def hook_processes():
    return [
        child
        for child in psutil.Process().children()
        if "hook_program" in " ".join(command_of(child))
    ]


def command_of(process):
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # one that has ended, and is not collected yet, too
        return []


async def until(condition):
    deadline = time.monotonic() + 30
    while not condition() and time.monotonic() < deadline:
        await asyncio.sleep(0.005)
    assert condition()


async def test_a_program_gets_its_input_and_its_output_comes_back(run):
    ran = await run("cat; echo trouble >&2; exit 5", stdin=b'{"event": "file.modified"}\n')

    assert (ran.exit_code, ran.stdout, ran.stderr) == (
        5,
        b'{"event": "file.modified"}\n',
        b"trouble\n",
    )
    assert (ran.timed_out, ran.problem, ran.is_cut, ran.strays) == (False, None, False, 0)
    assert ran.took_ms > 0


async def test_the_environment_is_what_was_given_and_a_mark(run, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    tell = "import json, os; print(json.dumps(dict(os.environ)))"

    ran = await run(
        argv=[sys.executable, "-I", "-S", "-c", tell],
        env={"PARACHUTE_EVENT": "file.modified", "LC_ALL": "C.UTF-8"},
    )

    assert json.loads(ran.stdout).keys() == {
        "PATH",
        "PARACHUTE_EVENT",
        "LC_ALL",
        "PARACHUTE_KEEPER",
    }


async def test_a_program_begins_with_no_descriptor_of_ours_and_no_signal_of_ours_ignored(run):
    inherited = ", ".join(  # a shell starts what it runs in the background with these ignored
        str(int(number))
        for number in (signal.SIGINT, signal.SIGQUIT)
        if signal.getsignal(number) == signal.SIG_IGN
    )
    tell = (
        "import os, signal; print(sorted(os.listdir('/proc/self/fd')), [s.name for s in "
        "signal.valid_signals() if s != 9 and "
    )
    tell += (
        "signal.getsignal(s) == signal.SIG_IGN and s not in (signal.SIGPIPE, "
        f"signal.SIGXFSZ, {inherited})], signal.pthread_sigmask(0, ()))"
    )

    ran = await run(argv=[sys.executable, "-I", "-S", "-c", tell])

    assert ran.stdout.decode().strip() == "['0', '1', '2', '3'] [] set()"  # 3 is the listing's own


async def test_words_are_run_as_they_are_with_no_shell(run):
    ran = await run(argv=["printf", "%s|", "$(id)", "; rm -rf *", "`x`", "a b"])

    assert ran.stdout == b"$(id)|; rm -rf *|`x`|a b|"


async def test_a_program_is_in_a_session_of_its_own_in_the_folder_that_was_named(run, tmp_path):
    ran = await run(
        argv=[sys.executable, "-c", "import os; print(os.getsid(0) == os.getpid(), os.getcwd())"]
    )

    assert ran.stdout.decode().split() == ["True", str(tmp_path)]


async def test_output_is_cut_where_it_is_too_long(run):
    ran = await run("printf 0123456789", cap=4)

    assert (ran.stdout, ran.is_cut, ran.exit_code) == (b"0123", True, 0)


async def test_the_limit_ends_it_and_says_so(run):
    began = time.monotonic()
    ran = await run("echo before; sleep 999", timeout_s=3)

    assert (ran.exit_code, ran.timed_out, ran.stdout) == (None, True, b"before\n")
    assert ran.problem == "it was ended: it had not finished within 3 s"
    assert time.monotonic() - began < 30


async def test_one_that_is_asked_to_end_may_tidy_up_first(run, tmp_path):
    ran = await run("trap 'rm lock; exit' TERM; touch lock; sleep 999 & wait", timeout_s=0.2)

    assert ran.timed_out
    assert not (tmp_path / "lock").exists()


async def test_a_cancelled_run_leaves_nothing(runner, tmp_path):
    def going():
        return [
            child
            for child in psutil.Process().children(recursive=True)
            if "98765" in child.cmdline()
        ]

    async def run():
        env = {"PATH": os.environ["PATH"]}
        await runner.run(
            argv=None,
            command="setsid sleep 98765 & sleep 98765",
            stdin=b"",
            env=env,
            cwd=tmp_path,
            timeout_s=60,
        )

    async with asyncio.TaskGroup() as group:
        task = group.create_task(run())
        await until(lambda: len(going()) == 2)
        task.cancel()

    assert going() == []


async def test_a_hook_process_is_used_again(run):
    for _ in range(5):
        await run("true")

    assert len(hook_processes()) == 1


async def test_a_hook_process_that_waited_long_enough_is_let_go(tmp_path):
    runner = HookRunner(idle_s=0.01)
    try:
        await runner.run(
            argv=["true"],
            command=None,
            stdin=b"",
            env={"PATH": os.environ["PATH"]},
            cwd=tmp_path,
            timeout_s=30,
        )

        await until(lambda: hook_processes() == [])
    finally:
        await runner.close()


async def test_a_hook_process_that_was_killed_while_it_waited_is_replaced(run):
    await run("true")
    hook_processes()[0].kill()
    await until(lambda: hook_processes() == [])

    assert (await run("echo again")).stdout == b"again\n"


async def test_no_more_run_at_a_time_than_there_are_places(tmp_path):
    runner = HookRunner(concurrency=2)
    overlap = 'touch "$$.run"; ls *.run | wc -l; sleep 0.05; rm "$$.run"'
    env = {"PATH": os.environ["PATH"]}
    try:
        runs = (
            runner.run(argv=None, command=overlap, stdin=b"", env=env, cwd=tmp_path, timeout_s=20)
            for _ in range(8)
        )
        counts = [int(ran.stdout) for ran in await asyncio.gather(*runs)]
    finally:
        await runner.close()

    assert max(counts) <= 2


async def test_what_may_no_longer_run_when_its_turn_comes_does_not(tmp_path):
    runner = HookRunner(concurrency=1)
    env = {"PATH": os.environ["PATH"]}

    async def run(command, refusal=lambda: None):
        return await runner.run(
            argv=None,
            command=command,
            stdin=b"",
            env=env,
            cwd=tmp_path,
            timeout_s=20,
            refusal=refusal,
        )

    def changed():
        return "it has changed" if (tmp_path / "first").exists() else None

    try:
        first, second = await asyncio.gather(
            run("sleep 0.05; touch first"), run("touch second", changed)
        )
    finally:
        await runner.close()

    assert first.exit_code == 0
    assert (second.exit_code, second.problem) == (None, "it has changed")
    assert not (tmp_path / "second").exists()


async def test_what_runs_in_the_background_leaves_places_for_what_is_waited_for(tmp_path):
    runner = HookRunner(concurrency=2)
    env = {"PATH": os.environ["PATH"]}

    async def run(command, *, is_background):
        return await runner.run(
            argv=None,
            command=command,
            stdin=b"",
            env=env,
            cwd=tmp_path,
            timeout_s=20,
            is_background=is_background,
        )

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(
                    run("until test -e done; do sleep 0.01; done", is_background=True)
                )
            await asyncio.wait_for(run("touch done", is_background=False), 30)
    finally:
        await runner.close()


@pytest.mark.parametrize("program", ["no-such-program", "bad\0name"])
async def test_a_program_that_cannot_be_is_a_problem_in_words(run, program):
    ran = await run(argv=[program])

    assert ran.exit_code is None
    assert ran.problem


async def test_a_hook_with_nothing_to_run_is_a_mistake_of_the_caller(run):
    with pytest.raises(ValueError, match="needs a command"):
        await run()


async def test_the_loop_is_not_held_by_a_gigabyte(run):
    longest, last, going = 0.0, time.thread_time(), True

    async def watch():
        nonlocal longest, last
        while going:
            await asyncio.sleep(0.001)
            longest, last = max(longest, time.thread_time() - last), time.thread_time()

    await run("true")
    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        await run("head -c 1000000000 /dev/zero")
        going = False

    assert longest < 0.25
