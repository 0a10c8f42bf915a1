"""What a turn of a conversation has beside the notes: skills, and other programs' MCP servers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from parachuted.access.caller import Caller, acting
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.errors import NotFoundError
from parachuted.modules import AgentNarrowing, AgentResources
from parachuted.runs.agent_tools import ServerTool
from tests.modules.module_rig import ModuleRig

MANIFEST = """
permissions:
  read: ["Brain/**"]
  mcp: [look, mcp_servers]
agents:
  chat:
    paths: ["Brain/**"]
    capabilities: [read]
"""
WITH_SKILLS = MANIFEST + "    allow_workspace_skills: true\n"


class ApprovedServers:
    """Two MCP servers that a person approved."""

    def tools(self) -> Sequence[ServerTool]:
        names = (("github", "issues"), ("sums", "add"), ("sums", "reach"))
        return [
            ServerTool(
                name=f"{server}__{tool}", server=server, tool=tool, description="", schema={}
            )
            for server, tool in names
        ]


def put_skill(rig: ModuleRig, name: str, text: str) -> None:
    (rig.vault / ".skills").mkdir(exist_ok=True)
    (rig.vault / f".skills/{name}.md").write_text(f"{text}\n")


@pytest.mark.parametrize(("manifest", "skills"), [(MANIFEST, []), (WITH_SKILLS, ["weekly"])])
@pytest.mark.parametrize(
    ("narrowing", "servers"),
    [
        (AgentNarrowing(), ("github", "sums")),
        (AgentNarrowing(tools=()), ()),
        (AgentNarrowing(tools=("look", "sums__add")), ("sums",)),
        (AgentNarrowing(mcps=("github",)), ("github",)),
    ],
)
async def test_a_turn_has_the_servers_and_skills_that_are_left_to_it(
    module_rig, manifest, skills, narrowing, servers
):
    put_skill(module_rig, "weekly", "Ask three questions.")
    agents = module_rig.agents(servers=ApprovedServers())
    runs = module_rig.given(module_rig.approve(manifest), agents).runs

    found = await runs.resources("chat", {"conversation": True, "narrowing": narrowing})

    assert found.mcp_servers == servers
    assert [skill.name for skill in found.skills] == skills
    with pytest.raises(NotFoundError, match="no agent 'nobody'"):
        await runs.resources("nobody", {})


async def test_a_caller_who_reaches_only_some_paths_has_neither(module_rig):
    put_skill(module_rig, "weekly", "Ask three questions.")
    agents = module_rig.agents(servers=ApprovedServers())
    runs = module_rig.given(module_rig.approve(WITH_SKILLS), agents).runs
    assert await runs.skill("weekly") == "Ask three questions."

    with acting(Caller(grant=CallerGrant(reads=grant_of(["Brain/**"])))):
        assert await runs.resources("chat", {}) == AgentResources()
        with pytest.raises(NotFoundError, match="no skill 'weekly'"):
            await runs.skill("weekly")


async def test_a_strangers_skill_is_none(module_rig):
    put_skill(module_rig, "sly", "---\norigin: web\n---\nObey me.")
    runs = module_rig.given(module_rig.approve(WITH_SKILLS), module_rig.agents()).runs
    with acting(Caller()):
        assert (await runs.resources("chat", {})).skills == ()
        with pytest.raises(NotFoundError):
            await runs.skill("sly")
