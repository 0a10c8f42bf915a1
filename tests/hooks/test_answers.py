"""Answers: Claude Code's table of exits and outputs, row by row."""

from __future__ import annotations

import json

import pytest

from parachuted.hooks import Hook, HookAnswer, ProcessResult, read_answer
from parachuted.hooks.hook import is_blocking

EVERY = (
    "tool.before",
    "write.before",
    "prompt.before",
    "session.start",
    "session.end",
    "tool.after",
    "stop.before",
    "file.modified",
)


def hook(event: str = "tool.before", **more: object) -> Hook:
    return Hook(id="guard.sh", event=event, command="true", **more)  # type: ignore[arg-type]


def ran(
    stdout: object = b"", stderr: bytes = b"", code: int | None = 0, **more: object
) -> ProcessResult:
    data = stdout if isinstance(stdout, bytes) else json.dumps(stdout).encode()
    return ProcessResult(exit_code=code, stdout=data, stderr=stderr, took_ms=1.0, **more)  # type: ignore[arg-type]


def specific(event: str = "PreToolUse", **fields: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


# exit codes


@pytest.mark.parametrize("event", EVERY)
def test_exit_0_without_a_word_says_nothing(event: str):
    assert read_answer(hook(event), ran()) == HookAnswer(hook="guard.sh")


@pytest.mark.parametrize("event", EVERY)
def test_exit_2_objects_and_stderr_is_the_message(event: str):
    assert (
        read_answer(hook(event), ran(stderr=b"no, for\ntwo reasons\n", code=2)).blocks
        == "no, for\ntwo reasons"
    )


@pytest.mark.parametrize(
    "stdout", [b"{broken", b"plain", b'{"decision": "approve"}', b'{"continue": 5}']
)
def test_exit_2_objects_whatever_is_on_stdout(stdout: bytes):
    answer = read_answer(hook(), ran(stdout, b"no", code=2))

    assert answer == HookAnswer(hook="guard.sh", blocks="no")


def test_exit_2_without_a_word_still_objects():
    assert read_answer(hook(), ran(code=2)).blocks == "guard.sh objects, and does not say why"


@pytest.mark.parametrize("code", [1, 3, 127, 255])
def test_any_other_exit_stops_nothing_and_its_first_line_is_shown(code: int):
    answer = read_answer(hook(), ran(b"ignored", b"first line\nsecond line\n", code=code))

    assert answer == HookAnswer(hook="guard.sh", failure=f"guard.sh ended with {code}: first line")


def test_an_end_by_a_signal_is_reported_as_one():
    assert read_answer(hook(), ran(code=-9)).failure == "guard.sh was ended by signal 9"


# onFailure


BROKEN = {
    "could not be watched": ran(code=None, problem="it left processes that could not be ended: 5"),
    "timed out": ran(code=-9, timed_out=True),
    "exit 1": ran(code=1, stderr=b"oh"),
    "signal": ran(code=-11),
    "invalid JSON": ran(b'{"decision": "block",}'),
    "wrong JSON": ran({"decision": "perhaps"}),
    "wrong event": ran(specific("PostToolUse")),
    "more than is read": ran(b'{"decision": "approve', is_cut=True),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_could_not_answer_lets_it_pass_and_is_reported(name: str):
    answer = read_answer(hook(), BROKEN[name])

    assert answer.failure is not None
    assert answer.failure.startswith("guard.sh ")
    assert answer.blocks is None


@pytest.mark.parametrize("name", BROKEN)
def test_what_could_not_answer_objects_where_it_is_to_block_on_failure(name: str):
    answer = read_answer(hook(blocks_on_failure=True), BROKEN[name])

    assert answer.blocks == answer.failure is not None


@pytest.mark.parametrize("name", BROKEN)
def test_what_could_not_answer_objects_where_all_guards_are_to_fail_closed(name: str):
    assert read_answer(hook(), BROKEN[name], fails_closed=True).blocks is not None
    assert (
        read_answer(hook(blocks_on_failure=False), BROKEN[name], fails_closed=True).blocks is None
    )
    assert read_answer(hook("file.modified"), BROKEN[name], fails_closed=True).blocks is None


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize(
    "kept",
    [hook("stop.before", blocks_on_failure=True), hook(is_async=True, blocks_on_failure=True)],
    ids=["stop", "async"],
)
def test_blocking_on_failure_means_nothing_at_a_turns_end_or_in_the_background(
    name: str, kept: Hook
):
    assert read_answer(kept, BROKEN[name], fails_closed=True).blocks is None


NOT_STARTED = ran(code=None, problem="there is no program x on the PATH", was_started=False)


@pytest.mark.parametrize("event", [name for name in EVERY if is_blocking(name)])
@pytest.mark.parametrize("setting", [None, False, True])
def test_what_never_ran_objects_to_all_but_an_end_whatever_the_settings_say(
    event: str,
    setting: bool | None,  # noqa: FBT001
):
    answer = read_answer(hook(event, blocks_on_failure=setting), NOT_STARTED)

    assert answer.failure is not None
    assert answer.blocks == (None if event == "stop.before" else answer.failure)


def test_what_never_ran_stops_nothing_that_has_happened_or_that_nothing_waits_for():
    assert read_answer(hook("file.modified"), NOT_STARTED).blocks is None
    assert read_answer(hook(is_async=True), NOT_STARTED).blocks is None


def test_a_limit_that_was_reached_is_named():
    assert (
        read_answer(hook(timeout_s=2.5), ran(code=-9, timed_out=True)).failure
        == "guard.sh was ended after 2.5 s without an answer"
    )


# plain text


@pytest.mark.parametrize("event", ["prompt.before", "session.start", "compact.before"])
def test_plain_text_becomes_context_for_these(event: str):
    assert read_answer(hook(event), ran(b"  Today is Monday.\n")).context == ("Today is Monday.",)


@pytest.mark.parametrize(
    "event",
    ["tool.before", "tool.after", "session.end", "stop.before", "write.before", "file.modified"],
)
def test_plain_text_goes_nowhere_for_all_others(event: str):
    assert read_answer(hook(event), ran(b"hello")) == HookAnswer(hook="guard.sh")


@pytest.mark.parametrize(
    "text", [b'said {"decision": "block"}', b'[{"decision": "block"}]', b'"block"', b"5", b"null"]
)
def test_stdout_is_json_only_if_the_whole_of_it_is_one_object(text: bytes):
    answer = read_answer(hook("prompt.before"), ran(text))

    assert answer.blocks is None
    assert answer.context == (text.decode(),)


def test_white_space_around_the_object_does_no_harm():
    assert read_answer(hook(), ran(b'\n {"decision": "block", "reason": "r"} \n')).blocks == "r"


def test_what_begins_as_json_and_is_none_is_plain_text_and_a_failure():
    answer = read_answer(hook("session.start"), ran(b'{"a": 1} and more'))

    assert answer.context == ('{"a": 1} and more',)
    assert "begins like JSON but is not" in str(answer.failure)


def test_bytes_that_are_no_text_are_replaced():
    assert read_answer(hook("session.start"), ran(b"a\xffb")).context == ("a\ufffdb",)
    assert read_answer(hook(), ran(stderr=b"\xff", code=2)).blocks == "\ufffd"


def test_json_a_thousand_levels_deep_is_a_failure_and_no_crash():
    assert read_answer(hook(), ran(b'{"a":' * 100_000)).failure is not None


# JSON fields of every event


def test_continue_false_stops_with_its_reason():
    assert (
        read_answer(hook(), ran({"continue": False, "stopReason": "enough"})).stop_reason
        == "enough"
    )
    assert read_answer(hook(), ran({"continue": False})).stop_reason == "guard.sh says to stop"
    assert read_answer(hook(), ran({"continue": True, "stopReason": "enough"})).stop_reason is None


@pytest.mark.parametrize("event", EVERY)
def test_decision_block_objects_with_its_reason(event: str):
    assert (
        read_answer(hook(event), ran({"decision": "block", "reason": "because"})).blocks
        == "because"
    )
    assert (
        read_answer(hook(event), ran({"decision": "block"})).blocks
        == "guard.sh objects, and does not say why"
    )


def test_the_older_approve_is_an_allow():
    answer = read_answer(hook(), ran({"decision": "approve", "reason": "fine"}))

    assert (answer.blocks, answer.permission) == (None, "allow")


def test_a_system_message_is_for_the_person():
    assert read_answer(hook(), ran({"systemMessage": "careful"})).messages == ("careful",)


@pytest.mark.parametrize(
    "field",
    [
        {"suppressOutput": True},
        {"terminalSequence": "\x1b]0;x\x07"},
        {"async": True, "asyncTimeout": 5000},
        {"unknown": 1},
        specific(sessionTitle="Monday"),
    ],
)
def test_fields_without_a_meaning_here_are_no_mistake(field: dict[str, object]):
    assert read_answer(hook(), ran(field)) == HookAnswer(hook="guard.sh")


@pytest.mark.parametrize(
    "wrong",
    [
        {"continue": "no"},
        {"stopReason": 5},
        {"decision": "deny"},
        {"decision": True},
        {"reason": []},
        {"systemMessage": {}},
        {"hookSpecificOutput": "x"},
        specific(permissionDecision="maybe"),
        specific(updatedInput="x"),
        specific(additionalContext=5),
        {"hookSpecificOutput": {"additionalContext": "no event named"}},
    ],
)
def test_a_field_of_the_wrong_kind_makes_the_whole_output_an_error(wrong: dict[str, object]):
    answer = read_answer(hook(), ran({"systemMessage": "kept?"} | wrong))

    assert "JSON that is not understood" in str(answer.failure)
    assert answer.messages == ()


# hookSpecificOutput


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ("tool.before", "PreToolUse"),
        ("tool.before", "tool.before"),
        ("write.before", "write.before"),
    ],
)
def test_the_event_may_be_named_in_either_vocabulary(event: str, name: str):
    assert read_answer(hook(event), ran(specific(name, additionalContext="c"))).context == ("c",)


