"""Screenshots: a picture of every screen, wide and light, narrow and dark, and one sheet of them
all, in build/screenshots, and those that README.md shows; `make screenshots`.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.api.test_app_browser import CHROMIUM, FLAGS
from tests.cli.command_line import CommandLine
from tests.web.opened import PATIENCE_MS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/screenshots"
IN_README = ROOT / "docs/page.png"
ALSO_IN_README = {"journal": "page-journal.png", "watches": "page-watches.png"}
SCREENS = {
    "journal": "#/journal",
    "vault": "#/vault/Projects/garden/AGENTS.md",
    "editor": "#/vault/Projects/garden/AGENTS.md?view=edit",
    "history": "#/vault/AGENTS.md?view=past",
    "authors": "#/vault/AGENTS.md?view=authors",
    "chat": "#/chat",
    "suggestions": "#/suggestions",
    "runs": "#/runs",
    "brain": "#/brain",
    "entity": "#/brain/entity/kim-lee",
    "graph": "#/brain/graph",
    "types": "#/brain/types/project",
    "watches": "#/watches",
    "first": "#/first",
    "modules": "#/modules/daily/consent",
    "module-settings": "#/modules/daily/settings",
    "bots": "#/bots",
    "hooks": "#/hooks/hook/on-session-start.sh",
    "agents": "#/agents/daily/journal",
    "keys": "#/keys",
    "health": "#/health",
    "settings": "#/settings",
    "usage": "#/usage",
    "activity": "#/activity",
}
KINDS = {"wide": (1440, 900, "light"), "narrow": (390, 800, "dark")}
KNOWN = {
    "people/kim-lee.md": "---\naliases: [Kim]\ntags: [garden]\nstatus: active\n---\n# Kim Lee\n\n"
    "Grows *beans* in the [[garden]].\n\n## Facts\n\n- Role: Baker (until 2024)\n"
    "- Role: Gardener (since 2024-02)\n\n## Relationships\n\n- [[acme]] - Founder (2020 to 2022)\n"
    "- [[garden]] - Member (since 2023)\n- [[bo]] - Friend\n",
    "people/bo.md": "# Bo\n\nKeeps the seeds of the [[garden]].\n",
    "organizations/acme.md": "# Acme\n\nMakes watering cans.\n",
    "projects/garden.md": "# Garden\n\nA shared garden behind the [[school]].\n",
    "topics/school.md": "# School\n",
}
ENTRIES = (
    "Sowed the beans with [[Kim]]. The soil is still cold.",
    "# Plan\n\n- [ ] ask Kim about the pond\n- [x] order seeds\n\nWhat about the frost?",
)


def main() -> None:
    """Make the pictures; the path of the sheet is printed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        command_line = _daemon(Path(name))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            address = command_line.does("open", "--print").strip()
            url = address.partition("/#")[0]
            for kind in KINDS:
                _take(browser, url, kind)
            _take_for_readme(browser, url, command_line)
            print(_sheet(browser))
        finally:
            browser.close()
            for pid in command_line.started():
                os.kill(pid, signal.SIGKILL)


def _daemon(folder: Path) -> CommandLine:
    environ = {"PARACHUTE_BUBBLE_QUIET_S": "0.05", "PARACHUTE_AGENT_BACKEND": "offline"}
    command_line = CommandLine(
        home=folder / "home", vault=folder / "vault", folder=folder, environ=environ
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command_line.does("init", str(command_line.vault))
    command_line.does("start", "--port", str(port))
    for name in ("daily", "brain", "chat", "bots"):
        command_line.does(
            "modules", "install", f"parachute://{name}", "--trust", "trusted", "--yes"
        )
    for path, text in KNOWN.items():
        place = command_line.vault / "Brain/entities" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for entry in ENTRIES:
        command_line.does("daily", "add", entry)
    hook = command_line.home / "hooks/on-session-start.sh"
    hook.parent.mkdir(exist_ok=True, mode=0o700)
    hook.write_text("#!/bin/sh\n# Keeps the attic as it is\ncat >/dev/null\n")
    hook.chmod(0o755)
    command_line.does("hooks", "approve")
    hook.write_text(f"{hook.read_text()}echo '{{}}'\n")
    command_line.does("keys", "create", "my phone")
    command_line.does("keys", "create", "helper", "--scope", "daily:read", "--path", "Daily/**")
    command_line.does("chat", "What grows in the garden?")
    command_line.save(
        "Projects/garden/AGENTS.md", "Start the tomatoes indoors", "Plant the tomatoes out"
    )
    command_line.until(
        lambda: "Plant the tomatoes" in (command_line.vault / "AGENTS.md").read_text(), 60
    )
    return command_line


def _take(browser: Browser, url: str, kind: str) -> None:
    width, height, theme = KINDS[kind]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
    )
    page = context.new_page()
    for name, where in SCREENS.items():
        _open(page, f"{url}/{where}")
        page.screenshot(path=FOLDER / f"{name}-{kind}.png")
    context.close()


def _take_for_readme(browser: Browser, url: str, command_line: CommandLine) -> None:
    """The run that followed a save, with what it changed; a journal; who watches whom."""
    runs = command_line.json("runs")["runs"]
    run = next(one for one in runs if one["watcher"] == "AGENTS.md" and one["wrote"])
    page = browser.new_page(viewport={"width": 1180, "height": 640})
    _open(page, f"{url}/#/runs/{run['id']}")
    expect(page.locator(".diff .added").first).to_be_visible(timeout=PATIENCE_MS)
    page.screenshot(path=IN_README)
    page.set_viewport_size({"width": 1080, "height": 560})
    for name, file in ALSO_IN_README.items():
        _open(page, f"{url}/{SCREENS[name]}")
        page.screenshot(path=IN_README.with_name(file))


def _open(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("main h1:visible").first).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator(".loading")).to_have_count(0, timeout=PATIENCE_MS)
    moving = page.locator("canvas.graph[data-settled=false]")
    expect(moving).to_have_count(0, timeout=PATIENCE_MS)


def _sheet(browser: Browser) -> Path:
    """One picture of all: each screen wide, and narrow beside it."""
    rows = "".join(
        f"<section><h2>{name}</h2>{''.join(_picture(name, kind) for kind in KINDS)}</section>"
        for name in SCREENS
    )
    page = browser.new_page(viewport={"width": 1900, "height": 1000})
    page.set_content(
        "<style>body{display:grid;grid-template-columns:1fr 1fr;gap:2rem;font:20px sans-serif}"
        f"img{{height:400px;margin-right:12px;border:1px solid #999}}</style>{rows}"
    )
    page.screenshot(path=FOLDER / "sheet.png", full_page=True)
    return FOLDER / "sheet.png"


def _picture(name: str, kind: str) -> str:
    data = base64.b64encode((FOLDER / f"{name}-{kind}.png").read_bytes()).decode()
    return f'<img src="data:image/png;base64,{data}">'


if __name__ == "__main__":
    main()
