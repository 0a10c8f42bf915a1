"""What a person does on the page, in a real browser, with the daemon and the command beside it."""

from __future__ import annotations

import json
import re
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.cli.command_line import CommandLine
from tests.web.conftest import saved
from tests.web.opened import Opens

KEY = re.compile(r"para_[A-Za-z0-9]{32}")


def today(daemon: CommandLine) -> Path:
    return daemon.vault / f"Daily/journals/{datetime.now(UTC):%Y-%m-%d}.md"


def test_the_command_opens_the_page_signed_in_once(opens: Opens, daemon: CommandLine):
    address = daemon.does("open", "--print").strip()
    it = opens(address)
    expect(it.page.get_by_label("New entry")).to_be_visible()

    assert it.page.url == f"{it.url}/"
    key = it.page.evaluate("localStorage.getItem('parachute.key')")
    assert KEY.fullmatch(key)
    names = [kept["name"] for kept in daemon.json("keys", "list")["keys"]]
    assert len([name for name in names if name.startswith("browser ")]) == 1
    logs = [path for at in ("logs", "state") for path in (daemon.home / at).rglob("*.log*")]
    logs += daemon.vault.rglob("*.jsonl")
    code = address.partition("#code=")[2]
    assert not [path for path in logs if code in path.read_text() or key in path.read_text()]


def test_a_link_with_a_key_asks_before_it_replaces_who_the_page_is(
    opens: Opens, daemon: CommandLine
):
    first, second = (KEY.findall(daemon.does("keys", "create", name))[0] for name in ("a", "b"))
    it = opens("#/vault", quiet=False)  # it asks on after its key is revoked below
    expect(it.page.locator("main h1:visible").first).to_be_visible()

    def offered(key: str, answer: str) -> None:
        it.go(f"#key={key}")
        it.sees("Use another key?")
        expect(it.page).to_have_url(f"{it.url}/")
        assert it.faults() == []
        it.click(answer)
        it.misses("Use another key?")

    held = "localStorage.getItem('parachute.key')"
    offered(first, "Stay as I am")
    assert it.page.evaluate(held) is None
    offered(first, "Use the other key")
    assert it.page.evaluate(held) == first
    offered(second, "Stay as I am")
    it.page.goto("about:blank")  # as a foreign page, whose link loads this one
    it.page.goto(f"{it.url}/#key={second}")
    it.sees("Now it is signed in as a.")
    assert it.page.evaluate(held) == first
    it.click("Stay as I am")
    offered("para_" + "x" * 32, "Use the other key")
    it.sees("This key is not valid any more.")
    assert it.page.evaluate(held) == first
    it.page.goto("about:blank")
    it.page.goto(f"{it.url}/#key={first}")
    it.page.wait_for_function("location.hash === ''")
    it.misses("Use another key?")
    offered(second, "Use the other key")
    assert it.page.evaluate(held) == second
    for name in ("a", "b"):
        daemon.does("keys", "revoke", name)


def test_the_page_asks_for_a_key_and_closes_when_it_is_revoked(opens: Opens, daemon: CommandLine):
    key = KEY.findall(daemon.does("keys", "create", "phone"))[0]
    auth(daemon, "always")
    try:
        it = opens(quiet=False)
        it.sees("This daemon asks for a key.")
        it.page.get_by_label("Key").fill("para_" + "x" * 32)
        it.click("Sign in")
        it.sees("This key is not valid")
        phone = opens(f"{it.url}/#key={key}", width=390, quiet=False)
        expect(phone.page.get_by_label("New entry")).to_be_visible()
        assert phone.page.url == f"{it.url}/"
        daemon.does("keys", "revoke", "phone")
        phone.sees("This daemon asks for a key.")
    finally:
        auth(daemon, "remote")


