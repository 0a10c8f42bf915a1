from __future__ import annotations

import time

from parachuted.search.engine import SnippetMarker
from parachuted.search.query import parse_query


def marker(text: str) -> SnippetMarker:
    return SnippetMarker(parse_query(text).terms)


def test_what_was_sought_is_marked_as_it_is_written():
    assert marker("creme").snippet("A Crème, please.") == "A <mark>Crème</mark>, please."


def test_nothing_of_the_note_is_markup():
    snippet = marker("alert").snippet('<script>alert(1)</script> & <mark onclick="x">')

    assert (
        snippet == "&lt;script&gt;<mark>alert</mark>(1)&lt;/script&gt; &amp; &lt;mark "
        "onclick=&quot;x&quot;&gt;"
    )


def test_phrases_beginnings_and_characters_are_marked():
    assert marker('"winter garden"').marked("a Winter\ngarden") == "a <mark>Winter\ngarden</mark>"
    assert marker("gard*").marked("gardens, regard") == "<mark>gardens</mark>, regard"
    assert marker("東京").marked("私は東京に住む") == "私は<mark>東京</mark>に住む"
    assert marker("cat").marked("cat_food concat") == "<mark>cat</mark>_food concat"


def test_the_piece_with_most_of_the_words_is_shown():
    text = f"bean {'filler ' * 100} bean and corn grow {'filler ' * 100}"
    snippet = marker("bean corn").snippet(text)

    assert "<mark>bean</mark> and <mark>corn</mark> grow" in snippet
    assert snippet.startswith("… ")
    assert snippet.endswith(" …")
    assert len(snippet) < 400


def test_a_note_without_the_words_shows_its_beginning():
    assert marker("tag:x").snippet("Once upon a time") == "Once upon a time"


def test_a_large_note_takes_no_long_time():
    began = time.process_time()
    marker('"a a a a" b cc*').snippet("a " * 1_000_000)

    assert time.process_time() - began < 8
