"""Which branches of the inner rooms their own tests take, collected while all tests run.

A plugin of pytest, used by `make coverage`. What is measured runs slower, so the tests of other
rooms and those of torture are not. `python -m tests.room_coverage` adds the lines that an import
runs.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

ROOMS = frozenset(
    {
        "access",
        "audit",
        "bubbling",
        "config",
        "context",
        "events",
        "history",
        "home_files",
        "hooks",
        "keys",
        "runs",
        "search",
        "state",
        "suggestions",
        "sync",
        "tasks",
        "tools",
        "vault",
    }
)
JOINED = frozenset(
    {
        "mcp/test_servers.py",
        "modules/hosting/test_module_runs_conversation.py",
        "modules/hosting/test_run_resources.py",
        "stories/test_watch_queries.py",
        "test_change_followers.py",
        "events/test_watched_vault.py",
    }
)
"""Tests of what joins several of the rooms."""
_ROOT = Path(__file__).resolve().parent.parent
_COVERAGE = coverage.Coverage(
    source=[str(_ROOT / "parachuted" / room) for room in sorted(ROOMS)],
    config_file=str(_ROOT / "pyproject.toml"),
)


def is_measured(item: pytest.Item) -> bool:
    """Whether it is a test of one of the rooms, and no torture test."""
    path = item.nodeid.partition("::")[0]
    folder, room, *_ = path.split("/")
    is_of_a_room = room in ROOMS or not JOINED.isdisjoint({room, path.removeprefix("tests/")})
    return folder == "tests" and is_of_a_room and item.get_closest_marker("torture") is None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure it with all of its fixtures."""
    if not is_measured(item):
        return (yield)
    _COVERAGE.start()
    try:
        return (yield)
    finally:
        _COVERAGE.stop()


def pytest_sessionfinish() -> None:
    """Each process of tests leaves what it has found."""
    _COVERAGE.save()


def main() -> None:
    """Import every file of the rooms."""
    with _COVERAGE.collect():
        for room in sorted(ROOMS):
            found = importlib.import_module(f"parachuted.{room}")
            for package in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
                importlib.import_module(package.name)
    _COVERAGE.save()


if __name__ == "__main__":
    main()
