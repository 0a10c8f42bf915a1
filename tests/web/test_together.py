"""The page beside others: two tabs, two people in one note, and a disk that is full."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Locator, expect

from tests.cli.command_line import CommandLine
from tests.web.conftest import saved
from tests.web.opened import Opened, Opens
from tests.web.test_offline import entry, journal


def editor(it: Opened, path: str, text: str) -> Locator:
    """The note in an editor, once it is there."""
    box = it.page.get_by_role("textbox", name=f"Text of {path}")
    expect(box).to_contain_text(text)
    return box


def test_two_people_edit_one_note_and_both_keep_what_they_wrote(opens: Opens, daemon: CommandLine):
    path = "Garden/Shared.md"
    place = saved(daemon, path, "# Shared\n\n## Beans\n\nSown.\n\n## Peas\n\nSown too.\n")
    daemon.until(lambda: "Sown too." in daemon.does("read", path))
    kim, lee = (opens(f"#/vault/{path}?view=edit", quiet=False) for _ in range(2))
    for it in (kim, lee):
        editor(it, path, "Sown too.")
    kim.page.locator(".cm-line").get_by_text("Sown.", exact=True).click()
    kim.page.keyboard.press("End")
    lee.page.keyboard.press("Control+End")
    lee.page.keyboard.press("ArrowUp")
    lee.page.keyboard.press("End")
    for letter_of_kim, letter_of_lee in zip(" By Kim, at dawn.", " By Lee, at noon.", strict=True):
        kim.page.keyboard.type(letter_of_kim)
        lee.page.keyboard.type(letter_of_lee)
    for it in (kim, lee):
        box = editor(it, path, "Sown. By Kim, at dawn.")
        expect(box).to_contain_text("Sown too. By Lee, at noon.")
    both = "## Beans\n\nSown. By Kim, at dawn.\n\n## Peas\n\nSown too. By Lee, at noon.\n"
    daemon.until(lambda: place.read_text() == f"# Shared\n\n{both}")


def test_what_one_tab_writes_the_other_shows_and_sends_only_once(opens: Opens, daemon: CommandLine):
    it = opens("#/journal", quiet=False)
    expect(it.page.get_by_label("New entry")).to_be_visible()
    other = it.page.context.new_page()
    other.goto(f"{it.url}/#/journal")
    expect(other.get_by_label("New entry")).to_be_visible()
    it.page.context.route(
        "**/api/daily/entries",
        lambda route: route.abort() if route.request.method == "POST" else route.continue_(),
    )
    it.page.get_by_label("New entry").fill("Two tabs wait with this.")
    it.click("Add to today")
    for page in (it.page, other):
        expect(page.locator(".unsent")).to_contain_text("Two tabs wait")
    it.page.context.unroute("**/api/daily/entries")
    for page in (it.page, other):
        expect(page.locator("article.entry").get_by_text("Two tabs wait")).to_be_visible()
        expect(page.locator(".unsent")).to_have_count(0)
    assert journal(daemon).count("Two tabs wait with this.") == 1


@contextmanager
def full_disk(daemon: CommandLine) -> Iterator[None]:
    """While it lasts, the daemon can write no file."""
    pid = json.loads((daemon.home / "run/daemon.json").read_bytes())["pid"]
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def test_while_the_disk_is_full_the_page_says_so_and_keeps_what_was_typed(
    opens: Opens, daemon: CommandLine
):
    path = "Garden/Full.md"
    place = saved(daemon, path, "# Full\n\nThere was room.\n")
    daemon.until(lambda: "There was room." in daemon.does("read", path))
    it = opens("#/journal", quiet=False)
    note = opens(f"#/vault/{path}?view=edit", quiet=False)
    editor(note, path, "There was room.").press("Control+End")
    with full_disk(daemon):
        it.page.get_by_label("New entry").fill("Typed while the disk was full.")
        it.click("Add to today")
        it.sees("It is kept in this browser")
        expect(it.page.locator(".unsent .problem")).to_be_visible()
        assert it.faults() == []
        note.page.keyboard.type("This has no room.")
        note.sees("Not saved")
        assert "no room" not in place.read_text()
    daemon.until(lambda: "This has no room." in place.read_text())
    entry(it, "Typed while the disk was full.")
    assert journal(daemon).count("Typed while the disk was full.") == 1
