"""Turns as an app has them: asked, followed, stopped, cut off, asked again."""

from __future__ import annotations

import asyncio
import base64

import pytest

from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    AgentUnavailableError,
    EditRefusedError,
    NotFoundError,
    UnfitError,
)
from parachuted.modules import (
    AgentPermissionRequest,
    AgentQuestion,
    AgentTextDelta,
    AgentToolCall,
    AgentToolUse,
    Response,
)
from tests.chat.app_decoder import decode
from tests.chat.chat_of import sessions_of, texts
from tests.chat.scripted_runs import (
    ask,
    events_of,
    kinds,
    only,
    scripted_chat,
    until,
    words,
)


def files(vault):
    return "".join(path.read_text() for path in (vault / "Chat/sessions").glob("*.md"))


async def in_background(group, module, message="Go on.", session_id=None):
    """Start a turn whose client reads on, and wait until its session is known."""
    reading = group.create_task(ask(module, message, session_id))
    streams = []

    async def active():
        return (await module.request("GET", "/active-streams"))["streams"]

    async with asyncio.timeout(60):
        while not (streams := await active()):
            await asyncio.sleep(0.001)
    return reading, streams[0]["session_id"]


async def pending_of(module, session):
    """What waits for an answer there, once something does."""
    path = f"/{session}/pending-questions"
    async with asyncio.timeout(60):
        while not (found := (await module.request("GET", path))["pending"]):
            await asyncio.sleep(0)
    return found


async def test_a_new_chat_has_all_events_of_the_app_in_their_order(vault):
    script = [
        *words("I will look."),
        AgentToolUse(id="t1", tool="search_notes", arguments={"query": "beans"}),
        AgentToolCall(id="t1", tool="search_notes", arguments={"query": "beans"}, answer="none"),
        *words("There is nothing."),
    ]
    async with scripted_chat(vault, script) as (module, _):
        events = await ask(module, "Beans?")
        steps = [kind for kind in kinds(events) if kind != "text"]
        assert steps == [
            *("session", "session", "user_message", "prompt_metadata", "session"),
            *("tool_use", "tool_result", "done"),
        ]
        assert events[0]["sessionId"] is None
        done = events[-1]
        assert done["sessionId"] == events[1]["sessionId"]
        assert done["response"] == "I will look.\n\nThere is nothing."
        assert done["messageCount"] == 2
        assert only(events, "text")["content"] == "There is nothing."
        stored = (await module.request("GET", f"/{done['sessionId']}"))["messages"]
        assert [one["role"] for one in stored] == ["user", "assistant"]


async def test_the_question_is_on_the_disk_before_the_model_is_asked(vault):
    seen = []

    def script(_prompt, _options):
        seen.append(files(vault))
        return words("Yes, on the left bed.")

    async with scripted_chat(vault, script) as (module, _):
        await ask(module, "Are there beans?")
    assert "Are there beans?" in seen[0]
    assert files(vault).count("Are there beans?") == 1
    assert files(vault).count("Yes, on the left bed.") == 1


async def test_a_file_that_refuses_the_answer_ends_the_turn_with_an_error(vault):
    def script(_prompt, _options):
        (path,) = (vault / "Chat/sessions").iterdir()
        path.write_bytes(b"\xff\xfe no text")
        return words("In the sun.")

    async with scripted_chat(vault, script) as (module, _):
        events = await ask(module, "Where do the beans go?")
        assert events[-1]["type"] == "typed_error"
        assert only(events, "text")["content"] == "In the sun."
        (path,) = (vault / "Chat/sessions").iterdir()
        assert path.read_bytes() == b"\xff\xfe no text"


async def test_an_answer_that_is_in_the_file_is_not_put_there_again(vault, monkeypatch):
    async with scripted_chat(vault, words("In the sun.")) as (module, _):

        async def fails(_session_id):
            raise NotFoundError("it was renamed just now")

        monkeypatch.setattr(sessions_of(module), "get_with_messages", fails)
        events = await ask(module, "Where do the beans go?")
        assert events[-1]["type"] == "typed_error"
    assert files(vault).count("In the sun.") == 1


