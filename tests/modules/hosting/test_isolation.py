"""An untrusted module runs in the best cage that there is, or not at all."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import psutil
import pytest

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.isolation import BOUNDS, IsolationFactory
from parachuted.modules.hosting.isolation_rules import landlock_version
from parachuted.modules.hosting.seccomp import can_filter
from tests.modules.small_modules import approve, until, write_module

has_walls = bool(landlock_version()) and can_filter()
NO_DOCKER = {"PATH": "/nowhere"}


@pytest.fixture
def approved(tmp_path):
    return approve(
        write_module(tmp_path / "home" / "modules" / "daily" / "abc", "x = 1"), trust="untrusted"
    )


def isolation_of(tmp_path, sandbox, **more):
    return IsolationFactory(
        sandbox=sandbox,
        run=tmp_path / "home" / "run" / "modules",
        secret=[tmp_path / "vault"],
        env=NO_DOCKER,
        **more,
    )


@pytest.mark.skipif(not has_walls, reason="this machine has not the kernel's walls")
async def test_without_docker_it_is_the_kernels_walls(tmp_path):
    assert await isolation_of(tmp_path, "auto").choose() == "landlock"


def containers(engine):
    return subprocess.run(
        ["docker", "ps", "-aq"], env=dict(engine), capture_output=True, text=True, check=True
    ).stdout.split()


async def test_with_docker_it_is_docker(make_isolation):
    assert await make_isolation("auto").choose() == "docker"


async def test_with_neither_it_does_not_run_and_says_what_to_install(
    tmp_path, monkeypatch, approved
):
    monkeypatch.setattr("parachuted.modules.hosting.isolation.landlock_version", lambda: 0)

    for sandbox in ("auto", "landlock", "docker"):
        with pytest.raises(ModuleFailedError, match=r"does not run: .*install Docker"):
            await isolation_of(tmp_path, sandbox).hold(approved, "mark")


async def test_docker_asked_for_is_not_replaced_by_something_else(tmp_path):
    with pytest.raises(ModuleFailedError, match="no Docker engine answers"):
        await isolation_of(tmp_path, "docker").choose()


async def test_a_bare_process_is_taken_only_when_it_is_asked_for(tmp_path):
    assert await isolation_of(tmp_path, "process").choose() == "process"


@pytest.mark.skipif(not has_walls, reason="this machine has not the kernel's walls")
async def test_a_process_is_given_a_private_folder_and_no_environment(
    tmp_path, approved, monkeypatch
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")

    held = await isolation_of(tmp_path, "landlock").hold(approved, "mark")

    assert held.cwd.is_relative_to(tmp_path / "home" / "run" / "modules")
    assert held.cwd.stat().st_mode & 0o777 == 0o700
    assert set(held.env) == {"PATH", "LANG", "HOME", "TMPDIR", "PARACHUTE_MODULE"}
    assert "canary" not in str(held)
    await held.end()
    assert not held.cwd.exists()


@pytest.mark.skipif(not has_walls, reason="this machine has not the kernel's walls")
async def test_it_reads_python_and_its_copy_and_not_the_home(tmp_path, approved):
    held = await isolation_of(tmp_path, "landlock").hold(approved, "mark")

    readable = held.rules.readable
    assert approved.copy in readable
    assert any(Path(sys.base_prefix).is_relative_to(path) for path in readable)
    assert not any((tmp_path / "home" / "keys.yaml").is_relative_to(path) for path in readable)
    assert not any(
        one != other and one.is_relative_to(other) for one in readable for other in readable
    )
    assert held.rules.landlock
    assert held.rules.seccomp
    await held.end()


async def test_a_vault_inside_of_what_python_needs_cannot_be_kept_from_it(tmp_path, approved):
    secret = Path(sys.prefix) / "vault"
    inside = IsolationFactory(
        sandbox="process", run=tmp_path / "run", secret=[secret], env=NO_DOCKER
    )

    with pytest.raises(ModuleFailedError, match="nothing can keep"):
        await inside.hold(approved, "mark")


async def test_what_a_killed_daemon_left_is_swept(tmp_path, approved):
    earlier = isolation_of(tmp_path, "process")
    held = await earlier.hold(approved, "mark")

    await isolation_of(tmp_path, "process").sweep()

    assert not held.cwd.exists()


async def test_a_container_that_a_killed_daemon_left_is_swept_and_no_one_elses(
    tmp_path, approved, engine
):
    homes = [
        IsolationFactory(sandbox="docker", run=tmp_path / name, secret=[], env=engine)
        for name in ("ours", "theirs")
    ]
    held = [await home.hold(approved, "mark") for home in homes]
    running = [
        await asyncio.create_subprocess_exec(
            *one.command, env=one.env, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL
        )
        for one in held
    ]
    await until(lambda: len(containers(engine)) == 2, 20)

    await IsolationFactory(sandbox="docker", run=tmp_path / "ours", secret=[], env=engine).sweep()

    assert len(containers(engine)) == 1
    assert list((tmp_path / "ours").iterdir()) == []
    await held[1].end()
    assert containers(engine) == []
    assert list((tmp_path / "theirs").iterdir()) == []
    for process in running:
        await process.communicate()


async def test_a_container_is_remembered_while_no_engine_says_that_it_is_gone(tmp_path):
    note = tmp_path / "run" / "c-parachute-module-daily-abc"
    note.parent.mkdir()
    note.touch()

    await IsolationFactory(sandbox="auto", run=tmp_path / "run", secret=[], env=NO_DOCKER).sweep()

    assert note.exists()


def test_each_cage_says_what_it_holds():
    assert set(BOUNDS) == {"docker", "landlock", "process"}
    assert "no wall" in BOUNDS["process"]


@pytest.mark.parametrize("forgets", [False, True])
async def test_a_process_that_a_killed_daemon_left_is_ended_though_it_forgot_its_mark(
    tmp_path, approved, forgets
):
    held = await isolation_of(tmp_path, "process").hold(approved, "a-mark-of-its-own")
    env = {} if forgets else dict(held.env)
    left = await asyncio.create_subprocess_exec("sleep", "600", env=env, start_new_session=True)
    if forgets:
        held.began(left.pid)
    else:
        async with asyncio.timeout(30):  # the kernel shows it a moment after the program begins
            while not psutil.Process(left.pid).environ():
                await asyncio.sleep(0.001)

    await isolation_of(tmp_path, "process").sweep()

    async with asyncio.timeout(30):
        assert await left.wait() == -9
    assert list((tmp_path / "home" / "run" / "modules").iterdir()) == []


async def test_another_process_that_has_the_same_number_now_is_left_alone(tmp_path, approved):
    held = await isolation_of(tmp_path, "process").hold(approved, "a-mark-of-its-own")
    other = await asyncio.create_subprocess_exec("sleep", "600", env={}, start_new_session=True)
    note = next((tmp_path / "home" / "run" / "modules").glob("a-*"))
    note.write_text(f"{other.pid} 1")

    await isolation_of(tmp_path, "process").sweep()

    assert other.returncode is None
    other.kill()
    await other.wait()
    await held.end()
