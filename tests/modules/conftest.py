"""Fixtures for modules: an engine for containers, where one can be begun, and cages of each kind that this machine has."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from parachuted.modules.cage import Cages, Sandbox
from parachuted.modules.landlock import landlock_version
from parachuted.modules.seccomp import can_filter

MAY_START_S = 30


@pytest.fixture(scope="session")
def engine() -> Iterator[Mapping[str, str]]:
    """The environment in which `docker` finds an engine: one that runs here, or one that is begun for the tests and ended with them."""
    env = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME"} or name.startswith("DOCKER_")}
    if shutil.which("docker") is None:
        pytest.skip("there is no `docker` command on this machine")
    if answers(env):
        yield env
        return
    if shutil.which("dockerd", path=f"{env['PATH']}:/usr/sbin:/sbin") is None or os.getuid() != 0:
        pytest.skip("no Docker engine answers, and none can be begun here: that needs `dockerd` and root")
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
            ["dockerd", *plain, "-H", env["DOCKER_HOST"], *roots], stdout=log, stderr=log, env=env, start_new_session=True
        )
    try:
        until = time.monotonic() + MAY_START_S
        while not answers(env):
            if dockerd.poll() is not None or time.monotonic() > until:
                pytest.skip(f"dockerd does not run here: {(folder / 'log').read_text()[-300:]}")
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
    asked = subprocess.run(["docker", "version"], env=dict(env), capture_output=True, check=False, timeout=20)
    return asked.returncode == 0


MakeCages = Callable[..., Cages]


@pytest.fixture
def make_cages(request: pytest.FixtureRequest, tmp_path: Path) -> MakeCages:
    """Cages of that kind; the test is skipped where the machine has none such."""

    def make(sandbox: Sandbox, **more: int) -> Cages:
        if sandbox == "landlock" and not (landlock_version() and can_filter()):
            pytest.skip("this kernel has no Landlock, or the processor's system calls are not known")
        env = request.getfixturevalue("engine") if sandbox in {"docker", "auto"} else {}
        return Cages(sandbox=sandbox, run=tmp_path / "run", secret=[tmp_path / "vault", tmp_path / "home"], env=env, **more)

    return make
