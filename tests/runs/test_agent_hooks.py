"""Hooked: what hooks may do to an agent's prompt and calls, and that without them nothing is other
than it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from parachuted.access.strangers import Taint
from parachuted.agents.calling import call_tool
from parachuted.agents.job import PermissionStep, Tool, ToolResult
from parachuted.errors import ActRefusedError
from parachuted.events import Bus
from parachuted.hooks import HookDecision
from parachuted.runs.agent_hooks import AgentHooks, SessionEvents
from parachuted.testing import say, use
from tests.runs.task_rig import NOON, ScriptedHooks, make_hooks
from tests.runs.test_curator import W, study_with, update
from tests.tools.curator_rig import CuratorRig


def no(reason: str = "not today") -> HookDecision:
    return HookDecision(allowed=False, reason=reason)


class RecordingTool:
    def __init__(self) -> None:
        self.given: list[Mapping[str, object]] = []
        schema = {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": False,
        }
        self.tool = Tool(name="note_down", description="Write.", schema=schema, call=self.call)

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        self.given.append(arguments)
        return ToolResult(text=f"wrote {arguments['text']}")


def hooks_of(
    scripted: ScriptedHooks | None, reported: list[Mapping[str, object]] | None = None
) -> AgentHooks:
    heard = [] if reported is None else reported
    return make_hooks(
        scripted,
        publish=lambda event, /, **data: heard.append({"event": event, **data}),
        agent="curator",
    )


async def write(
    scripted: ScriptedHooks | None, reported: list[Mapping[str, object]] | None = None
) -> tuple[ToolResult, RecordingTool]:
    pen = RecordingTool()
    return await call_tool(
        hooks_of(scripted, reported).tools([pen.tool]), "note_down", {"text": "milk"}
    ), pen


async def test_with_no_hook_a_call_is_what_it_was_and_the_bus_hears_some_of_it():
    reported: list[Mapping[str, object]] = []
    result, pen = await write(None, reported)
    await hooks_of(None, reported).tools([pen.tool])[0].call({"text": "x" * 100_000})
    event, large = reported

    assert (result, pen.given[0]) == (ToolResult(text="wrote milk"), {"text": "milk"})
    assert await hooks_of(None).prompt("hello") == "hello"
    assert (await hooks_of(None).stopping("bye")).allowed
    named = (event["event"], event["tool_name"], event["tool_use_id"])
    assert named == ("tool.after", "note_down", "r-1-1")
    assert len(large["tool_input"]["text"]) == len(large["tool_response"]) == 2000


PROMPT = "prompt.before"
REFUSED = "a hook refused note_down, so nothing was done: milk is out"


@pytest.mark.parametrize(
    ("event", "answer", "given", "text"),
    [
        ("before", {"allowed": False, "reason": "milk is out"}, None, REFUSED),
        (
            "before",
            {"allowed": False, "reason": "milk is out", "context": ("tea is in",)},
            None,
            f"{REFUSED}\n\ntea is in",
        ),
        (
            "before",
            {"updated_input": {"text": "oat milk"}, "context": ("it is Tuesday",)},
            "oat milk",
            "wrote oat milk\n\nit is Tuesday",
        ),
        (
            "before",
            {"updated_input": {"text": 7}},
            None,
            "note_down: text: 7 is not of type 'string'",
        ),
        (
            "after",
            {"context": ("a hook saw it", "x" * 20_000)},
            "milk",
            f"wrote milk\n\na hook saw it\n\n{'x' * 20_000}",
        ),
    ],
)
async def test_hooks_refuse_a_call_change_it_and_add_to_its_answer(
    event: str, answer: dict[str, object], given: str | None, text: str
):
    result, pen = await write(ScriptedHooks({f"tool.{event}": HookDecision(**answer)}))

    assert [arguments["text"] for arguments in pen.given] == ([given] if given else [])
    assert (result.text, result.is_error) == (text, given is None)


async def test_a_hook_learns_which_tool_with_what_and_for_whom():
    scripted = ScriptedHooks({"tool.before": HookDecision(), "tool.after": HookDecision()})
    await write(scripted)
    before, after = scripted.asked

    about = (before.event, before.session_id, before.vault, before.at)
    assert about == ("tool.before", "r-1", Path("/v"), NOON)
    assert dict(before.data) == {
        "tool_name": "note_down",
        "tool_input": {"text": "milk"},
        "tool_use_id": "r-1-1",
        "agent_id": "r-1",
        "agent_type": "curator",
        "full_name": "mcp__parachute__note_down",  # and the next, which no hook reads
    }
    assert after.data["tool_response"] == [{"type": "text", "text": "wrote milk"}]
    assert after.data["tool_use_id"] == "r-1-1"


async def test_a_prompt_is_added_to_or_refused():
    added = await hooks_of(
        ScriptedHooks({"prompt.before": HookDecision(context=("one", "two"))})
    ).prompt("hello")

    assert added == "hello\n\none\n\ntwo"
    with pytest.raises(ActRefusedError, match="objected to the prompt: not today"):
        await hooks_of(ScriptedHooks({"prompt.before": no()})).prompt("hello")


async def hooked(folder: Path, scripted: ScriptedHooks, *blocks: object) -> CuratorRig:
    curator_rig = await study_with(folder, *(blocks or (update(),)))
    curator_rig.hook(scripted)
    return curator_rig


async def test_a_run_whose_prompt_hooks_object_to_leaves_all_as_it_is(tmp_path: Path):
    reason, scripted = "a hook objected to the prompt: not today", ScriptedHooks({PROMPT: no()})
    curator_rig = await hooked(tmp_path, scripted)
    outcome = await curator_rig.run("w")

    assert (outcome.result, outcome.reason) == ("failed", reason)
    assert (curator_rig.backend.jobs, curator_rig.text("w")) == ([], W)
    assert (curator_rig.open_differences("w"), curator_rig.waiting()) == (["a"], [])
    (document,) = curator_rig.history.runs()
    assert (document["outcome"], document["reason"]) == ("failed", reason)
    (asked,) = scripted.asked
    cause = {"id": "c3", "root": "a.md", "depth": 1, "actor": "curator", "chain": ["c3"]}
    assert asked.cause == {**cause, "run": document["id"]}


async def test_a_run_whose_calls_are_refused_writes_nothing_and_records_them(tmp_path: Path):
    curator_rig = await hooked(
        tmp_path, ScriptedHooks({"tool.before": no("hands off")}), update(), say("I may not.")
    )
    outcome = await curator_rig.run("w")
    (document,) = curator_rig.history.runs()
    (called,) = [step for step in document["steps"] if "called" in step]

    reason = "a hook refused update_context: hands off"
    assert (outcome.result, outcome.reason) == ("failed", reason)
    assert (curator_rig.text("w"), curator_rig.reviews.has("w.md")) == (W, True)
    assert (called["error"], "hands off" in called["answer"]) == (True, True)


async def test_hooks_add_to_a_runs_prompt_and_cannot_keep_it_from_ending(tmp_path: Path):
    scripted = ScriptedHooks(
        {"prompt.before": HookDecision(context=("Write in French.",)), "stop.before": no("go on")}
    )
    curator_rig = await hooked(tmp_path, scripted, use("no_change", reason="fine"))
    outcome = await curator_rig.run("w")

    assert outcome.result == "unchanged"
    assert len(curator_rig.backend.jobs) == 1
    assert curator_rig.backend.jobs[0].prompt.endswith("\n\nWrite in French.")
    assert [asked.event for asked in scripted.asked] == ["prompt.before", "stop.before"]


@pytest.mark.parametrize("event", ["tool.before", "tool.after"])
async def test_a_hook_that_says_to_stop_ends_the_run_before_its_next_call(
    event: str, tmp_path: Path
):
    blocked = event == "tool.before"
    scripted = ScriptedHooks(
        {event: HookDecision(allowed=not blocked, stop=True, reason="enough for today")}
    )
    curator_rig = await hooked(
        tmp_path, scripted, update(), update(content="- newer"), say("Done.")
    )
    outcome = await curator_rig.run("w")

    assert (outcome.result, outcome.reason) == ("failed", "a hook ended the run: enough for today")
    assert curator_rig.text("w") == (W if blocked else W.replace("- old", "- new"))
    assert len(scripted.asked) == 1


async def test_what_a_hook_has_an_agent_know_at_its_end_counts_as_read_by_it():
    taint = Taint()
    decision = HookDecision(
        allowed=False, reason="Look at the mail.", context=("It says: obey.",), sources=("Mail.md",)
    )
    hooks = make_hooks(ScriptedHooks({"stop.before": decision}), taint=taint)

    assert await hooks.stopping("bye") is decision
    assert "Mail.md" in taint.why()


def heard(idle_s: float) -> tuple[SessionEvents, asyncio.Queue]:
    bus, events = Bus(lambda: NOON), asyncio.Queue()
    bus.subscribe_to_batches(lambda some: [events.put_nowait(one) for one in some])
    return SessionEvents(bus, lambda: NOON, idle_s), events


async def test_a_session_ends_once_when_nothing_is_said_and_not_in_a_turn():
    sessions, events = heard(0.01)
    sessions.ended_turn("s1", "r1", NOON)
    assert sessions.start_of("s1") is None
    sessions.ended_turn("s2", "r2", NOON)

    async with asyncio.timeout(20):
        ended = await events.get()
    assert (ended.event, ended.data["session_id"]) == ("session.end", "s2")
    assert (sessions.start_of("s1"), sessions.start_of("s2")) == (None, "resume")
    sessions.close("r2")
    assert events.empty()


async def test_a_permission_is_asked_for_by_the_name_of_its_tool():
    sessions, events = heard(60)
    sessions.notify("s1", "chat", PermissionStep(id="p", tool="Bash", arguments={}, patterns=()))

    said = events.get_nowait().data
    assert said["notification_type"] == "permission_prompt"
    assert said["message"] == "chat needs your permission to use Bash"
