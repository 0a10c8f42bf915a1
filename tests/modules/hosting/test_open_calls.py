"""Open calls: whose behalf a module's process may name, and for how long."""

from __future__ import annotations

import pytest

from parachuted.access.authority import Authority
from parachuted.access.origin import Taint
from parachuted.errors import ActRefusedError, ModuleFailedError
from parachuted.modules.hosting.request_server import MOST_OPEN, OpenCalls


@pytest.fixture
def calls() -> OpenCalls:
    return OpenCalls("daily", Taint())


def test_only_a_call_that_is_open_lends_its_authority(calls):
    mine = Authority(causes=("c1",))
    calls.open(3, mine)

    assert calls.find(3) is mine
    calls.close(3)
    calls.close(3)
    for of in (None, 0, -1, 2, 3, 4):
        with pytest.raises(ActRefusedError, match="names"):
            calls.find(of)


def test_a_process_that_lets_go_of_nothing_is_asked_no_more(calls):
    for number in range(MOST_OPEN):
        calls.check_room()
        calls.open(number, Authority())

    with pytest.raises(ModuleFailedError, match="modules restart daily"):
        calls.check_room()
    calls.close(5)
    calls.check_room()


def test_what_the_process_read_for_one_call_it_may_say_in_any_also_after_it_was_restarted():
    taint = Taint()
    first, event, person = OpenCalls("daily", taint), Authority(), Authority(asked_by="person")
    first.open(1, event)
    event.taint.read("Inbox/mail.md", "imported")
    first.read(event)
    again = OpenCalls("daily", taint)
    again.open(1, person)

    assert again.find(1).words("agent") == "imported"
