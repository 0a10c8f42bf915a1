"""Graph: typed, directed, dated edges, walked in both directions, as the files say now."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.module_files import brain_file

entity, entity_index, graph = map(brain_file, ["entity", "entity_index", "graph"])
TYPES = {"people": "person", "organizations": "organization", "projects": "project"}
KIM, ACME = "Brain/people/kim.md", "Brain/organizations/acme.md"
GARDEN, LOU = "Brain/projects/garden.md", "Brain/people/lou.md"
SMALL = {
    KIM: "- [[acme]] - Founder (2020 to 2022)",
    ACME: "- [[garden]]",
    GARDEN: "",
    LOU: "- [[garden]] - Advisor",
}


def read(path: str, lines: str = "", **frontmatter: object):
    text = f"## Relationships\n{lines}\n"
    return entity.read_entity(path, text, frontmatter, body_at=0, digest="", types=TYPES)


def index_of(files: dict[str, str]):
    made = entity_index.EntityIndex()
    for path, lines in files.items():
        made.put(read(path, lines))
    return made


def walked(files: dict[str, str], start: str, **how: object) -> list[tuple[str, int]]:
    index = index_of(files)
    reached = graph.Graph(index).traverse(index.at(start), **how)
    return [(one.entity.name, one.depth) for one in reached]


def test_it_is_walked_along_the_arrows_against_them_and_both_ways():
    assert walked(SMALL, KIM, depth=2, direction="out") == [("acme", 1), ("garden", 2)]
    assert walked(SMALL, GARDEN, direction="in") == [("acme", 1), ("lou", 1)]
    assert walked(SMALL, KIM, depth=3) == [("acme", 1), ("garden", 2), ("lou", 3)]
    assert walked(SMALL, LOU, direction="in") == []


def test_a_type_limits_what_is_given_and_not_what_is_walked_through():
    assert walked(SMALL, KIM, depth=3, type="person") == [("lou", 3)]
    assert walked(SMALL, KIM, depth=3, type="topic") == []


def test_a_day_limits_the_edges():
    assert walked(SMALL, KIM, on="2022-12-31") == [("acme", 1)]
    assert walked(SMALL, KIM, on="2023-01-01") == []


def test_a_circle_is_walked_once():
    files = {KIM: "- [[lou]] and [[kim]]", LOU: "- [[kim]]"}

    assert walked(files, KIM, depth=6) == [("lou", 1)]


async def test_a_drawing_has_the_most_related_first_and_counts_the_rest():
    nodes, edges, more = await graph.Graph(index_of(SMALL)).drawing(limit=2)

    assert [(one.name, degree) for one, degree in nodes] == [("acme", 2), ("garden", 2)]
    assert [(edge.source, edge.target) for edge in edges] == [(ACME, GARDEN)]
    assert more == 2


async def test_a_drawing_around_a_node_keeps_that_whatever_its_type():
    index = index_of(SMALL)
    nodes, edges, _more = await graph.Graph(index).drawing(around=index.at(KIM), type="project")

    assert [one.name for one, _degree in nodes] == ["kim", "garden"]
    assert edges == []


async def test_a_drawing_of_very_many_lets_the_event_loop_go_on():
    files = {f"Brain/people/n{number}.md": "- [[n0]]" for number in range(1_000)}
    turns = 0
    async with asyncio.TaskGroup() as group:
        drawing = group.create_task(graph.Graph(index_of(files)).drawing(limit=1_000))
        while not drawing.done():
            await asyncio.sleep(0)
            turns += 1

    assert turns >= 10
    assert drawing.result()[2] == 0


SPELLINGS = (
    "kim",
    "Brain/people/kim.md",
    "Brain/people/kim",
    "person-kim",
    "Kim Lee",
    "KIM/LEE",
    "Käm",
)
SPELLINGS += ("para:brain:kimkimkimkim", "KIMKIMKIMKIM", "brain:oldoldoldold", "para:daily:abcabc")


NAMES = {
    "aliases": ["Kim Lee", "KIM/LEE", "Käm"],
    "para_id": "para:brain:kimkimkimkim",
    "former_ids": ["para:brain:oldoldoldold", "para:daily:abcabc"],
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_link_counts_by_every_spelling_whichever_file_comes_first(spelling: str):
    kim, lou = read(KIM, **NAMES), read(LOU, f"- [[{spelling}]]")
    for files in ([kim, lou], [lou, kim]):
        index = entity_index.EntityIndex()
        for file in files:
            index.put(file)

        (link,) = graph.Graph(index).backlinks(index.at(KIM))

        assert link == (lou, graph.Edge(LOU, KIM))


@given(
    st.lists(
        st.tuples(st.sampled_from([KIM, LOU, GARDEN]), st.none() | st.sampled_from(SPELLINGS)),
        max_size=8,
    )
)
def test_after_any_changes_the_edges_are_those_of_the_files_that_are_left(steps):
    index, left = entity_index.EntityIndex(), {}
    for path, target in steps:
        left.pop(path, None)
        index.remove(path)
        if target is not None:
            left[path] = read(path, f"- [[{target}]]", **(NAMES if path == KIM else {}))
            index.put(left[path])
    again = entity_index.EntityIndex()
    for path in sorted(left):
        again.put(left[path])
    one, other = graph.Graph(index), graph.Graph(again)

    assert asyncio.run(one.drawing()) == asyncio.run(other.drawing())
    for file in left.values():
        assert one.traverse(file, depth=3) == other.traverse(file, depth=3)
        assert one.backlinks(file) == other.backlinks(file)
