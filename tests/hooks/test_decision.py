"""Decision: many answers come to one, and a no is never lost."""

from __future__ import annotations

import itertools

import pytest

from parachuted.hooks import ALLOWED, HookAnswer, combine
from parachuted.hooks.hook import BLOCKING


def says(permission: str | None = None, name: str = "h", **more: object) -> HookAnswer:
    blocks = f"{name} says no" if permission == "deny" else None
    return HookAnswer(hook=name, permission=permission, blocks=blocks, **more)  # type: ignore[arg-type]


def test_no_one_has_anything_against_it():
    assert combine("tool.before", []) == ALLOWED
    assert combine("tool.before", [HookAnswer(hook="a"), HookAnswer(hook="b")]) == ALLOWED


@pytest.mark.parametrize("order", list(itertools.permutations(["allow", "ask", "deny"])))
def test_deny_over_ask_over_allow_in_whatever_order(order: tuple[str, ...]):
    strength = ["allow", "ask", "deny"]
    for count in range(1, 5):
        decision = combine(
            "tool.before", [says(permission, permission) for permission in order[:count]]
        )

        assert decision.permission == max(order[:count], key=strength.index)
        assert decision.allowed is (decision.permission == "allow")


def test_a_question_that_no_one_can_be_asked_is_a_no_that_says_so():
    decision = combine("tool.before", [says("ask", permission_reason="it deletes")])

    assert not decision.allowed
    assert decision.permission == "ask"
    assert "wants a person to be asked" in decision.reason
    assert "it deletes" in decision.reason


def test_an_ask_never_weakens_a_deny_nor_does_an_allow_override_an_objection():
    assert combine("tool.before", [says("deny", "a"), says("ask", "b")]).reason == "a says no"
    assert not combine(
        "tool.before", [says("allow", "a"), HookAnswer(hook="b", blocks="exit 2")]
    ).allowed


@pytest.mark.parametrize("event", sorted(BLOCKING))
def test_one_objection_is_enough_to_stop_what_is_about_to_happen(event: str):
    decision = combine(
        event, [HookAnswer(hook="a"), HookAnswer(hook="b", blocks="not now"), HookAnswer(hook="c")]
    )

    assert (decision.allowed, decision.reason, decision.permission) == (False, "not now", "deny")


def test_all_objections_reach_the_caller_each_once():
    assert (
        combine(
            "write.before",
            [
                HookAnswer(hook=name, blocks=words)
                for name, words in (("a", "x"), ("b", "y"), ("c", "x"))
            ],
        ).reason
        == "x\ny"
    )


@pytest.mark.parametrize(
    "event", ["file.modified", "session.end", "daily.entry.created", "run.finished"]
)
def test_what_has_happened_cannot_be_stopped_so_an_objection_is_logged(event: str):
    decision = combine(event, [HookAnswer(hook="a", blocks="no")])

    assert decision.allowed
    assert decision.failures == (f"a objects to {event}, which cannot be stopped any more: no",)
    assert decision.context == ()


def test_an_objection_after_a_tools_call_reaches_the_model():
    decision = combine(
        "tool.after", [HookAnswer(hook="a", blocks="run the linter", context=("x",))]
    )

    assert (decision.allowed, decision.context, decision.failures) == (
        True,
        ("x", "run the linter"),
        (),
    )


def test_an_objection_at_a_sessions_start_reaches_the_person():
    decision = combine(
        "session.start", [HookAnswer(hook="a", blocks="no disk left", context=("x",))]
    )

    assert (decision.allowed, decision.messages, decision.context) == (
        True,
        ("no disk left",),
        ("x",),
    )


def test_context_and_messages_of_all_come_in_their_order():
    decision = combine(
        "prompt.before",
        [
            HookAnswer(hook="a", context=("1",), messages=("m",)),
            HookAnswer(hook="b", context=("2",)),
        ],
    )

    assert (decision.context, decision.messages) == (("1", "2"), ("m",))


def test_of_several_changed_inputs_the_last_counts_and_none_when_it_is_refused():
    changed = [
        HookAnswer(hook="a", updated_input={"x": 1}),
        HookAnswer(hook="b", updated_input={"x": 2}),
        HookAnswer(hook="c"),
    ]

    assert combine("tool.before", changed).updated_input == {"x": 2}
    assert combine("tool.before", [*changed, says("deny")]).updated_input is None


def test_a_changed_output_is_handed_on():
    assert (
        combine("tool.after", [HookAnswer(hook="a", updated_output="short")]).updated_output
        == "short"
    )


@pytest.mark.parametrize("event", sorted(BLOCKING - {"stop.before"}))
def test_continue_false_stops_the_act_and_all_after_it(event: str):
    decision = combine(event, [HookAnswer(hook="a", stop_reason="enough")])

    assert (decision.allowed, decision.stop, decision.reason) == (False, True, "enough")


def test_continue_false_after_the_fact_stops_what_follows():
    decision = combine("tool.after", [HookAnswer(hook="a", stop_reason="enough")])

    assert (decision.allowed, decision.stop, decision.reason) == (True, True, "enough")


def test_continue_false_at_a_turns_end_is_a_yes_to_the_end_whatever_others_say():
    decision = combine(
        "stop.before",
        [HookAnswer(hook="a", blocks="go on"), HookAnswer(hook="b", stop_reason="enough")],
    )

    assert (decision.allowed, decision.stop, decision.reason) == (True, True, "enough")


def test_a_broken_hook_is_reported_and_stops_nothing():
    decision = combine("write.before", [HookAnswer(hook="a", failure="a ended with 1")])

    assert (decision.allowed, decision.failures) == (True, ("a ended with 1",))
