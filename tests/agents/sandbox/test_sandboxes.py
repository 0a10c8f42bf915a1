import asyncio
import os
import stat
import threading
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from uuid import uuid4

import pytest

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.sandbox import Sandboxes
from parachuted.errors import AgentFailedError, AgentUnavailableError
from tests.agents.sandbox.conftest import DEADLINE_S, boxed, files_in, fill, made_by, opening


@asynccontextmanager
async def sh(sandboxes, folder, line, **how):
    async with opening(sandboxes, folder, "sh", "-c", line, **how) as container:
        yield container


@asynccontextmanager
async def failing(sandboxes, *command):
    """A command in a box of its own, whose run fails in the end: no files are read."""
    with suppress(AgentFailedError):
        async with boxed(sandboxes, *command) as at_work:
            yield at_work
            raise AgentFailedError


async def test_without_an_engine_it_says_what_to_install_and_sweeps_later(tmp_path, engine):
    label, left = uuid4().hex, tmp_path / "boxes/abc"
    left.mkdir(parents=True)
    away = {"DOCKER_HOST": f"unix://{tmp_path}/none"}
    without, with_one = (
        Sandboxes(folder=tmp_path / "boxes", env=env, label=label) for env in (away, engine)
    )
    status = await without.status()

    assert (status.available, status.engine, status.image) == (False, None, None)
    assert "install and start Docker" in (status.problem or "")
    with pytest.raises(AgentUnavailableError, match="install and start Docker"):
        async with without.prepare():
            pass
    assert await without.sweep() == 0
    assert without.has_left_something()
    await with_one.sweep()
    await with_one.close()
    assert not with_one.has_left_something()


async def test_a_run_that_begins_during_a_sweep_keeps_its_container(sandboxes, monkeypatch):
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

    assert list(sandboxes._folder.iterdir()) == [runs[0].folder.path]
    await runs[0].container.end_input()
    assert await runs[0].container.wait() == 0
    await started.aclose()


async def test_what_is_filled_in_is_seen_and_what_is_made_is_in_the_next_one(sandboxes):
    first = (
        "cat '/vault/a note.md'; echo new > made.md; mkdir .git; echo x > .git/x; "
        "rm '/vault/a note.md'"
    )
    async with sandboxes.prepare() as folder:
        notes = {"a note.md": "hello", "b.md": "b", "deep/x": "c"}
        fill(folder.notes, sandboxes.user, **notes)
        async with sh(sandboxes, folder, first) as container:
            assert await container.stdout.read() == b"hello"
            assert await container.wait() == 0
        assert files_in(folder.returned) == {"b.md": "b", "deep/x": "c", "made.md": "new\n"}
        async with sh(sandboxes, folder, "ls -A; cat */x .git/x") as container:
            printed = await container.stdout.read()
        assert printed.split() == b".git b.md deep made.md cx".split()
        assert files_in(folder.returned) == {"b.md": "b", "deep/x": "c", "made.md": "new\n"}
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700

    assert not folder.path.exists()


@pytest.mark.parametrize(
    ("line", "says"), [("exit 4", (b"", 4)), ("no-such", (b"", 127)), ("kill -9 $$", (b"", 137))]
)
async def test_a_program_ends_with_its_own_code(sandboxes, line, says):
    async with boxed(sandboxes, "sh", "-c", line) as at_work:
        assert (await at_work.container.stdout.read(), await at_work.container.wait()) == says


async def test_a_program_still_at_work_is_stopped_and_its_files_come_back(sandboxes):
    line = (
        "kill -INT 1; (while :; do date > busy.md; done) & echo x > /vault/a.md; echo made; "
        "while :; do :; done"
    )
    async with sandboxes.prepare() as folder:
        async with sh(sandboxes, folder, line) as container:
            assert await container.stdout.readline() == b"made\n"
        found = files_in(folder.returned)
        assert (set(found), found["a.md"]) == ({"a.md", "busy.md"}, "x\n")


async def test_orphans_are_reaped_and_leave_room_for_others(run):
    line = "for n in $(seq 40); do (sleep 0.01 &) ; sleep 0.02; done; exit 4"
    ended = await run(line, config=SandboxConfig(pids_limit=16))

    assert (ended.out, ended.code) == ("", 4)


async def test_a_container_that_ends_while_it_is_filled_is_an_error_in_words(
    sandboxes, monkeypatch
):
    engine = await sandboxes._connected()
    monkeypatch.setattr(engine, "fill", lambda name, _place, _notes: engine.remove(name))
    async with sandboxes.prepare() as folder:
        fill(folder.notes, sandboxes.user, **{"a.md": "a"})
        with pytest.raises(AgentUnavailableError, match="did not start the program"):
            async with opening(sandboxes, folder, "cat"):
                pass


async def test_what_cannot_be_written_is_not_read_back(sandboxes):
    async with sandboxes.prepare() as folder:
        fill(folder.notes, None, **{"a.md": "a"})
        line = "cat a.md; echo b > a.md; echo b > b.md; cat *"
        async with sh(sandboxes, folder, line, is_writable=False) as container:
            assert await container.stdout.read() == b"aa"
        assert not folder.returned.exists()


