"""The page while the daemon is away: what was seen is read, what is written is sent once."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from playwright.sync_api import Route, expect

from tests.cli.command_line import CommandLine
from tests.web.conftest import saved
from tests.web.opened import Opened, Opens
from tests.web.test_page import KEY, auth

KEPT = """() => new Promise((done) => {
  const asked = indexedDB.open('parachute', 1);
  asked.onsuccess = () => {
    const all = asked.result.transaction('seen').objectStore('seen').getAll();
    all.onsuccess = () => { asked.result.close(); done(JSON.stringify(all.result)); };
  };
})"""


def journal(daemon: CommandLine) -> str:
    place = daemon.vault / f"Daily/journals/{datetime.now(UTC):%Y-%m-%d}.md"
    return place.read_text() if place.exists() else ""


def conversations(daemon: CommandLine) -> str:
    return "".join(path.read_text() for path in (daemon.vault / "Chat/sessions").glob("*.md"))


def keeps(it: Opened, *texts: str) -> None:
    """Wait until this browser keeps all of that."""
    it.daemon.until(lambda: all(text in it.page.evaluate(KEPT) for text in texts))


def entry(it: Opened, text: str) -> None:
    """Wait until that is among the entries."""
    found = it.page.locator("article.entry").get_by_text(text).first
    expect(found).to_be_visible()


def said(it: Opened, text: str) -> None:
    """Wait until that is in the conversation."""
    found = it.page.locator(".messages").get_by_text(text).first
    expect(found).to_be_visible()


def port_of(daemon: CommandLine) -> str:
    return str(json.loads((daemon.home / "run/daemon.json").read_bytes())["port"])


def test_away_the_page_shows_what_was_seen_and_sends_later_once(opens: Opens, daemon: CommandLine):
    saved(daemon, "Garden/Gate.md", "# Gate\n\nIt squeaks.\n")
    it = opens("#/journal", width=390, theme="dark", quiet=False, offline=True)
    it.page.get_by_label("New entry").fill("Oiled the gate.")
    it.page.keyboard.press("Control+Enter")
    entry(it, "Oiled the gate.")
    it.go("#/chat/new")
    it.page.get_by_label("Message", exact=True).fill("What squeaks?")
    it.page.keyboard.press("Enter")
    it.page.wait_for_url(re.compile("#/chat/[0-9a-f-]{36}$"))
    it.sees("No model can be asked now")
    chat = it.page.url.partition("#")[2]
    it.go("#/vault/Garden/Gate.md")
    it.page.locator(".note .markdown").get_by_text("It squeaks").wait_for()
    keeps(it, "Oiled the gate", "It squeaks", "?as=raw", "No model can be asked now")
    it.page.evaluate("async () => { await navigator.serviceWorker.ready; }")

    port = port_of(daemon)
    daemon.does("stop")
    try:
        it.page.reload()
        expect(it.page.locator(".markdown")).to_contain_text("It squeaks")
        it.sees("The daemon does not answer.")
        it.go(f"#{chat}")
        said(it, "What squeaks?")
        it.page.get_by_label("Message", exact=True).fill("And who oils it?")
        it.page.keyboard.press("Enter")
        it.sees("waits to be sent")
        it.go("#/journal")
        entry(it, "Oiled the gate.")
        it.page.get_by_label("New entry").fill("The daemon was away.")
        it.page.keyboard.press("Control+Enter")
        it.sees("waits to be sent")
        assert it.faults_of_sizes() == []
        it.page.reload()
        it.sees("The daemon was away.")
    finally:
        daemon.does("start", "--port", port)
    entry(it, "The daemon was away.")
    it.misses("waits to be sent")
    daemon.until(lambda: "And who oils it?" in conversations(daemon))
    it.go(f"#{chat}")
    said(it, "And who oils it?")
    it.misses("waits to be sent")
    assert journal(daemon).count("The daemon was away.") == 1
    assert conversations(daemon).count("\n\nAnd who oils it?\n") == 1


def test_what_was_taken_while_its_answer_was_lost_is_there_once(opens: Opens, daemon: CommandLine):
    it, sent = opens("#/journal", quiet=False, hurried=True), []

    def loses(route: Route) -> None:
        if route.request.method != "POST":
            route.fallback()
            return
        sent.append(route.request.post_data_json)
        route.fetch()  # the daemon has it
        route.abort()

    it.page.route("**/api/daily/entries", loses, times=2)
    it.page.get_by_label("New entry").fill("The answer was lost.")
    it.click("Add to today")
    it.sees("It is kept in this browser")
    it.misses("waits to be sent")
    assert len({one["id"] for one in sent}) == 1
    assert journal(daemon).count("The answer was lost.") == 1

    it.page.route("**/api/chat", loses, times=1)
    it.go("#/chat/new")
    it.page.get_by_label("Message", exact=True).fill("Was this one lost?")
    it.page.keyboard.press("Enter")
    it.page.wait_for_url(re.compile("#/chat/[0-9a-f-]{36}$"))
    it.sees("No model can be asked now")
    it.misses("waits to be sent")
    assert conversations(daemon).count("\n\nWas this one lost?\n") == 1


def test_what_the_daemon_refuses_stays_where_it_was_typed(opens: Opens):
    it = opens("#/journal", quiet=False)
    refusal = {"status": 422, "json": {"error": "Refused", "message": "This day is closed."}}
    it.page.route("**/api/daily/entries", lambda route: route.fulfill(**refusal), times=1)
    it.page.get_by_label("New entry").fill("Not today.")
    it.click("Add to today")
    it.sees("This day is closed.")
    expect(it.page.get_by_label("New entry")).to_have_value("Not today.")
    it.misses("waits to be sent")


def test_a_revoked_key_empties_what_the_browser_kept_of_the_vault(
    opens: Opens, daemon: CommandLine
):
    saved(daemon, "Daily/journals/2026-02-23.md", "# Evening\n\nA secret of the owner.\n")
    key = KEY.findall(daemon.does("keys", "create", "borrowed"))[0]
    auth(daemon, "always")
    try:
        it = opens(f"#key={key}", width=390, quiet=False, offline=True)
        it.go("#/journal/2026-02-23")
        it.sees("A secret of the owner.")
        keeps(it, "A secret of the owner.")
        it.page.evaluate("async () => { await navigator.serviceWorker.ready; }")
        it.page.get_by_label("New entry").fill("Begun, and not sent.")
        daemon.does("keys", "revoke", "borrowed")
        it.sees("This daemon asks for a key.")
        daemon.until(lambda: it.page.evaluate(KEPT) == "[]")
        assert key not in it.page.evaluate("JSON.stringify(localStorage)")
        it.sees("A text that was written here and not sent yet")
        it.click("Delete what was not sent")
        assert "Begun" not in it.page.evaluate("JSON.stringify(localStorage)")
        port = port_of(daemon)
        daemon.does("stop")
        it.page.reload()
        it.sees("The daemon does not answer")
        it.misses("A secret of the owner.")
        daemon.does("start", "--port", port)
    finally:
        auth(daemon, "remote")


def test_signing_out_in_one_tab_signs_out_all_and_leaves_nothing_to_read(
    opens: Opens, daemon: CommandLine
):
    saved(daemon, "Daily/journals/2026-02-22.md", "# Noon\n\nFor my eyes alone.\n")
    key = KEY.findall(daemon.does("keys", "create", "two-tabs"))[0]
    auth(daemon, "always")
    try:
        it = opens(f"#key={key}", quiet=False)
        it.go("#/journal/2026-02-22")
        it.sees("For my eyes alone.")
        other = it.page.context.new_page()
        other.goto(f"{it.url}/#/journal")
        expect(other.get_by_label("New entry")).to_be_visible()
        it.click("Sign out of this browser")
        it.sees("This daemon asks for a key.")
        expect(other.get_by_text("This daemon asks for a key.")).to_be_visible()
        daemon.until(lambda: it.page.evaluate(KEPT) == "[]")
    finally:
        auth(daemon, "remote")
        daemon.does("keys", "revoke", "two-tabs")
