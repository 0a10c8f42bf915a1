"""Every event has a sample that holds all its fields, and what a person gives takes their place."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from parachuted.events.catalog import CATALOG
from parachuted.hooks.hook_event import document
from parachuted.hooks.trials import make_sample

AT = datetime(2026, 1, 6, 12, tzinfo=UTC)


@pytest.mark.parametrize("event", sorted(CATALOG))
def test_every_event_has_a_sample_that_is_json(event, tmp_path):
    sample = document(make_sample(event, vault=tmp_path, at=AT))

    assert json.loads(json.dumps(sample, allow_nan=False)) == sample
    assert sample["event"] == event
    assert sample["data"].keys() >= set(CATALOG[event].fields)


def test_some_of_the_data_may_be_given(tmp_path):
    sample = make_sample("write.before", vault=tmp_path, at=AT, given={"path": "Daily/x.md"})

    assert sample.data["path"] == "Daily/x.md"
    assert sample.data["operation"] == "edit"
    assert sample.subject == "Daily/x.md"


def test_all_that_a_hook_reads_may_be_given_back(tmp_path):
    given = {
        "event": "x",
        "data": {"path": "a.md"},
        "session_id": "s",
        "cwd": str(tmp_path),
        "cause": {"id": "c"},
        "diff": {"text": "+a"},
    }
    sample = make_sample("file.modified", vault=tmp_path, at=AT, given=given)

    assert (sample.data["path"], sample.session_id, sample.cwd, sample.cause, sample.diff) == (
        "a.md",
        "s",
        str(tmp_path),
        {"id": "c"},
        {"text": "+a"},
    )


@pytest.mark.parametrize(
    ("name", "value"), [("cwd", 5), ("session_id", []), ("cause", "c"), ("diff", [1])]
)
def test_what_cannot_be_a_hooks_input_says_so(tmp_path, name, value):
    with pytest.raises(ValueError, match=f"{name} should be"):
        make_sample("file.modified", vault=tmp_path, at=AT, given={"data": {}, name: value})


def test_an_event_of_a_module_has_the_data_that_is_given(tmp_path):
    assert make_sample("brain.thing.learned", vault=tmp_path, at=AT, given={"what": 1}).data == {
        "what": 1
    }
