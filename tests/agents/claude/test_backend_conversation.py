"""A conversation's run on the real CLI: words as they come, tools by id, what is said meanwhile,
and sessions that go on.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from parachuted.agents.job import (
    ConversationInput,
    PromptFile,
    RunResult,
    SessionStep,
    TextDelta,
    TextStep,
    ThinkingDelta,
    ToolCallStep,
    ToolResult,
    ToolUseStep,
    UsageStep,
)
from parachuted.testing import Delay, Reply, say, think, use

PIXEL = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
    b"\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x56\xc7\x2f"
    b"\x0d\x00\x00\x00\x00IEND\xaeB`\x82"
)


def said_in(request) -> str:
    return str(request.body["messages"])


async def test_words_arrive_as_the_model_says_them_and_tools_by_their_ids(claude, job, run):
    claude.api.add(
        [say("I look it up.", pieces=3), use("read_context", file_path="a.md")],
        Reply(
            blocks=(say("Done."),), usage={"input_tokens": 300, "cache_read_input_tokens": 1_000}
        ),
    )

    outcome = await run(claude.backend, job(conversation=ConversationInput()))

    assert outcome.error is None
    steps = [step for step in outcome.steps if not isinstance(step, UsageStep | RunResult)]
    assert isinstance(steps[0], SessionStep)
    assert not steps[0].is_resumed
    parts = [step.text for step in steps if isinstance(step, TextDelta)]
    assert len(parts) == 4
    assert "".join(parts) == "I look it up.Done."
    [asked] = [step for step in steps if isinstance(step, ToolUseStep)]
    [called] = [step for step in steps if isinstance(step, ToolCallStep)]
    assert (asked.id, asked.tool, asked.arguments) == (
        called.id,
        "read_context",
        {"file_path": "a.md"},
    )
    assert steps.index(asked) < steps.index(called)
    assert [step.text for step in steps if isinstance(step, TextStep)] == ["I look it up.", "Done."]
    usage = [step for step in outcome.steps if isinstance(step, UsageStep)]
    assert (usage[-1].context_tokens, usage[-1].cache_read_tokens) == (1_320, 1_000)
    assert (usage[-1].input_tokens, usage[-1].output_tokens) == (1_400, 40)
    assert usage[-1].cost_usd > 0
    assert outcome.account.session_id == steps[0].session_id


async def test_what_the_model_thinks_arrives_too(claude, job, run):
    claude.api.add([think("Hm."), say("Yes.")])

    outcome = await run(claude.backend, job(conversation=ConversationInput()))

    assert [step.text for step in outcome.steps if isinstance(step, ThinkingDelta)] == ["Hm."]


async def test_a_run_that_is_not_a_conversation_has_no_such_steps(claude, job, run):
    claude.api.add([say("I look.", pieces=2), use("read_context", file_path="a.md")], [say("Done")])

    outcome = await run(claude.backend, job())

    assert {type(step) for step in outcome.steps} == {TextStep, ToolCallStep, RunResult}


async def test_what_is_said_during_a_tool_call_reaches_the_model_next(claude, job, run, agent_rig):
    said = ConversationInput()

    async def answer(_arguments):
        assert said.inject("And the second bed?")
        return ToolResult(text="the first bed")

    agent_rig.answers["read_context"] = answer
    claude.api.add([use("read_context", file_path="a.md")], [say("Both.")], [say("Both again.")])

    outcome = await run(claude.backend, job(conversation=said))

    assert outcome.error is None
    assert any("And the second bed?" in said_in(request) for request in claude.api.asked[1:])
    assert not said.inject("Too late.")


async def test_what_is_said_while_the_model_speaks_gets_an_answer_of_its_own(claude, job, run):
    said = ConversationInput()

    def first_answer(_request):
        asyncio.get_running_loop().call_later(0.2, said.inject, "One more thing.")
        return Delay(seconds=1.0, then=[say("First.")])

    claude.api.add(first_answer, [say("Second.")])

    outcome = await run(claude.backend, job(conversation=said))

    assert outcome.error is None
    assert [step.text for step in outcome.steps if isinstance(step, TextStep)] == [
        "First.",
        "Second.",
    ]
    assert "One more thing." in said_in(claude.api.asked[1])
    assert [type(step) for step in outcome.steps].count(RunResult) == 1


async def test_a_session_goes_on_with_a_new_prompt_and_what_was_said(claude, job, run):
    claude.api.add([say("Blue.")], [say("As I said.")])
    first = await run(claude.backend, job(conversation=ConversationInput()))
    again = job(
        conversation=ConversationInput(),
        session_id=first.account.session_id,
        system_prompt="You are somebody else.",
        prompt="Again?",
        history="(all that was said)",
    )

    outcome = await run(claude.backend, again)

    [session] = [step for step in outcome.steps if isinstance(step, SessionStep)]
    assert (session.session_id, session.is_resumed) == (first.account.session_id, True)
    assert session.model
    assert "mcp__" not in " ".join(session.tools)
    assert "Blue." in said_in(claude.api.asked[1])
    assert "(all that was said)" not in said_in(claude.api.asked[1])
    assert "You are somebody else." in str(claude.api.asked[1].body["system"])
    assert "You tend notes." not in str(claude.api.asked[1].body["system"])


async def test_a_transcript_of_long_ago_is_still_there_for_its_session(claude, job, run):
    claude.api.add([say("Blue.")], Delay(seconds=6, then=[say("Hello.")]), [say("As I said.")])
    first = await run(claude.backend, job(conversation=ConversationInput()))
    name = f"{first.account.session_id}.jsonl"
    [transcript] = claude.settings.folder.rglob(name)
    long_ago = time.time() - 400 * 86_400
    os.utime(transcript, (long_ago, long_ago))
    await run(claude.backend, job(conversation=ConversationInput()))
    assert transcript.exists()

    again = await run(
        claude.backend, job(conversation=ConversationInput(), session_id=first.account.session_id)
    )

    [session] = [step for step in again.steps if isinstance(step, SessionStep)]
    assert (session.session_id, session.is_resumed) == (first.account.session_id, True)
    assert "Blue." in said_in(claude.api.asked[2])


async def test_a_session_that_is_gone_goes_on_from_the_history(claude, job, run):
    claude.api.add([say("I see.")])
    lost = job(
        conversation=ConversationInput(),
        session_id="00000000-0000-4000-8000-000000000000",
        history="Person: what colour? Agent: blue.",
    )

    outcome = await run(claude.backend, lost)

    [session] = [step for step in outcome.steps if isinstance(step, SessionStep)]
    assert not session.is_resumed
    assert session.session_id != lost.session_id
    assert "Agent: blue." in said_in(claude.api.asked[0])


async def test_a_picture_goes_with_the_prompt(claude, job, run):
    claude.api.add([say("A red pixel.")])
    picture = PromptFile(path="a.png", media_type="image/png", data=PIXEL)

    outcome = await run(claude.backend, job(conversation=ConversationInput(), files=(picture,)))

    assert outcome.error is None
    assert "'type': 'image'" in said_in(claude.api.asked[0])


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode()


async def test_the_cli_is_started_so_that_it_deletes_no_old_transcript(claude, job, run, agent_rig):
    started = []

    async def answer(_arguments):
        started.extend(map(command_of, claude.left_over()))
        return ToolResult(text="seen")

    agent_rig.answers["read_context"] = answer
    claude.api.add([use("read_context", file_path="a.md")], [say("One.")])

    outcome = await run(claude.backend, job())

    assert outcome.error is None
    [command] = [line for line in started if "--settings\0" in line]
    assert '"cleanupPeriodDays": 36500' in command
    assert "--setting-sources=\0" in command
    assert "--system-prompt-snapshot\0off" in command
