from __future__ import annotations

import os
import time

import pytest

from parachuted.errors import StorageFailedError
from parachuted.search import IndexUpdate, parse_query
from parachuted.search.engine import SearchEngine
from parachuted.search.index_tables import make_database
from tests.index_entries import changed
from tests.search.search_rig import SearchRig

YEAR_S = 365 * 86_400


def test_a_title_counts_more_than_a_heading_and_that_more_than_the_text(rig: SearchRig):
    rig.save("body.md", "# Other\n\nBeans and beans, beans or beans: a word on them.\n")
    rig.save("heading.md", "# Other\n\n## Beans\n\nA word on this and that, and much else.\n")
    rig.save("title.md", "---\ntitle: All on beans\n---\nA word on this and that, and much else.\n")

    assert rig.find("beans") == ["title.md", "heading.md", "body.md"]


def test_of_equal_notes_the_fresh_one_comes_first(rig: SearchRig):
    for name, age in (("old.md", YEAR_S), ("new.md", 0), ("older.md", 2 * YEAR_S)):
        rig.write(name, "# Note\n\nbeans" + " and more" * (110 if name == "new.md" else 100))
        os.utime(rig.vault / name, (time.time() - age,) * 2)
        rig.search.indexer.follow([(name, IndexUpdate(rig.index.get(name)))])

    assert rig.find("beans") == ["new.md", "old.md", "older.md"]


def test_a_note_of_that_very_title_comes_first(rig: SearchRig):
    rig.save("a.md", "# Beans beans beans\n\nbeans beans\n")
    rig.save("b.md", "# Bean soup\n\nbeans\n")
    rig.save("beans.md", "# BEANS\n\n" + "Much else. " * 50)

    assert rig.find("beans")[0] == "beans.md"


@pytest.mark.parametrize(
    ("notes", "found"),
    [
        (
            {"a": "the winter garden is white", "b": "the garden in winter"},
            {
                "winter garden": "ab",
                '"winter garden"': "a",
                "whi*": "a",
                "winter -white": "b",
                "whi": "",
            },
        ),
        (
            {"a": "TODO:water the beans, at https://example.org/beans"},
            {"todo:water": "a", "https://example.org/beans": "a"},
        ),
        (
            {
                "a": "---\nstatus: in progress\nnext: done\n---\n",
                "b": "---\nstatus: done\n---\nin progress\n",
                "c": "write status: done at the end",
            },
            {
                '"status: in progress"': "a",
                '"status: done"': "bc",
                '"next: done" -"status: done"': "a",
            },
        ),
        (
            {"a": "---\nmood: 🎉\n---\nparty🎉🎉time", "b": "done ✅ and 👍🏽"},
            {"🎉": "a", "party": "a", "mood:🎉": "a", "🎉🎉": "a", "✅": "b", "👍": "b"},
        ),
        (
            {
                "j": "# 日記\n\n私は東京タワーに行きました。",
                "z": "今天我在北京大学学习",
                "k": "서울에서 만나요",
                "t": "กรุงเทพมหานคร",
            },
            {"東京": "j", "京東": "", "北京大学": "z", "서울": "k", "เทพ": "t"},
        ),
        (
            {"a": "Crème brûlée", "b": "Cre\u0300me anglaise"},
            {"creme": "ab", "CRÈME": "ab"},
        ),
    ],
    ids=["words", "colons", "lines of frontmatter", "emoji", "scripts without spaces", "accents"],
)
def test_what_is_asked_finds_these_notes(rig: SearchRig, notes, found):
    for name, text in notes.items():
        rig.save(f"{name}.md", text)

    answers = {query: "".join(sorted(path[0] for path in rig.find(query))) for query in found}
    assert answers == found


def test_tags_paths_and_keys(rig: SearchRig):
    garden, house = "Projects/garden/plan.md", "Projects/house/plan.md"
    matter = "tags: [home/balcony]\nstatus: In Progress\nauthor: Zoë Smith\n"
    rig.save(garden, f"---\n{matter}---\nbeans #wip\n")
    rig.save(house, "---\nstatus: done\n---\nbeans\n")

    for query in (
        "tag:home",
        "tag:#home/balcony",
        "tag:bal*",
        "tag:wip beans",
        "path:projects/gar",
        'status:"in progress"',
        "author:zoe",
        "beans -status:done",
    ):
        assert rig.find(query) == [garden], query
    assert len(rig.find("status:")) == 2
    assert rig.find("title:plan status:done") == [house]


def test_a_search_may_be_kept_to_folders_and_to_parts_of_notes(rig: SearchRig):
    rig.save("a/x.md", "# Beans\n")
    rig.save("b/x.md", "# Other\n\nbeans\n")
    rig.save("ab/x.md", "beans")

    assert rig.find("beans", within=[["a"]]) == ["a/x.md"]
    assert set(rig.find("beans", within=[["a", "b"]])) == {"a/x.md", "b/x.md"}
    assert rig.find("beans", within=[["a"], ["b"]]) == []
    assert rig.find("beans", part="title") == ["a/x.md"]


