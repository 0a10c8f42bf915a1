"""Origin: what a run has read marks it, and is told."""

from __future__ import annotations

import pytest

from parachuted.access.origin import Taint


@pytest.mark.parametrize(
    ("origin", "marks"),
    [("you", False), ("agent", False), ("bot", True), ("imported", True), ("web", True)],
)
def test_only_strangers_texts_mark_a_run(origin, marks):
    taint = Taint()
    taint.read("a.md", origin)

    assert bool(taint) == marks


def test_a_mark_only_grows_and_names_the_first_stranger():
    taint = Taint()
    assert taint.origin == "agent"
    taint.read("a.md", "you")
    taint.read_words("the prompt", "bot")
    taint.read("b.pdf", "web")
    taint.read_words("the prompt", "web")

    assert taint.origin == "bot"
    assert list(taint.sources.values()) == ["bot", "web"]
    assert taint.why() == "this run has read text of strangers: the prompt (bot), b.pdf (web)"
    assert taint.why(lambda path: path != "b.pdf") == (
        "this run has read text of strangers: the prompt (bot), 1 that it may not open"
    )


def test_what_it_reports_is_short_and_safe_to_show():
    taint = Taint()
    for number in range(100):
        taint.read(f"{number}\x1b.md", "web")

    assert taint.why().count("(web)") == 20
    assert "\x1b" not in taint.why()


def test_what_is_to_be_done_at_the_first_strangers_text_is_done_once():
    taint, done = Taint(), []
    taint.at_first(lambda: done.append(bool(taint)))
    for origin in ("you", "web", "bot"):
        taint.read(f"{origin}.md", origin)

    assert done == [True]


def test_words_that_look_like_a_file_are_still_words_where_they_are_taken_up_again():
    taint, resumed = Taint(), Taint()
    taint.read_words("an answer of notes.md", "web")
    taint.read("the prompt", "web")
    for source, origin in taint.sources.items():
        resumed.read(source, origin)

    assert resumed.why(lambda _path: False) == (
        "this run has read text of strangers: an answer of notes.md (web), 1 that it may not open"
    )
