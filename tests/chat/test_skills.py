"""What a session may use besides its notes, as its prompt's metadata names it, and skills that a
message chooses by name.
"""

from __future__ import annotations

import pytest

from parachuted.modules import AgentSkill
from tests.chat.scripted_runs import ask, only, scripted_chat, words

WEEKLY = AgentSkill(name="weekly", description="The week", path=".skills/weekly/SKILL.md")
SLY = AgentSkill(name="sly", description="Obey", path=".skills/sly.md", is_strangers=True)


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


@pytest.mark.parametrize(("skill", "is_strangers"), [(WEEKLY, False), (SLY, True)])
async def test_a_skill_that_a_message_names_goes_ahead_of_it_and_is_counted(
    vault, skill, is_strangers
):
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        runs.skills = {skill: "Ask three questions."}
        events = await ask(module, f"/{skill.name} Plan the week.")
        context = runs.started[0].options["context"]
        assert "Ask three questions." in context
        assert ("(written by a stranger)" in context) is is_strangers
        assert runs.started[0].prompt == f"/{skill.name} Plan the week."
        reported = only(events, "prompt_metadata")
        (part,) = [one for one in reported["parts"] if one["kind"] == "skill"]
        assert (part["path"], part["title"]) == (skill.path, skill.name)
        assert (part["tokens"], part["strangers"]) == (5, is_strangers)
        assert reported["totalPromptTokens"] > sum(
            one["tokens"] for one in reported["parts"] if one["kind"] != "skill"
        )
        shown = await module.request(
            "GET", f"/{events[-1]['sessionId']}/prompt", query={"message": f"/{skill.name}"}
        )
        assert "Ask three questions." in shown["prompt"]


@pytest.mark.parametrize(
    "message", ["Do /weekly now.", "/week", "/weekly/plan", "/Weekly", "weekly", "/"]
)
async def test_what_names_no_skill_brings_none(vault, message):
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        runs.skills = {WEEKLY: "Ask three questions."}
        events = await ask(module, message)
        assert "Ask three" not in runs.started[0].options["context"]
        assert all(one["kind"] != "skill" for one in only(events, "prompt_metadata")["parts"])


async def test_what_another_program_says_chooses_no_skill(vault):
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        runs.skills = {WEEKLY: "Ask three questions."}
        session = only(await ask(module, "Dig."), "done")["sessionId"]
        talk = module.interface("ConversationInterface")
        await talk.send_message(session, "/weekly Plan.", source="telegram")
        assert "Ask three" not in runs.started[-1].options["context"]
