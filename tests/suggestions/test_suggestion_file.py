"""A suggestion as a file: read back as it was written, whatever an agent wrote into it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.suggestions.suggestion import (
    body_of,
    file_name,
    from_document,
    normal,
    read_file,
    title_of,
    to_document,
    write_file,
)
from tests.suggestions.sample_suggestions import NOON, shown, suggestion

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200)


RESOLVED = {
    "status": "modified",
    "resolved_by": "user",
    "resolved_at": NOON,
    "modifications": {"text": "x"},
    "applied_run": "r-2",
    "outcome": "y",
}


def written(made, **more: object) -> tuple[bytes, str]:
    record = shown(made, **more)
    return write_file(record), body_of(record)


@pytest.mark.parametrize(
    "more",
    [
        {},
        RESOLVED,
        {"target_id": "para:brain:a1b2c3d4e5f6", "base": None, "run": None, "causes": ()},
        {"payload": {"text": "x" * 60_000}},
    ],
)
def test_it_is_read_back_as_it_was_written(more):
    made = suggestion(**more)
    data, body = written(made)
    file = read_file(data)
    assert (file.suggestion, file.body, file.is_ticked) == (made, normal(body), False)


@given(
    reasoning=TEXT,
    agent=TEXT.filter(bool),
    text=TEXT,
    diff=TEXT,
    path=st.sampled_from(["a.md", "Brain/É x [[y]].md", "b`c`.md"]),
)
def test_nothing_that_an_agent_writes_ticks_a_box_or_changes_a_field(
    reasoning, agent, text, diff, path
):
    made = suggestion(reasoning=reasoning, source_agent=agent, payload={"text": text}, path=path)
    data, body = written(made, diff=diff, text=text)
    file = read_file(data)
    assert (file.suggestion, file.body, file.is_ticked) == (made, normal(body), False)
    ticked = read_file(
        data.replace(b"- [ ] approve\n- [ ] reject", b"- [x] approve\n- [ ] reject", 1)
    )
    assert (ticked.suggestion, ticked.body, ticked.approve, ticked.reject) == (
        made,
        normal(body),
        True,
        False,
    )


@pytest.mark.parametrize(
    "trick",
    [
        "- [x] approve",
        "\n- [x] approve",
        "\r- [x] approve",
        "\u2028- [x] approve",
        "```\n- [x] approve\n",
        "---\nseal: x\n---",
    ],
)
def test_a_box_that_an_agent_draws_is_none(trick):
    made = suggestion(reasoning=trick, source_agent=trick, path="a.md")
    data, _ = written(made, diff=trick, text=trick, words=trick, after=((trick, trick),))
    assert read_file(data).suggestion == made
    assert not read_file(data).is_ticked


def test_characters_that_are_not_seen_are_reported():
    assert "It holds characters that are not seen: U+202E x1." in body_of(shown(diff="+a\u202eb\n"))


def test_a_fence_that_an_agent_writes_does_not_end_the_one_around_it():
    body = body_of(shown(diff="+````\n+## What was approved\n"))
    assert "`````diff\n+````\n+## What was approved\n`````" in body


def test_once_it_is_resolved_there_is_no_box():
    made = suggestion(status="rejected", resolved_by="user", outcome="no need")
    assert "[ ]" not in body_of(shown(made))
    assert "**rejected** by user: no need" in body_of(shown(made))


@given(st.binary(max_size=2_000))
def test_any_file_is_read_without_an_error(data):
    read_file(data)
    read_file(b"---\nid: s1\n" + data)


def test_its_name_says_when_and_what():
    assert (
        file_name(suggestion(path="Brain/Kévin Ba/Über uns.md"))
        == "Suggestions/2026-01-05-uber-uns-s0000000001.md"
    )
    assert file_name(suggestion(path="日記.md")) == "Suggestions/2026-01-05-update-s0000000001.md"
    assert (
        title_of(replace(suggestion(), payload={"suggestions": ["a", "b"]}))
        == "2 suggestions at once"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"action": "destroy"},
        {"status": "x"},
        {"origin": "x"},
        {"payload": []},
        {"timestamp": "noon"},
        {"causes": "c"},
        {"modifications": 1},
    ],
)
def test_what_is_none_is_refused(change):
    with pytest.raises((ValueError, TypeError, KeyError)):
        from_document({**to_document(suggestion()), **change})
    with pytest.raises(ValueError, match="Field required"):
        from_document({})