async def test_a_turn_goes_on_without_its_client_and_others_follow_it(vault):
    wait = asyncio.Event()
    script = [AgentTextDelta(text="Be"), wait, AgentTextDelta(text="ans"), AgentTextDelta(text="!")]
    async with scripted_chat(vault, script) as (module, runs):
        async with asyncio.TaskGroup() as group:
            reading, session = await in_background(group, module)
            await until(lambda: runs.started and len(runs.started[0].moments) < 3)
            reading.cancel()
            following = [
                group.create_task(module.request("GET", f"/{session}/stream")) for _ in range(2)
            ]
            assert await module.request("GET", f"/{session}/stream-status") == {"active": True}
            wait.set()
        first, second = (events_of(one.result()) for one in following)
        assert kinds(first) == kinds(second)
        assert only(first, "text")["content"] == "Beans!"
        assert first[-1]["type"] == "done"
        assert await texts(module, session) == ["Go on.", "Beans!"]
        last = first[-1]["_id"]
        after = await module.request("GET", f"/{session}/stream", query={"after": last})
        assert kinds(events_of(after)) == []
        place = next(one["_id"] for one in first if one["type"] == "prompt_metadata")
        after = await module.request("GET", f"/{session}/stream", query={"after": place})
        assert kinds(events_of(after))[-1] == "done"
        assert "user_message" not in kinds(events_of(after))


async def test_a_stopped_turn_keeps_what_was_said_and_marks_it(vault):
    script = [AgentTextDelta(text="Half an ans"), asyncio.Event()]
    async with scripted_chat(vault, script) as (module, runs):
        async with asyncio.TaskGroup() as group:
            reading, session = await in_background(group, module)
            await until(lambda: runs.started and not runs.started[0].moments)
            await module.request("POST", f"/{session}/abort")
        events = reading.result()
        assert events[-1]["type"] == "aborted"
        assert events[-1]["partialResponse"] == "Half an ans"
        assert await texts(module, session) == ["Go on.", "Half an ans"]
        assert '"aborted": true' in files(vault)
        with pytest.raises(NotFoundError):
            await module.request("POST", f"/{session}/abort")
        runs.script = words("Whole.")
        again = await ask(module, "Once more.", session)
        assert only(again, "session")["sessionResume"]["method"] == "context_injection"
        assert "Half an ans" in runs.started[1].options["history"]


async def test_what_is_said_meanwhile_reaches_the_agent_and_the_file(vault):
    wait = asyncio.Event()
    async with scripted_chat(vault, [AgentTextDelta(text="A"), wait]) as (module, runs):
        async with asyncio.TaskGroup() as group:
            reading, session = await in_background(group, module)
            await until(lambda: runs.started and not runs.started[0].moments)
            await module.request("POST", f"/{session}/inject", body={"message": "Shorter!"})
            statuses = set()
            for _ in range(25):
                answer = await module.request("POST", f"/{session}/inject", body={"message": "x"})
                statuses.add(answer.status if isinstance(answer, Response) else 200)
            assert statuses == {200, 429}
            with pytest.raises(UnfitError, match="message"):
                await module.request("POST", f"/{session}/inject", body={"message": "x" * 32_001})
            wait.set()
        assert runs.started[0].injected[0] == "Shorter!"
        assert "Shorter!" in await texts(module, session)
        assert "injected" in kinds(reading.result())
        with pytest.raises(NotFoundError):
            await module.request("POST", f"/{session}/inject", body={"message": "late"})


async def test_a_question_waits_as_an_object_until_it_is_answered(vault):
    wait = asyncio.Event()
    question = {"question": "Which bed?", "header": "Bed", "options": [{"label": "Left"}]}
    asked = AgentQuestion(id="q1", questions=(question,))
    async with scripted_chat(vault, [asked, wait, *words("The left.")]) as (module, runs):
        async with asyncio.TaskGroup() as group:
            reading, session = await in_background(group, module)
            pending = await pending_of(module, session)
            assert decode(pending[0], "request_id:s")["request_id"] == f"{session}-q-q1"
            (shown,) = pending[0]["questions"]
            fields = "question:s header:s options:options multiSelect:b"
            assert decode(shown, fields)["question"] == "Which bed?"
            decode(await module.request("GET", f"/{session}/stream-status"), "active:b")
            body = {"request_id": "nobody", "answers": {"Which bed?": "left"}}
            with pytest.raises(NotFoundError):
                await module.request("POST", f"/{session}/answer", body=body)
            body["request_id"] = pending[0]["request_id"]
            await module.request("POST", f"/{session}/answer", body=body)
            with pytest.raises(NotFoundError):
                await module.request("POST", f"/{session}/answer", body=body)
            wait.set()
        assert runs.started[0].answers == {"q1": {"Which bed?": "left"}}
        assert {"user_question", "answered"} <= set(kinds(reading.result()))
        assert (await module.request("GET", f"/{session}/pending-questions"))["pending"] == []


