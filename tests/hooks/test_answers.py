"""Answers: what a hook prints and how it exits, and what many answers come to: a no is never
lost.
"""

from __future__ import annotations

import json

import pytest

from parachuted.hooks import HookAnswer
from parachuted.hooks.decision import ALLOWED, combine, outcome_of, read_answer
from parachuted.hooks.hook import BLOCKING, Hook
from parachuted.hooks.runner import ProcessResult, not_started

EVERY = (*sorted(BLOCKING), "session.start", "session.end", "tool.after", "file.modified")
SILENT = HookAnswer(hook="guard.sh")
WITHOUT_A_WORD = "guard.sh objects, and does not say why"


def hook(event: str = "tool.before", **more: object) -> Hook:
    return Hook(id="guard.sh", event=event, words=("x",), command="x", **more)  # type: ignore[arg-type]


def ran(
    stdout: object = b"", stderr: bytes = b"", code: int | None = 0, **more: object
) -> ProcessResult:
    data = stdout if isinstance(stdout, bytes) else json.dumps(stdout).encode()
    return ProcessResult(exit_code=code, stdout=data, stderr=stderr, **more)  # type: ignore[arg-type]


def specific(event: str = "PreToolUse", **fields: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


# exit codes


@pytest.mark.parametrize("event", EVERY)
def test_exit_0_says_nothing_and_exit_2_objects_in_the_words_of_stderr(event: str):
    assert read_answer(hook(event), ran()) == SILENT
    assert read_answer(hook(event), ran(stderr=b"no, for\ntwo\n", code=2)).blocks == "no, for\ntwo"


@pytest.mark.parametrize(
    "stdout", [b"{broken", b"plain", b'{"decision": "approve"}', b'{"continue": 5}']
)
def test_exit_2_objects_whatever_is_on_stdout(stdout: bytes):
    answer = read_answer(hook(), ran(stdout, b"no", code=2))

    assert (answer.blocks, answer.failure) == ("no", None)


def test_exit_2_without_a_word_still_objects():
    assert read_answer(hook(), ran(code=2)).blocks == WITHOUT_A_WORD


@pytest.mark.parametrize(
    ("code", "says"), [(1, "ended with 1"), (255, "ended with 255"), (-9, "ended with -9")]
)
def test_any_other_exit_stops_nothing_and_its_first_line_is_shown(code: int, says: str):
    answer = read_answer(hook(), ran(b"ignored", b"first line\nsecond line\n", code=code))

    assert answer == HookAnswer(hook="guard.sh", failure=f"guard.sh {says}: first line")


def test_a_no_in_json_counts_whatever_the_exit_code():
    for code in (1, 2):
        said = {"decision": "block", "reason": "because"}
        assert read_answer(hook(), ran(said, b"x", code=code)).blocks == "because"
    allowed = read_answer(hook(), ran({"decision": "approve"}, code=1))
    assert (allowed.blocks, allowed.failure) == (None, "guard.sh ended with 1")


# failures


BROKEN = {
    "timed out": ran(code=None, timed_out=True, problem="it had not finished within 1 s"),
    "exit 1": ran(code=1, stderr=b"oh"),
    "signal": ran(code=-11),
    "invalid JSON": ran(b'{"decision": "block",}'),
    "more than an object": ran(b'{"a": 1} and more'),
    "wrong JSON": ran({"decision": "perhaps"}),
    "too deep": ran(b'{"a":' * 100_000),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_could_not_answer_stops_the_act_only_where_it_is_to(name: str):
    broken = BROKEN[name]
    answer = read_answer(hook(), broken)

    assert answer.blocks is None
    assert str(answer.failure).startswith("guard.sh ")
    closed = hook(blocks_on_failure=True)
    assert read_answer(closed, broken).blocks == answer.failure
    assert read_answer(hook(), broken, fails_closed=True).blocks == answer.failure
    for never in (
        hook(blocks_on_failure=False),
        hook("file.modified"),
        hook("stop.before", blocks_on_failure=True),
        hook(is_async=True, blocks_on_failure=True),
    ):
        assert read_answer(never, broken, fails_closed=True).blocks is None


@pytest.mark.parametrize("event", [*sorted(BLOCKING), "file.modified"])
@pytest.mark.parametrize("setting", [None, False, True])
def test_what_never_ran_objects_to_all_but_an_end_and_what_has_happened(
    event: str,
    setting: bool | None,  # noqa: FBT001
):
    answer = read_answer(hook(event, blocks_on_failure=setting), not_started("it has changed"))

    assert answer.failure == "guard.sh did not do its work: it has changed"
    is_open = event in {"stop.before", "file.modified"}
    assert answer.blocks == (None if is_open else answer.failure)
    assert read_answer(hook(event, is_async=True), not_started("x")).blocks is None


# what is printed


@pytest.mark.parametrize("event", EVERY)
def test_plain_text_is_context_only_where_a_model_is_about_to_read(event: str):
    is_context = event in {"prompt.before", "session.start"}
    answer = read_answer(hook(event), ran(b"  Today is \xff.\n"))

    assert answer.context == (("Today is \ufffd.",) if is_context else ())
    assert (answer.blocks, answer.failure) == (None, None)


@pytest.mark.parametrize("text", [b'said {"decision": "block"}', b'[{"decision": "block"}]', b"5"])
def test_stdout_is_json_only_if_the_whole_of_it_is_one_object(text: bytes):
    answer = read_answer(hook("prompt.before"), ran(text))

    assert (answer.blocks, answer.context) == (None, (text.decode(),))


@pytest.mark.parametrize(
    ("said", "field", "value"),
    [
        ({"decision": "block", "reason": "r"}, "blocks", "r"),
        ({"decision": "block"}, "blocks", WITHOUT_A_WORD),
        ({"decision": "approve"}, "blocks", None),
        ({"continue": False, "stopReason": "enough"}, "stop_reason", "enough"),
        ({"continue": False}, "stop_reason", "guard.sh says to stop"),
        ({"continue": True, "stopReason": "enough"}, "stop_reason", None),
        ({"systemMessage": "careful"}, "message", "careful"),
        ({"additionalContext": "c"}, "context", ("c",)),
        (specific(additionalContext="c"), "context", ("c",)),
        (specific(additionalContext="c", sources=["a.md"]), "sources", ("a.md",)),
        (specific(updatedInput={"command": "ls"}), "updated_input", {"command": "ls"}),
        (specific(permissionDecision="allow"), "blocks", None),
        (specific(permissionDecision="ask", permissionDecisionReason="w"), "blocks", "w"),
        (specific(permissionDecision="deny", permissionDecisionReason="w"), "blocks", "w"),
        ({"decision": "approve", **specific(permissionDecision="deny")}, "blocks", WITHOUT_A_WORD),
        ({"decision": "block", **specific(permissionDecision="allow")}, "blocks", WITHOUT_A_WORD),
    ],
)
def test_each_field_of_an_answer_is_read(said: object, field: str, value: object):
    answer = read_answer(hook(), ran(said))

    assert getattr(answer, field) == value
    assert answer.failure is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"continue": "no"},
        {"stopReason": 5},
        {"decision": "deny"},
        {"reason": []},
        {"systemMessage": {}},
        {"hookSpecificOutput": "x"},
        specific(permissionDecision="maybe"),
        specific(updatedInput="x"),
        specific(additionalContext=5),
    ],
)
def test_a_field_of_the_wrong_kind_makes_the_whole_output_an_error(wrong: dict[str, object]):
    answer = read_answer(hook(), ran({"systemMessage": "careful"} | wrong))

    assert "JSON that is not understood" in str(answer.failure)
    assert answer.message is None