async def test_a_container_that_is_gone_is_an_error_and_not_an_empty_vault(sandboxes):
    engine = await sandboxes._connected()

    async def killed_at_work(folder):
        async with opening(sandboxes, folder, "sleep", "60") as container:
            await asyncio.to_thread(engine._client.api.kill, container.name)
            await container.wait()

    async with sandboxes.prepare() as folder:
        fill(folder.notes, sandboxes.user, **{"a.md": "a"})
        with pytest.raises(AgentUnavailableError, match="had ended before its files were read"):
            await killed_at_work(folder)


async def test_the_kernel_bounds_what_an_agent_puts_into_its_folders(run):
    line = "n=0; while fallocate -l 200M $n; do n=$((n+1)); done; echo $n; ls /vault; rm /vault/*"

    ended = await run(line, config=SandboxConfig(memory="2g"))

    assert "No space left on device" in ended.out
    assert ended.out.split()[-3:] == ["0", "1", "2"]


async def test_more_than_is_taken_is_refused_in_words(sandboxes):
    line = "for n in 1 2 3 4 5; do truncate -s 250M /vault/$n.md; done"
    async with sandboxes.prepare() as folder:
        with pytest.raises(AgentUnavailableError, match="left more than 1024 MB, so none of it"):
            async with sh(sandboxes, folder, line) as container:
                assert await container.wait() == 0


async def test_megabytes_pass_unharmed(sandboxes):
    data = os.urandom(3 << 20)

    async with boxed(sandboxes, "cat") as at_work, asyncio.TaskGroup() as group:
        reading = group.create_task(at_work.container.stdout.readexactly(len(data)))
        await at_work.container.write(data)

    assert reading.result() == data


async def test_a_kill_ends_all_that_runs_in_it_and_leaves_nothing(sandboxes, engine):
    busy = "(setsid sh -c 'while :; do :; done' &)"
    line = f"trap '' TERM INT HUP; {busy} ; echo started; while :; do sleep 1; done"
    async with failing(sandboxes, "sh", "-c", line) as at_work:
        assert await at_work.container.stdout.readline() == b"started\n"
        assert len(made_by(sandboxes, engine)) == 1
        started = time.monotonic()

        await at_work.container.kill()

        assert time.monotonic() - started < 20
        assert made_by(sandboxes, engine) == []
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

    for wait in (lambda: asyncio.sleep(0), lambda: asyncio.sleep(0.1), entered.wait):
        entered.clear()
        async with asyncio.TaskGroup() as group:  # while it starts too
            task = group.create_task(work())
            await wait()
            task.cancel()

    assert entered.is_set()
    await sandboxes.close()
    assert made_by(sandboxes, engine) == []
    assert list(sandboxes._folder.iterdir()) == []


async def test_a_run_that_is_cancelled_twice_while_it_starts_leaves_none_either(
    sandboxes, engine, monkeypatch
):
    used = await sandboxes._connected()
    start, started, may_go_on = used.start, threading.Event(), threading.Event()

    def slowly(*how, **more):
        made = start(*how, **more)
        started.set()
        may_go_on.wait(DEADLINE_S)
        return made

    async def work():
        async with boxed(sandboxes, "cat"):
            pass

    monkeypatch.setattr(used, "start", slowly)
    task = asyncio.get_running_loop().create_task(work())
    assert await asyncio.to_thread(started.wait, DEADLINE_S)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    may_go_on.set()  # it waits for what is being made, and takes it away
    await asyncio.wait([task])

    assert made_by(sandboxes, engine) == []


async def test_no_run_finds_anything_of_the_one_before(sandboxes, run):
    await run("echo secret | tee /vault/a ~/b /tmp/c /dev/shm/d; (sleep 100 &)")
    # an engine that was away meanwhile is found again
    client = sandboxes._engine._client.api
    client.base_url = "http+docker://nowhere"
    client.mount("http+docker://", client.get_adapter("http://"))

    found = await run("ls -A /vault ~ /tmp /dev/shm /run; cat /proc/[0-9]*/comm")

    lines = [line for line in found.out.split("\n") if line and not line.endswith(":")]
    assert {"python3"} <= set(lines) <= {"python3", "sh", "cat"}


async def test_containers_that_a_killed_daemon_left_are_swept_and_no_one_elses(
    tmp_path, engine, sandboxes
):
    ours, others = (
        Sandboxes(folder=tmp_path / name, env=engine, label=uuid4().hex) for name in ("a", "b")
    )
    leaving = [failing(which, "cat") for which in (ours, others)]
    runs = [await one.__aenter__() for one in leaving]
    (runs[0].folder.path / "left").write_text("x")
    again = Sandboxes(folder=tmp_path / "a", env=engine, label=ours._owner.daemon)

    assert await again.sweep() == 1

    assert made_by(ours, engine) == []
    assert len(made_by(others, engine)) == 1
    assert list((tmp_path / "a").iterdir()) == []
    for one in leaving:
        await one.__aexit__(None, None, None)
    assert made_by(others, engine) == []


async def test_a_build_of_the_image_tells_how_it_goes_and_why_it_fails(sandboxes):
    said = [line async for line in sandboxes.build(offline=True)]
    assert said[-1] == "made parachute-sandbox:host"
    engine = await sandboxes._connected()
    with pytest.raises(AgentUnavailableError, match="the image was not built"):
        await asyncio.to_thread(list, engine.build("FROM parachute-sandbox:host\nRUN false\n"))
