"""Engine: a Docker engine for tests, the one that runs here or one started for them and ended with
them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from parachuted.agents.sandbox import Sandboxes

MAY_START_S = 30
WITHOUT = "no Docker engine: "


@contextlib.contextmanager
def an_engine() -> Iterator[Mapping[str, str]]:
    """The environment in which `docker` finds an engine.

    Skips, with words that .ci/run looks for, where none can run.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if name in {"PATH", "HOME"} or name.startswith("DOCKER_")
    }
    if shutil.which("docker") is None:
        pytest.skip(f"{WITHOUT}there is no `docker` command on this machine")
    if answers(env):
        yield env
        return
    if shutil.which("dockerd", path=f"{env['PATH']}:/usr/sbin:/sbin") is None or os.getuid() != 0:
        pytest.skip(
            f"{WITHOUT}none answers, and none can be begun here: that needs `dockerd` and root"
        )
    folder = Path(tempfile.mkdtemp(prefix="pd-", dir="/tmp"))
    with begun(folder) as ours:
        yield {**env, **ours}


@contextlib.contextmanager
def begun(folder: Path) -> Iterator[Mapping[str, str]]:
    env = {"DOCKER_HOST": f"unix://{folder}/sock", "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    roots = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    plain = ["--storage-driver=vfs", "--iptables=false", "--bridge=none"]
    with (folder / "log").open("wb") as log:
        dockerd = subprocess.Popen(
            ["dockerd", *plain, "-H", env["DOCKER_HOST"], *roots],
            stdout=log,
            stderr=log,
            env=env,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + MAY_START_S
        while not answers(env):
            if dockerd.poll() is not None or time.monotonic() > until:
                pytest.skip(
                    f"{WITHOUT}dockerd does not run here: {(folder / 'log').read_text()[-300:]}"
                )
            time.sleep(0.1)
        yield env
    finally:
        dockerd.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            dockerd.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(dockerd.pid, signal.SIGKILL)
        dockerd.wait()
        shutil.rmtree(folder, ignore_errors=True)


def answers(env: Mapping[str, str]) -> bool:
    asked = subprocess.run(
        ["docker", "version"], env=dict(env), capture_output=True, check=False, timeout=20
    )
    return asked.returncode == 0


async def have_image(sandboxes: Sandboxes) -> None:
    """Make the image of this machine's own programs, where the engine has none."""
    if (await sandboxes.status()).image is None:
        async for _line in sandboxes.build(offline=True):
            pass


def containers(env: Mapping[str, str], *, of: str | None = None) -> list[str]:
    """The containers that the engine has, running or not; `of`: with that label alone."""
    command = ["docker", "ps", "-aq", *([f"--filter=label={of}"] if of else [])]
    return subprocess.run(
        command, env=dict(env), capture_output=True, text=True, check=True
    ).stdout.split()