def test_fields_without_a_meaning_here_are_no_mistake():
    said = {"suppressOutput": True, "async": True, **specific(sessionTitle="Monday")}

    assert read_answer(hook(), ran(said)) == SILENT


@pytest.mark.parametrize(
    "said", [b"x" * 20_000, specific("SessionStart", additionalContext="x" * 20_000)]
)
def test_context_is_cut_after_ten_thousand_characters(said: object):
    (context,) = read_answer(hook("session.start"), ran(said)).context

    assert context == "x" * 10_000 + "\n[cut: these are the first of 20,000 characters]"


@pytest.mark.parametrize(
    ("answer", "event", "says"),
    [
        (SILENT, "write.before", "allowed"),
        (SILENT, "file.modified", "done"),
        (HookAnswer(hook="x", blocks="no"), "write.before", "blocked: no"),
        (HookAnswer(hook="x", blocks="no"), "file.modified", "objected: no"),
        (HookAnswer(hook="x", failure="oh"), "write.before", "failed: oh"),
        (HookAnswer(hook="x", failure="oh", blocks="oh"), "write.before", "blocked: oh"),
        (HookAnswer(hook="x", stop_reason="enough"), "tool.after", "stopped"),
    ],
)
def test_an_answer_comes_to_a_word(answer: HookAnswer, event: str, says: str):
    assert outcome_of(hook(event), answer) == says


# many answers


def test_no_hook_has_anything_against_it():
    assert combine("tool.before", []) == combine("tool.before", [SILENT, SILENT]) == ALLOWED


@pytest.mark.parametrize("event", sorted(BLOCKING))
def test_one_objection_is_enough_and_all_reach_the_caller_each_once(event: str):
    blocks = [HookAnswer(hook="a", blocks=words) for words in ("x", "y", "x")]
    decision = combine(event, [SILENT, *blocks, SILENT])

    assert (decision.allowed, decision.reason) == (False, "x\ny")


@pytest.mark.parametrize("event", ["file.modified", "session.start", "session.end"])
def test_what_has_happened_cannot_be_stopped(event: str):
    assert combine(event, [HookAnswer(hook="a", blocks="no")]) == ALLOWED


def test_an_objection_after_a_tools_call_reaches_the_model():
    decision = combine("tool.after", [HookAnswer(hook="a", blocks="lint", context=("x",))])

    assert (decision.allowed, decision.context) == (True, ("x", "lint"))


def test_what_all_add_comes_in_order_and_the_last_changed_input_counts():
    answers = [
        HookAnswer(hook="a", context=("1",), sources=("a.md",), updated_input={"x": 1}),
        HookAnswer(hook="b", context=("2",), sources=("b.md",), updated_input={"x": 2}),
        SILENT,
    ]
    decision = combine("tool.before", answers)

    assert (decision.context, decision.sources) == (("1", "2"), ("a.md", "b.md"))
    assert decision.updated_input == {"x": 2}
    assert not combine("tool.before", [*answers, HookAnswer(hook="c", blocks="no")]).updated_input


@pytest.mark.parametrize("event", [*sorted(BLOCKING - {"stop.before"}), "tool.after"])
def test_continue_false_stops_the_act_and_all_after_it(event: str):
    decision = combine(event, [HookAnswer(hook="a", stop_reason="enough")])

    assert (decision.allowed, decision.stop, decision.reason) == (
        event == "tool.after",
        True,
        "enough",
    )


def test_continue_false_at_a_turns_end_is_a_yes_to_the_end():
    answers = [HookAnswer(hook="a", blocks="go on"), HookAnswer(hook="b", stop_reason="enough")]
    decision = combine("stop.before", answers)

    assert (decision.allowed, decision.stop, decision.reason) == (True, True, "enough")
