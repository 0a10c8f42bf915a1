import asyncio
import os
import stat
import subprocess
import sys
import threading
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from parachuted.access.agent_config import SandboxConfig
from parachuted.agents.job import RunFolder
from parachuted.agents.sandbox import Sandboxes
from parachuted.agents.sandbox.options import packaged_text
from parachuted.errors import AgentFailedError, AgentUnavailableError
from tests.agents.sandbox.conftest import DEADLINE_S, boxed, files_in, fill, spec_of
from tests.engine import containers


def of(sandboxes):
    return f"org.parachuted.daemon={sandboxes._owner.daemon}"


async def echo(sandboxes, line, **how):
    async with boxed(sandboxes, "sh", "-c", line, **how) as at_work:
        await at_work.container.end_input()
        return (await at_work.container.stdout.read()).decode()


@asynccontextmanager
async def failing(sandboxes, *command):
    """A command in a box of its own, whose run fails in the end: no files are read."""
    with suppress(AgentFailedError):
        async with boxed(sandboxes, *command) as at_work:
            yield at_work
            raise AgentFailedError


async def until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_without_an_engine_it_says_what_to_install(tmp_path):
    sandboxes = Sandboxes(
        folder=tmp_path / "boxes", env={"DOCKER_HOST": f"unix://{tmp_path}/none"}, label="a"
    )

    status = await sandboxes.status()

    assert (status.available, status.engine, status.image) == (False, None, None)
    assert "install and start Docker" in (status.problem or "")
    with pytest.raises(AgentUnavailableError, match="install and start Docker"):
        async with sandboxes.prepare():
            pass
    assert await sandboxes.sweep() == 0


async def test_what_was_left_is_swept_again_once_there_is_an_engine(tmp_path, engine):
    folder = tmp_path / "boxes"
    (folder / "abc").mkdir(parents=True)
    (folder / "abc/notes.tar").write_text("x")
    without = Sandboxes(
        folder=folder, env={"DOCKER_HOST": f"unix://{tmp_path}/none"}, label=uuid4().hex
    )

    assert await without.sweep() == 0
    assert list((folder / "abc").iterdir()) == []
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

    assert list(sandboxes._folder.iterdir()) == [runs[0].folder.path]
    await runs[0].container.end_input()
    assert await runs[0].container.wait() == 0
    await started.aclose()


async def test_what_is_filled_in_is_seen_and_what_is_made_is_found(sandboxes, run):
    line = "cat '/vault/a note.md' ~/kept; echo new > /vault/made.md; rm '/vault/a note.md'"
    async with sandboxes.prepare() as folder:
        home = folder.path / "home.tar"
        fill(folder.notes, sandboxes.user, **{"a note.md": "hello", "deep/b.md": "b"})
        fill(home, sandboxes.user, kept="from before")
        async with sandboxes.open(spec_of(folder, "sh", "-c", line, home=home)) as container:
            assert await container.stdout.read() == b"hellofrom before"
            assert await container.wait() == 0
        assert files_in(folder.returned) == {"made.md": "new\n", "deep/b.md": "b"}

    assert not folder.path.exists()


async def test_a_program_that_is_still_at_work_is_stopped_and_its_files_come_back(sandboxes):
    async with sandboxes.prepare() as folder:
        line = "echo done > /vault/a.md; echo made; while :; do :; done"
        async with sandboxes.open(spec_of(folder, "sh", "-c", line)) as container:
            assert await container.stdout.readline() == b"made\n"
        assert files_in(folder.returned) == {"a.md": "done\n"}


async def test_what_runs_on_when_the_program_has_ended_changes_no_file(sandboxes):
    line = "echo 1 > /vault/a.md; (sleep 0.3; echo 2 > /vault/a.md) & exit 4"
    async with sandboxes.prepare() as folder:
        async with sandboxes.open(spec_of(folder, "sh", "-c", line)) as container:
            assert await container.wait() == 4
            await asyncio.sleep(0.6)
        assert files_in(folder.returned) == {"a.md": "1\n"}