def auth(daemon: CommandLine, mode: str) -> None:
    record = json.loads((daemon.home / "run/daemon.json").read_bytes())
    request = urllib.request.Request(
        f"http://127.0.0.1:{record['port']}/api/auth/settings",
        data=json.dumps({"auth_mode": mode}).encode(),
        headers={"Authorization": f"Bearer {record['token']}", "Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  our own daemon
        assert answer.status == 200


def test_an_entry_is_written_edited_deleted_and_brought_back(opens: Opens, daemon: CommandLine):
    it, words = opens("#/journal", width=390), "Sowed the beans"
    it.page.get_by_label("New entry").fill(f"{words} with [[Kim]].")
    it.page.keyboard.press("Control+Enter")
    it.sees(words)
    assert words in today(daemon).read_text()

    it.page.get_by_role("button", name=re.compile("^Edit")).first.click()
    it.page.get_by_label("Text of an entry").fill(f"{words}, and the **peas**.")
    it.click("Save")
    it.sees(f"{words}, and the")
    assert f"{words}, and the **peas**." in today(daemon).read_text()

    it.page.get_by_role("button", name=re.compile("^Delete")).first.click()
    it.misses(words)
    assert words not in today(daemon).read_text()
    it.click("Undo")
    it.sees(words)
    assert words in today(daemon).read_text()


def test_what_an_editor_writes_appears_also_after_the_daemon_was_restarted(
    opens: Opens, daemon: CommandLine
):
    it = opens("#/journal", quiet=False)
    expect(it.page.get_by_label("New entry")).to_be_visible()
    saved(daemon, "Daily/journals/2026-02-24.md", "# Morning\n\nTyped in an editor.\n")
    it.sees("Typed in an editor.")

    record = json.loads((daemon.home / "run/daemon.json").read_bytes())
    daemon.does("stop")
    it.sees("The daemon does not answer.")
    saved(daemon, "Daily/journals/2026-02-24.md", "# Morning\n\nTyped while it was away.\n")
    daemon.does("start", "--port", str(record["port"]))
    it.misses("The daemon does not answer.")
    it.sees("Typed while it was away.")


def test_a_note_is_found_edited_merged_with_others_and_restored(opens: Opens, daemon: CommandLine):
    place = saved(daemon, "Garden/Pond.md", "# Pond\n\nDig it.\n\n## Fish\n\nNone yet.\n")
    daemon.until(lambda: daemon.json("search", "Pond")["results"])
    it = opens()
    it.quick_open("pond", "Garden/Pond.md")
    it.sees("Dig it.")
    it.click("Edit", "link")
    text = it.page.get_by_role("textbox", name="Text of Garden/Pond.md")
    expect(text).to_contain_text("Dig it.")
    it.page.keyboard.press("Control+End")
    it.page.keyboard.type("Two carp.")
    daemon.until(lambda: "Two carp." in place.read_text())

    saved(daemon, "Garden/Pond.md", place.read_text().replace("Dig it.", "Dig it deep."))
    expect(text).to_contain_text("Dig it deep.")
    it.page.keyboard.type(" And a frog.")
    daemon.until(lambda: place.read_text().endswith("Two carp. And a frog."))
    assert "Dig it deep." in place.read_text()

    it.click("History", "link")
    it.page.get_by_role("slider").wait_for()
    it.page.get_by_role("slider").focus()
    it.page.keyboard.press("Home")
    it.click("Restore this version")
    daemon.until(lambda: "carp" not in place.read_text())
    it.click("Who wrote it", "link")
    it.sees("Dig it.")


@pytest.mark.parametrize("width", [390, 1440])
def test_a_note_is_previewed_outlined_and_moved_with_its_links(
    opens: Opens, daemon: CommandLine, width: int
):
    name = f"Hedge {width}"
    text = f"# {name}\n\nGreen.\n\n## Birds\n\n{'A wren.' * 20}\n\n## *Late* birds\n\nAn owl.\n"
    place = saved(daemon, f"Garden/{name}.md", text)
    linking = saved(daemon, f"Garden/Paths {width}.md", f"# Paths\n\nAlong the [[{name}|hedge]].\n")
    daemon.until(lambda: len(daemon.json("search", name)["results"]) == 2)
    it = opens(
        f"#/vault/Garden/{name}.md", width=width, quiet=False
    )  # it asks once more for what moved
    outline = it.page.get_by_role("navigation", name="Outline")
    outline.get_by_role("button", name="Late birds").click()
    expect(it.page.get_by_role("heading", name="Late birds")).to_be_in_viewport()

    it.click("Edit", "link")
    preview = it.page.get_by_role("region", name="Preview")
    toggle = preview.get_by_role("button", name="Preview")
    expect(toggle).to_have_attribute("aria-expanded", "true" if width > 1000 else "false")
    if width < 1000:
        toggle.click()
    expect(preview.get_by_role("heading", name="Late birds")).to_be_visible()
    it.page.get_by_role("textbox", name=f"Text of Garden/{name}.md").press("Control+End")
    it.page.keyboard.type("**Two** <script>owls</script>")
    expect(preview.locator("strong", has_text="Two")).to_be_visible()
    daemon.until(lambda: "**Two**" in place.read_text())
    assert it.faults() == []

    it.click("Move or rename")
    it.page.get_by_label("New path").fill(f"Plants/Yew {width}")
    it.click("Move it")
    it.sees(f"Moved to Plants/Yew {width}.md; links to it were updated.")
    assert f"[[Yew {width}|hedge]]" in linking.read_text()
    assert not place.exists()
    it.go(f"#/vault/Garden/Paths {width}.md")
    it.sees("Along the")
    it.go(f"#/vault/Plants/Yew {width}.md")  # by now the index has the line that changed
    it.sees("Linked from")
    linking.unlink()
    (daemon.vault / f"Plants/Yew {width}.md").unlink()


def test_a_link_in_a_note_leads_to_the_other_note(opens: Opens, daemon: CommandLine):
    saved(daemon, "Garden/Newt.md", "# Newt\n\nIt hides below the stones.\n")
    saved(daemon, "Garden/Animals.md", "# Animals\n\n- [[Newt]]\n- [a newt](Newt.md)\n")
    it = opens()
    for name in ("Newt", "a newt"):
        daemon.until(lambda: daemon.json("search", "Animals")["results"])
        it.quick_open("Animals", "Garden/Animals.md")
        it.page.locator(".markdown").get_by_role("link", name=name, exact=True).click()
        it.sees("It hides below the stones.")


def test_what_is_typed_outlives_a_conflict_and_leaving_the_page(opens: Opens, daemon: CommandLine):
    place = saved(daemon, "Garden/Shed.md", "# Shed\n\nIt is red.\n")
    daemon.until(lambda: daemon.json("search", "Shed")["results"])
    it = opens(quiet=False)
    it.quick_open("Shed", "Garden/Shed.md")
    it.sees("It is red.")
    it.click("Edit", "link")
    text = it.page.get_by_role("textbox", name="Text of Garden/Shed.md")
    expect(text).to_contain_text("It is red.")
    saves = "**/api/notes/Garden/Shed.md"
    it.page.route(
        saves, lambda route: route.abort() if route.request.method == "PUT" else route.continue_()
    )
    it.page.keyboard.press("Control+End")
    it.page.keyboard.press("ArrowUp")
    it.page.keyboard.press("End")
    it.page.keyboard.type(" And large.")
    place.write_text("# Shed\n\nIt is blue.\n")
    daemon.until(lambda: "blue" in daemon.does("read", "Garden/Shed.md"))
    it.page.unroute(saves)
    keep = it.page.get_by_role("button", name="Keep mine")
    keep.wait_for()
    text.press_sequentially("!")
    expect(keep).to_be_visible()
    it.click("Runs", "link")
    it.page.go_back()
    it.page.get_by_role("button", name="Keep mine").click()
    daemon.until(lambda: "And large.!" in place.read_text())
    assert "It is red." in place.read_text()


def test_what_is_typed_into_a_large_note_is_kept_when_it_is_left_at_once(
    opens: Opens, daemon: CommandLine
):
    line = "A line of one long paragraph, *that* goes on.\n"
    place = saved(daemon, "Garden/Large.md", "# Large\n\n" + line * 3_000)
    daemon.until(lambda: "goes on" in daemon.does("read", "Garden/Large.md"))
    it = opens("#/vault/Garden/Large.md?view=edit", quiet=False)
    text = it.page.get_by_role("textbox", name="Text of Garden/Large.md")
    expect(text).to_contain_text("goes on")
    expect(text.locator(".md-em", has_text="that").first).to_be_visible()
    saves = "**/api/notes/Garden/Large.md"
    it.page.route(
        saves, lambda route: route.abort() if route.request.method == "PUT" else route.continue_()
    )
    text.press("Control+End")
    it.page.keyboard.type("The end.")
    it.click("Runs", "link")
    kept = "localStorage.getItem('parachute.note.Garden/Large.md') ?? ''"
    assert "The end." in it.page.evaluate(kept)
    it.page.unroute(saves)
    it.page.go_back()
    daemon.until(lambda: place.read_text().endswith("goes on.\nThe end."))
    assert place.read_text().count(line) == 3_000


def test_a_run_is_explained_and_taken_back(opens: Opens, daemon: CommandLine):
    garden = daemon.vault / "Projects/garden/AGENTS.md"
    top = daemon.vault / "AGENTS.md"
    garden.write_text(garden.read_text() + "\n- Prune the quince\n")
    daemon.until(lambda: "Prune the quince" in top.read_text())
    it = opens("#/runs")
    it.page.get_by_role("link", name=re.compile("AGENTS.md.*changed")).first.click()
    it.page.locator(".diff .added").first.wait_for()
    expect(it.page.get_by_role("link", name="Projects/garden/AGENTS.md")).to_be_visible()
    it.click("Undo…")
    it.sees("What was written since stays.")
    it.click("Take it back")
    it.sees("Taken back in one file.")
    assert "Prune the quince" not in top.read_text()


def reported(*events: dict[str, object]) -> str:
    """A stream of events, as the daemon sends it."""
    return "".join(f"id: 1-{at}\ndata: {json.dumps(one)}\n\n" for at, one in enumerate(events))


@pytest.mark.parametrize(
    ("screen", "call", "body"),
    [("runs", "/api/runs?*", '{"runs": []}'), ("chat", "/api/chat?*", '{"sessions": []}')],
)
def test_the_words_of_an_empty_list_stand_below_its_heading(
    opens: Opens, screen: str, call: str, body: str
):
    one = opens()
    one.page.route(f"**{call}", lambda route: route.fulfill(body=body))
    one.go(f"#/{screen}")
    words = one.page.locator(".list .empty")
    expect(words).to_be_visible()
    heading = one.page.locator(".list h1").bounding_box()
    assert heading is not None
    left = """
        one => one.getBoundingClientRect().left + parseFloat(getComputedStyle(one).paddingLeft)
    """
    assert words.evaluate(left) >= heading["x"] - 1


def test_a_chat_is_started_answered_and_renamed(opens: Opens, daemon: CommandLine):
    it = opens("#/chat/new")
    it.page.get_by_label("Message", exact=True).fill("What grows in the garden?")
    it.page.keyboard.press("Enter")
    it.sees("No model can be asked now")
    it.page.wait_for_url(re.compile("#/chat/[0-9a-f-]{36}$"))
    it.click("Rename")
    it.page.get_by_label("Title").fill("Beds and beans")
    it.click("Save")
    expect(it.page.get_by_role("heading", name="Beds and beans")).to_be_visible()
    it.page.reload()
    expect(it.page.get_by_role("link", name=re.compile("Beds and beans"))).to_be_visible()
    (kept,) = (daemon.vault / "Chat/sessions").glob("*Beds and beans.md")
    assert "What grows in the garden?" in kept.read_text()


def test_what_an_agent_uses_and_asks_is_shown_and_answered_in_place(opens: Opens):
    it, answers = opens("#/journal", quiet=False), []
    session = "0b7c1e6e-1111-4222-8333-444455556666"
    option = {"label": "Allow once", "description": "this one"}
    it.page.route(
        "**/api/chat",
        lambda route: (
            route.fulfill(
                content_type="text/event-stream",
                body=reported(
                    {"type": "session", "sessionId": session},
                    {"type": "user_message", "content": "Write it down."},
                    {"type": "text", "content": "I look."},
                    {
                        "type": "tool_use",
                        "tool": {
                            "id": "t1",
                            "name": "mcp__vault__read_note",
                            "input": {"path": "Garden.md"},
                        },
                    },
                    {
                        "type": "tool_result",
                        "toolUseId": "t1",
                        "content": "# Garden",
                        "isError": False,
                    },
                    {"type": "text", "content": "Found **it**."},
                    {
                        "type": "user_question",
                        "requestId": "q1",
                        "kind": "permission",
                        "questions": [
                            {
                                "question": "Write Garden.md?",
                                "header": "",
                                "options": [option],
                                "multiSelect": False,
                            }
                        ],
                    },
                ),
            )
            if route.request.method == "POST"
            else route.continue_()
        ),
    )
    it.page.route(f"**/api/chat/{session}/stream*", lambda _route: None)
    it.page.route(
        f"**/api/chat/{session}/answer",
        lambda route: (answers.append(route.request.post_data_json), route.fulfill(json={})),
    )
    it.go("#/chat/new")
    box = it.page.get_by_label("Message", exact=True)
    box.fill("Write it down.")
    refusal = {"error": "Conflict", "message": "A turn goes on here."}
    it.page.route("**/api/chat", lambda route: route.fulfill(status=409, json=refusal), times=1)
    it.click("Send")
    it.sees("A turn goes on here.")
    expect(box).to_have_value("Write it down.")
    it.page.get_by_role("button", name="Send").click(timeout=5_000)  # nothing lies over it
    it.sees("Found it.")
    it.page.locator(".tool summary").click()
    it.sees("# Garden")
    expect(it.page.get_by_role("button", name="Stop")).to_be_visible()
    assert it.faults() == []
    it.click("Allow once")
    it.misses("Write Garden.md?")
    assert answers == [{"request_id": "q1", "answers": {"Write Garden.md?": "Allow once"}}]


def suggest(daemon: CommandLine, path: str, text: str, why: str) -> None:
    """Suggest a change of a note, as another agent's program over MCP."""
    record = json.loads((daemon.home / "run/daemon.json").read_bytes())
    session = ""

    def ask(method: str, params: dict[str, object] | None, number: int | None) -> str:
        body = {"jsonrpc": "2.0", "method": method, "params": params, "id": number}
        request = urllib.request.Request(
            f"http://127.0.0.1:{record['port']}/mcp",
            data=json.dumps({name: one for name, one in body.items() if one is not None}).encode(),
            headers={
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                **({"Mcp-Session-Id": session} if session else {}),
            },
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  our own daemon
            return answer.headers.get("Mcp-Session-Id") or ""

    client = {"name": "helper", "version": "1"}
    session = ask(
        "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}, 1
    )
    ask("notifications/initialized", None, None)
    given = {"action": "update", "path": path, "payload": {"text": text}, "reasoning": why}
    ask("tools/call", {"name": "suggest", "arguments": given}, 2)


def test_what_an_agent_suggests_appears_and_is_decided(opens: Opens, daemon: CommandLine):
    first = saved(daemon, "Borders/Beds.md", "# Beds\n\nThree.\n")
    second = saved(daemon, "Borders/Paths.md", "# Paths\n\nGravel.\n")
    daemon.until(lambda: len(daemon.json("search", "path:Borders")["results"]) == 2)
    it = opens("#/suggestions")
    it.sees("Nothing waits for you.")
    suggest(daemon, "Borders/Beds.md", "# Beds\n\nFour.\n", "A fourth one fits.")
    it.sees("A fourth one fits.")
    it.page.locator(".diff .added").get_by_text("Four.").wait_for()
    assert it.faults() == []
    it.click("Edit first")
    it.page.get_by_label("The whole new text").fill("# Beds\n\nFour and a half.\n")
    it.click("Approve as edited")
    it.sees("Nothing waits for you.")
    assert first.read_text() == "# Beds\n\nFour and a half.\n"

    suggest(daemon, "Borders/Paths.md", "# Paths\n\nMud.\n", "It is cheaper.")
    it.sees("It is cheaper.")
    it.page.locator("section.card").press("r")
    it.misses("It is cheaper.")
    assert second.read_text() == "# Paths\n\nGravel.\n"


def test_what_waits_for_a_person_is_announced_on_every_screen(opens: Opens, daemon: CommandLine):
    saved(daemon, "Borders/Hedge.md", "# Hedge\n\nLow.\n")
    daemon.until(lambda: daemon.json("search", "path:Borders/Hedge")["results"])
    question = {"session_id": "s", "title": "A question", "message": "Which hedge?"}
    event = {"event": "session.notification", "timestamp": "", "module": "core", "data": question}
    it = opens("#/vault", quiet=False)
    names = "() => performance.getEntriesByType('resource').map((one) => one.name)"
    daemon.until(lambda: any(one.endswith("/lib/waiting.js") for one in it.page.evaluate(names)))
    suggest(daemon, "Borders/Hedge.md", "# Hedge\n\nHigh.\n", "It hides the road.")
    it.sees("A change of Borders/Hedge.md is suggested.")
    assert it.faults() == []
    it.click("Show")
    it.page.wait_for_url("**/#/suggestions")
    it.sees("It hides the road.")
    it.page.locator("section.card").press("r")
    it.misses("It hides the road.")

    it.page.route(
        "**/api/events",
        lambda route: route.fulfill(
            content_type="text/event-stream", body=f"data: {json.dumps(event)}\n\n"
        ),
    )
    it.go("#/vault")
    it.page.reload()
    it.sees("A question: Which hedge?")
    it.click("Show")
    it.page.wait_for_url("**/#/chat")


def test_a_module_that_failed_once_is_shown_as_long_as_it_answers(opens: Opens):
    it = opens()

    def failed(route: Route) -> None:
        answer = route.fetch()
        reported = answer.json()
        for one in reported["modules"]:
            one["status"] = "failed"
        route.fulfill(response=answer, json=reported)

    it.page.route("**/api/health**", failed)
    it.page.reload()
    expect(it.page.get_by_label("New entry")).to_be_visible()


SCREENS = [
    *("#/journal", "#/journal/2026-02-24", "#/vault", "#/vault/Welcome.md", "#/chat", "#/chat/new"),
    *(f"#/vault/Welcome.md?view={view}" for view in ("edit", "past", "authors")),
    *("#/suggestions", "#/runs", "#/brain", "#/brain/graph", "#/brain/twins"),
    *("#/brain/types/project", "#/watches", "#/first", "#/modules", "#/modules/daily/consent"),
    *(
        "#/modules/daily/settings",
        "#/hooks",
        "#/agents/curator",
        "#/keys",
        "#/health",
        "#/settings",
    ),
    *("#/usage", "#/activity"),
]


def test_axe_finds_nothing_on_any_screen_and_nothing_comes_from_elsewhere(
    opens: Opens, daemon: CommandLine
):
    saved(daemon, "Daily/journals/2026-02-24.md", "# Morning\n\nTyped in an editor.\n")
    it = opens()
    for width, height, theme in ((1440, 900, "light"), (390, 800, "dark")):
        it.page.set_viewport_size({"width": width, "height": height})
        it.page.emulate_media(color_scheme=theme)
        for screen in SCREENS:
            it.shows(screen)

            assert (screen, width, it.faults()) == (screen, width, [])
    assert it.strangers() == []
