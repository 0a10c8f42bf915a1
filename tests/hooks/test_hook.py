"""Hook: what one is, when nothing else is said of it."""

from __future__ import annotations

from parachuted.hooks import Hook


def test_a_hook_has_half_a_minute_unless_it_says_otherwise():
    assert Hook(id="x", event="file.modified", command="true").timeout_s == 30


def test_only_a_hook_that_is_waited_for_can_block():
    assert Hook(id="x", event="write.before", command="true").may_block
    assert not Hook(id="x", event="write.before", command="true", is_async=True).may_block
    assert not Hook(id="x", event="file.modified", command="true").may_block


def test_a_person_is_shown_what_is_run():
    assert Hook(id="x", event="file.modified", command="a | b").shown == "a | b"
    assert Hook(id="x", event="file.modified", argv=("a", "b c")).shown == "a b c"
