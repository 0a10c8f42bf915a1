"""Mentions: which names a text holds, where, and how sure that is."""

from __future__ import annotations

import itertools
import time
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.module_files import brain_file

mentions = brain_file("mentions")


def index(*entities: tuple[str, list[str], str], **options):
    made = mentions.MentionIndex()
    for key, names, kind in entities:
        made.put(key, names, kind, **options)
    return made


PEOPLE = index(
    ("kim", ["Kim Lee", "Kim"], "person"),
    ("lvb", ["Learn Vibe Build", "LVB"], "project"),
    ("pe", ["prompt engineering"], "topic"),
    ("don", ["Don"], "person"),
    ("rene", ["René Müller"], "person"),
    ("cpp", ["C++"], "topic"),
    ("net", [".NET"], "topic"),
    ("node", ["Node.js"], "topic"),
    ("beijing", ["北京"], "topic"),
)


def found(text: str, names=PEOPLE) -> list[tuple[str, str]]:
    scanned = names.scan(text)
    assert all(text[one.start : one.end] == one.text for one in scanned)
    return [(one.id, one.text) for one in scanned]


def confidence(text: str, names=PEOPLE) -> float:
    (one,) = names.scan(text)
    return one.confidence


def test_names_of_several_words_and_aliases_are_found_with_their_places():
    text = "Met with Kim about the LVB curriculum, and prompt engineering."

    assert found(text) == [("kim", "Kim"), ("lvb", "LVB"), ("pe", "prompt engineering")]


def test_a_longer_name_hides_those_within_it():
    assert found("Kim Lee and Kim") == [("kim", "Kim Lee"), ("kim", "Kim")]


@pytest.mark.parametrize(
    "text",
    [
        "`Kim`",
        "``a ` Kim``",
        "```\nKim\n```",
        "> ~~~ py\n> Kim\n> ~~~",
        "```\nnever closed\n\nKim",
        "[[Kim]]",
        "[[people/lee|Kim]]",
        "![[Kim.png]]",
        "[Kim](lee.md)",
        "[said Kim\nyesterday](lee.md)",
        "[Kim][1]",
        "[Kim `x`](lee.md)",
        "[1]: Kim.md",
        "<!-- Kim -->",
        "%% Kim %%",
        "<a title='Kim'>",
        "<pre>Kim</pre>",
        "---\nname: Kim\n---\n",
        "\ufeff---\nname: Kim\n---\n",
        "https://x.org/Kim",
        "www.Kim.org",
        "Kim@x.org",
        "mail@Kim.org",
        "Kim.md",
        "notes/people/Kim",
        "~/Kim",
        r"C:\Kim",
        "#Kim",
        "$Kim",
        "Kimono",
        "xKim",
        "Kim2",
        "Kim_x",
        "don't",
        "DON\u2019T",
        "C",
        "C+",
        "NET",
    ],
)
def test_a_name_in_code_links_addresses_or_other_words_is_no_mention(text: str):
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Kim's idea", "Kim"),
        ("Kim\u2019s idea", "Kim"),
        ("**Kim** said", "Kim"),
        ("_Kim_ said", "Kim"),
        ("(Kim)", "Kim"),
        ("@kim", "kim"),
        ("Kim.", "Kim"),
        ("Kim/Lou", "Kim"),
        ("- a\n\n    Kim in an item", "Kim"),
        ("Kim\nLee", "Kim\nLee"),
        ("> Kim\n> Lee", "Kim\n> Lee"),
        ("**Kim** Lee", "Kim** Lee"),
        ("Kim-Lee", "Kim-Lee"),
        ("C++17 is not C++.", "C++"),
        ("on .NET now", ".NET"),
        ("Node.js", "Node.js"),
        ("node js", "node js"),
        ("Ren\u00e9 M\u00fcller", "Ren\u00e9 M\u00fcller"),
        ("Rene\u0301 Mu\u0308ller", "Rene\u0301 Mu\u0308ller"),
        ("rene muller", "rene muller"),
        ("我在北京。", "北京"),
        ("`not closed, Kim", "Kim"),
    ],
)
def test_punctuation_case_and_composed_accents_make_no_difference(text: str, wanted: str):
    assert [one for _key, one in found(text)] == [wanted]