async def test_what_a_run_left_is_there_in_its_next_container(sandboxes):
    lines = ("echo new > made.md; mkdir .git; echo x > .git/x; rm a.md", "ls -A; cat */x .git/x")
    async with sandboxes.prepare() as folder:
        fill(folder.notes, sandboxes.user, **{"a.md": "a", "b.md": "b", "deep/x": "c"})
        printed = []
        for line in lines:
            async with sandboxes.open(spec_of(folder, "sh", "-c", line)) as container:
                printed.append(await container.stdout.read())
        assert printed[1].split() == b".git b.md deep made.md cx".split()
        assert files_in(folder.returned) == {"b.md": "b", "deep/x": "c", "made.md": "new\n"}


@pytest.mark.parametrize(
    "act",
    [
        "kill -INT 1",
        "for n in $(seq 70); do (sleep 0.01 &) ; sleep 0.02; done",  # ends that the first one sees
        "printf '\\0'",
    ],
)
async def test_no_program_ends_the_first_process_or_hides_its_own_end(sandboxes, act):
    async with sandboxes.prepare() as folder:
        line = f"{act}; echo last > a.md; exit 4"
        async with (
            asyncio.timeout(DEADLINE_S),
            sandboxes.open(spec_of(folder, "sh", "-c", line)) as container,
        ):
            await container.end_input()
            assert await container.wait() == 4
        assert files_in(folder.returned) == {"a.md": "last\n"}


async def test_a_container_that_ends_while_it_is_filled_is_an_error_in_words(
    sandboxes, monkeypatch
):
    engine = await sandboxes._connected()
    monkeypatch.setattr(engine, "fill", lambda name, _place, _notes: engine.remove(name))
    async with sandboxes.prepare() as folder:
        fill(folder.notes, sandboxes.user, **{"a.md": "a"})
        with pytest.raises(AgentUnavailableError, match="ended before it began"):
            async with sandboxes.open(spec_of(folder, "cat")):
                pass


async def test_what_cannot_be_written_is_not_read_back(sandboxes):
    async with sandboxes.prepare() as folder:
        fill(folder.notes, None, **{"a.md": "a"})
        line = "cat a.md; echo b > a.md; echo b > b.md"
        spec = spec_of(folder, "sh", "-c", line, is_writable=False)
        async with sandboxes.open(spec) as container:
            assert await container.stdout.read() == b"a"
        assert not folder.returned.exists()


async def test_a_container_that_is_gone_is_an_error_and_not_a_vault_without_notes(sandboxes):
    engine = await sandboxes._connected()

    async def killed_at_work(folder):
        async with sandboxes.open(spec_of(folder, "sleep", "60")) as container:
            await asyncio.to_thread(engine._client.api.kill, container.id)
            await container.wait()

    async with sandboxes.prepare() as folder:
        fill(folder.notes, sandboxes.user, **{"a.md": "a"})
        with pytest.raises(AgentUnavailableError, match="had ended before its files were read"):
            await killed_at_work(folder)


async def test_the_kernel_bounds_what_an_agent_puts_into_its_folders(run):
    line = "n=0; while fallocate -l 200M $n; do n=$((n+1)); done; echo $n; ls /vault"

    ended = await run(line, config=SandboxConfig(memory="2g"))

    assert "No space left on device" in ended.out
    assert ended.out.split()[-3:] == ["0", "1", "2"]


async def test_more_than_is_taken_is_refused_in_words(sandboxes):
    line = "for n in 1 2 3 4 5; do truncate -s 250M /vault/$n.md; done"
    async with sandboxes.prepare() as folder:
        with pytest.raises(AgentUnavailableError, match="left more than 1024 MB, so none of it"):
            async with sandboxes.open(spec_of(folder, "sh", "-c", line)) as container:
                assert await container.wait() == 0


async def test_megabytes_pass_unharmed(sandboxes):
    data = os.urandom(3 << 20).replace(b"\0", b"1")  # a NUL says that the program has ended

    async with boxed(sandboxes, "cat") as at_work, asyncio.TaskGroup() as group:
        reading = group.create_task(at_work.container.stdout.readexactly(len(data)))
        await at_work.container.write(data)

    assert reading.result() == data