def test_who_sees_little_gets_as_many_as_who_sees_all(shut: SearchRig):
    for number in range(1_300):
        shut.write(f"hidden/{number}.md", f"# Beans {number}\n")
    for number in range(30):
        shut.write(f"open/{number}.md", f"text {number} with beans\n")
        os.utime(shut.vault / f"open/{number}.md", (1, 1))
    shut.start()

    found = shut.find("beans", limit=25, sees=lambda path: path.startswith("open/"))

    assert len(found) == 25
    assert all(path.startswith("open/") for path in found)


@pytest.mark.parametrize(
    "query", ["vaultcode", "xq7*", '"vaultcode is xq7"', "title:xq7", "xq7 vaultcode -beans"]
)
def test_notes_that_are_not_seen_change_no_score_and_no_order(rig: SearchRig, query):
    def asked() -> list[tuple[str, float]]:
        found = rig.ask(query, limit=20, sees=lambda path: path.startswith("open/"))
        return [(hit.path, round(hit.why.score, 4)) for hit in found.hits]

    rig.save("open/a.md", "# Notes\n\nvaultcode is xq7, xq7 and xq7b\n")
    rig.save("open/b.md", "# vaultcode xq7\n\nor not\n")
    before = asked()
    for number in range(40):
        rig.save(f"hidden/{number}.md", "# vaultcode xq7\n\nthe vaultcode is xq7kz4\n")

    assert asked() == before
    assert {path for path, _score in before} <= {"open/a.md", "open/b.md"}


def test_of_a_common_word_those_with_it_in_their_title_are_ranked(shut: SearchRig):
    shut.write("target.md", "# Beans\n\nbeans\n")
    os.utime(shut.vault / "target.md", (1, 1))
    shut.index.set("target.md", changed(shut.index.get("target.md"), mtime_ns=10**9))
    for number in range(1_300):
        shut.write(f"{number}.md", f"some beans {number}\n")
    shut.start()

    found = shut.ask("beans")

    assert found.is_capped
    assert found.hits[0].path == "target.md"


def test_of_a_word_in_most_notes_titles_come_first_then_the_freshest(
    shut: SearchRig,
):
    for number in range(2_100):
        shut.write(
            f"{number}.md",
            f"# {'Beans in soup' if 500 <= number < 800 else 'Other'} "
            f"{number}\n\n{'beans ' * (number % 5 + 1)}",
        )
        shut.index.set(
            f"{number}.md", changed(shut.index.get(f"{number}.md"), mtime_ns=number * 10**9)
        )
    shut.write("beans.md", "# Beans\n\nbeans\n")
    shut.index.set("beans.md", changed(shut.index.get("beans.md"), mtime_ns=501 * 10**9))
    shut.start()

    found = shut.ask("beans", limit=320)

    assert found.is_capped
    assert found.hits[0].path == "beans.md"
    assert {hit.why.bm25 for hit in found.hits[:301]} == {3}, "they hold it in their titles"
    assert all(hit.why.bm25 == 1 for hit in found.hits[301:])
    assert [hit.path for hit in found.hits[301:305]] == ["2099.md", "2098.md", "2097.md", "2096.md"]


def test_a_rare_word_in_the_freshest_notes_alone_is_no_common_one(shut: SearchRig):
    for number in range(2_100):
        shut.write(f"{number}.md", "some text\n")
    for number in range(3):
        shut.write(f"fresh{number}.md", "beans " * (number + 1))
    shut.start()

    found = shut.ask("beans")

    assert [hit.path for hit in found.hits] == ["fresh2.md", "fresh1.md", "fresh0.md"]
    assert found.hits[0].why.bm25 not in {1, 3}


def test_why_a_note_ranks_there_can_be_asked(rig: SearchRig):
    rig.save("a.md", "---\ntags: [beans]\n---\n# Beans\n\nbeans and beans\n")

    (hit,) = rig.ask("beans", explain=True).hits

    assert hit.why.hits == {"title": 1, "headings": 1, "body": 3, "tags": 1, "frontmatter": 1}
    assert hit.why.same_title == 1.5
    assert hit.why.score == pytest.approx(hit.why.bm25 * hit.why.freshness * hit.why.same_title)


def test_hostile_queries_are_bounded_in_time(shut: SearchRig):
    for number in range(1_500):
        shut.write(f"{number}.md", "alpha beta gamma " * 40)
    shut.start()
    for text in (
        '"' + "alpha beta gamma " * 50 + '"',
        "alpha " * 30,
        "al* be* ga* " * 10,
        "-alpha beta " * 15,
    ):
        began = time.process_time()
        shut.find(text)
        assert time.process_time() - began < 8, text


def test_without_an_index_there_is_no_answer_but_a_named_error(tmp_path):
    database = make_database(tmp_path / "none.db")
    database.rows("DROP TABLE texts")

    with pytest.raises(StorageFailedError):
        SearchEngine(database).find(parse_query("x"), 10, None)
    database.close()
