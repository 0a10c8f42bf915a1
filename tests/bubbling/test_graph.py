from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from parachuted.bubbling.graph import CascadeStep, WatchGraph, reachable, woken_by

NODES = "abcdefgh"
graphs = st.dictionaries(st.sampled_from(NODES), st.sets(st.sampled_from(NODES), max_size=4)).map(
    lambda edges: {node: sorted(edges.get(node, set()) - {node}) for node in NODES},
)


def reached_from(edges, start):
    """The reference: everything at the end of a walk of one edge or more."""
    found, waiting = set(), list(edges[start])
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += edges[node]
    return found


def watchers(cascade):
    return [step.watcher for step in cascade.steps]


def lookup(edges):
    return lambda path: edges.get(path, ())


def graph_of(watchers, downstream):
    """The graph of `watchers` and everything downstream of them."""
    edges, waiting = {}, list(watchers)
    while waiting:
        path = waiting.pop()
        if path not in edges:
            edges[path] = woken_by(path, downstream)
            waiting += edges[path]
    return WatchGraph(edges)


def blocks(graph, upper, lower):
    return graph.blockers([upper, lower]).get(lower) == upper


def test_a_change_wakes_those_who_watch_it_and_those_who_watch_them():
    edges = {"note": ["project"], "project": ["area"], "area": ["root"]}

    assert reachable("note", lookup(edges)).steps == (
        CascadeStep(watcher="project", depth=1, via="note"),
        CascadeStep(watcher="area", depth=2, via="project"),
        CascadeStep(watcher="root", depth=3, via="area"),
    )


def test_two_notes_that_watch_each_other_are_a_loop_and_each_comes_once():
    cascade = reachable("a", lookup({"a": ["b"], "b": ["a"]}))

    assert watchers(cascade) == ["b", "a"]
    assert cascade.loops == (("b", "a"),)


def test_the_changed_note_is_not_woken_by_its_own_change():
    assert watchers(reachable("a", lookup({"a": ["a", "b"], "b": []}))) == ["b"]


def test_a_note_that_seems_to_watch_itself_is_woken_by_others_only():
    steps = reachable("a", lookup({"a": ["a", "b"], "b": ["a", "b"]})).steps

    assert steps == (
        CascadeStep(watcher="b", depth=1, via="a"),
        CascadeStep(watcher="a", depth=2, via="b"),
    )


def test_those_that_need_not_wait_come_nearest_first_then_by_name():
    edges = {"note": ["b", "a"], "a": ["z"], "b": ["c"]}

    assert watchers(reachable("note", lookup(edges))) == ["a", "b", "c", "z"]


def test_of_several_ways_of_the_same_length_the_first_by_name_is_reported():
    names = [f"{number:02}" for number in range(50)]
    edges = {"note": names[::-1]} | {name: ["root"] for name in names}

    assert reachable("note", lookup(edges)).steps[-1] == CascadeStep(
        watcher="root", depth=2, via="00"
    )


def test_a_long_chain_and_a_long_ring_need_no_recursion():
    size = 5_000
    chain = {str(number): [str(number + 1)] for number in range(size)}
    ring = {**chain, str(size): ["0"]}

    assert [step.depth for step in reachable("0", lookup(chain)).steps] == list(range(1, size + 1))
    assert [len(loop) for loop in reachable("0", lookup(ring)).loops] == [size + 1]
    assert blocks(graph_of(chain, lookup(chain)), "0", str(size))


def test_three_hundred_watchers_of_everything_are_one_loop():
    names = [f"{number:03}" for number in range(300)]
    cascade = reachable("note", lambda path: [name for name in names if name != path])
    reach = graph_of(names, lambda path: [name for name in names if name != path])

    assert (len(cascade.steps), cascade.loops) == (300, (tuple(names),))
    assert not blocks(reach, "000", "299")


def test_everyone_waits_for_all_above_in_a_dense_graph_without_loops():
    names = [f"{number:03}" for number in range(300)]
    reach = graph_of(names, lambda path: [name for name in names if name > path])

    assert [blocks(reach, "150", name) for name in names] == [name > "150" for name in names]


def test_who_waits_is_seen_through_notes_that_were_not_asked_about():
    reach = graph_of(["a", "c"], lookup({"a": ["b"], "b": ["c"]}))

    assert blocks(reach, "a", "c")
    assert not blocks(reach, "c", "a")


def test_a_stranger_waits_for_no_one_and_no_one_for_it():
    reach = graph_of(["a", "b"], lookup({"a": ["b"]}))

    assert not blocks(reach, "stranger", "b")
    assert not blocks(reach, "a", "stranger")


@given(graphs, st.sampled_from(NODES))
def test_a_cascade_holds_all_that_is_reachable_once(edges, start):
    cascade = reachable(start, lookup(edges))

    assert sorted(watchers(cascade)) == sorted(reached_from(edges, start))


@given(graphs, st.sampled_from(NODES))
def test_upstream_comes_before_downstream_wherever_there_is_no_loop(edges, start):
    order = watchers(reachable(start, lookup(edges)))

    for place, later in enumerate(order):
        for earlier in order[:place]:
            assert earlier not in reached_from(edges, later) or later in reached_from(
                edges, earlier
            )


@given(graphs, st.sampled_from(NODES))
def test_each_step_is_one_further_than_the_one_that_woke_it(edges, start):
    steps = reachable(start, lookup(edges)).steps
    depth = {step.watcher: step.depth for step in steps} | {start: 0}

    for step in steps:
        assert step.watcher in edges[step.via]
        assert step.depth == 1 + depth[step.via]
        assert step.watcher == start or all(
            depth[step.watcher] <= 1 + depth[node] for node in depth if step.watcher in edges[node]
        )


@given(graphs, st.sampled_from(NODES))
def test_loops_are_the_sets_that_lead_to_one_another(edges, start):
    cascade = reachable(start, lookup(edges))

    together = {
        frozenset(n for n in NODES if n in reached_from(edges, m) and m in reached_from(edges, n))
        for m in watchers(cascade)
    }
    assert {frozenset(loop) for loop in cascade.loops} == together - {frozenset()}
    assert len(cascade.loops) == len(together - {frozenset()})


@given(graphs, st.sampled_from(NODES))
def test_the_order_does_not_depend_on_the_order_of_names(edges, start):
    assert reachable(start, lookup(edges)) == reachable(start, lambda path: reversed(edges[path]))


@given(graphs)
def test_who_waits_is_downstream_and_not_in_a_loop(edges):
    reach = graph_of(NODES, lookup(edges))

    for upper, lower in product(NODES, NODES):
        down, up = lower in reached_from(edges, upper), upper in reached_from(edges, lower)
        assert blocks(reach, upper, lower) == (down and not up)


@given(graphs, st.sets(st.sampled_from([*NODES, "elsewhere"])))
def test_of_some_watchers_those_wait_who_are_downstream_of_another(edges, some):
    reach = graph_of(NODES, lookup(edges))
    found = reach.blockers(some)

    assert set(found) == {
        lower for lower in some if any(blocks(reach, upper, lower) for upper in some)
    }
    assert all(upper in some and blocks(reach, upper, lower) for lower, upper in found.items())
