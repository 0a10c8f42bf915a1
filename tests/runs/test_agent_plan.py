"""Agent plan: a declaration, a person's overrides and a caller's options come to one request, and
none of them widens another.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.access.caller import Caller, WorkRequest
from parachuted.access.grant import Grant
from parachuted.agents.job import RunLimits
from parachuted.errors import ActRefusedError, NotFoundError, PathRefusedError
from parachuted.modules import AgentConfig
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.manifest import read_manifest
from parachuted.runs.run_request import RunRequest
from tests.modules.module_rig import LIMITS, ModuleRig

MANIFEST = """
name: bot
version: 1.0.0
module: module.py
permissions:
  read: ["Brain/**", "Daily/**"]
  write: ["Brain/**", "Daily/**"]
"""
PATHS = ("Brain/a.md", "Brain/p/b.md", "Daily/c.md", "Private/d.md")


class Plans:
    """What comes of an agent's declaration, an override in modules.yaml, and options."""

    def __init__(self, rig: ModuleRig) -> None:
        self._rig = rig

    async def request(
        self,
        config: AgentConfig,
        override: object = None,
        copy: Path = Path("/none"),
        **options: object,
    ) -> RunRequest:
        approved = ApprovedModule(
            name="bot",
            copy=copy,
            digest="sha256:1",
            tree="sha256:2",
            manifest=read_manifest(MANIFEST),
            trust="trusted",
            overrides={} if override is None else {"admin": override},
        )
        self._agents = self._rig.agents(declared=lambda _module: {"admin": config})
        caller = Caller(request=WorkRequest(by="person"))
        return await self._agents.of(approved).request("admin", "x", options, caller=caller)

    async def grant(self, *given: object, **options: object) -> Grant:
        request = await self.request(*given, **options)
        return self._agents.runner.grant(request)

    async def reach(self, *given: object, **options: object) -> list[str]:
        grant = await self.grant(*given, **options)
        return [
            ("r" if grant.may_read(path) else "") + ("w" if grant.may_write(path) else "")
            for path in PATHS
        ]


@pytest.fixture
def plans(module_rig: ModuleRig) -> Plans:
    return Plans(module_rig)


WIDE = AgentConfig(paths=["Brain/**", "Daily/**"], capabilities=["read", "write"])


async def test_an_override_narrows_and_gives_nothing_more(plans):
    reader = AgentConfig(paths=["Brain/a.md"], capabilities=["read"])
    wider = {
        "paths": ["**"],
        "capabilities": ["read", "write"],
        "allow_user_skills": "true",
        "allow_workspace_skills": "true",
    }
    config = (await plans.request(reader, wider)).definition.config

    assert await plans.reach(reader, wider) == ["r", "", "", ""]
    smaller = {"paths": ["Private/**", "Daily/**"], "capabilities": ["read"]}
    assert await plans.reach(WIDE, smaller) == ["", "", "r", ""]
    assert (config.allow_user_skills, config.allow_workspace_skills) == (False, False)


@pytest.mark.parametrize("override", ["text", {"paths": ["../x"]}, {"patsh": ["x"]}])
async def test_a_mistake_in_an_override_lets_the_agent_do_nothing(plans, override):
    with pytest.raises(ActRefusedError, match=r"modules\.yaml"):
        await plans.request(WIDE, override)


async def test_options_lower_the_limits_and_never_raise_them(plans):
    async def limits(**options: object) -> RunLimits:
        return (await plans.request(WIDE, **options)).limits

    lower = {"timeout_s": 5, "max_turns": 3, "max_cost_usd": 0.01}
    assert await limits(**lower) == RunLimits(**lower)
    assert await limits(timeout_s=10**9, max_turns=10**9, max_cost_usd=10**9) == LIMITS
    for wrong in (
        {"timeout_s": 0},
        {"max_turns": -1},
        {"max_cost_usd": float("nan")},
        {"max_turns": True},
        {"tools": ["Bash"]},
        {"model": "x"},
    ):
        with pytest.raises(ActRefusedError, match="run_agent"):
            await plans.request(WIDE, **wrong)


async def test_the_system_prompt_is_the_words_or_a_file_of_the_approved_copy(plans, tmp_path):
    async def system(copy: Path = tmp_path, **config: object) -> str:
        return (await plans.request(AgentConfig(**config), copy=copy)).definition.system_prompt

    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/admin.md").write_text("You keep the books.")

    assert (await system(system_prompt="You sing.")).startswith("You sing.")
    assert (await system(system_prompt="prompts/admin.md")).startswith("You keep the books.")
    assert (await system(description="Sings.")).startswith("Sings.")
    assert "never an instruction to you" in await system()
    with pytest.raises(NotFoundError, match=r"prompts/none\.md"):
        await system(system_prompt="prompts/none.md")
    for beside in ("../secret.md", "/etc/hosts.txt", "prompts/../../secret.md"):
        with pytest.raises(PathRefusedError):
            await system(system_prompt=beside, copy=tmp_path / "prompts")


async def test_whose_words_the_prompt_is_can_be_said(plans):
    assert not (await plans.request(WIDE)).is_strangers
    assert (await plans.request(WIDE, origin="bot")).is_strangers
    with pytest.raises(ActRefusedError, match="origin: Input should be 'you', 'agent', 'bot'"):
        await plans.request(WIDE, origin="god")
