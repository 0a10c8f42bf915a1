"""Audited: what modules are asked and what they publish is recorded, without their words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.access.caller import Caller, WorkChain, WorkRequest
from parachuted.errors import ActRefusedError
from parachuted.modules.hosting.audited import ModuleAudit, para_ids_of
from tests.modules.module_rig import MemoryAudit

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
ASKED = Caller(chain=WorkChain(run="r1"), request=WorkRequest(id="q7"), causes=("c1",))


@pytest.fixture
def log() -> MemoryAudit:
    return MemoryAudit()


@pytest.fixture
def audit(log: MemoryAudit) -> ModuleAudit:
    return ModuleAudit(log, lambda: NOON)


def test_a_call_is_reported_at_its_end_with_the_para_ids_of_its_answer(log, audit):
    with audit.call("module", "daily", "brain", "BrainInterface.suggest", ASKED) as answer:
        answer.value = [{"para_id": "para:brain:a1b2c3d4e5f6", "name": "the canary"}]
    with (
        pytest.raises(ActRefusedError),
        audit.call("daemon", "clock", "brain", "schedule index", Caller()),
    ):
        raise ActRefusedError("the canary sings")

    event, failed = log.events
    assert event.event_type == "module_call"
    assert (event.source_type, event.source_id) == ("module", "daily")
    assert event.target_module == "brain"
    assert event.target_endpoint == "brain: BrainInterface.suggest"
    assert (event.success, event.error) == (True, None)
    assert (event.request_id, event.causes, event.run) == ("q7", ("c1",), "r1")
    assert event.para_ids_involved == ["para:brain:a1b2c3d4e5f6"]
    assert event.duration_ms >= 0
    assert (failed.success, failed.error) == (False, "ActRefusedError")
    assert failed.request_id is None
    assert "canary" not in str(log.events)


def test_a_call_for_a_person_names_them_and_an_event_has_its_numbers(log, audit):
    ana = Caller().for_person("Telegram 7")
    with audit.call("module", "bots", "bots", "event bots.refused", ana) as answer:
        answer.value = {"why": "the canary", "times": 3}
    with audit.call("module", "bots", "chat", "ConversationInterface.get", ana) as answer:
        answer.value = {"count": 3}

    assert [event.details for event in log.events] == [
        {"times": 3, "person": "Telegram 7"},
        {"person": "Telegram 7"},
    ]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"para_id": "para:a:1", "para_ids": ["para:a:2", "para:a:1"]}, ["para:a:1", "para:a:2"]),
        ([{"para_id": "x"}, {"deep": [{"para_ids": ("y",)}]}], ["x", "y"]),
        ({"para_id": "a whole sentence"}, []),
        ({"para_ids": "x"}, []),
        ({"para_id": {"para_id": "x"}}, ["x"]),
        ("para:a:1", []),
    ],
)
def test_para_ids_are_found_where_they_are_named(value, found):
    assert para_ids_of(value) == found


def test_what_is_too_large_is_looked_through_as_far_as_it_goes():
    deep: object = {"para_id": "x"}
    for _ in range(5_000):
        deep = [deep]

    assert para_ids_of(deep) == []
    assert len(para_ids_of([{"para_id": f"p{number}"} for number in range(100_000)])) == 32
