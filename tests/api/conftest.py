"""What tests of the API share: a daemon for each file."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from tests.api.calls import call
from tests.stories.daemon_rig import DaemonRig, Live, note, save, shared_daemon


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file run on one loop, that of the daemon which they share."""
    for item in items:
        if (
            Path(__file__).parent in item.path.parents
            and pytest_asyncio.is_async_test(item)
            and "sandboxes" not in item.fixturenames  # they are made on the test's own loop
        ):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def file_daemon(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DaemonRig]:
    """The daemon that the tests of a file share."""
    async with shared_daemon(tmp_path_factory.mktemp("api")) as daemon_rig:
        yield daemon_rig


@pytest_asyncio.fixture(loop_scope="module")
async def daemon_rig(file_daemon: DaemonRig) -> AsyncIterator[DaemonRig]:
    """The file's daemon, running since before the test; with an empty vault, and without keys,
    modules, problems and events. `live` starts others.
    """
    yield file_daemon
    await emptied(file_daemon)


async def emptied(daemon_rig: DaemonRig) -> None:
    daemon, home = daemon_rig.daemon, daemon_rig.daemon.watched.home
    for name in ("keys.yaml", "config.yaml"):
        (home / name).unlink(missing_ok=True)
    daemon.authenticator.mode = "remote"
    daemon.authenticator.look()
    for module in daemon.modules.manager.status():
        await call(daemon_rig, "DELETE", f"/api/modules/{module.name}?data=true")
    for place in daemon_rig.vault.iterdir():
        if place.is_dir() and not place.is_symlink():
            if place.name != ".parachute":
                shutil.rmtree(place)
        else:
            place.unlink()
    await daemon.watched.detector.rescan(accept_missing=True)
    daemon.agents.worker.resume()
    await daemon_rig.until(lambda: not (daemon.loop.queue.all() or daemon.agents.worker.busy))
    await daemon_rig.indexed()
    for subject in daemon.watched.problems.open:
        daemon.watched.problems.set(subject, None)
    daemon_rig.events.clear()


@pytest_asyncio.fixture(loop_scope="module")
async def own_daemon(live: Live) -> AsyncIterator[DaemonRig]:
    """A daemon that no other test has. What its vault shall hold at the start is made by fixtures
    before it.
    """
    async with live() as daemon_rig:
        yield daemon_rig


@pytest.fixture
def vault(request: pytest.FixtureRequest, vault: Path) -> Path:
    """That of the daemon that the test shares, or an empty one of its own."""
    is_shared = "file_daemon" in request.fixturenames
    return request.getfixturevalue("file_daemon").vault if is_shared else vault


@pytest.fixture
def home(request: pytest.FixtureRequest, home: Path) -> Path:
    is_shared = "file_daemon" in request.fixturenames
    return request.getfixturevalue("file_daemon").daemon.watched.home if is_shared else home


@pytest_asyncio.fixture(loop_scope="module")
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as one:
        yield one


@pytest.fixture(params=["trusted", "untrusted"])
def trust(request: pytest.FixtureRequest) -> str:
    """In which way a module runs."""
    return str(request.param)


@pytest.fixture
def pair(vault: Path) -> Path:
    """A vault whose root watches the garden."""
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden", focus="- dig"))
    return vault