async def test_a_kill_ends_all_that_runs_in_it_and_leaves_nothing(sandboxes, engine):
    line = (
        "trap '' TERM INT HUP; (setsid sh -c 'while :; do :; done' &) ; echo started; while :; "
        "do sleep 1; done"
    )
    async with failing(sandboxes, "sh", "-c", line) as at_work:
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


async def test_a_run_that_is_cancelled_again_while_its_container_starts_leaves_none_either(
    sandboxes, engine, monkeypatch
):
    used = await sandboxes._connected()
    start, started, may_go_on = used.start, threading.Event(), threading.Event()

    def slowly(*how):
        made = start(*how)
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
    await asyncio.wait([task])
    may_go_on.set()

    await until(lambda: containers(engine, of=of(sandboxes)) == [])


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


async def test_only_a_folder_that_was_prepared_is_ever_mounted(sandboxes, tmp_path):
    async with sandboxes.prepare() as folder:
        for place in (tmp_path, folder.path.parent, folder.path / "..", Path("/")):
            with pytest.raises(AgentUnavailableError, match="the folder of one run"):
                async with sandboxes.open(spec_of(RunFolder(place), "true")):
                    pass


async def test_the_folder_of_a_run_is_this_users_alone(sandboxes):
    async with sandboxes.prepare() as folder:
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
        assert (folder.sockets / ".run").read_text() == folder.path.name


async def test_containers_that_a_killed_daemon_left_are_swept_and_no_one_elses(
    tmp_path, engine, sandboxes
):
    labels = [uuid4().hex, uuid4().hex]
    lost = Sandboxes(folder=tmp_path / "boxes2", env=engine, label=labels[0])
    theirs = Sandboxes(folder=tmp_path / "boxes3", env=engine, label=labels[1])
    leaving = [failing(which, "cat") for which in (lost, theirs)]
    runs = [await one.__aenter__() for one in leaving]
    (runs[0].folder.path / "left").write_text("x")
    again = Sandboxes(folder=tmp_path / "boxes2", env=engine, label=labels[0])

    assert await again.sweep() == 1

    assert containers(engine, of=f"org.parachuted.daemon={labels[0]}") == []
    assert len(containers(engine, of=f"org.parachuted.daemon={labels[1]}")) == 1
    assert list((tmp_path / "boxes2").iterdir()) == []
    for one in leaving:
        await one.__aexit__(None, None, None)
    assert containers(engine, of=f"org.parachuted.daemon={labels[1]}") == []


async def test_a_build_of_the_image_tells_how_it_goes(sandboxes):
    assert [line async for line in sandboxes.build(offline=True)][
        -1
    ] == "made parachute-sandbox:host"


def test_the_image_that_is_built_has_what_the_daemon_needs_in_it_and_no_root():
    text = packaged_text("Dockerfile")

    assert text.startswith("#")
    assert "python3" in text  # the first process is one
    assert text.index("USER agent") > text.index("useradd")


async def test_a_build_that_fails_says_why(sandboxes):
    engine = await sandboxes._connected()
    with pytest.raises(AgentUnavailableError, match="the image was not built"):
        await asyncio.to_thread(list, engine.build("FROM parachute-sandbox:host\nRUN false\n"))


async def test_an_engine_that_mounts_other_folders_is_found_out(sandboxes, engine):
    async with sandboxes.prepare() as folder:
        (folder.sockets / ".run").chmod(0o600)
        (folder.sockets / ".run").write_text("another")
        with pytest.raises(AgentUnavailableError, match="mounted another folder"):
            async with sandboxes.open(spec_of(folder, "cat")):
                pass

    assert containers(engine, of=of(sandboxes)) == []


async def test_whether_there_is_an_engine_with_our_image_is_seen_quickly(sandboxes, tmp_path):
    nowhere = (f"unix://{tmp_path}/none", "tcp://127.0.0.1:1")
    for host in nowhere:
        away = Sandboxes(folder=tmp_path, env={"DOCKER_HOST": host}, label="away")
        assert await away.probe_engine() == {"available": False, "image_exists": False}

    assert await sandboxes.probe_engine() == {"available": True, "image_exists": True}


def test_looking_loads_no_library_of_the_engine():
    code = "import sys, parachuted.agents.sandbox.sandboxes; print('docker' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
