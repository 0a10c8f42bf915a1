"""The main things that a person does, by keyboard alone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.cli.command_line import CommandLine
from tests.web.conftest import saved
from tests.web.opened import Opened, Opens
from tests.web.test_offline import entry, journal
from tests.web.test_page import suggest

MOST_STOPS = 120
NAME = """() => {
  const at = document.activeElement;
  return at.getAttribute('aria-label') ?? at.labels?.[0]?.textContent ?? at.textContent;
}"""


def reaches(it: Opened, name: str) -> None:
    """Press Tab until what has that name has the focus."""
    stops: list[str] = []
    while len(stops) < MOST_STOPS:
        it.page.keyboard.press("Tab")
        stops.append(it.page.evaluate(NAME).strip())
        if re.search(name, stops[-1]):
            return
    raise AssertionError(f"no stop of the Tab key is called {name}: {stops}")


def opens_screen(it: Opened, name: str) -> None:
    """Choose a screen in the list of commands."""
    it.page.keyboard.press("Control+k")
    expect(it.page.get_by_role("combobox", name="Search or go to…")).to_be_focused()
    it.page.keyboard.type(name)
    option = it.page.get_by_role("option").filter(has_text=name).first
    expect(option).to_be_visible()
    it.page.keyboard.press("Enter")
    expect(it.page.get_by_role("heading", name=name, level=1)).to_be_visible()


@pytest.mark.parametrize("width", [390, 1440])
def test_an_entry_is_written_and_a_chat_held_by_keyboard(
    opens: Opens, daemon: CommandLine, width: int
):
    it = opens("#/journal", width=width)
    expect(it.page.get_by_label("New entry")).to_be_visible()
    reaches(it, "^New entry$")
    it.page.keyboard.type(f"No mouse at {width}.")
    reaches(it, "^Add to today$")
    it.page.keyboard.press("Enter")
    entry(it, f"No mouse at {width}.")
    assert journal(daemon).count(f"No mouse at {width}.") == 1

    opens_screen(it, "Chat")
    reaches(it, "^New chat$")
    it.page.keyboard.press("Enter")
    expect(it.page.get_by_label("Message", exact=True)).to_be_visible()
    reaches(it, "^Message$")
    it.page.keyboard.type(f"Is there a mouse at {width}?")
    it.page.keyboard.press("Enter")
    it.sees("No model can be asked now")


def test_a_suggestion_is_approved_and_a_run_taken_back_by_keyboard(
    opens: Opens, daemon: CommandLine
):
    place = saved(daemon, "Plans/Keys.md", "# Keys\n\nThree.\n")
    daemon.until(lambda: daemon.json("search", "path:Plans/Keys")["results"])
    suggest(daemon, "Plans/Keys.md", "# Keys\n\nFour.\n", "One more is needed.")
    it = opens("#/journal")
    opens_screen(it, "Approvals")
    it.sees("One more is needed.")
    reaches(it, "^Approve$")
    it.page.keyboard.press("Enter")
    daemon.until(lambda: place.read_text() == "# Keys\n\nFour.\n")

    garden = daemon.vault / "Projects/garden/AGENTS.md"
    top = daemon.vault / "AGENTS.md"
    garden.write_text(garden.read_text() + "\n- Thin the gooseberries\n")
    daemon.until(lambda: "gooseberries" in top.read_text())
    opens_screen(it, "Runs")
    it.page.get_by_role("link", name=re.compile("AGENTS.md.*(?<!un)changed")).first.wait_for()
    reaches(it, "^AGENTS.md.*(?<!un)changed")
    it.page.keyboard.press("Enter")
    it.page.locator(".diff .added").first.wait_for()
    reaches(it, "^Undo…$")
    it.page.keyboard.press("Enter")
    it.sees("What was written since stays.")
    reaches(it, "^Take it back$")
    it.page.keyboard.press("Enter")
    it.sees("Taken back in one file.")
    assert "gooseberries" not in top.read_text()