async def test_a_permission_is_granted_or_denied_with_its_patterns(vault):
    request = AgentPermissionRequest(
        id="p1", tool="Bash", arguments={"command": "git log"}, patterns=("git *",)
    )
    async with scripted_chat(vault) as (module, runs):
        for decision, body, reported in (
            ("grant", {}, "allow"),
            ("grant", {"pattern": "git *"}, {"pattern": "git *"}),
            ("deny", {}, "deny"),
        ):
            wait = asyncio.Event()
            runs.script = [request, wait]
            async with asyncio.TaskGroup() as group:
                reading, session = await in_background(group, module)
                await pending_of(module, session)
                para_id = (await module.request("GET", f"/{session}"))["paraId"]
                path = f"/{para_id}/permissions/{session}-q-p1"
                with pytest.raises(ActRefusedError, match="git"):
                    await module.request("POST", f"{path}/grant", body={"pattern": "rm *"})
                with pytest.raises(NotFoundError):
                    await module.request("POST", f"/{session}/permissions/other/deny")
                await module.request("POST", f"{path}/{decision}", body=body)
                wait.set()
            assert runs.started[-1].answers == {"p1": reported}
            assert {"permission_request", "user_question"} <= set(kinds(reading.result()))


async def test_what_goes_on_after_a_turn_ends_before_the_sessions_are_closed(vault):
    async with scripted_chat(vault, words("Yes.")) as (module, _runs):
        chat, at_work, left = module.instance, asyncio.Event(), []

        async def follow(_ended):
            at_work.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.append((await chat.sessions.count())[0])

        chat.turns.followers.append(follow)
        await ask(module, "Beans?")
        await at_work.wait()
        await chat.on_disable()
        assert left == [1]


async def test_what_is_left_of_a_sessions_turns_ends_with_the_session(vault):
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        for method, path, body in (
            ("DELETE", "", None),
            ("POST", "/archive", None),
            ("PATCH", "", {"archived": True}),
        ):
            events = await ask(module, "Beans?")
            assert not runs.started[-1].stopped.is_set()
            await module.request(method, f"/{events[-1]['sessionId']}{path}", body=body)
            assert runs.started[-1].stopped.is_set(), (method, path)


async def test_a_failure_says_what_it_is_after_one_try_and_keeps_what_was_said(vault):
    script = [AgentTextDelta(text="Half"), AgentFailedError("the agent failed: bad request")]
    async with scripted_chat(vault, script) as (module, runs):
        events = await ask(module, "Beans?")
        assert (events[-1]["type"], events[-1]["canRetry"]) == ("typed_error", False)
        assert len(runs.started) == 1
        session = events[-1]["sessionId"]
        assert await texts(module, session) == ["Beans?", "Half"]
        runs.script = [AgentUnavailableError("the model answered 529: overloaded", wait_s=9.0)]
        events = await ask(module, "Again?", session)
        assert (events[-1]["code"], events[-1]["retryDelayMs"]) == ("service_error", 9_000)
        assert len(runs.started) == 2
        runs.script = words("Now.")
        await ask(module, "Again?", session)
        assert (await texts(module, session))[2:] == ["Again?", "Now."]


async def test_no_session_no_words_no_such_trust(vault):
    async with scripted_chat(vault, words("Hello.")) as (module, runs):
        with pytest.raises(NotFoundError):
            await ask(module, "Hello?", "nobody")
        with pytest.raises(EditRefusedError):
            await ask(module, "  ")
        events = await ask(module, "Hello?", trustLevel="sandboxed")
        session = events[-1]["sessionId"]
        events = await ask(module, "More!", session, trustLevel="direct")
        assert events[-1]["type"] == "typed_error"
        assert "sandboxed" in events[-1]["message"]
        assert len(runs.started) == 1
        for path in ("stream", "pending-questions"):
            with pytest.raises(NotFoundError):
                await module.request("GET", f"/nobody/{path}")