def test_words_on_both_sides_of_a_sentence_end_or_code_are_no_name():
    for text in ("Kim. Lee", "Kim\n\nLee", "Kim `x` Lee", "Kim, Lee"):
        assert [one for _key, one in found(text)] == ["Kim"]


def test_singular_and_plural_are_the_same_name_and_a_little_less_sure():
    names = index(("a", ["raised beds"], "topic"), ("b", ["Battery"], "topic"))

    assert found("One raised bed, two batteries.", names) == [
        ("a", "raised bed"),
        ("b", "batteries"),
    ]
    assert confidence("a raised bed", names) < confidence("the raised beds", names)


def test_several_words_in_capitals_are_linked_and_one_ordinary_word_is_not():
    assert confidence("Then Kim Lee came.") > mentions.LINKED_FROM
    assert confidence("Then we came to May.", index(("may", ["May"], "person"))) < 0.5


@pytest.mark.parametrize(
    ("surer", "less_sure"),
    [
        ("and Kim came", "and kim came"),
        ("and Kim came", "Done. Kim came"),
        ("of LVB here", "of lvb here"),
        ("and met Kim", "and so Kim"),
        ("and Kim came", "and Kim-approved"),
    ],
)
def test_capitals_neighbours_and_place_make_it_surer(surer: str, less_sure: str):
    assert confidence(surer) > confidence(less_sure)


@pytest.mark.parametrize(
    "text", ["Met with Kevin about it.", "We sat near Kevin.", "Kevin came.", "Then to Sumava."]
)
def test_an_exact_alias_of_one_entity_alone_is_linked(text: str):
    names = index(
        ("kevin", ["Kevin Smith", "Kevin"], "person"),
        ("org", ["Hut of Sumava", "Sumava"], "organization"),
    )

    assert confidence(text, names) > mentions.LINKED_FROM


@pytest.mark.parametrize(
    "text", ["kevin came", "The Kevins came", "Kevin-proof", "Like Will.", "Sumava, then."]
)
def test_a_word_that_may_be_another_is_not_linked_for_an_alias(text: str):
    names = index(
        ("kevin", ["Kevin Smith", "Kevin"], "person"),
        ("will", ["Will Byrne", "Will"], "person"),
        ("org", ["Hut of Sumava", "Sumava"], "organization"),
    )

    assert confidence(text, names) <= mentions.LINKED_FROM


def test_an_alias_that_two_share_is_linked_to_neither():
    names = index(
        ("a", ["Kevin Smith", "Kevin"], "person"), ("b", ["Kevin Jones", "Kevin"], "person")
    )

    assert all(one.confidence < 0.5 for one in names.scan("Met with Kevin about it."))


def test_words_near_a_name_make_it_surer_and_decide_between_namesakes():
    names = mentions.MentionIndex()
    names.put("a", ["Kim Lee", "Kim"], "person", context=["tomato garden"])
    names.put("b", ["Kim Day", "Kim"], "person", context=["sailing boat"])

    first, second = names.scan("So Kim watered the tomatoes in the garden.")

    assert (first.id, second.id) == ("a", "b")
    assert first.confidence > 0.6
    assert second.confidence < 0.3
    assert all(one.confidence <= 0.5 for one in names.scan("So Kim went home."))


def test_a_first_name_is_surer_where_the_full_name_stands_in_the_same_text():
    alone = confidence("So Kim went home.")

    *_full, again = PEOPLE.scan("Kim Lee was here. So Kim went home.")

    assert again.confidence > alone


def test_small_letters_are_no_mention_where_only_capitals_count():
    names = index(("kim", ["Kim"], "person"), is_capitalised_only=True)

    assert found("kim and Kim", names) == [("kim", "Kim")]


