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
        [think("Hm."), say("I look it up.", pieces=3), use("read_context", file_path="a.md")],
        Reply(
            blocks=(say("Done."),), usage={"input_tokens": 300, "cache_read_input_tokens": 1_000}
        ),
    )
    picture = PromptFile(path="a.png", media_type="image/png", data=PIXEL)

    outcome = await run(claude.backend, job(conversation=ConversationInput(), files=(picture,)))

    assert outcome.error is None
    assert "'type': 'image'" in said_in(claude.api.asked[0])
    session = outcome.steps[0]
    assert isinstance(session, SessionStep)
    assert not session.is_resumed
    assert outcome.account.session_id == session.session_id
    assert [step.text for step in outcome.all(ThinkingDelta)] == ["Hm."]
    parts = [step.text for step in outcome.all(TextDelta)]
    assert len(parts) == 4
    assert "".join(parts) == "I look it up.Done."
    assert outcome.texts == ["I look it up.", "Done."]
    [asked], [called] = outcome.all(ToolUseStep), outcome.all(ToolCallStep)
    assert (asked.tool, asked.arguments) == ("read_context", {"file_path": "a.md"})
    assert asked.id == called.id
    assert outcome.steps.index(asked) < outcome.steps.index(called)
    usage = outcome.all(UsageStep)[-1]
    assert (usage.context_tokens, usage.cache_read_tokens) == (1_320, 1_000)
    assert (usage.input_tokens, usage.output_tokens) == (1_400, 40)
    assert usage.cost_usd > 0


async def test_a_run_that_is_no_conversation_has_no_such_steps(claude, job, run, agent_rig):
    started = []

    async def answer(_arguments):
        started.extend(map(command_of, claude.left_over()))
        return ToolResult(text="seen")

    agent_rig.answers["read_context"] = answer
    claude.api.add([say("I look.", pieces=2), use("read_context", file_path="a.md")], [say("Done")])

    outcome = await run(claude.backend, job())

    assert {type(step) for step in outcome.steps} == {TextStep, ToolCallStep, RunResult}
    [command] = [line for line in started if "--settings\0" in line]
    assert '"cleanupPeriodDays": 36500' in command
    assert "--setting-sources=\0" in command
    assert "--system-prompt-snapshot\0off" in command


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


async def test_a_session_goes_on_after_long_and_a_lost_one_from_the_history(claude, job, run):
    said = ConversationInput()

    def first_answer(_request):
        asyncio.get_running_loop().call_later(0.2, said.inject, "One more thing.")
        return Delay(seconds=6, then=[say("First.")])  # as long as the CLI tidies up

    claude.api.add([say("Blue.")], first_answer, [say("Second.")], [say("As I said.")])
    history, lost = "Person: what colour? Agent: red.", "00000000-0000-4000-8000-000000000000"
    again = {"system_prompt": "You are somebody else.", "history": "(all that was said)"}

    first = await run(
        claude.backend, job(conversation=ConversationInput(), session_id=lost, history=history)
    )
    [session], name = first.all(SessionStep), first.account.session_id
    assert not session.is_resumed
    assert session.session_id == name != lost
    assert "Agent: red." in said_in(claude.api.asked[0])
    [transcript] = claude.settings.folder.rglob(f"{name}.jsonl")
    long_ago = time.time() - 400 * 86_400
    os.utime(transcript, (long_ago, long_ago))

    # what is said while the model speaks gets an answer of its own
    between = await run(claude.backend, job(conversation=said))
    assert between.error is None
    assert between.texts == ["First.", "Second."]
    assert "One more thing." in said_in(claude.api.asked[2])
    assert len(between.all(RunResult)) == 1
    assert transcript.exists()

    outcome = await run(
        claude.backend, job(conversation=ConversationInput(), session_id=name, **again)
    )
    [session], asked = outcome.all(SessionStep), claude.api.asked[3]
    assert (session.session_id, session.is_resumed) == (name, True)
    assert session.model
    assert "mcp__" not in " ".join(session.tools)
    assert "Blue." in said_in(asked)
    assert "(all that was said)" not in said_in(asked)
    assert "You are somebody else." in str(asked.body["system"])
    assert "You tend notes." not in str(asked.body["system"])


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode()
