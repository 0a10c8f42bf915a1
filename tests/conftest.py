"""Shared fixtures: a vault, a home, and a machine on which no one's own settings are found."""

from __future__ import annotations

import gc
import os
import re
import resource
import signal
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from pyfakefs.fake_filesystem import FakeFilesystem, OSType
from xdist.scheduler import LoadScopeScheduling

from parachuted.agents.sandbox import Sandboxes
from tests.cli import forked
from tests.engine import an_engine, have_image
from tests.module_cache import install_module_cache
from tests.stories.daemon_rig import Live, running_daemon

HOURS = 3 * 60 * 60
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of pytest's own is made in it
ROOM_IN_MEMORY = 4 << 30
ON_DISK = Path("/var/tmp")  # noqa: S108 - the same
ENGINE = re.compile(r"def \w+\([^)]*\b(engine|sandboxes)\b")
LONGEST_FIRST = (
    "tests/stories/test_narrow_keys.py",
    "tests/cli/test_daemon.py",
    "tests/modules/hosting/test_host.py",
    "tests/api/http/test_openapi_calls.py",
    "tests/chat/test_mcp_servers.py",
    "tests/vault/test_store_crashes.py",
    "tests/agents/claude/test_backend.py",
    "tests/stories/test_faults.py",
    "tests/cli/test_foreground.py",
    "tests/stories/test_strangers_text.py",
    "tests/chat/test_taint.py",
    "tests/chat/test_turns_killed.py",
    "tests/mcp/test_servers.py",
    "tests/stories/test_restarting.py",
    "tests/cli/test_mcp.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_backup.py",
    "tests/test_packaging.py",
    "tests/test_readme.py",
    "tests/access/test_events.py",
    "tests/stories/test_saving.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--torture", action="store_true", help="run the torture tests at full size; takes hours"
    )


