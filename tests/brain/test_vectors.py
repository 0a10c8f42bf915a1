"""Vectors: passages that mean what is asked for, where the words are others."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.module_files import brain_file

recall, vectors = map(brain_file, ["recall", "vectors"])

needs_model = pytest.mark.skipif(
    vectors.find_model() is None, reason="the [semantic] extra is not installed"
)

NOTES = {
    "kim": ("Kim Lee", "Repairs bicycles in a shed."),
    "lou": ("Lou Day", "Keeps bees behind the house."),
    "mia": ("Mia Fox", "Is a physician at the hospital of the town."),
    "noa": ("Noa Ash", "Plays the violin in an orchestra."),
}


@pytest.fixture(scope="module")
def embedder():
    return vectors.load_embedder()


@pytest.fixture
def index(embedder) -> Iterator:
    made = recall.RecallIndex(":memory:", embedder)
    made.update(note(key, *texts) for key, texts in NOTES.items())
    while made.embed(3):
        pass
    yield made
    made.close()


def note(path: str, title: str, body: str):
    return recall.NoteText(path=path, title=title, body=body)


def keys(found) -> list[str]:
    return [one.path for one in found]


@needs_model
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who fixes bikes?", "kim"),
        ("Who has insects for honey?", "lou"),
        ("Which doctor works in a clinic?", "mia"),
        ("Who performs on the fiddle?", "noa"),
    ],
)
def test_a_question_in_other_words_finds_what_means_the_same(index, question: str, answer: str):
    found = index.search(question)

    assert found[0].path == answer
    assert not found[0].is_match
    assert found[0].text == NOTES[answer][1]


@needs_model
def test_where_words_decide_meaning_is_not_asked(index):
    found = index.search("Who repairs a bicycle in the shed?")

    assert keys(found) == ["kim"]
    assert found[0].is_match


@needs_model
def test_what_has_nothing_to_do_with_the_question_is_not_even_the_nearest(index):
    assert index.search("zzzz qqqq") == []


@needs_model
def test_a_changed_note_has_the_meaning_of_its_new_text(index):
    index.search("Who fixes bikes?")
    index.update([note("kim", "Kim Lee", "Makes loaves in an oven.")], ["noa"])

    assert "kim" not in keys(index.search("Who fixes bikes?"))
    assert index.embed() == 0
    assert "kim" in keys(index.search("Who has bread and cakes?"))
    assert "noa" not in keys(index.search("Who performs on the fiddle?"))


@needs_model
def test_vectors_are_kept_in_the_file_and_are_none_without_the_model(embedder, tmp_path: Path):
    first = recall.RecallIndex(tmp_path / "recall.db", embedder)
    first.update([note("kim", "Kim Lee", "Repairs bicycles in a shed.")])
    assert first.embed() == 0
    first.close()

    again = recall.RecallIndex(tmp_path / "recall.db", embedder)
    assert keys(again.search("Who fixes bikes?")) == ["kim"]
    again.close()

    without = recall.RecallIndex(tmp_path / "recall.db")
    assert not without.has_vectors
    assert without.embed() == 0
    assert without.search("Who fixes bikes?") == []
    without.update([note("lou", "Lou", "Keeps bees.")], ["kim"])
    without.close()

    later = recall.RecallIndex(tmp_path / "recall.db", embedder)
    assert later.embed() == 0
    assert keys(later.search("Who has insects for honey?")) == ["lou"]
    later.close()


@needs_model
def test_none_of_the_code_of_the_model_s_package_is_run(embedder):
    assert "wordllama" not in sys.modules
    assert embedder.embed(["", "kim"]).shape == (2, 256)


def test_without_the_extra_there_is_no_model(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    assert vectors.find_model() is None
    assert vectors.load_embedder() is None


def test_weights_of_another_model_are_refused(tmp_path: Path):
    header = {"embedding.weight": {"dtype": "F32", "shape": [1, 256], "data_offsets": [0, 1024]}}
    data = json.dumps(header).encode()
    (tmp_path / "w").write_bytes(len(data).to_bytes(8, "little") + data + bytes(1024))
    numpy = pytest.importorskip("numpy")

    with pytest.raises(ValueError, match="another model"):
        vectors.read_tensor(numpy, tmp_path / "w", "embedding.weight")


@given(
    st.lists(st.sampled_from(["word ", "word\n", "\n\n", "- ", "# ", " ", "x" * 9]), max_size=400)
)
def test_passages_are_all_of_the_text_in_order_and_none_is_long(parts: list[str]):
    text = "".join(parts)

    found = vectors.passages(text)

    assert "".join(text[start:end] for start, end in found) == text
    assert all(len(text[start:end].split()) <= 160 for start, end in found)
