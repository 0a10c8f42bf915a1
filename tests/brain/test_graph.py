"""Graph: typed, directed, dated edges, walked in both directions, and the same after any update."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.brain.engines import engine

graph = engine("graph")
Edge, Graph, Node = graph.Edge, graph.Graph, graph.Node


def node(key: str, kind: str = "person"):
    return Node(key, kind, key.title(), f"Brain/{key}.md")


def small():
    """kim founded acme in 2020 and left in 2022; acme runs garden; lou advises garden."""
    made = Graph()
    made.put(node("kim"), [Edge("kim", "acme", "Founder", "2020-01-01", "2022-12-31")])
    made.put(node("acme", "organization"), [Edge("acme", "garden")])
    made.put(node("garden", "project"), [])
    made.put(node("lou"), [Edge("lou", "garden", "Advisor")])
    return made


def ids(found) -> list[tuple[str, int]]:
    return [(one.node.id, one.depth) for one in found]


def test_it_is_walked_along_the_arrows_against_them_and_both_ways():
    one = small()

    assert ids(one.traverse("kim", depth=2, direction="out")) == [("acme", 1), ("garden", 2)]
    assert ids(one.traverse("garden", direction="in")) == [("acme", 1), ("lou", 1)]
    assert ids(one.traverse("kim", depth=3)) == [("acme", 1), ("garden", 2), ("lou", 3)]
    assert ids(one.traverse("lou", direction="in")) == []


def test_a_type_limits_what_is_given_and_not_what_is_walked_through():
    one = small()

    assert ids(one.traverse("kim", depth=3, type="person")) == [("lou", 3)]
    assert ids(one.traverse("kim", depth=3, type="topic")) == []


def test_a_day_limits_the_edges():
    one = small()

    assert ids(one.traverse("kim", on="2022-12-31")) == [("acme", 1)]
    assert ids(one.traverse("kim", on="2023-01-01")) == []


def test_a_circle_is_walked_once():
    one = Graph()
    one.put(node("a"), [Edge("a", "b"), Edge("a", "a")])
    one.put(node("b"), [Edge("b", "a")])

    assert ids(one.traverse("a", depth=6)) == [("b", 1)]


def test_what_is_related_to_something_that_is_not_there_counts_when_it_comes():
    one = Graph()
    one.put(node("kim"), [Edge("kim", "acme")])

    assert ids(one.traverse("kim")) == []

    one.put(node("acme"), [])

    assert ids(one.traverse("kim")) == [("acme", 1)]
    assert [(found.id, edge.target) for found, edge in one.backlinks("acme")] == [("kim", "acme")]


def test_an_edge_of_another_source_is_refused_and_changes_nothing():
    one = small()

    with pytest.raises(ValueError, match="another source"):
        one.put(node("kim"), [Edge("lou", "acme")])

    assert ids(one.traverse("kim")) == [("acme", 1)]


def test_a_drawing_has_the_most_related_first_and_says_how_many_it_left_out():
    nodes, edges, more = small().drawing(limit=2)

    assert [(one.id, degree) for one, degree in nodes] == [("acme", 2), ("garden", 2)]
    assert [(one.source, one.target) for one in edges] == [("acme", "garden")]
    assert more == 2


def test_a_drawing_around_a_node_has_what_is_near_and_keeps_that_node_whatever_its_type():
    nodes, edges, _more = small().drawing(around="kim", depth=2, type="project")

    assert [one.id for one, _degree in nodes] == ["kim", "garden"]
    assert edges == []


KEYS = st.sampled_from("abcdef")
STEPS = st.lists(
    st.tuples(KEYS, st.none() | st.lists(st.tuples(KEYS, st.sampled_from(["", "knows"]))))
)


@given(STEPS)
def test_after_any_updates_it_is_as_if_built_again_from_what_is_left(steps):
    one, left = Graph(), {}
    for key, targets in steps:
        left.pop(key, None)
        if targets is None:
            one.remove(key)
        else:
            left[key] = [Edge(key, target, label) for target, label in targets]
            one.put(node(key), left[key])
    again = Graph()
    for key in sorted(left):
        again.put(node(key), left[key])

    assert one.drawing() == again.drawing()
    for key in "abcdef":
        assert one.traverse(key, depth=3) == again.traverse(key, depth=3)
        assert one.backlinks(key) == again.backlinks(key)