async def test_a_turn_that_a_restart_cut_off_is_shown_so_and_asked_again(vault):
    async with (
        scripted_chat(vault, [AgentTextDelta(text="Hal"), asyncio.Event()]) as (
            module,
            runs,
        ),
        asyncio.TaskGroup() as group,
    ):
        reading, session = await in_background(group, module, "Beans?")
        await until(lambda: runs.started and not runs.started[0].moments)
        reading.cancel()
    async with scripted_chat(vault, words("Beans.")) as (module, runs):
        found = events_of(await module.request("GET", f"/{session}/stream", query={"after": "x-3"}))
        assert found[1]["type"] == "reset"
        assert kinds(found) == ["session", "user_message", "text", "typed_error"]
        assert found[-1]["canRetry"] is True
        assert await module.request("GET", f"/{session}/stream-status") == {"active": False}
        again = events_of(await module.request("POST", f"/{session}/retry"))
        assert again[-1]["type"] == "done"
        assert await texts(module, session) == ["Beans?", "Hal", "Beans."]
        assert runs.started[0].prompt == "Beans?"
        with pytest.raises(NotFoundError):
            await module.request("POST", "/nobody/retry")


async def test_a_question_that_a_crash_left_without_an_answer_is_not_asked_twice(vault):
    async with scripted_chat(vault, words("Yes.")) as (module, _):
        session = (await ask(module, "First?"))[-1]["sessionId"]
    path = next((vault / "Chat/sessions").glob("*.md"))
    mark = '<!-- message {"id": "lost", "role": "user", "at": "2026-11-23T10:00:00Z"} -->'
    path.write_text(f"{path.read_text()}\n{mark}\n### User\n\nSecond?\n")
    async with scripted_chat(vault, words("Yes, too.")) as (module, _):
        found = events_of(await module.request("GET", f"/{session}/stream"))
        assert kinds(found) == ["session", "user_message", "typed_error"]
        await ask(module, "Second?", session)
        assert await texts(module, session) == ["First?", "Yes.", "Second?", "Yes, too."]


async def test_files_that_come_along_are_in_the_vault_before_the_agent_is_asked(vault):
    (vault / "Assets").mkdir()
    (vault / "Assets/plan.png").write_bytes(b"png")
    data = base64.b64encode(b"beans").decode()
    attached = [
        {"fileName": "../../a:b.txt", "mimeType": "text/plain", "base64Data": data},
        {"fileName": "plan.png", "filePath": "Assets/plan.png"},
        {"fileName": "gone.png", "filePath": "Assets/gone.png"},
        {"fileName": "bad.png", "base64Data": "%%"},
    ]
    async with scripted_chat(vault, words("Seen.")) as (module, runs):
        events = await ask(module, "See here.", attachments=attached)
        first, second = runs.started[0].options["attachments"]
        assert (vault / first).read_bytes() == b"beans"
        assert first.startswith("Chat/artifacts/")
        assert second == "Assets/plan.png"
        assert runs.started[0].options["narrowing"].read == (first, second)
        warned = [event for event in events if event["type"] == "warning"]
        assert [one["code"] for one in warned] == ["attachment_save_failed"] * 2
        assert f"![[{first}]]" in only(events, "user_message")["content"]


async def test_many_conversations_at_once_are_all_complete_and_in_order(vault):
    def script(prompt, _options):
        return words(" ".join([prompt] * 20))

    async with scripted_chat(vault, script) as (module, _), asyncio.TaskGroup() as group:
        asked = [group.create_task(ask(module, f"Number {number}.")) for number in range(20)]
    stored = files(vault)
    for number, one in enumerate(asked):
        events = one.result()
        spoken = [event for event in events if event["type"] == "text"]
        said = "".join(event["delta"] for event in spoken)
        assert all(said.startswith(event["content"]) for event in spoken[1:])
        ids = [int(event["_id"].rpartition("-")[2]) for event in events if event["_id"]]
        assert ids == sorted(set(ids))
        assert said == " ".join([f"Number {number}."] * 20)
        assert events[-1]["type"] == "done"
        assert stored.count(f"\n{said}\n") == 1
