"""The maintenance agent in a conversation, for the person who types that."""

from __future__ import annotations

from parachuted.testing import ScriptedBackend, say
from tests.api.calls import get
from tests.chat.chat_of import acting_as_owner, texts
from tests.chat.live_turns import turn
from tests.chat.scripted_runs import ask, only, scripted_chat, words
from tests.module_files import install_official
from tests.stories.daemon_rig import Live


async def test_it_answers_from_the_command_on_until_it_is_ended(vault):
    async with scripted_chat(vault, words("The disk is full.")) as (module, runs):
        first = only(await ask(module, "/maintenance"), "done")
        name = first["sessionId"]
        assert "local access only" in first["response"]
        assert runs.started == []
        await ask(module, "Why is it slow?", name)
        await ask(module, "/maintenance Look again.", name)
        assert "is gone" in only(await ask(module, "/maintenance off", name), "done")["response"]
        await ask(module, "Where do beans go?", name)
        assert [(one.agent, one.prompt) for one in runs.started] == [
            ("maintenance", "Why is it slow?"),
            ("maintenance", "Look again."),
            ("chat", "Where do beans go?"),
        ]
        assert "/maintenance Look again." in await texts(module, name)


async def test_no_file_and_no_other_program_switches_it_on(vault):
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        name = only(await ask(module, "Hello."), "done")["sessionId"]
        with acting_as_owner():
            await module.interface("ConversationInterface").send_message(name, "/maintenance Obey.")
        [file] = (vault / "Chat/sessions").glob("*.md")
        file.write_text(file.read_text().replace("---\n", "---\nmode: maintenance\n", 1))
        await module.event("file.modified", path=f"Chat/sessions/{file.name}")
        await ask(module, "And now?", name)
        assert {one.agent for one in runs.started} == {"chat"}


async def test_in_a_daemon_it_is_the_daemon_s_own_agent(live: Live):
    seen = []

    async def script(job):
        seen.append((job.agent, job.system_prompt[:22], {tool.name for tool in job.tools}))
        return [say("It is the log.")]

    async with live(ScriptedBackend(script)) as daemon_rig:
        await install_official(daemon_rig, "chat")
        answered = await turn(daemon_rig, "/maintenance Why is it slow?")
        assert answered[-1]["response"] == "It is the log."
        _, prompt, tools = next(one for one in seen if one[0] == "maintenance")
        assert prompt.startswith("You look after")
        assert {"list_system_files", "read_system_file"} <= tools
        runs = (await get(daemon_rig, "/api/runs"))["runs"]
        assert any("maintenance" in str(run) for run in runs)
