"""Containers made of nothing but read-only mounts, each gone when it is to be gone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from parachuted.modules.hosting.docker import Docker, DockerError

MEMORY = 256 * 1024 * 1024
PYTHON = (sys.executable, "-I", "-c")
NEEDED = [
    path
    for path in map(Path, ("/usr/lib", "/lib", "/lib64", sys.base_prefix, sys.prefix))
    if path.exists()
]


def run(docker, name, code, **more):
    command = docker.command(name, (*PYTHON, code), readable=NEEDED, memory=MEMORY)
    return subprocess.run(
        command, env=docker.env, capture_output=True, text=True, timeout=60, check=False, **more
    )


def images(docker):
    listed = subprocess.run(
        ["docker", "images", "-q"], env=docker.env, capture_output=True, check=True
    )
    return sorted(listed.stdout.split())  # Docker gives those of one second in any order


def containers(docker):
    listed = subprocess.run(
        ["docker", "ps", "-aq"], env=docker.env, capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


@pytest.fixture
def docker(engine, tmp_path):
    return Docker(engine)


async def test_a_program_runs_in_it_with_its_pipes_and_little_else(docker):
    name = await docker.make_room("daily")

    done = run(
        docker,
        name,
        "import os, sys; print(sys.stdin.read(), os.getuid(), "
        "sorted(os.listdir('/sys/class/net')));"
        "status = open('/proc/self/status').read(); print(*(status.split(name)[1].split()[0] for "
        "name in ('CapEff:', 'NoNewPrivs:')))",
        input="hello",
    )

    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words[0] == "hello"
    assert int(words[1]) != 0
    assert "['lo']" in done.stdout
    assert words[-2:] == ["0" * 16, "1"]
    assert containers(docker) == []


async def test_it_writes_nowhere_and_finds_nothing_of_the_machine(docker, tmp_path):
    (tmp_path / "secret").write_text("canary")
    name = await docker.make_room("daily")
    tried = [
        f"open({str(tmp_path / 'secret')!r})",
        "open('/etc/passwd')",
        "open('/tmp/x', 'w')",
        "open('/x', 'w')",
        "open('/dev/shm/x', 'w')",
    ]
    code = "\n".join(
        f"try:\n    {act}\n    print({act!r})\nexcept OSError:\n    pass" for act in tried
    )

    done = run(docker, name, code)

    assert (done.returncode, done.stdout) == (0, ""), done


async def test_one_that_is_ended_is_gone_with_all_that_runs_in_it(docker):
    name = await docker.make_room("daily")
    command = docker.command(
        name,
        (*PYTHON, "print('up', flush=True); import time; time.sleep(600)"),
        readable=NEEDED,
        memory=MEMORY,
    )
    held = await asyncio.create_subprocess_exec(
        *command, env=docker.env, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert await held.stdout.readline() == b"up\n"
    held.kill()  # the command alone: the container does not care
    assert len(containers(docker)) == 1

    assert await docker.end(name)

    assert containers(docker) == []
    await held.communicate()
    assert await docker.end(name)  # once more is nothing


async def test_a_second_daemon_makes_no_second_image(docker, engine):
    await docker.make_room("daily")
    before = images(docker)

    await Docker(engine).make_room("chat")

    assert images(docker) == before


async def test_without_an_engine_there_is_none(tmp_path):
    nowhere = Docker(
        {"PATH": "/usr/bin:/bin:/usr/local/bin", "DOCKER_HOST": f"unix://{tmp_path}/none"}
    )
    nothing = Docker({"PATH": str(tmp_path)})

    assert await nowhere.is_there() is False
    assert await nothing.is_there() is False
    assert await nowhere.end("one that may live") is False
    with pytest.raises(DockerError):
        await nowhere.make_room("daily")


async def test_an_engine_that_hangs_is_none(tmp_path, monkeypatch):
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr("parachuted.modules.hosting.docker._LOOK_S", 0.2)

    assert await Docker({"PATH": f"{tmp_path}:/usr/bin:/bin"}).is_there() is False


def test_no_secret_of_the_daemons_environment_goes_along():
    env = {
        "PATH": "/bin",
        "HOME": "/h",
        "DOCKER_HOST": "unix:///x",
        "ANTHROPIC_API_KEY": "canary",
        "PARACHUTE_HOME": "/p",
    }

    assert Docker(env).env == {"PATH": "/bin", "HOME": "/h", "DOCKER_HOST": "unix:///x"}


async def test_it_writes_in_the_folder_that_it_was_given_and_nowhere_else(docker, tmp_path):
    (tmp_path / "data").mkdir()
    code = (
        f"import pathlib, sqlite3; sqlite3.connect('{tmp_path}/data/x.db').execute('CREATE TABLE t"
        f" (a)'); pathlib.Path('{tmp_path}/beside').touch()"
    )
    command = docker.command(
        await docker.make_room("daily"),
        (*PYTHON, code),
        readable=NEEDED,
        writable=[tmp_path / "data"],
        memory=MEMORY,
    )

    done = await asyncio.to_thread(
        subprocess.run,
        command,
        env=docker.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, "Read-only file system" in done.stderr) == (1, True), done.stderr
    assert (tmp_path / "data" / "x.db").exists()
    assert not (tmp_path / "beside").exists()
