"""What a session may use besides its notes, as its prompt's metadata names it, and skills that a
message chooses by name.
"""

from __future__ import annotations

from parachuted.modules import AgentSkill
from tests.chat.scripted_runs import ask, only, scripted_chat, words

WEEKLY = AgentSkill(name="weekly", description="The week", path=".skills/weekly/SKILL.md")


async def test_the_metadata_name_the_vaults_skills_and_the_sessions_servers(vault):
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        runs.skills, runs.servers = {WEEKLY: "Ask."}, ("github", "sums")
        events = await ask(module, "Dig.")
        session = events[-1]["sessionId"]
        reported = only(events, "prompt_metadata")
        assert (reported["availableSkills"], reported["availableMcps"]) == (
            ["weekly"],
            ["github", "sums"],
        )
        for allowed, servers in (([], []), (["sums"], ["sums"]), (None, ["github", "sums"])):
            body = {"permissions": {"allowed_mcps": allowed, "capabilities": ["Read"]}}
            await module.request("PATCH", f"/{session}", body=body)
            reported = only(await ask(module, f"Dig {allowed}.", session), "prompt_metadata")
            assert reported["availableMcps"] == servers


async def test_a_skill_that_a_message_names_goes_ahead_of_it_and_is_counted(vault):
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        runs.skills = {WEEKLY: "Ask three questions."}
        events = await ask(module, "/weekly Plan the week.")
        assert "Ask three questions." in runs.started[-1].options["context"]
        assert runs.started[-1].prompt == "/weekly Plan the week."
        reported = only(events, "prompt_metadata")
        (part,) = [one for one in reported["parts"] if one["kind"] == "skill"]
        assert (part["path"], part["title"], part["tokens"]) == (WEEKLY.path, "weekly", 5)
        assert reported["totalPromptTokens"] > sum(
            one["tokens"] for one in reported["parts"] if one["kind"] != "skill"
        )
        path = f"/{events[-1]['sessionId']}/prompt"
        shown = await module.request("GET", path, query={"message": "/weekly"})
        assert "Ask three questions." in shown["prompt"]


async def test_what_names_no_skill_or_is_said_by_a_program_brings_none(vault):
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        runs.skills = {WEEKLY: "Ask three questions."}
        for message in ("Do /weekly now.", "/week", "/weekly/plan", "/Weekly", "weekly", "/"):
            events = await ask(module, message)
            assert "Ask three" not in runs.started[-1].options["context"], message
            assert all(one["kind"] != "skill" for one in only(events, "prompt_metadata")["parts"])
        talk = module.interface("ConversationInterface")
        await talk.send_message(events[-1]["sessionId"], "/weekly Plan.", source="telegram")
        assert "Ask three" not in runs.started[-1].options["context"]
        assert len(runs.started) == 7
