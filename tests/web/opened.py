"""Opened: the page as a person has it before them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page, expect

from tests.cli.command_line import CommandLine

AXE = Path(__file__).with_name("vendor") / "axe.min.js"
PATIENCE_MS = 60_000  # for each that is waited for; the machine may be busy
SIZES = ({"width": 1440, "height": 900}, {"width": 390, "height": 800})  # a desk's and a phone's


@dataclass(slots=True, kw_only=True)
class Opened:
    """A page, the daemon that it is of, what it asked for, and what its browser complained of."""

    page: Page
    daemon: CommandLine
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where the daemon answers."""
        record = json.loads((self.daemon.home / "run/daemon.json").read_bytes())
        return f"http://127.0.0.1:{record['port']}"

    def go(self, where: str) -> None:
        """Show another screen."""
        self.page.evaluate("where => { location.hash = where }", where)

    def shows(self, screen: str) -> None:
        """Show another screen, and wait until it is all there."""
        self.go(screen)
        expect(self.page.locator("main h1:visible").first).to_be_visible()
        expect(self.page.locator(".loading")).to_have_count(0)

    def sees(self, text: str) -> Locator:
        """Wait until that text is on the page."""
        found = self.page.get_by_text(text).first
        expect(found).to_be_visible()
        return found

    def misses(self, text: str) -> None:
        """Wait until that text is nowhere on the page."""
        expect(self.page.get_by_text(text)).to_have_count(0)

    def click(self, name: str, role: str = "button") -> None:
        """Click what has that name."""
        self.page.get_by_role(role, name=name, exact=True).first.click()

    def dismisses(self, text: str) -> None:
        """Wait until the page says that in passing, and close it: it may cover a button."""
        toast = self.page.locator(".toast").filter(has_text=text).first
        toast.get_by_role("button", name="Close").click()

    def quick_open(self, words: str, path: str) -> None:
        """Find a note by Ctrl-K, and open it."""
        expect(self.page.get_by_role("main")).to_be_visible()
        self.page.keyboard.press("Control+k")
        # What is typed before the palette has the focus is lost, as it is for a person.
        expect(self.page.get_by_role("combobox", name="Search")).to_be_focused()
        self.page.keyboard.type(words)
        self.page.get_by_role("option").filter(has_text=path).wait_for()
        self.page.keyboard.press("Enter")

    def strangers(self) -> list[str]:
        """The addresses of other hosts that were asked for anything."""
        own = urlsplit(self.url).netloc
        return [
            request
            for request in self.requests
            if urlsplit(request).netloc != own and urlsplit(request).scheme not in {"blob", "data"}
        ]

    def faults(self) -> list[str]:
        """What axe finds, and whether the page is wider than its window."""
        source = AXE.read_text("utf-8")
        # Evaluated by the debugger, which no content security policy binds.
        self.page.evaluate(f"() => {{ if (!window.axe) {{ {source} }} }}")
        found = self.page.evaluate(
            "async () => (await axe.run(document, { resultTypes: ['violations'] })).violations"
        )
        faults = [
            f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
            for one in found
            for node in one["nodes"]
        ]
        if self.page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
            faults.append("the page is wider than its window")
        return faults

    def faults_of_sizes(self) -> list[str]:
        """The same at a desk and on a phone; the page stays at the size that it had."""
        own, found = self.page.viewport_size, []
        for size in SIZES:
            self.page.set_viewport_size(size)
            found += self.faults()
        self.page.set_viewport_size(own)
        return found


Opens: TypeAlias = Callable[..., Opened]