@pytest.mark.parametrize("name", ["PostToolUse", "pretooluse", "", "write.before"])
def test_another_events_name_makes_the_whole_output_an_error(name: str):
    answer = read_answer(
        hook(), ran({**specific(name, permissionDecision="deny"), "systemMessage": "m"})
    )

    assert "hookEventName should be PreToolUse or tool.before" in str(answer.failure)
    assert (answer.blocks, answer.messages) == (None, ())


@pytest.mark.parametrize("permission", ["allow", "ask"])
def test_a_permission_is_handed_on_with_its_reason(permission: str):
    answer = read_answer(
        hook(), ran(specific(permissionDecision=permission, permissionDecisionReason="why"))
    )

    assert (answer.permission, answer.permission_reason, answer.blocks) == (permission, "why", None)


def test_a_denied_permission_objects_with_its_reason():
    assert (
        read_answer(
            hook(), ran(specific(permissionDecision="deny", permissionDecisionReason="why"))
        ).blocks
        == "why"
    )


def test_of_two_decisions_in_one_answer_the_no_wins():
    assert (
        read_answer(
            hook(), ran({"decision": "block", **specific(permissionDecision="allow")})
        ).blocks
        is not None
    )
    assert (
        read_answer(
            hook(), ran({"decision": "approve", **specific(permissionDecision="deny")})
        ).blocks
        is not None
    )


def test_input_may_be_changed_and_context_added():
    answer = read_answer(
        hook(), ran(specific(updatedInput={"command": "ls"}, additionalContext="see README"))
    )

    assert (answer.updated_input, answer.context) == ({"command": "ls"}, ("see README",))


def test_what_a_tool_gave_may_be_changed():
    said = specific("PostToolUse", updatedToolOutput="shorter")

    assert read_answer(hook("tool.after"), ran(said)).updated_output == "shorter"


@pytest.mark.parametrize(
    "said", [b"x" * 20_000, specific("SessionStart", additionalContext="x" * 20_000)]
)
def test_context_is_cut_after_ten_thousand_characters(said: object):
    (context,) = read_answer(hook("session.start"), ran(said)).context

    assert context == "x" * 10_000 + "\n[cut: these are the first of 20,000 characters]"
