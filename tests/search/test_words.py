from __future__ import annotations

import sqlite3
import unicodedata
from contextlib import closing

from hypothesis import example, given
from hypothesis import strategies as st

from parachuted.search.query import facet
from parachuted.search.words import (
    FoldedText,
    cut,
    folded,
    indexed,
    is_spaceless,
    joined,
    plain,
    storable,
    words_of,
)


def test_accents_and_letter_case_do_not_matter():
    assert plain("  Crème BRÛLÉE ") == "creme brulee"
    assert plain("Cre\u0300me") == "creme"


def test_characters_of_scripts_without_spaces_are_words_of_their_own():
    assert words_of("東京タワー is tall") == ["東", "京", "タ", "ワ", "ー", "is", "tall"]
    assert is_spaceless("東")
    assert not is_spaceless("a")


def test_what_is_cut_is_joined_again():
    assert joined(cut("I live in 東京, 서울 and กรุงเทพ.")) == "I live in 東京, 서울 and กรุงเทพ."


def test_a_kana_with_a_mark_is_another_kana():
    assert plain("が") == "が"


def test_what_sqlite_cannot_hold_is_replaced():
    assert storable("a\0b\udcffc") == "a\ufffdb\ufffdc"


def test_facets_tell_kinds_and_texts_apart():
    assert (
        len(
            {
                facet("tag", "a"),
                facet("folder", "a"),
                facet("tag", "b"),
                facet("key", "a"),
                facet("value", "a"),
            }
        )
        == 5
    )
    assert facet("folder", "\udcff").isascii()


@given(st.text())
def test_what_is_indexed_is_joined_again(text):
    assert joined(indexed(text)) == unicodedata.normalize("NFC", text)


@given(st.text())
@example("Straße ﬁle")
def test_each_place_of_a_folded_text_leads_back_to_its_letter(text):
    text_folded = FoldedText(text)
    at = 0
    for number, char in enumerate(text):
        assert text_folded.place(at) == number
        at += len(folded(char))
    assert text_folded.place(at) == len(text)


def test_the_index_has_each_letter_as_it_is_folded():
    ranges = [(0xC0, 0x180), (0x386, 0x528), (0x620, 0x6D4), (0x1E00, 0x2000), (0x2070, 0x2190)]
    ranges += [(0xFB00, 0xFB07), (0xFF10, 0xFF5B), (0x1D400, 0x1D800)]
    letters = [
        char
        for start, stop in ranges
        for char in map(chr, range(start, stop))
        if char.isalnum() and unicodedata.is_normalized("NFC", char)
    ]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE VIRTUAL TABLE texts USING fts5(x, tokenize='unicode61 remove_diacritics 2')"
        )
        database.execute("CREATE VIRTUAL TABLE words USING fts5vocab(texts, instance)")
        rows = ((number, cut(f"x{char}")) for number, char in enumerate(letters))
        database.executemany("INSERT INTO texts (rowid, x) VALUES (?, ?)", rows)
        words = dict(database.execute("SELECT doc, term FROM words").fetchall())

    found = {char: words.get(number, "")[1:] for number, char in enumerate(letters)}
    assert {char: word for char, word in found.items() if word != folded(char)} == {}


def test_a_long_word_or_many_add_no_more_than_their_share():
    letters = "aBcD" * 250_000
    many = " ".join(f"getUser{chr(97 + number % 26)}{number}Name" for number in range(20_000))

    assert len(indexed(letters)) == len(letters)
    assert len(indexed(many)) < len(many) + 200_000
