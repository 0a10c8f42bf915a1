"""Plan: what a change would set off, told beforehand."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.bubbling import WatchRegistry, plan_for
from parachuted.state import StateStore
from parachuted.vault import VaultIndex


@pytest.fixture
def watches(state: StateStore) -> WatchRegistry:
    return WatchRegistry(state, VaultIndex(), lambda: datetime.now(UTC))


def test_a_note_that_no_one_watches_sets_nothing_off(watches: WatchRegistry):
    plan = plan_for("a.md", watches, most_cost_usd=0.25)

    assert (plan.path, plan.runs, plan.loops, plan.most_cost_usd) == ("a.md", (), (), 0)


def test_each_watcher_is_named_once_with_its_distance_and_the_reason(watches: WatchRegistry):
    watches.declare("b/AGENTS.md", ("a.md", "a.md#Facts", "x.md"))
    watches.declare("c/AGENTS.md", ("a.md",))
    watches.declare("d/AGENTS.md", ("b", "c"))
    plan = plan_for("a.md", watches, most_cost_usd=0.25)

    assert [(run.watcher, run.depth, run.because, run.patterns) for run in plan.runs] == [
        ("b/AGENTS.md", 1, "a.md", ("a.md", "a.md#Facts")),
        ("c/AGENTS.md", 1, "a.md", ("a.md",)),
        ("d/AGENTS.md", 2, "b/AGENTS.md", ("b",)),
    ]
    assert plan.most_cost_usd == 0.75


def test_rings_are_reported_and_the_note_itself_counts_in_them_alone(
    watches: WatchRegistry,
):
    watches.declare("a/AGENTS.md", ("b",))
    watches.declare("b/AGENTS.md", ("a",))

    plan = plan_for("a/AGENTS.md", watches, most_cost_usd=1)
    assert [run.watcher for run in plan.runs] == ["b/AGENTS.md", "a/AGENTS.md"]
    assert [set(ring) for ring in plan.loops] == [{"a/AGENTS.md", "b/AGENTS.md"}]

    watches.declare("a/AGENTS.md", ("a",))
    plan = plan_for("a/AGENTS.md", watches, most_cost_usd=1)
    assert [run.watcher for run in plan.runs] == ["b/AGENTS.md"]