def pytest_configure(config: pytest.Config) -> None:
    """A busy machine fails no property: no deadline, no health check by the clock, and the same
    examples each time. New ones are tried by `make torture`, many more of them.

    A shell starts what runs in its background without SIGINT, which all processes of the tests
    would inherit; and a person may open 1,024 files, where some tests hold as many connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 16_384)), hard))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile(
        "test",
        max_examples=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    settings.register_profile(
        "torture", settings.get_profile("test"), max_examples=2000, derandomize=False
    )
    settings.load_profile("torture" if config.getoption("--torture") else "test")
    if not (config.getoption("--torture") or "TMPDIR" in os.environ) and _has_room_in_memory():
        os.environ["TMPDIR"] = tempfile.tempdir = str(IN_MEMORY)


def _has_room_in_memory() -> bool:
    """Whether temporary folders can be in memory: a daemon's start there waits for no disk."""
    return (
        IN_MEMORY.is_dir()
        and os.access(IN_MEMORY, os.W_OK | os.X_OK)
        and psutil.disk_usage(str(IN_MEMORY)).free > ROOM_IN_MEMORY
        and psutil.virtual_memory().available > 2 * ROOM_IN_MEMORY
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two for each processor: most of a test's time is waiting for the disk and for processes."""
    return 2 * (os.cpu_count() or 1)


class FileScheduling(LoadScopeScheduling):
    """A file's tests run in one process; so do those of all files that need the Docker engine,
    those of the web page, which share one daemon with modules, and those of bots, which share a
    Matrix server.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if _needs_engine(self.config.rootpath / file):
            return "engine"
        folder = "/".join(file.split("/")[:2])
        return folder if folder in {"tests/web", "tests/bots"} else file


@cache
def _needs_engine(file: Path) -> bool:
    return ENGINE.search(file.read_text(encoding="utf-8")) is not None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileScheduling:
    """Ours, since the groups of xdist 3.8 (`loadgroup`) are lost with pytest 9.2, silently."""
    return FileScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays, so no garbage is looked for meanwhile."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each process of tests begins at another folder, so that on a fresh clone they share the work
    of compiling all files.
    """
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and collector.nodeid == "tests":
        number = int(worker["workerid"].removeprefix("gw"))
        first = len(report.result) * number // worker["workercount"]
        report.result = report.result[first:] + report.result[:first]
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Files go to the processes in this order, so that no long one is started last.
    longest = {name: place for place, name in enumerate(LONGEST_FIRST)}

    def place_of(item: pytest.Item) -> tuple[int, str]:
        file = item.nodeid.partition("::")[0]
        if file.startswith(("tests/web/", "tests/bots/")):
            return -2, file
        needs_engine = "engine" in getattr(item, "fixturenames", ())
        return (-1 if needs_engine else longest.get(file, len(longest)), file)

    items.sort(key=place_of)
    for item in items:
        is_torture = config.getoption("--torture")
        is_more = is_hypothesis_test(getattr(item, "obj", None)) or item.get_closest_marker(
            "shared"
        )
        if "torture" in getattr(item, "fixturenames", ()) or (is_torture and is_more):
            item.add_marker("torture")
            if is_torture:
                item.add_marker(pytest.mark.timeout(HOURS), append=False)


def pytest_collection_finish() -> None:
    """A daemon collects garbage when it starts, and need not look at 11,000 tests each time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """End what this process of tests keeps for typing commands."""
    forked.end()


@pytest.fixture(scope="session")
def torture(request: pytest.FixtureRequest) -> bool:
    """Whether to run at full size: `make torture` says yes, `make test` no."""
    return bool(request.config.getoption("--torture"))


@pytest.fixture(scope="session", autouse=True)
def _isolated_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test, nor a program that it starts, sees the developer's own home, settings or
    credentials.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(("PARACHUTE_", "ANTHROPIC_", "CLAUDE_", "COVERAGE_")):
                patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("user")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _module_cache() -> Iterator[None]:
    """Modules that are loaded again and again are read into code once."""
    with pytest.MonkeyPatch.context() as patch:
        install_module_cache(patch)
        yield


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder of the test's own: in memory, if it can be.

    Containers have a /dev of their own, and what is below it belongs to the machine: agents get
    none of it, and scripts of hooks there need no approval. Tests of those have their folder on
    the disk.
    """
    if "each_disk" in request.fixturenames and (disk := request.getfixturevalue("each_disk")):
        yield _fake_folder(request.getfixturevalue("fs"), disk)
        return
    is_on_disk = _needs_engine(request.path) or request.node.get_closest_marker("on_disk")
    if not (is_on_disk and tmp_path.is_relative_to(IN_MEMORY)):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=ON_DISK, prefix="pd-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_real = metafunc.definition.get_closest_marker("on_disk")
    if {"each_disk", "tmp_path"} <= set(metafunc.fixturenames) and not is_real:
        metafunc.parametrize("each_disk", ["ext4", "exfat", "macos"], indirect=True)


@pytest.fixture
def each_disk(request: pytest.FixtureRequest) -> str | None:
    """For `pytestmark`, where folders are decided about: `tmp_path` is in pyfakefs, on a disk of
    each kind. What needs the kernel itself is marked `on_disk`.
    """
    return getattr(request, "param", None)


def _fake_folder(fs: FakeFilesystem, disk: str) -> Path:
    fs.os = OSType.MACOS if disk == "macos" else OSType.LINUX
    fs.is_case_sensitive = disk == "ext4"
    folder = Path("/users/me/test")
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """An empty vault."""
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine-local home, named by $PARACHUTE_HOME."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("PARACHUTE_HOME", str(folder))
    return folder


@pytest.fixture
def live(vault: Path, home: Path) -> Live:
    """Start a daemon: `async with live(backend, clock=..., **flags) as daemon_rig`.

    Dotted settings are given with `__`.
    """

    return partial(running_daemon, vault, home)


@pytest.fixture(scope="session")
def engine() -> Iterator[Mapping[str, str]]:
    """The environment in which a Docker engine is found; the test is skipped where none can run."""
    with an_engine() as env:
        yield env


@pytest.fixture
async def sandboxes(engine: Mapping[str, str], tmp_path: Path) -> AsyncIterator[Sandboxes]:
    """Sandboxes in which agents can run: the image is there, made of this machine's own programs.

    None is started ahead.
    """
    made = Sandboxes(
        folder=tmp_path / "slots",
        env=engine,
        label=f"{tmp_path.name}-{uuid4().hex}",
    )
    await have_image(made)
    try:
        yield made
    finally:
        await made.close()