def test_a_refused_mention_is_not_asked_again_an_accepted_one_is_surer():
    names = index(("kim", ["Kim"], "person"), ("lou", ["Lou"], "person"))
    before = confidence("and Lou", names)

    names.record("kim", "kim", accepted=False)
    names.record("lou", "LOU", accepted=True)
    names.record("lou", "Lou", accepted=False)

    assert found("and Kim", names) == []
    assert confidence("and Lou", names) > before

    names.record("kim", "Kim", accepted=True)

    assert found("and Kim", names) == [("kim", "Kim")]


def test_a_name_without_a_word_and_an_unknown_key_are_passed_over():
    names = index(("star", ["★", "", "  "], "topic"))
    names.remove("unknown")

    assert found("★ and all", names) == []
    assert len(names) == 1


@pytest.mark.parametrize(
    "text",
    [
        "`" * 200_000,
        "".join("`" * number + " " for number in range(1, 600)),
        "[" * 200_000,
        "![a](" * 40_000,
        "<!--" * 50_000,
        "<pre>" * 40_000,
        "%% " * 60_000,
        "~~~\n" * 1_001,
        "- " * 100_000,
        "kim" * 60_000,
        "/" * 200_000 + "Kim",
        "Kim/" * 3_000,
        "](" * 100_000,
        "[a](b" * 50_000,
        "[[a" * 60_000,
        "[a]: " * 50_000,
        "<a " * 60_000,
        "```\n~~~\n" * 10_001,
        "\n    - a\n\n\t" * 20_000,
        "--- \n" * 50_000,
    ],
    ids=lambda text: text[:6],
)
def test_no_text_takes_long(text: str):
    start = time.process_time()

    PEOPLE.scan(text)

    assert time.process_time() - start < 8


PARTS = st.sampled_from(
    [
        *["Kim", "Lee", "kim", "Kim Lee", "LVB", "C++", "北京", "Ren\u00e9", "Rene\u0301 Müller"],
        *[" ", "  ", "\n", "\n\n", "    ", "\t", "- ", "> ", ". ", "'s", "-", "_", "**"],
        *[
            "`",
            "```",
            "~~~",
            "[[",
            "]]",
            "](",
            ")",
            "<!--",
            "-->",
            "---\n",
            "%%",
            "<pre>",
            "ß",
            "İ",
        ],
    ]
)
TEXTS = st.lists(PARTS, max_size=30).map("".join) | st.text(max_size=80)


@given(TEXTS)
@example("Ren\u00e9 M\u00fcller\r\n\r\n    Kim\r\n\x0bKim")
def test_places_give_the_text_back_and_only_namesakes_overlap(text: str):
    scanned = PEOPLE.scan(text)

    spans = sorted({(one.start, one.end) for one in scanned})
    assert all(text[one.start : one.end] == one.text for one in scanned)
    assert all(end <= start for (_s, end), (start, _e) in itertools.pairwise(spans))
    assert all(0 <= one.confidence <= 1 for one in scanned)


@given(TEXTS)
def test_composed_and_decomposed_texts_hold_the_same(text: str):
    composed, decomposed = (
        [one.id for one in PEOPLE.scan(unicodedata.normalize(form, text))]
        for form in ("NFC", "NFD")
    )

    assert composed == decomposed


@given(st.text(alphabet=st.characters(categories=["L", "Nd"]), min_size=1, max_size=12))
def test_any_word_is_found_by_itself(word: str):
    assert found(word, index(("x", [word], "topic"))) == [("x", word)]


KEYS = st.sampled_from("abcd")
NAMES = st.lists(
    st.sampled_from(["Kim", "kims", "Kim Lee", "Kim Lee Day", "C++", "Ren\u00e9", "Rene\u0301"])
)


@given(st.lists(st.tuples(KEYS, st.none() | NAMES)))
def test_after_any_updates_it_is_as_if_built_again_from_what_is_left(steps):
    one, left = mentions.MentionIndex(), {}
    for key, names in steps:
        left.pop(key, None)
        if names is None:
            one.remove(key)
        else:
            left[key] = names
            one.put(key, names, "person")
    again = index(*((key, left[key], "person") for key in sorted(left)))

    text = "Kim Lee Day, Kim Lee, kims and C++ with René."
    assert one.scan(text) == again.scan(text)
    assert len(one) == len(again)
