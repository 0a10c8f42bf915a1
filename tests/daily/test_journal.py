"""Journal files: what the existing app writes is read, and an edit changes only its own lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.module_files import daily_file

journal = daily_file("journal")

DAY = """---
date: 2026-02-24
entries:
  daily:abc123def456:
    type: voice
    audio: assets/2026-02-24/103005_audio.wav
    duration: 42
    status: complete
    created: 10:30 # local
---
Words before.

# para:daily:abc123def456 10:30

Met [[Brain/kim|Kim]].

---

# Typed by hand

```python
# no heading
```

# para:planning the week

"""

LINES = st.sampled_from(
    [
        "---\n",
        "---",
        "# para:daily:abc123def456 x\n",
        "# Title\n",
        "```\n",
        "~~~ x\n",
        "text\n",
        "entries:\n",
        "  daily:abc123def456:\n",
        "    type: voice\n",
        "    status: pending\n",
        "\n",
        "\r\n",
        "# para:planning the week\n",
        "date: 2026-01-01\n",
        "# para:abc123 T\r\n",
        "  abc123: assets/x.wav\n",
        "assets:\n",
        "\x0b\x85",
        "\ufeff",
    ]
)
TEXTS = st.lists(LINES, max_size=14).map("".join)
NEW = journal.Entry(
    key="zzzzzz999999", module="daily", title="T", body="new", kind="text", created="10:00"
)


def others(text: str, *, but: str = "") -> list[tuple[str, str]]:
    return [(e.key, e.body) for e in journal.parse(text).entries if e.key != but]


def test_a_day_of_the_app_is_read_with_fields_and_typed_entries():
    day = journal.parse(DAY)
    voice, command_line, planned = day.entries

    assert day.preamble == "Words before."
    assert (voice.para_id, voice.title, voice.kind) == ("para:daily:abc123def456", "10:30", "voice")
    assert (voice.audio, voice.duration) == ("assets/2026-02-24/103005_audio.wav", 42)
    assert (voice.created, voice.body) == ("10:30", "Met [[Brain/kim|Kim]].")
    assert voice.link == "Brain/kim"
    assert (command_line.key, command_line.para_id, command_line.title) == (
        "plain_1",
        None,
        "Typed by hand",
    )
    assert "# no heading" in command_line.body
    assert (planned.key, planned.title) == ("plain_2", "para:planning the week")


def test_old_files_map_an_id_to_its_audio():
    day = journal.parse("---\nassets:\n  ABC123: assets/x.wav\n---\n# para:abc123 Noon\n\nHi\n")

    assert [(e.key, e.audio, e.kind) for e in day.entries] == [("abc123", "assets/x.wav", "voice")]


def test_an_entry_is_found_by_every_spelling_of_its_id():
    day = journal.parse(DAY)

    assert {
        day.find(name).key
        for name in ("abc123def456", "daily:ABC123def456", "para:daily:abc123def456")
    } == {"abc123def456"}
    with pytest.raises(journal.JournalError, match="no entry xyz"):
        day.find("xyz")


def test_a_forgotten_fence_swallows_no_later_entry():
    text = journal.append(DAY.replace("```\n\n#", "\n#"), NEW)

    assert journal.parse(text).entries[-1] == replace(
        NEW, lines=journal.parse(text).entries[-1].lines
    )


def test_a_new_entry_adds_lines_and_changes_none():
    text = journal.append(DAY, NEW)

    kept = iter(text.splitlines())
    assert all(line in kept for line in DAY.splitlines())
    assert text.index("zzzzzz999999") < text.index("abc123def456"), "the newest fields come first"


def test_what_would_begin_an_entry_for_the_app_gets_a_space():
    text = journal.append(journal.new_journal("2026-02-24"), replace(NEW, body="a\n# b\n```\n# c"))

    assert [line for line in text.splitlines() if line.startswith("# ")] == [
        "# para:daily:zzzzzz999999 T"
    ]


@pytest.mark.parametrize("value", ["a\nb", "x --- y", "", "a: b", 'say "x"', "a # b"])
def test_a_value_that_the_app_would_misread_is_refused(value: str):
    with pytest.raises(journal.JournalError, match="audio cannot hold"):
        journal.set_field(DAY, "abc123def456", "audio", value)


def test_a_field_is_changed_in_its_line_or_added_below():
    failed = journal.set_field(DAY, "abc123def456", "status", "failed")
    image = journal.set_field(DAY, "abc123def456", "image", "assets/x.png")

    assert failed == DAY.replace("status: complete", "status: failed")
    assert image == DAY.replace("# local\n", "# local\n    image: assets/x.png\n")


def test_a_title_is_changed_alone():
    assert journal.replace_title(DAY, "abc123def456", "A walk") == DAY.replace(
        "456 10:30", "456 A walk"
    )
    assert journal.replace_title(DAY, "plain_1", "By hand") == DAY.replace(
        "Typed by hand", "By hand"
    )


def test_a_heading_after_a_byte_order_mark_is_an_entry_and_keeps_the_mark():
    text = "\ufeff# Walk\n\nFar.\n"

    assert [entry.title for entry in journal.parse(text).entries] == ["Walk"]
    assert journal.replace_title(text, "plain_1", "Run") == "\ufeff# Run\n\nFar.\n"
    assert others(journal.append(text, NEW)) == [("plain_1", "Far."), ("zzzzzz999999", "new")]


@given(TEXTS)
def test_any_text_is_a_day_and_is_the_same_when_joined(text: str):
    assert "".join(journal.parse(text).lines) == text


@given(TEXTS)
def test_an_edit_of_one_entry_leaves_the_others(text: str):
    day = journal.parse(text)
    keys = [entry.key for entry in day.entries]
    for key in {key for key in keys if keys.count(key) == 1}:
        changed = journal.replace_body(text, key, "one\n\ntwo")
        assert journal.parse(changed).find(key).body.replace("\r", "") == "one\n\ntwo"
        assert others(changed, but=key) == others(text, but=key)
        bodies = [body for _, body in others(text, but=key)]
        assert [body for _, body in others(journal.remove(text, key))] == bodies


@given(TEXTS)
def test_an_entry_at_the_end_leaves_the_others(text: str):
    try:
        longer = journal.append(text, NEW)
    except journal.JournalError:
        return
    assert others(longer) == [*others(text), ("zzzzzz999999", "new")]
    assert journal.parse(longer).entries[-1].created == "10:00", "its fields were found"
    assert others(journal.remove(longer, NEW.key)) == others(text)
