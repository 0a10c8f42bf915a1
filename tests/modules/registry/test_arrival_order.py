"""Order: who uses an interface begins after who provides it."""

from __future__ import annotations

from pathlib import Path

from parachuted.modules.hosting.interfaces import ArrivalOrder, waves
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.manifest import read_manifest
from parachuted.state import open_state


def module(name: str, *, provides: str = "", uses: str = "") -> ApprovedModule:
    text = (
        f"name: {name}\nversion: 1.0.0\nmodule: module.py\nprovides: "
        f"[{provides}]\noptional_requires: [{uses}]\n"
    )
    return ApprovedModule(
        name=name, copy=Path(), digest="", tree="", manifest=read_manifest(text), trust="trusted"
    )


def names(*ready: ApprovedModule) -> list[list[str]]:
    return [[one.name for one in wave] for wave in waves(ready)]


def test_modules_that_use_nothing_of_each_other_begin_at_once():
    assert names(module("a"), module("b", provides="B"), module("c", uses="Elsewhere")) == [
        ["a", "b", "c"]
    ]


def test_a_chain_begins_at_its_end():
    assert names(
        module("a", uses="B"), module("b", provides="B", uses="C"), module("c", provides="C")
    ) == [["c"], ["b"], ["a"]]


def test_every_provider_of_an_interface_comes_first():
    assert names(module("a", uses="B"), module("b", provides="B"), module("c", provides="B")) == [
        ["b", "c"],
        ["a"],
    ]


def test_who_uses_what_it_provides_itself_waits_for_no_one():
    assert names(module("a", provides="A", uses="A")) == [["a"]]


def test_a_circle_begins_together_and_last():
    assert names(
        module("a", provides="A", uses="B"), module("b", provides="B", uses="A"), module("c")
    ) == [["c"], ["a", "b"]]


def test_nothing_has_no_waves():
    assert names() == []


def test_who_came_first_stays_first_after_a_restart(tmp_path: Path):
    state = open_state(tmp_path / "state.journal")
    order = ArrivalOrder(state)
    assert [order.rank(name) for name in ("zebra", "ape", "zebra")] == [0, 1, 0]
    state.close()

    state = open_state(tmp_path / "state.journal")

    assert [ArrivalOrder(state).rank(name) for name in ("bee", "ape", "zebra")] == [2, 1, 0]
    state.close()


def test_the_order_is_kept_in_memory_where_there_is_no_state():
    order = ArrivalOrder(None)

    assert [order.rank(name) for name in ("b", "a", "b")] == [0, 1, 0]
