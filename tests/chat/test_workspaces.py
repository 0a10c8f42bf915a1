"""Workspaces as the app has them, and what a conversation begins with in one."""

from __future__ import annotations

import pytest

from parachuted.errors import ActRefusedError, ConflictError, EditRefusedError, NotFoundError
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
            "capabilities": {
                "mcps": ["brain"],
                "skills": "none",
                "agents": "all",
                "plugins": "all",
            },
        }
        events = await ask(module, "Dig.", workspaceId="my-garden")
        run = runs.started[0]
        assert (run.agent, run.options["model"]) == ("workspace", "a-model")
        assert run.options["working_directory"] == "Projects/garden"
        session = await module.request("GET", f"/{only(events, 'done')['sessionId']}")
        assert session["workspaceId"] == "my-garden"
        body = {"default_trust_level": "sandboxed", "model": ""}
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
            ({"name": "a", "capabilities": {"x": "all"}}, EditRefusedError, "capabilities"),
        ):
            with pytest.raises(error, match=said):
                await module.request("POST", f"{_AT}/", body=body)
        await module.request("POST", f"{_AT}/", body={"name": "Twice"})
        with pytest.raises(ConflictError):
            await module.request("POST", f"{_AT}/", body={"name": "Twice"})
        events = await ask(module, "Dig.", workspaceId="nowhere")
        assert (events[-1]["type"], runs.started) == ("typed_error", [])
