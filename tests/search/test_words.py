from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parachuted.search.query import (
    cut,
    facet,
    folded,
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
def test_folding_moves_nothing(text):
    assert len(folded(text)) == len(text)
