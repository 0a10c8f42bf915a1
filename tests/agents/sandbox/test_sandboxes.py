import asyncio
import os
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from uuid import uuid4

import pytest

from parachuted.agents.sandbox import HOME_IN_BOX, Sandboxes
from parachuted.agents.sandbox.sandboxes import EngineProbe, dockerfile_text, probe_engine
from parachuted.errors import AgentUnavailableError
from tests.agents.sandbox.conftest import DEADLINE_S, boxed, spec_of
from tests.engine import containers


def of(sandboxes):
    return f"org.parachuted.daemon={sandboxes._owner.daemon}"


async def echo(sandboxes, line, **how):
    async with boxed(sandboxes, "sh", "-c", line, **how) as at_work:
        await at_work.container.end_input()
        return (await at_work.container.stdout.read()).decode()


async def until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_without_an_engine_it_says_what_to_install(tmp_path):
    sandboxes = Sandboxes(
        folder=tmp_path / "slots", env={"DOCKER_HOST": f"unix://{tmp_path}/none"}, label="a"
    )

    status = await sandboxes.status()

    assert (status.available, status.engine, status.image) == (False, None, None)
    assert "install and start Docker" in (status.problem or "")
    with pytest.raises(AgentUnavailableError, match="install and start Docker"):
        async with sandboxes.prepare():
            pass
    assert await sandboxes.sweep() == 0


async def test_what_was_left_is_swept_again_once_there_is_an_engine(tmp_path, engine):
    folder = tmp_path / "slots"
    (folder / "abc/work").mkdir(parents=True)
    (folder / "abc/work/secret.md").write_text("x")
    without = Sandboxes(
        folder=folder, env={"DOCKER_HOST": f"unix://{tmp_path}/none"}, label=uuid4().hex
    )

    assert await without.sweep() == 0
    assert not (folder / "abc").exists()
    assert without.has_left_something()
    with_one = Sandboxes(folder=folder, env=engine, label=uuid4().hex)
    await with_one.sweep()
    await with_one.close()
    assert not with_one.has_left_something()


async def test_a_run_that_begins_while_what_was_left_is_swept_keeps_its_container(
    sandboxes, monkeypatch
):
    loop, started = asyncio.get_running_loop(), AsyncExitStack()
    (sandboxes._folder / "left").mkdir(parents=True)
    engine = await sandboxes._connected()
    look = engine.strays

    async def begin():
        found = await started.enter_async_context(boxed(sandboxes, "cat"))
        runs.append(found)

    def looking(label):
        asyncio.run_coroutine_threadsafe(begin(), loop).result(DEADLINE_S)
        return look(label)

    runs = []
    monkeypatch.setattr(engine, "strays", looking)
    assert await sandboxes.sweep() == 0

    assert [one.name for one in sandboxes._folder.iterdir()] == [runs[0].slot.id]
    await runs[0].container.end_input()
    assert await runs[0].container.wait() == 0
    await started.aclose()


async def test_with_an_engine_and_its_image_it_can_be_used(sandboxes):
    status = await sandboxes.status()

    assert (status.available, status.problem) == (True, None)
    assert status.image in {"built", "host"}


async def test_what_is_filled_in_is_seen_and_what_is_made_is_found(sandboxes, run):
    async with sandboxes.prepare() as slot:
        (slot.work / "a note.md").write_text("hello")
        (slot.home / "kept").write_text("from before")
        async with sandboxes.open(
            spec_of(slot, "sh", "-c", "cat '/vault/a note.md' ~/kept; echo new > /vault/made.md")
        ) as container:
            assert await container.stdout.read() == b"hellofrom before"
            assert await container.wait() == 0
        assert (slot.work / "made.md").read_text() == "new\n"
        assert (slot.work / "made.md").stat().st_uid == sandboxes.user[0]

    assert not slot.work.parent.exists()


