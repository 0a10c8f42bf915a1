"""A conversation's run as a module starts it: what is said into it, what it asks, and what it may
not.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from parachuted.access.caller import Caller, WorkRequest, acting
from parachuted.agents.calling import call_tool
from parachuted.agents.job import SessionStep, ToolResult, UsageStep
from parachuted.agents.offline import OfflineBackend
from parachuted.agents.permission import PermissionRequests
from parachuted.errors import ActRefusedError, AgentUnavailableError
from parachuted.hooks.decision import HookDecision
from parachuted.hooks.hook_event import HookEvent, document
from parachuted.modules import (
    AgentNarrowing,
    AgentPermissionRequest,
    AgentQuestion,
    AgentResult,
    AgentText,
    AgentTextDelta,
    AgentToolCall,
)
from parachuted.testing import ScriptedBackend, say, use
from tests.modules.module_rig import ModuleRig

MANIFEST = """
permissions:
  read: ["Brain/**", "Work/**"]
  write: ["Brain/**", "Work/**"]
  mcp: [look, dig]
agents:
  chat:
    paths: ["Brain/**", "Work/**"]
    capabilities: [read, write]
    system_prompt: You are the agent's own.
"""
QUESTION = {
    "question": "Which bed?",
    "header": "Bed",
    "options": [{"label": "North", "description": "in the shade"}, {"label": "South"}],
    "multiSelect": False,
}


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save("Brain/a.md", "# A\n\nblue\n")
    module_rig.save("Work/b.md", "# B\n\ngreen\n")
    return module_rig


def runs_of(rig: ModuleRig, backend, **more: object):
    return rig.given(rig.approve(MANIFEST), rig.agents(backend, **more)).runs


async def talk(runs, prompt: str = "Dig.", **options: object) -> AgentResult:
    """A turn of a conversation, to its end."""
    return await runs.result(await runs.start("chat", prompt, {"conversation": True, **options}))


async def steps_of(runs, run: str) -> list[object]:
    found = []
    while (step := await runs.next(run)) is not None:
        found.append(step)
    return found


async def test_a_question_is_notified_and_waits_for_its_answer(module_rig):
    backend = ScriptedBackend([use("AskUserQuestion", questions=[QUESTION]), say("South, then.")])
    runs = runs_of(module_rig, backend)
    run = await runs.start("chat", "Dig.", {"conversation": True})

    asked = await runs.next(run)
    assert isinstance(asked, AgentQuestion)
    options = [QUESTION["options"][0], {"label": "South", "description": ""}]
    assert list(asked.questions) == [{**QUESTION, "options": options}]
    (said,) = reported(module_rig, "session.notification")
    assert (said["notification_type"], said["message"]) == ("agent_needs_input", "Which bed?")
    assert await runs.answer(run, "q-of-another", "x") is False
    with pytest.raises(ActRefusedError, match="an answer is a text"):
        await runs.answer(run, asked.id, 3)
    assert await runs.answer(run, asked.id, {"Which bed?": ["South", "North"]}) is True
    called = await runs.next(run)
    assert isinstance(called, AgentToolCall)
    assert called.answer == "Which bed?: South, North"
    assert (await runs.result(run)).text == "South, then."
    assert await runs.answer(run, asked.id, "x") is False
    assert await runs.inject(run, "x") is False


async def test_what_is_injected_waits_for_the_agent_and_not_without_end(module_rig):
    heard, wait = [], asyncio.Event()

    async def script(job):
        await wait.wait()
        heard.append(await job.conversation.next_text())
        return [say("Yes.")]

    runs = runs_of(module_rig, ScriptedBackend(script))
    run = await runs.start("chat", "Dig.", {"conversation": True})
    with pytest.raises(ActRefusedError, match="1 to 100,000"):
        await runs.inject(run, " ")
    assert await runs.inject(run, "Deeper.") is True
    for _ in range(19):
        await runs.inject(run, "More.")
    with pytest.raises(ActRefusedError, match="wait for the agent already"):
        await runs.inject(run, "More.")
    wait.set()
    await runs.result(run)
    assert heard == ["Deeper."]


async def test_a_run_that_is_not_a_conversation_is_asked_and_given_nothing(module_rig):
    runs = runs_of(module_rig, ScriptedBackend([say("x")]))
    run = await runs.start("chat", "Dig.", {})
    await runs.result(run)
    assert await runs.inject(run, "x") is False
    with pytest.raises(ActRefusedError, match="model"):
        await runs.start("chat", "Dig.", {"model": "claude-opus-5"})


async def test_model_prompt_and_folder_are_the_runs_own(module_rig):
    backend = ScriptedBackend([say("x")])
    runs = runs_of(module_rig, backend)
    options = {
        "model": "claude-opus-5",
        "system_prompt": "You are mine.",
        "working_directory": "",
        "history": "Before.",
        "context": "Beans grow.",
        "session_id": None,
        "max_turns": None,
    }
    await talk(runs, **options)
    await talk(runs)

    first, second = backend.jobs
    assert (first.model, first.history) == ("claude-opus-5", "Before.")
    assert first.prompt == "Beans grow.\n\nDig."
    assert first.system_prompt.startswith("You are mine.")
    assert second.system_prompt.startswith("You are the agent's own.")
    assert "Only the messages of the person" in second.system_prompt
    for wrong in ({"model": "--help"}, {"history": 3}, {"narrowing": {"colour": 1}}):
        with pytest.raises(ActRefusedError, match="start: "):
            await talk(runs, **wrong)


async def test_context_folders_are_in_the_prompt_as_far_as_the_agent_may_read(module_rig):
    module_rig.save("Work/AGENTS.md", "# A\n\nDig.\n")
    module_rig.save("Private/AGENTS.md", "# Secret\n")
    backend = ScriptedBackend([say("x")])
    await talk(runs_of(module_rig, backend), context_folders=["Work", "Private"])

    prompt = backend.jobs[0].system_prompt
    assert ("Dig." in prompt, "Secret" in prompt) == (True, False)


async def test_attachments_go_with_the_prompt_within_what_the_agent_may_read(module_rig):
    module_rig.save("Brain/a.png", b"\x89PNG")
    module_rig.save("Private/c.md", "secret")
    backend = ScriptedBackend([say("x")])
    runs = runs_of(module_rig, backend)
    caller = Caller()
    with acting(caller):
        await talk(runs, "Which?", attachments=["Brain/a.md", "Brain/a.png"])

    assert "an answer of" in caller.taint.why()
    [job] = backend.jobs
    assert job.prompt == "The file Brain/a.md:\n\n# A\n\nblue\n\n\nWhich?"
    assert [file.path for file in job.files] == ["Brain/a.png"]
    for path in ("Private/c.md", "Brain/gone.md"):
        with pytest.raises(Exception, match=r"(Private|gone)"):
            await talk(runs, attachments=[path])


def tool(name: str) -> SimpleNamespace:
    words = {"description": "does it", "agent": "", "writes": False}
    return SimpleNamespace(name=name, schema={"type": "object"}, **words)


async def called(job, tool: str, **arguments: object) -> ToolResult:
    return await call_tool(job.tools, tool, arguments)


async def test_a_run_is_only_ever_narrowed(module_rig):
    offered = [("garden", tool("look")), ("garden", tool("dig"))]
    found = {}

    async def script(job):
        found["tools"] = {tool.name for tool in job.tools}
        for path in ("Brain/a.md", "Work/b.md"):
            found["read", path] = (await called(job, "read_note", path=path)).is_error
            result = await called(job, "edit_section", path=path, section="X", text="y")
            found["write", path] = result.is_error
        return [say("x")]

    runs = runs_of(module_rig, ScriptedBackend(script), tools=lambda: offered)

    async def tools_of(**narrowing: object) -> set[str]:
        await talk(runs, narrowing=AgentNarrowing(**narrowing))
        return found["tools"]

    assert {"look", "dig", "write_note", "read_note"} <= await tools_of()
    narrow = await tools_of(read=["Work/**", "Private/**"], write=[], tools=["dig", "other"])
    assert {"look", "dig", "other"} & narrow == {"dig"}
    assert {"look", "dig"}.isdisjoint(await tools_of(tools=[]))
    assert "write_note" not in await tools_of(capabilities=["read"])
    with pytest.raises(ActRefusedError, match="narrowing"):
        await talk(runs, narrowing={"sandbox": {"network": "everything"}})

    await talk(runs, narrowing={"read": ["Brain/**", "Work/**"], "write": ["Work/**"]})
    assert found["read", "Brain/a.md"] is found["read", "Work/b.md"] is False
    assert (found["write", "Brain/a.md"], found["write", "Work/b.md"]) == (True, False)


async def test_without_a_model_a_conversation_is_answered_and_says_so(module_rig):
    runs = runs_of(module_rig, OfflineBackend())
    run = await runs.start("chat", "Which?", {"conversation": True})

    steps = await steps_of(runs, run)
    assert [type(step) for step in steps] == [AgentTextDelta, AgentText]
    assert "no model" in (await runs.result(run)).text
    with pytest.raises(AgentUnavailableError):
        await runs.start("chat", "Which?", {})


async def test_conversations_take_neither_the_room_nor_the_runs_of_other_work(module_rig):
    busy = asyncio.Event()
    began = asyncio.Event()

    async def script(job):
        if job.prompt == "Long.":
            began.set()
            await busy.wait()
        return [say("x")]

    backend = ScriptedBackend(script)
    runs = runs_of(module_rig, backend, concurrency=1, runs=1)
    work = await runs.start("chat", "Long.", {})
    await began.wait()

    with acting(Caller(request=WorkRequest(by="person", entry="http"))):
        for _ in range(3):
            assert (await talk(runs, "Short.")).text == "x"
    assert backend.jobs[-1].pool == "conversation"
    busy.set()
    await runs.result(work)
    with pytest.raises(AgentUnavailableError, match="1 runs per hour"):
        await runs.start("chat", "Short.", {"conversation": True})


ADMIN = Caller(request=WorkRequest(by="person", entry="http", may_administer=True))


@pytest.mark.parametrize(
    ("answer", "allowed"), [("allow", True), ("deny", False), ({"pattern": "Private/**"}, True)]
)
async def test_a_permission_request_is_a_step_that_a_person_answers(module_rig, answer, allowed):
    module_rig.save("Private/c.md", "secret")
    found = []

    async def script(job):
        found.append((await called(job, "read_note", path="Private/c.md")).text)
        return [say("x")]

    permissions = PermissionRequests(module_rig.bus, module_rig.clock)
    runs = runs_of(module_rig, ScriptedBackend(script), permissions=permissions)
    with acting(ADMIN):
        run = await runs.start("chat", "x", {"conversation": True})
        asked = await runs.next(run)
        assert asked == AgentPermissionRequest(
            id=permissions.pending()[0].id,
            tool="Read",
            arguments={"path": "Private/c.md"},
            patterns=("Private/c.md", "Private/**"),
        )
        with pytest.raises(ActRefusedError, match="takes"):
            await runs.answer(run, asked.id, "perhaps")
        with (
            acting(Caller(request=WorkRequest(by="person"))),
            pytest.raises(ActRefusedError, match="admin"),
        ):
            await runs.answer(run, asked.id, "allow")
        assert await runs.answer(run, asked.id, answer) is True
        await runs.result(run)
    assert ("secret" in found[0]) is allowed
    assert permissions.pending() == []


async def test_a_file_that_goes_along_is_asked_about_and_answered_by_either_way(module_rig):
    module_rig.save("Private/c.md", "secret")
    backend = ScriptedBackend([say("Seen.")])
    permissions = PermissionRequests(module_rig.bus, module_rig.clock)
    runs = runs_of(module_rig, backend, permissions=permissions)
    options = {"conversation": True, "attachments": ["Private/c.md"]}
    with acting(ADMIN):
        for is_here in (True, False):
            run = await runs.start("chat", "x", options)
            asked = await runs.next(run)
            if is_here:
                assert await runs.answer(run, asked.id, "allow") is True
            else:
                permissions.answer(asked.id, "once")
            await runs.result(run)
            assert await runs.answer(run, asked.id, "allow") is False
            assert "secret" in backend.jobs[-1].prompt


class ConversationHooks:
    """Hooks that object to an end so many times, and add words where a session starts."""

    def __init__(self, objections: int) -> None:
        self.asked: list[tuple[str, dict[str, object]]] = []
        self.events: list[HookEvent] = []
        self._left = objections

    def wants(self, event: str) -> bool:
        return event in {"stop.before", "session.start", "prompt.before"}

    async def ask(self, hook_event) -> HookDecision:
        self.asked.append((hook_event.event, dict(hook_event.data)))
        self.events.append(hook_event)
        if hook_event.event == "session.start":
            return HookDecision(context=("It is Monday.",))
        if hook_event.event == "prompt.before" or not self._left:
            return HookDecision()
        self._left -= 1
        return HookDecision(allowed=False, reason="Water it too.")

    def tell(self, _hook_event) -> None:
        raise AssertionError


async def test_a_hook_that_objects_to_the_end_has_a_conversation_go_on(module_rig):
    asker, backend = ConversationHooks(2), ScriptedBackend([say("Dug.")])
    runs = runs_of(module_rig, backend, asker=asker)
    run = await runs.start("chat", "Dig.", {"conversation": True})

    assert [step.text for step in await steps_of(runs, run)] == ["Dug."] * 3
    assert [job.prompt for job in backend.jobs] == [
        "Dig.\n\nIt is Monday.",
        "Water it too.",
        "Water it too.",
    ]
    assert backend.jobs[1].session_id == (await runs.result(run)).session_id
    ends = [data["stop_hook_active"] for event, data in asker.asked if event == "stop.before"]
    assert ends == [False, True, True]
    assert ("session.start", "startup") in [(one, data.get("source")) for one, data in asker.asked]
    assert ("prompt.before", "user") in [(one, data.get("source")) for one, data in asker.asked]


def started(asker: ConversationHooks) -> list[object]:
    return [data["source"] for event, data in asker.asked if event == "session.start"]


async def test_a_session_starts_once_and_is_resumed_after_a_restart_alone(module_rig):
    asker = ConversationHooks(0)
    runs = runs_of(module_rig, ScriptedBackend([say("x")]), asker=asker)

    await talk(runs, session_id=(await talk(runs, session_id="earlier")).session_id)
    assert started(asker) == ["resume", "resume"]


async def test_a_session_that_is_closed_starts_again_with_its_next_turn(module_rig):
    asker = ConversationHooks(0)
    runs = runs_of(module_rig, ScriptedBackend([say("Dug.")]), asker=asker)
    session = (await talk(runs)).session_id
    last = (await talk(runs, session_id=session)).run_id
    assert reported(module_rig, "session.end") == []

    await runs.stop(last)
    await runs.stop(last)

    (ended,) = reported(module_rig, "session.end")
    assert (ended["session_id"], ended["message_count"]) == (session, 4)
    assert ended["duration"] >= 0
    await talk(runs, session_id=session)
    assert started(asker) == ["startup", "resume"]


async def test_what_outlasts_a_run_ends_when_the_run_is_stopped_after_its_end(module_rig):
    ended = []

    async def script(job):
        job.hold(lambda: ended.append(job.id))
        return [say("Yes.")]

    runs = runs_of(module_rig, ScriptedBackend(script))
    first = (await talk(runs)).run_id
    await talk(runs, "Deeper.")
    assert ended == []

    assert await runs.stop(first) is False

    assert ended == [first]


def reported(rig: ModuleRig, name: str) -> list[dict[str, object]]:
    return [dict(event.data) for event in rig.events if event.event == name]


async def test_hooks_know_a_conversation_by_its_id_and_folder(module_rig):
    asker = ConversationHooks(0)
    runs = runs_of(module_rig, ScriptedBackend([say("Dug.")]), asker=asker)
    options = {"conversation_id": "talk-1", "conversation_folder": "Work/"}
    first = await talk(runs, **options)
    last = await talk(runs, "Deeper.", session_id=first.session_id, **options)
    await runs.stop(last.run_id)

    place = str(module_rig.vault / "Work")
    (start,) = [event for event in asker.events if event.event == "session.start"]
    assert {event.session_id for event in asker.events} == {"talk-1"}
    read = document(start)
    assert (read["session_id"], read["cwd"]) == ("talk-1", place)
    about = {"session_id": "talk-1", "module": read["module"], "working_directory": place}
    assert about.items() <= read["data"].items()
    (published,) = reported(module_rig, "session.start")
    assert published == about | {"working_directory": "Work"}
    (ended,) = reported(module_rig, "session.end")
    assert (ended["session_id"], ended["message_count"]) == ("talk-1", 4)


class GrowingBackend(ScriptedBackend):
    async def run(self, _job):
        yield SessionStep(session_id="s1", is_resumed=False)
        used = {"input_tokens": 1, "output_tokens": 1, "cache_read_tokens": 0, "cost_usd": 0.0}
        for tokens in (1_000, 170_000, 190_000):
            yield UsageStep(**used, context_tokens=tokens)


async def test_a_nearly_full_context_is_published_once(module_rig):
    await talk(runs_of(module_rig, GrowingBackend()))

    (limit,) = reported(module_rig, "context.limit.approaching")
    assert (limit["session_id"], limit["token_count"]) == ("s1", 170_000)
