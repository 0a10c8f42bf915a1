"""Recall: a question finds the passage that answers it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.module_files import brain_file

recall = brain_file("recall")

NOTES = {
    "kim": ("Kim Lee", ["Kimmy"], "Repairs bicycles in a shed.\n\nLives in Lund.\n\nPlays cello."),
    "lou": ("Lou Day", [], "Keeps bees.\n\nSells honey at the market.\n\nLives in Malmö."),
    "acme": ("Acme", ["The Works"], "A company for repairs of boats, founded in 1999."),
}


def note(path: str, title: str, aliases, body: str, digest: str = ""):
    return recall.NoteText(path=path, title=title, aliases=aliases, body=body, digest=digest)


def make_index(notes=NOTES):
    made = recall.RecallIndex(":memory:")
    made.update(note(key, *texts) for key, texts in notes.items())
    return made


@pytest.fixture
def filled() -> Iterator:
    """Makes indexes of notes, and closes them."""
    with ExitStack() as opened:
        yield lambda *notes: opened.enter_context(closing(make_index(*notes)))


@pytest.fixture
def index(filled):
    return filled()


def keys(found) -> list[str]:
    return [one.path for one in found]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who repaired a bicycle?", "kim"),
        ("what is it that the bee keeper is selling", "lou"),
        ("Where does Kimmy live?", "kim"),
        ("who lives in malmo", "lou"),
        ("When was The Works founded?", "acme"),
        ('bicycle" OR NOT (', "kim"),
        ("MATCH AND cello*", "kim"),
    ],
)
def test_a_question_finds_its_answer_in_any_form_of_its_words(index, question: str, answer: str):
    assert keys(index.search(question))[0] == answer


def test_words_that_say_nothing_are_left_out():
    assert recall.question_words("Where did Kim live?") == ["Kim", "live"]


def test_a_question_of_such_words_alone_is_asked_as_it_is(filled):
    index = filled({"who": ("The Who", [], "A band.")})

    assert keys(index.search("the who")) == ["who"]


def test_a_name_written_large_is_a_word_though_it_is_else_none(filled):
    index = filled({"a": ("Will Day", [], "A smith."), "b": ("Lou Day", [], "A baker.")})

    assert keys(index.search("what is the trade of Will Day")) == ["a", "b"]


def test_the_passage_is_the_one_that_holds_most(filled):
    text = "\n\n".join(f"Paragraph {number} of no interest." for number in range(40))
    index = filled({"a": ("A", [], f"{text}\n\nThe boat\n\nis painted\n\nred.\n\n{text}")})

    (found,) = index.search("red painted boat")

    assert "The boat\n\nis painted\n\nred." in found.text
    assert len(found.text.split()) <= 80


def test_a_long_paragraph_is_cut_around_what_matched(filled):
    index = filled({"a": ("A", [], "filling " * 5_000 + "needle " + "filling " * 5_000)})

    (found,) = index.search("needle")

    assert "needle" in found.text
    assert len(found.text) <= 1_200


def test_nothing_that_matches_is_not_a_result_and_a_match_says_so(index):
    assert index.search("submarine") == []
    assert index.search("") == []
    assert all(one.is_match for one in index.search("repairs"))


def test_scores_are_ordered_and_between_0_and_1(index):
    scores = [one.score for one in index.search("Who lives in Lund and repairs boats?")]

    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


def test_scripts_without_spaces_are_found_by_pairs_of_characters(filled):
    index = filled({"a": ("北京烤鸭", [], "很好吃。"), "b": ("南京", [], "一个城市。")})

    assert keys(index.search("北京在哪里")) == ["a"]
    assert index.search("烤鸭")[0].text == "很好吃。"


@pytest.mark.parametrize("name", ["Rene\u0301", "René", "RENE", "rene"])
def test_accents_and_case_do_not_matter(name: str, filled):
    assert keys(filled({"a": ("Rene\u0301 M.", [], "x")}).search(f"who is {name}")) == ["a"]


def test_what_was_put_again_or_removed_is_no_longer_found(index):
    index.update([note("kim", "Kim Lee", [], "Teaches chess.", "2")], ["lou", "unknown"])

    assert keys(index.search("bicycles")) == []
    assert keys(index.search("who lives where")) == []
    assert keys(index.search("chess")) == ["kim"]
    assert index.digests() == {"kim": "2", "acme": ""}


def test_an_update_is_all_or_nothing(index):
    def texts() -> Iterator:
        yield note("new", "New", [], "Chess.")
        raise KeyError

    with pytest.raises(KeyError):
        index.update(texts(), ["kim"])

    assert keys(index.search("chess")) == []
    assert keys(index.search("bicycles")) == ["kim"]


def test_text_that_sqlite_cannot_hold_is_taken_all_the_same(filled):
    index = filled({"a": ("A\0\ud800", ["\x02"], "chess \x03\udfff")})

    assert keys(index.search("chess \ud800")) == ["a"]


def test_common_words_decide_among_what_rare_ones_find(filled):
    notes = {
        f"n{number}": (f"Person {number}", [], f"Likes tea. Born {number}.")
        for number in range(2_000)
    }
    index = filled(notes)

    assert keys(index.search("Which person born 1234 likes tea?"))[0] == "n1234"
    assert len(index.search("who likes tea", limit=5)) == 5


def test_the_file_keeps_the_index_and_a_damaged_or_other_one_begins_again(
    tmp_path: Path,
):
    path = tmp_path / "recall.db"
    first = recall.RecallIndex(path)
    first.update([note("kim", "Kim", [], "Chess.", "1")])
    first.close()

    again = recall.RecallIndex(path)
    assert keys(again.search("chess")) == ["kim"]
    again.close()

    database = sqlite3.connect(path)
    database.execute("UPDATE made_with SET name = 'other'")
    database.commit()
    database.close()
    other = recall.RecallIndex(path)
    assert other.digests() == {}
    other.close()

    path.write_bytes(b"no database" * 1_000)
    empty = recall.RecallIndex(path)
    assert empty.digests() == {}
    empty.close()


KEYS = st.sampled_from("abc")
WORDS = st.lists(
    st.sampled_from(["tea", "boat", "boats", "Lund", "chess", "\n\n"]), max_size=8
).map(" ".join)


@given(st.lists(st.tuples(KEYS, st.none() | WORDS), max_size=8), WORDS)
def test_after_any_updates_it_answers_as_if_built_again_from_what_is_left(steps, question: str):
    one, left = make_index({}), {}
    for key, text in steps:
        left.pop(key, None)
        if text is None:
            one.update([], [key])
        else:
            left[key] = (key, [], text)
            one.update([note(key, key, [], text)])
    again = make_index(left)

    found, wanted = one.search(question), again.search(question)

    assert {(each.path, each.score, each.text) for each in found} == {
        (each.path, each.score, each.text) for each in wanted
    }
    one.close()
    again.close()