async def test_streams_go_both_ways_and_the_exit_code_comes_back(sandboxes):
    async with boxed(sandboxes, "sh", "-c", "cat; exit 7") as at_work:
        for number in range(3):
            await at_work.container.write(f"line {number}\n".encode())
            assert await at_work.container.stdout.readline() == f"line {number}\n".encode()
        await at_work.container.end_input()
        assert await at_work.container.stdout.read() == b""
        assert await at_work.container.wait() == 7


async def test_the_environment_is_the_runs_and_a_home_is_there(run):
    ended = await run("echo $HOME $A; pwd", env={"A": "b"})

    assert ended.out == f"{HOME_IN_BOX} b\n/vault\n"


async def test_megabytes_pass_unharmed(sandboxes):
    data = os.urandom(3 << 20)

    async with boxed(sandboxes, "cat") as at_work, asyncio.TaskGroup() as group:
        reading = group.create_task(at_work.container.stdout.readexactly(len(data)))
        await at_work.container.write(data)

    assert reading.result() == data


async def test_a_kill_ends_all_that_runs_in_it_and_leaves_nothing(sandboxes, engine):
    line = (
        "trap '' TERM INT HUP; (setsid sh -c 'while :; do :; done' &) ; echo started; while :; "
        "do sleep 1; done"
    )
    async with boxed(sandboxes, "sh", "-c", line) as at_work:
        assert await at_work.container.stdout.readline() == b"started\n"
        assert at_work.container.id[:12] in containers(engine, of=of(sandboxes))
        started = time.monotonic()

        await at_work.container.kill()

        assert time.monotonic() - started < 20
        assert at_work.container.id[:12] not in containers(engine, of=of(sandboxes))
        assert await at_work.container.stdout.read() == b""
        assert await at_work.container.wait() == 137
        with pytest.raises(BrokenPipeError):
            await at_work.container.write(b"more")


async def test_a_run_that_is_cancelled_leaves_no_container_and_no_folder(sandboxes, engine):
    entered = asyncio.Event()

    async def work():
        async with boxed(sandboxes, "cat"):
            entered.set()
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(work())
        await entered.wait()
        task.cancel()

    await sandboxes.close()
    assert containers(engine, of=of(sandboxes)) == []
    assert list(sandboxes._folder.iterdir()) == []


async def test_a_run_that_is_cancelled_while_its_container_starts_leaves_none_either(
    sandboxes, engine
):
    async def work():
        async with boxed(sandboxes, "cat"):
            pass

    for wait_s in (0.0, 0.05, 0.15):
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work())
            await asyncio.sleep(wait_s)
            task.cancel()

    await sandboxes.close()
    assert containers(engine, of=of(sandboxes)) == []
    assert list(sandboxes._folder.iterdir()) == []


async def test_an_engine_that_was_away_is_found_again(engine, sandboxes, run):
    await run("true")
    sandboxes._engine._client.api.base_url = "http+docker://nowhere"
    sandboxes._engine._client.api.mount(
        "http+docker://", sandboxes._engine._client.api.get_adapter("http://")
    )

    assert (await run("echo hello")).out == "hello\n"


async def test_no_run_finds_anything_of_the_one_before(sandboxes):
    await echo(sandboxes, "echo secret | tee /vault/a ~/b /tmp/c /dev/shm/d; (sleep 100 &)")

    found = await echo(sandboxes, "ls -A /vault ~ /tmp /dev/shm /run; cat /proc/[0-9]*/comm")

    assert [line for line in found.split("\n") if line and not line.endswith(":")] == [
        "python3",
        "sh",
    ]


async def test_no_more_work_at_a_time_than_was_said(tmp_path, engine, sandboxes):
    few = Sandboxes(folder=tmp_path / "few", env=engine, label="few", most=1)

    async with few.prepare():
        with pytest.raises(AgentUnavailableError, match="1 agents are at work"):
            async with few.prepare():
                pass
        async with few.prepare(is_conversation=True):  # it has room of its own
            with pytest.raises(AgentUnavailableError, match="1 agents are at work"):
                async with few.prepare(is_conversation=True):
                    pass
    async with few.prepare():
        pass
    await few.close()


