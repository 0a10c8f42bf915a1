"""What is said to the page: files that go with a message, how a conversation runs, a recording."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.cli.command_line import CommandLine
from tests.web.opened import Opens

DROP = """(box) => {
  const held = new DataTransfer();
  held.items.add(new File(['two beds'], 'dropped.txt', { type: 'text/plain' }));
  box.dispatchEvent(new DragEvent('drop', { dataTransfer: held, bubbles: true, cancelable: true }));
  const pasted = new DataTransfer();
  pasted.items.add(new File(['three'], 'pasted.txt', { type: 'text/plain' }));
  box.dispatchEvent(
    new ClipboardEvent('paste', { clipboardData: pasted, bubbles: true, cancelable: true }));
}"""


def test_files_go_with_a_message_and_how_a_conversation_runs_is_changed(
    opens: Opens, daemon: CommandLine
):
    it = opens("#/chat/new", width=390, quiet=False)  # the curator may be renaming its file
    box = it.page.get_by_label("Message", exact=True)
    box.fill("What grows in the garden?")
    box.evaluate(DROP)
    it.sees("pasted.txt")
    it.click("Leave out pasted.txt")
    it.click("Send")
    it.page.wait_for_url(re.compile("#/chat/[0-9a-f-]{36}$"))
    it.sees("No model can be asked now")
    (kept,) = (daemon.vault / "Chat/artifacts").glob("*dropped*")
    assert kept.read_text() == "two beds"

    sheet = "How this conversation runs"
    it.click(sheet)
    mode = it.page.get_by_role("combobox", name="Mode", exact=True)
    folder = it.page.get_by_label(re.compile("^Projects/garden"))
    for act in (lambda: mode.select_option("sandboxed"), folder.click):
        with it.page.expect_response(lambda answer: answer.request.method == "PATCH"):
            act()
    it.page.reload()
    it.click(sheet)
    expect(mode).to_have_value("sandboxed")
    expect(folder).to_be_checked()
    it.page.get_by_label("write", exact=True).click()
    it.sees("Never more than its mode allows.")
    it.page.locator(".sheet summary", has_text="What goes into the prompt").click()
    it.sees("what it may reach")
    expect(it.page.get_by_role("row").filter(has_text="Garden").first).to_be_visible()
    it.sees("after exchange 1")
    assert it.faults() == []
    it.click(sheet)

    before = it.page.url
    it.page.get_by_role("button", name="Go on from here in another chat").first.click()
    expect(it.page).not_to_have_url(before)
    said = it.page.locator(".message")
    expect(said).to_have_count(1)
    expect(said).to_contain_text("What grows in the garden?")


def test_a_conversation_is_limited_and_brains_answers_are_shown(opens: Opens, daemon: CommandLine):
    it = opens("#/chat/new", width=390, quiet=False)
    it.page.get_by_label("Message", exact=True).fill("Who is Kim?")
    it.click("Send")
    it.page.wait_for_url(re.compile("#/chat/[0-9a-f-]{36}$"))
    it.sees("No model can be asked now")
    session = it.page.url.rpartition("/")[2]
    sheet = "How this conversation runs"
    it.click(sheet)
    for only, label, lines in (
        ("Only in these folders", "Folders, one a line", "Projects/garden"),
        ("Only these tools and MCP servers", "Tools and servers, one a line", "brain-search"),
    ):
        with it.page.expect_response(lambda answer: answer.request.method == "PATCH"):
            it.page.get_by_label(only).click()
        it.page.get_by_label(label).fill(f"{lines}\nother")
        save = it.page.locator(".only").filter(has_text=label).get_by_role("button")
        with it.page.expect_response(lambda answer: answer.request.method == "PATCH"):
            save.click()
        expect(save).to_be_disabled()
    asked = "id => fetch(`/api/chat/${id}`).then(one => one.json())"
    permissions = it.page.evaluate(asked, session)["metadata"]["permissions"]
    assert permissions["allowed_folders"] == ["Projects/garden", "other"]
    assert permissions["allowed_mcps"] == ["brain-search", "other"]

    log = {
        "query": "gardeners of Acme",
        "type": "enrich",
        "turn_number": 1,
        "loaded": ["Brain/kim.md"],
    }
    fact = {"id": "f1", "name": "Kim", "text": "Gardener", "path": "Brain/kim.md"}
    reported = {"log": [log], "stored": [{**fact, "run": "r-1", "status": "kept"}]}
    it.page.route("**/bridge", lambda route: route.fulfill(json=reported))
    undone: list[str] = []
    it.page.route(
        "**/api/runs/r-1/undo",
        lambda route: (undone.append(route.request.method), route.fulfill(json={})),
    )
    it.page.reload()
    it.click(sheet)
    it.sees("after exchange 1")  # the sheet is drawn again when the curator has ended
    it.page.locator(".sheet summary", has_text="asked once").click()
    it.sees("gardeners of Acme")
    assert it.faults_of_sizes() == []
    with it.page.expect_response("**/api/runs/r-1/undo"):
        it.click("Take back: Gardener")
    assert undone == ["POST"]


def test_a_recording_is_paused_and_sent_after_a_lost_connection(opens: Opens, daemon: CommandLine):
    it = opens("#/journal", width=390, quiet=False)
    it.click("Record")
    it.page.get_by_label("Level of the microphone").wait_for()
    it.sees("0:01")
    it.click("Pause")
    it.click("Go on")
    assert it.faults() == []
    uploads = re.compile("/api/daily/uploads/[^/]+[?]offset")
    it.page.route(uploads, lambda route: route.abort(), times=1)
    it.click("Stop and add")
    it.sees("Added to the journal.")
    (kept,) = (daemon.vault / "Daily/assets").glob("*/*audio*")
    assert kept.stat().st_size > 0
    it.page.locator(".entry .tag", has_text="Recording").first.wait_for()
