"""The web page in a real browser, on a real daemon in a process of its own: shared by
the files of this folder.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.api.test_app_browser import CHROMIUM, FLAGS
from tests.cli.command_line import CommandLine
from tests.web.opened import PATIENCE_MS, Opened, Opens

HURRIED = """(() => {
  const own = window.setInterval;
  window.setInterval = (act, ms, ...more) => own(act, ms / 10, ...more);
})()"""
_BLOCKED = "Service Worker registration blocked"  # by this file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They may take long: modules are installed first, and the machine may be busy."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """A daemon on a vault made from the template, with the official modules, at a port of its
    own.
    """
    folder = tmp_path_factory.mktemp("page")
    command_line = CommandLine(
        home=folder / "home",
        vault=folder / "vault",
        folder=folder,
        environ={"PARACHUTE_BUBBLE_QUIET_S": "0.05", "PARACHUTE_AGENT_BACKEND": "offline"},
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command_line.does("init", str(command_line.vault))
    command_line.does("start", "--port", str(port))
    for name in ("daily", "brain", "chat"):
        command_line.does(
            "modules", "install", f"parachute://{name}", "--trust", "trusted", "--yes"
        )
    yield command_line
    for pid in command_line.started():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window.

    A file's own, for as long as it runs there can be no other loop in this process.
    """
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        microphone = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *microphone])
        yield browser
        browser.close()


@pytest.fixture
def opens(browser: Browser, daemon: CommandLine) -> Iterator[Opens]:
    """Opens the page in a browser of its own: `opens("#/journal", width=390, theme="dark")`.

    Whatever it complains of fails the test. Where it is `hurried`, what it does every few seconds
    is done ten times as often.
    """
    opened: list[Opened] = []

    def opens(
        where: str = "",
        *,
        width: int = 1440,
        theme: str = "light",
        quiet: bool = True,
        offline: bool = False,
        hurried: bool = False,
    ) -> Opened:
        height = 800 if width < 600 else 900
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            locale="en-GB",
            timezone_id="UTC",
            reduced_motion="reduce",
            service_workers="allow" if offline else "block",  # it asks for every file of the page
        )
        context.set_default_timeout(PATIENCE_MS)
        if hurried:
            context.add_init_script(HURRIED)
        page = context.new_page()
        one = Opened(page=page, daemon=daemon)
        if quiet:
            page.on("console", lambda reported: one.complaints.extend(_complaint(reported)))
        page.on("pageerror", lambda error: one.complaints.append(str(error)))
        page.on("request", lambda request: one.requests.append(request.url))
        page.goto(where if where.startswith("http") else f"{one.url}/{where}")
        opened.append(one)
        return one

    yield opens
    for one in opened:
        one.page.context.close()
    assert [one.complaints for one in opened if one.complaints] == []


def _complaint(reported: ConsoleMessage) -> list[str]:
    if reported.type not in {"error", "warning"} or reported.text.startswith(_BLOCKED):
        return []
    return [f"{reported.text} ({reported.location.get('url')})"]


def saved(daemon: CommandLine, path: str, text: str) -> Path:
    """Save a file of the vault as most editors do: whole, under another name, then renamed."""
    place = daemon.vault / path
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".{place.name}.save")
    draft.write_text(text, "utf-8")
    return draft.replace(place)


__all__ = ["Page", "saved"]
