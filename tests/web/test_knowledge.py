"""What a person knows, and who watches whom, on the page: Brain and the watches."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Route, expect

from tests.cli.command_line import CommandLine
from tests.web.conftest import saved
from tests.web.opened import Opens

PEOPLE = "Brain/entities/people"
HOSTILE = "<img src=x onerror=alert(1)>"


def test_an_entity_is_made_filled_in_and_seen_as_of_a_day(opens: Opens, daemon: CommandLine):
    it = opens("#/brain", width=390)
    it.click("New entity")
    it.page.get_by_label("Name", exact=True).fill(f"Kim Lee {HOSTILE}")
    it.page.get_by_role("combobox", name="Type").nth(1).select_option("person")
    it.page.get_by_label("Name", exact=True).press("Enter")
    it.sees("No facts.")
    assert it.page.get_by_role("heading", name=f"Kim Lee {HOSTILE}").is_visible()
    (place,) = (daemon.vault / PEOPLE).glob("kim-lee*.md")

    it.page.get_by_label("tags").fill("garden, friend")
    it.click("Save")
    it.sees("#garden")
    assert "garden" in place.read_text()
    facts = "\n## Facts\n\n- Baker (until 2024)\n- Smith (since 2025-02)\n- From <b>Oslo</b>\n"
    place.write_text(place.read_text() + facts)
    it.sees("Smith")
    it.sees("until 2024-12-31")
    it.page.get_by_label("As of").fill("2024-05-01")
    it.misses("Smith")
    it.sees("Baker")
    assert it.faults() == []
    place.unlink()


def test_two_spellings_of_one_are_merged_and_are_two_again(opens: Opens, daemon: CommandLine):
    kept = saved(daemon, f"{PEOPLE}/bo-berg.md", "# Bo Berg\n\nGrows beans.\n")
    other = saved(daemon, f"{PEOPLE}/bo-bergs.md", "# Bo Bergs\n\nSings.\n")
    it = opens("#/brain/twins")
    it.click("Merge into Bo Berg")
    it.sees("No two entities are called the same.")
    assert not other.exists()
    assert "Sings." in kept.read_text()
    it.click("Undo")
    it.sees("They are two again.")
    it.sees("bo-bergs.md")
    assert other.exists()
    for place in (kept, other):
        place.unlink()


def test_the_graph_is_drawn_listed_and_limited_to_a_day_and_a_type(
    opens: Opens, daemon: CommandLine
):
    link = "- [[mill]] - Miller (2020 to 2022)"
    saved(daemon, f"{PEOPLE}/{'may'}.md", f"# May {HOSTILE}\n\n## Relationships\n\n{link}\n")
    saved(daemon, "Brain/entities/projects/mill.md", "# Mill\n\nGrinds.\n")
    it = opens("#/brain/graph")
    canvas = it.page.locator("canvas.graph")
    expect(canvas).to_have_attribute("data-settled", "true")
    listed = it.page.get_by_role("table", name="The most linked first")
    listed.get_by_role("button", name="Mill", exact=True).click()
    it.sees("Miller, 2020-01-01 to 2022-12-31")
    label = canvas.get_attribute("aria-label")
    canvas.focus()
    for key in ("ArrowLeft", "+", "-", "0"):
        it.page.keyboard.press(key)
    it.page.get_by_label("As of").fill("2024-01-01")
    expect(canvas).not_to_have_attribute("aria-label", label)
    it.page.get_by_label("Type").select_option("project")
    expect(listed.get_by_role("button", name=re.compile("May"))).to_have_count(0)
    assert it.faults() == []


def test_a_type_gets_a_field_and_the_file_keeps_its_comment(opens: Opens, daemon: CommandLine):
    text = "types:\n  # what we cook\n  recipe:\n    folder: recipes\n    fields: [aliases]\n"
    types = saved(daemon, "Brain/types.yaml", text)
    it = opens("#/brain/types", width=390)
    it.page.get_by_role("link", name=re.compile("recipe")).click()
    it.click("Add a field")
    it.page.get_by_label("Field", exact=True).last.fill("taste")
    it.page.get_by_label("Kind").last.select_option("enum")
    it.page.get_by_label("Values").fill("sweet, sour")
    it.page.keyboard.press("Enter")
    it.sees("The type was saved.")
    assert "taste" in types.read_text()
    assert "sour" in types.read_text()
    assert "# what we cook" in types.read_text()
    types.unlink()


def test_a_save_lights_its_way_and_a_change_is_planned(opens: Opens, daemon: CommandLine):
    place = daemon.vault / "Projects/garden/AGENTS.md"
    it = opens("#/watches")
    node = it.page.locator(".watch-node")
    expect(node.filter(has_text="up to date").first).to_be_visible()
    place.write_text(place.read_text() + "\n- Sow the beans\n")
    it.page.locator(".watch-map path.lit").wait_for(state="attached")
    it.sees("updated AGENTS.md")
    it.page.get_by_role("button", name=re.compile("^garden")).press("Enter")
    it.sees("One run, at most")
    it.sees("would wake, step 1")
    assert it.faults() == []


@pytest.mark.parametrize("width", [390, 1440])
def test_a_watch_is_drawn_from_note_to_note(opens: Opens, daemon: CommandLine, width: int):
    watcher = saved(daemon, f"Weekly/Page {width}.md", f"# Page {width}\n\n## Facts\n")
    daemon.until(lambda: daemon.json("search", f"Page {width}")["results"])
    it = opens("#/watches", width=width)
    it.page.get_by_role("button", name=re.compile("^health")).click()
    it.page.get_by_label("By which note").fill(f"Weekly/Page {width}.md")
    it.page.keyboard.press("Enter")
    it.sees(f"Weekly/Page {width}.md watches Areas/health/AGENTS.md now.")
    assert "Areas/health/AGENTS.md" in watcher.read_text().partition("# Page")[0]
    node = it.page.get_by_role("button", name=re.compile(f"^Page {width}"))
    expect(node).to_be_visible()
    if width > 1_000:
        it.page.get_by_role("button", name=re.compile("^garden")).drag_to(node)
        it.click("Add the watch")
        it.sees(f"Weekly/Page {width}.md watches Projects/garden/AGENTS.md now.")
        assert len(daemon.json("watches")["watches"]) >= 2
    assert it.faults() == []
    watcher.unlink()


def test_of_ten_thousand_entities_only_those_in_view_are_in_the_page(opens: Opens):
    it = opens("#/journal")

    def answer(route: Route) -> None:
        query = dict(re.findall(r"(offset|limit)=(\d+)", route.request.url))
        first = int(query["offset"])
        rows = [
            {"para_id": f"e{at}", "type": "person", "name": f"Person {at:05}", "path": f"{at}.md"}
            | {"aliases": [], "tags": [], "snippet": "Someone."}
            for at in range(first, first + int(query["limit"]))
        ]
        route.fulfill(body=json.dumps({"results": rows, "count": 10_000, "offset": first}))

    it.page.route(re.compile("/api/brain/entities[?]"), answer)
    it.shows("#/brain")
    table = it.page.get_by_role("table", name="Entities")
    expect(table).to_have_attribute("aria-rowcount", "10001")
    for share in (0.3, 0.99, 1):
        it.page.locator(".virtual .body").evaluate(
            "(box, share) => { box.scrollTop = share * box.scrollHeight }", share
        )
        expect(it.page.locator("main *").nth(1_500)).to_have_count(0)
    it.sees("Person 09999")
    it.page.get_by_role("link", name="Person 09998").focus()
    it.page.keyboard.press("ArrowDown")
    expect(it.page.get_by_role("link", name="Person 09999")).to_be_focused()


def test_what_a_key_may_not_see_is_said_and_can_be_tried_again(opens: Opens):
    it = opens("#/journal", quiet=False)
    refusal = {"error": "Forbidden", "message": "this key may not read Brain"}
    it.page.route(
        re.compile("/api/brain/types"),
        lambda route: route.fulfill(status=403, json=refusal),
        times=1,
    )
    it.go("#/brain")
    it.sees("this key may not read Brain")
    it.click("Try again")
    it.sees("New entity")


def usage(name: str) -> dict[str, object]:
    tokens = {"input_tokens": 900, "output_tokens": 99, "cache_read_tokens": 1}
    return {"name": name, "requests": 3, "usd": 1.25, "cache_written_tokens": 0, **tokens}


def test_what_was_spent_is_drawn_and_all_work_is_stopped_and_goes_on(
    opens: Opens, daemon: CommandLine
):
    it = opens("#/journal")
    today = f"{datetime.now(UTC):%Y-%m-%d}"

    def spent(route: Route) -> None:
        reported = route.fetch().json()
        reported["spent"] |= {
            "total": usage(today),
            "days": [usage(today)],
            "agents": [usage(f"helper {HOSTILE}")],
            "causes": [usage("c-20260224-101500-000-0000")],
        }
        route.fulfill(json=reported)

    it.page.route(re.compile("/api/usage"), spent)
    it.shows("#/usage")
    it.sees(f"helper {HOSTILE}")
    it.sees("what began")
    expect(it.page.get_by_role("img", name=re.compile(today))).to_be_visible()
    it.page.get_by_label("Counted").select_option("tokens")
    it.sees("1,000 in all")
    assert it.faults() == []
    it.click("Stop all…")
    it.click("Stop all now")
    it.sees("Nothing runs until you resume.")
    assert daemon.json("status")["agent"]["paused"]
    it.click("Resume")
    it.sees("Runs go on.")


def test_who_called_whom_is_live_searched_and_verified(opens: Opens, daemon: CommandLine):
    it = opens("#/activity", width=390)
    it.sees("not altered:")
    daemon.does("search", "Livestock")
    it.page.get_by_label("Search in what is listed").fill("api/search")
    it.sees("GET /api/search")
    row = it.page.get_by_role("row").filter(has_text="GET /api/search").first
    row.get_by_role("button").press("Enter")
    it.sees("api_call")
    it.page.get_by_label("Outcome").select_option("false")
    it.sees("Nothing of that kind was done.")
    assert it.faults() == []
