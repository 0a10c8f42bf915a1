"""Shared fixtures: a vault, a home, and a machine on which nobody's own settings are found."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import pytest

from parachuted.agent_choice import BackendChoice
from parachuted.agents import Backend, OfflineBackend
from parachuted.agents.sandbox import Sandboxes
from parachuted.config import load_settings
from parachuted.daemon import Daemon
from parachuted.watched_vault import utc_now
from tests.engine import WITHOUT, an_engine
from tests.stories.life import Life, Live

HOURS = 3 * 60 * 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--torture", action="store_true", help="run the torture tests at full size; takes hours"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        # Where several processes share the tests, a file stays in one of them, and all that needs
        # the Docker engine in one.
        item.add_marker(
            pytest.mark.xdist_group(
                "engine" if "engine" in fixtures else item.nodeid.partition("::")[0]
            )
        )
        if "torture" in fixtures:
            item.add_marker("torture")
            if config.getoption("--torture"):
                item.add_marker(pytest.mark.timeout(HOURS), append=False)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Leave for .ci/run how many tests had no engine: a proof that was not run is none."""
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", [])
        if WITHOUT in str(report.longrepr)
    ]
    if skipped and config.cache is not None:
        config.cache.set("engine/skipped", len(skipped))
        terminalreporter.write_line(f"{len(skipped)} tests that need a Docker engine were skipped")


@pytest.fixture(scope="session")
def torture(request: pytest.FixtureRequest) -> bool:
    """Whether to run at full size: `make torture` says yes, `make test` no."""
    return bool(request.config.getoption("--torture"))


@pytest.fixture(scope="session", autouse=True)
def _nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test, nor a program that it starts, sees the developer's own home, settings or
    credentials.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(("PARACHUTE_", "ANTHROPIC_", "CLAUDE_")):
                patch.delenv(name)
        patch.setenv("HOME", str(tmp_path_factory.mktemp("nobody")))
        yield


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
    """Start a daemon: `async with live(backend, clock=..., **flags) as life`.

    Dotted settings are given with `__`.
    """

    @contextlib.asynccontextmanager
    async def start(
        backend: Backend | None = None, *, clock: Callable[[], datetime] = utc_now, **flags: object
    ) -> AsyncIterator[Life]:
        chosen = {
            "vault": str(vault),
            "port": 0,
            "bubble.quiet_s": 0.05,
            **{key.replace("__", "."): value for key, value in flags.items()},
        }
        settings = load_settings(home, {}, chosen)
        daemon = Daemon(
            settings,
            home,
            BackendChoice(backend=backend or OfflineBackend(), reason="for a test", model=None),
            clock=clock,
        )
        life = Life(daemon=daemon, vault=vault)
        daemon.bus.listen(life.events.append)
        ready = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(daemon.run(ready.set), name="daemon")
            await asyncio.wait_for(ready.wait(), 20)
            try:
                yield life
            finally:
                daemon.stop()

    return start


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
        is_pooled=False,
    )
    if (await made.status()).image is None:
        async for _line in made.build(offline=True):
            pass
    try:
        yield made
    finally:
        await made.close()
