"""News: what the digest says of the difference between two texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parachuted.agents.part_changes import find_news
from parachuted.vault import changed_units, meaning

BEFORE = """---
status: lead
tags: [a, b]
updated: 2026-01-01
---
# Acme

Makes anvils.

## Current Focus
- Start the tomatoes indoors.
- [ ] Buy seeds
- [x] Call Bob

## Decisions
"""


def news(before: str, after: str) -> dict[str, list[str]]:
    old, new = before.encode(), after.encode()
    found = find_news(old, new, changed_units(meaning(old), meaning(new)), "Acme")
    return {one.label: list(one.items) for one in found}


def test_a_key_is_reported_with_its_value_and_a_list_with_what_came_and_went():
    after = (
        BEFORE.replace("lead", "customer")
        .replace("[a, b]", "[a, c]")
        .replace("---\n# Acme", "due: 2026-03-01\n---\n# Acme")
    )

    assert news(BEFORE, after) == {
        "status": ["customer (was lead)"],
        "tags": ["added c; removed b"],
        "due": ["2026-03-01"],
    }
    assert news(after, BEFORE)["due"] == ["removed (was 2026-03-01)"]


def test_tasks_are_reported_with_their_boxes():
    after = (
        BEFORE.replace("[ ] Buy seeds", "[x] Buy seeds ✅ 2026-11-21").replace(
            "[x] Call", "[ ] Call"
        )
        + "- [ ] See [[Bob]]\n"
    )

    assert news(BEFORE, after) == {
        "Current Focus": ["closed [x] Buy seeds", "opened [ ] Call Bob"],
        "Decisions": ["opened [ ] See Bob"],
    }


def test_what_was_decided_stands_below_its_heading():
    assert news(BEFORE, BEFORE + "- We build with bricks.\n") == {
        "Decisions": ["We build with bricks."]
    }


def test_a_line_that_changed_is_reported_with_what_it_was():
    assert news(BEFORE, BEFORE.replace("indoors", "outdoors")) == {
        "Current Focus": ["Start the tomatoes outdoors. (was: Start the tomatoes indoors.)"]
    }


def test_what_grows_at_the_end_of_a_long_line_is_reported_alone():
    long = (
        "Once upon a time there lived a smith who made anvils, and rockets too, for whoever "
        "came by and asked for one."
    )

    assert news(f"# Acme\n{long}\n", f"# Acme\n{long} Then he died.\n") == {"": ["… Then he died."]}


def test_a_change_that_shows_in_no_line_is_reported_as_one():
    assert news("# Acme\n## Code\n```\na\n```\n", "# Acme\n## Code\n```\nb\n```\n") == {
        "Code": ["changed"]
    }


def test_a_stamp_that_a_plugin_keeps_is_reported_only_where_nothing_else_changed():
    stamped = BEFORE.replace("2026-01-01", "2026-01-02")

    assert news(BEFORE, stamped) == {"updated": ["2026-01-02 (was 2026-01-01)"]}
    assert news(BEFORE, stamped.replace("lead", "customer")) == {"status": ["customer (was lead)"]}


def test_what_is_cut_is_counted():
    many = "".join(f"- thing {'x' * number}\n" for number in range(40))
    sections = "".join(f"## S{number}\n- {number}\n" for number in range(12))

    assert news(BEFORE, BEFORE + many)["Decisions"][-1] == "and 34 more"
    assert news(BEFORE, BEFORE + sections)[""] == ["and 4 more parts"]


TEXTS = st.text(st.sampled_from("#-*+>`~<!%[]()|\\=: \n\r\tax1.^\u2028\0/")) | st.text()


@given(before=TEXTS, after=TEXTS)
def test_each_item_is_one_line_that_begins_nothing(before, after):
    old, new = (f"# Acme\n## A\n{text}".encode("utf-8", "replace") for text in (before, after))
    for one in find_news(old, new, changed_units(meaning(old), meaning(new)), "Acme"):
        for item in (one.label, *one.items):
            assert "\n" not in item
            assert "<!--" not in item
            assert len(item) < 700


def test_the_id_that_a_program_gave_a_note_is_news_only_where_nothing_else_changed():
    marked = BEFORE.replace("status: lead", "para_id: para:brain:aaaabbbbcccc\nstatus: lead")
    assert news(BEFORE, marked) == {"": ["given an id"]}
    assert news(BEFORE, marked.replace("lead", "customer")) == {"status": ["customer (was lead)"]}
