"""Open loops: opened by one entry, carried on by others, closed by the one that closes them."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.daily.journal_of import write
from tests.module_files import daily_file

loops_in = daily_file("reflection").loops_in
layouts = daily_file("layouts")


def loops(*bodies: str) -> list[tuple[str, str, list[str], str | None]]:
    """Each body is an entry of a day of its own."""
    found = [
        dated
        for number, body in enumerate(bodies, 1)
        for dated in layouts.read(
            f"Daily/journals/2026-02-{number:02}.md", f"# E{number}\n\n{body}\n"
        )
    ]
    return [
        (
            loop.text,
            loop.opened_by.day[-2:],
            [one.day[-2:] for one in loop.carried],
            loop.closed_by.day[-2:] if loop.closed_by else None,
        )
        for loop in loops_in(found)
    ]


def test_a_task_is_open_until_an_entry_closes_it():
    assert loops("- [ ] Call Kim.", "- [ ] call Kim", "words", "- [x] Call Kim") == [
        ("Call Kim.", "01", ["02"], "04")
    ]
    assert loops("* [ ] Call Kim\n* [X] Call Lee\n1. [x] done at once") == [
        ("Call Kim", "01", [], None)
    ]


def test_what_is_done_again_is_a_new_loop():
    assert loops("- [ ] water", "- [x] water", "- [ ] water") == [("water", "03", [], None)]


def test_a_question_is_closed_by_its_answer_or_a_mark():
    assert loops(
        "When do the beans go out?\nReally?\nWhy not now?",
        "When do the beans go out? In May.",
        "- [x] Why not now?",
    ) == [
        ("When do the beans go out?", "01", [], "02"),
        ("Why not now?", "01", [], "03"),
    ]


def test_code_opens_nothing():
    assert loops("```\n- [ ] no\nwhat is it?\n```\n- [ ] yes") == [("yes", "01", [], None)]


async def test_open_loops_come_with_the_entry_that_opened_them(journal):
    now = datetime.now().astimezone()
    old = await write(journal, "- [ ] too old", (now - timedelta(days=200)).isoformat())
    first = await write(journal, "- [ ] sow\n- [ ] rake", (now - timedelta(days=2)).isoformat())
    last = await write(journal, "- [x] rake\n- [ ] sow", now.isoformat())
    private = {"content": "- [ ] secret", "metadata": {"private": True}}
    await journal.request("POST", "/entries", body=private)

    open_ones = await journal.request("GET", "/loops")
    assert {loop["text"]: loop["opened_by"]["id"] for loop in open_ones["loops"]} == {
        "sow": first,
        "secret": open_ones["loops"][-1]["opened_by"]["id"],
    }
    assert [one["id"] for one in open_ones["loops"][0]["carried"]] == [last]
    closed = await journal.request("GET", "/loops", query={"closed": "true", "days": "300"})
    assert {loop["text"] for loop in closed["loops"]} == {"too old", "sow", "rake", "secret"}
    assert closed["loops"][0]["opened_by"]["id"] == old
    assert [loop["text"] for loop in await journal.tool("daily-loops")] == ["sow"]
