"""Workspaces as the app has them, and what a conversation begins with in one."""

from __future__ import annotations

import pytest

from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    UnfitError,
)
from parachuted.modules import AgentSkill
from tests.chat.scripted_runs import ask, only, scripted_chat, words

_AT = "/api/workspaces"


async def test_a_conversation_begins_with_what_its_workspace_says(vault):
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        body = {
            "name": "My Garden!",
            "working_directory": "Projects/garden",
            "model": "a-model",
            "default_trust_level": "direct",
            "capabilities": {"mcps": ["brain"], "skills": "none"},
        }
        made = (await module.request("POST", f"{_AT}/", body=body))["workspace"]
        assert made == {
            **body,
            "slug": "my-garden",
            "description": "",
            "capabilities": {**body["capabilities"], "agents": "all", "plugins": "all"},
        }
        events = await ask(module, "Dig.", workspaceId="my-garden")
        run = runs.started[0]
        assert (run.agent, run.options["model"]) == ("workspace", "a-model")
        assert run.options["working_directory"] == "Projects/garden"
        session = await module.request("GET", f"/{only(events, 'done')['sessionId']}")
        assert session["workspaceId"] == "my-garden"
        shown = await module.request("GET", f"{_AT}/my-garden")
        body = shown["workspace"]  # what was read can be sent back as it is
        assert await module.request("PUT", f"{_AT}/my-garden", body=body) == shown
        body = {"defaultTrustLevel": "sandboxed", "model": "", "unknown": 1}
        changed = (await module.request("PUT", f"{_AT}/my-garden", body=body))["workspace"]
        assert (changed["default_trust_level"], changed["model"]) == ("sandboxed", None)
        assert changed["working_directory"] == "Projects/garden"
        await ask(module, "Dig.", workspaceId="my-garden")
        assert runs.started[1].agent == "chat"
        assert runs.started[1].options["narrowing"].write == ()
        assert [one["slug"] for one in (await module.request("GET", f"{_AT}/"))["workspaces"]] == [
            "my-garden"
        ]
        await module.request("DELETE", f"{_AT}/my-garden")
        for method in ("GET", "DELETE"):
            with pytest.raises(NotFoundError):
                await module.request(method, f"{_AT}/my-garden")


async def test_what_is_not_a_workspace_is_refused_with_its_reason(vault):
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        for body, error, said in (
            ({"name": "!!!"}, EditRefusedError, "name"),
            ({"name": "a", "default_trust_level": "root"}, ActRefusedError, "trust"),
            ({"name": "a", "capabilities": {"x": "all"}}, UnfitError, "capabilities"),
        ):
            with pytest.raises(error, match=said):
                await module.request("POST", f"{_AT}/", body=body)
        await module.request("POST", f"{_AT}/", body={"name": "Twice"})
        with pytest.raises(ConflictError):
            await module.request("POST", f"{_AT}/", body={"name": "Twice"})
        events = await ask(module, "Dig.", workspaceId="nowhere")
        assert (events[-1]["type"], runs.started) == ("typed_error", [])


async def test_a_workspace_limits_servers_skills_and_agents(vault):
    (vault / ".agents").mkdir()
    for name in ("digger", "sower"):
        (vault / f".agents/{name}.md").write_text(f"You are the {name}.\n")
    weekly, daily = (
        AgentSkill(name=name, description=name, path=f".skills/{name}.md")
        for name in ("weekly", "daily")
    )
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        runs.skills = {weekly: "Ask three questions.", daily: "Ask one."}
        capabilities = {"mcps": ["sums"], "skills": ["daily"], "agents": ["digger"]}
        body = {"name": "Garden", "capabilities": capabilities}
        await module.request("POST", f"{_AT}/", body=body)
        events = await ask(module, "/weekly Go on.", workspaceId="garden")
        reported = only(events, "prompt_metadata")
        assert (reported["availableSkills"], reported["availableAgents"]) == (["daily"], ["digger"])
        assert all(one["kind"] != "skill" for one in reported["parts"])
        narrowing = runs.started[0].options["narrowing"]
        assert (narrowing.mcps, narrowing.skills) == (("sums",), ("daily",))
        session = events[-1]["sessionId"]
        permissions = {"allowed_folders": ["Garden"], "allowed_mcps": ["sums__add", "github"]}
        await module.request("PATCH", f"/{session}", body={"permissions": permissions})
        await ask(module, "@digger Dig.", session)
        assert runs.started[1].options["narrowing"].mcps == ("sums__add",)

        refused = await ask(module, "@sower Sow.", session)
        assert (refused[-1]["type"], len(runs.started)) == ("typed_error", 2)
        assert "sower" in refused[-1]["message"]

        body = {"capabilities": {"mcps": "none", "skills": "none", "agents": "none"}}
        await module.request("PUT", f"{_AT}/garden", body=body)
        reported = only(await ask(module, "Dig.", session), "prompt_metadata")
        assert (reported["availableSkills"], reported["availableAgents"]) == ([], [])
        narrowing = runs.started[2].options["narrowing"]
        assert (narrowing.mcps, narrowing.skills) == ((), ())


@pytest.mark.parametrize(
    ("path", "chosen"),
    [
        ("Work/.agents/sly.md", {"message": "@sly Dig."}),
        ("Work/.agents/sly.md", {"message": "Dig.", "agentPath": "Work/.agents/sly.md"}),
        ("Notes/digger.md", {"message": "Dig.", "agentPath": "Notes/digger.md"}),
        ("Other/.agents/digger.md", {"message": "Dig.", "agentPath": "Other/.agents/digger.md"}),
    ],
)
async def test_no_note_becomes_an_agent_of_the_workspace_by_what_it_calls_itself(
    vault, path, chosen
):
    for file, text in ((".agents/digger.md", "You dig."), (path, "---\nname: digger\n---\nObey.")):
        (vault / file).parent.mkdir(parents=True, exist_ok=True)
        (vault / file).write_text(f"{text}\n")
    async with scripted_chat(vault, words("Yes.")) as (module, runs):
        body = {"name": "Garden", "working_directory": "Work"}
        body |= {"capabilities": {"agents": ["digger"]}}
        await module.request("POST", f"{_AT}/", body=body)
        refused = await ask(module, workspaceId="garden", **chosen)
        assert (refused[-1]["type"], runs.started) == ("typed_error", [])
        assert "workspace garden has no agent" in refused[-1]["message"]
        by_path = {"message": "Dig.", "agentPath": ".agents/digger.md"}
        for one in ({"message": "@digger Dig."}, by_path):
            assert (await ask(module, workspaceId="garden", **one))[-1]["type"] == "done"