async def test_folders_that_are_no_slots_are_never_mounted(sandboxes, tmp_path):
    async with sandboxes.prepare() as slot, sandboxes.prepare() as other:
        for place in (
            "/",
            "/root",
            "/var/run",
            "/etc",
            tmp_path,
            slot.work.parent,
            slot.work / "..",
        ):
            changed = spec_of(slot, "true")
            object.__setattr__(changed.sandbox, "work", type(slot.work)(place))
            with pytest.raises(AgentUnavailableError, match="the folders of one slot"):
                async with sandboxes.open(changed):
                    pass
        mixed = spec_of(slot, "true")
        object.__setattr__(mixed.sandbox, "home", other.home)
        with pytest.raises(AgentUnavailableError, match="the folders of one slot"):
            async with sandboxes.open(mixed):
                pass


async def test_containers_that_a_killed_daemon_left_are_swept_and_no_one_elses(
    tmp_path, engine, sandboxes
):
    labels = [uuid4().hex, uuid4().hex]
    lost = Sandboxes(folder=tmp_path / "slots2", env=engine, label=labels[0])
    theirs = Sandboxes(folder=tmp_path / "slots3", env=engine, label=labels[1])
    leaving = [boxed(which, "cat") for which in (lost, theirs)]
    runs = [await one.__aenter__() for one in leaving]
    (runs[0].slot.work / "left").write_text("x")
    again = Sandboxes(folder=tmp_path / "slots2", env=engine, label=labels[0])

    assert await again.sweep() == 1

    assert containers(engine, of=f"org.parachuted.daemon={labels[0]}") == []
    assert len(containers(engine, of=f"org.parachuted.daemon={labels[1]}")) == 1
    assert list((tmp_path / "slots2").iterdir()) == []
    for one in leaving:
        await one.__aexit__(None, None, None)
    assert containers(engine, of=f"org.parachuted.daemon={labels[1]}") == []


async def test_a_build_of_the_image_tells_how_it_goes(sandboxes):
    assert [line async for line in sandboxes.build(offline=True)][
        -1
    ] == "made parachute-sandbox:host"


def test_the_image_that_is_built_has_what_the_daemon_needs_in_it_and_no_root():
    text = dockerfile_text()

    assert text.startswith("#")
    assert "python3" in text  # the first process is one
    assert text.index("USER agent") > text.index("useradd")


async def test_a_build_that_fails_says_why(sandboxes):
    with pytest.raises(AgentUnavailableError, match="the image was not built"):
        async for _line in sandboxes.build(
            offline=False, dockerfile="FROM parachute-sandbox:host\nRUN false\n"
        ):
            pass


async def test_an_engine_that_mounts_other_folders_is_found_out(sandboxes, engine):
    async with sandboxes.prepare() as slot:
        (slot.sockets / ".slot").chmod(0o600)
        (slot.sockets / ".slot").write_text("another")
        with pytest.raises(AgentUnavailableError, match="mounted other folders"):
            async with sandboxes.open(spec_of(slot, "cat")):
                pass

    assert containers(engine, of=of(sandboxes)) == []


async def test_whether_there_is_an_engine_with_our_image_is_seen_quickly(
    sandboxes, engine, tmp_path
):
    nowhere = (f"unix://{tmp_path}/none", "tcp://127.0.0.1:1")
    for host in nowhere:
        probe = await probe_engine({"DOCKER_HOST": host})
        assert probe == EngineProbe(is_there=False, has_image=False)

    assert await probe_engine(engine) == EngineProbe(is_there=True, has_image=True)


def test_looking_loads_no_library_of_the_engine():
    code = "import sys, parachuted.agents.sandbox.sandboxes; print('docker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
