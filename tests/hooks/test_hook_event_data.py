"""Told: whole paths where a script needs them, the vault's own names where it goes on asking the
vault.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.hooks.hook_event import cause_data, event_data, module_of

VAULT = Path("/v")


def test_places_are_whole_and_the_vault_s_own_names_stay():
    data = {
        "path": "a/b.md",
        "watcher": "w.md",
        "from": "a/c.md",
        "paths": ["x.md", "/elsewhere/y.md"],
        "entry_path": "Daily/entries/e.md",
        "audio_path": None,
        "count": 3,
    }

    assert event_data(data, VAULT) == {
        **data,
        "from": "/v/a/c.md",
        "paths": ["/v/x.md", "/elsewhere/y.md"],
        "entry_path": "/v/Daily/entries/e.md",
    }
    assert data["from"] == "a/c.md"


def test_what_is_not_a_path_where_one_is_expected_stays_as_it_is():
    data = {"paths": None, "from": 7, "audio_path": ""}
    assert event_data(data, VAULT) == data


def test_a_cause_says_where_it_began_who_acts_and_how_far_it_has_come():
    assert cause_data(["c1", "c2"], actor="curator", run="r1", root="a.md") == {
        "id": "c1",
        "root": "a.md",
        "depth": 1,
        "actor": "curator",
        "run": "r1",
        "chain": ["c1", "c2"],
    }
    assert cause_data([], actor="person")["depth"] == 0
    assert cause_data(["c"], actor="curator", depth=3)["depth"] == 3


@pytest.mark.parametrize(
    ("actor", "module"), [("module:daily", "daily"), ("person", None), ("curator", None)]
)
def test_a_module_is_known_by_the_name_it_writes_under(actor, module):
    assert module_of(actor) == module
