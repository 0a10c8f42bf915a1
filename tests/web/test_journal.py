"""What the Journal does besides writing: names that are linked, recordings, reflections."""

from __future__ import annotations

from datetime import UTC, datetime

from playwright.sync_api import expect

from tests.cli.command_line import CommandLine
from tests.web.conftest import saved
from tests.web.opened import Opens


def test_a_name_is_linked_while_an_entry_is_written(opens: Opens, daemon: CommandLine):
    name = "Ada Nordmann"
    place = saved(daemon, "Brain/entities/people/ada.md", f"---\naliases: [Ada]\n---\n# {name}\n")
    daemon.until(lambda: daemon.json("search", name)["results"])
    it = opens("#/journal", width=390)
    box = it.page.get_by_label("New entry")
    box.fill(f"\U0001f331 Met {name} at the pond.")
    it.click(f"Link {name}")
    expect(box).to_have_value(f"\U0001f331 Met [[{name}]] at the pond.")
    expect(it.page.get_by_role("group", name="Names that may be linked")).to_have_count(0)
    box.press_sequentially(f" {name} sang.")
    it.page.get_by_role("group", name="Names that may be linked").wait_for()
    assert it.faults_of_sizes() == []
    it.page.keyboard.press("Control+Enter")
    it.sees("Added to the journal.")
    link = it.page.locator(".entry").get_by_role("link", name=name).first
    expect(link).to_be_visible()
    today = daemon.vault / f"Daily/journals/{datetime.now(UTC):%Y-%m-%d}.md"
    assert f"Met [[{name}]] at" in today.read_text()
    place.unlink()


def test_a_recording_of_a_page_that_was_closed_is_kept_and_sent_later(
    opens: Opens, daemon: CommandLine
):
    it = opens("#/journal", width=390)
    it.click("Record")
    it.page.get_by_label("Level of the microphone").wait_for()
    it.sees("0:02")
    address, context = it.page.url, it.page.context
    it.page.close()  # in the middle of it
    it.page = context.new_page()
    it.page.goto(address)
    it.sees("It is kept in this browser.")
    assert it.faults_of_sizes() == []
    before = {*(daemon.vault / "Daily/assets").glob("*/*audio*")}
    it.click("Send it")
    it.sees("Added to the journal.")
    (kept,) = {*(daemon.vault / "Daily/assets").glob("*/*audio*")} - before
    assert kept.stat().st_size > 0
    it.misses("It is kept in this browser.")
    it.page.reload()
    it.page.get_by_role("button", name="Record").wait_for()
    it.misses("It is kept in this browser.")


def test_a_reflection_is_written_now_and_its_schedule_changed(opens: Opens, daemon: CommandLine):
    file = saved(
        daemon,
        "Daily/.agents/thanks.md",
        "---\nschedule: {enabled: true, time: '06:15'}  # early\n"
        "tools: [read_journal]\n---\nList what went well.\n",
    )
    it = opens("#/journal", width=390)
    part = it.page.get_by_role("region", name="Reflections")
    summary = part.locator("summary", has_text="Thanks")
    expect(summary).to_contain_text("every day at 06:15")
    summary.click()
    opened = part.locator("details[open]")
    opened.get_by_role("button", name="Write it for yesterday").click()
    it.dismisses("Nothing was to be done")
    opened.get_by_label("Time").fill("21:30")
    opened.get_by_label("Day").select_option("sunday")
    assert it.faults_of_sizes() == []
    opened.get_by_role("button", name="Save the schedule").click()
    expect(summary).to_contain_text("Sundays at 21:30")
    assert file.read_text() == (
        '---\nschedule: {enabled: true, time: "21:30", day: sunday}\n'
        "tools: [read_journal]\n---\nList what went well.\n"
    )
    file.unlink()
