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
    for source, origin in (
        ("a.md", "you"),
        ("the prompt", "bot"),
        ("b.md", "web"),
        ("the prompt", "web"),
    ):
        taint.read(source, origin)

    assert taint.origin == "bot"
    assert taint.sources == {"the prompt": "bot", "b.md": "web"}
    assert taint.why() == "this run has read text of strangers: the prompt (bot), b.md (web)"
    assert taint.why(lambda path: path != "b.md") == (
        "this run has read text of strangers: the prompt (bot), 1 that it may not open"
    )


def test_what_is_told_of_it_is_short_and_safe_to_show():
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
