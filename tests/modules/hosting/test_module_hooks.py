"""A module's part in hooks: it adds to a prompt, has a turn go on, has its say on a compaction,
and does so with no more than the run's rights, whatever becomes of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from parachuted.access.caller import Caller, WorkRequest, acting
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.agents.job import CompactionAnswer
from parachuted.errors import ActRefusedError, ModuleFailedError
from parachuted.hooks import HookError, HookEvent, Hooks
from parachuted.modules.hosting import host
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.host import ModuleHost
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.module_hooks import ModuleHook
from parachuted.testing import ScriptedBackend, running_module, say
from tests.modules.container_rig import hosted
from tests.modules.module_rig import NOON, MemoryAudit, ModuleRig
from tests.modules.small_modules import StubServices, approve, write_module
from tests.runs.task_rig import make_hooks

RIGHT = "permissions: {read: ['**'], hooks: [prompt.before, stop.before, compact.before]}\n"
GARDEN = """
@hook("prompt.before")
async def before_prompt(self, prompt: str, source: str):
    if "secret" in prompt:
        return HookResult(block="no secrets here")
    return HookResult(context=f"It is May ({source}).")

@hook("stop.before")
async def before_stop(self, last_assistant_message: str, **rest):
    return HookResult(block=f"{last_assistant_message} Water it too.")

@hook("compact.before")
async def before_compaction(self, trigger: str):
    return HookResult(context=f"Keep the names ({trigger}).")
"""
CHATTER = """
permissions: {read: ["Brain/**", "Work/**"]}
agents: {chat: {paths: ["Brain/**"], system_prompt: You talk.}}
"""


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save("Brain/a.md", "# A\n")
    module_rig.save("Work/b.md", "# B\n")
    return module_rig


class GardenRig:
    """A module `garden` that takes part in the hooks of a home that has no others."""

    def __init__(self, rig: ModuleRig, home: Path) -> None:
        self.rig, self.home = rig, home
        self.problems: dict[str, str | None] = {}
        self.failed: list[HookError] = []

    @contextlib.asynccontextmanager
    async def joined(self, body: str, *, is_trusted: bool = True) -> AsyncIterator[Hooks]:
        folder = write_module(self.rig.folder / "garden", body, name="garden", manifest=RIGHT)
        approved = approve(folder)
        running = InProcessHost(approved, self.rig.given(approved))
        await running.start()
        hooks = Hooks(
            home=self.home,
            vault=self.rig.vault,
            runs=self.home / "run" / "hook-runs",
            clock=self.rig.clock,
            report=self.problems.__setitem__,
            env={},
            on_error=self.failed.append,
        )
        hooks.set_participants(hooks_of(running, is_trusted=is_trusted))
        try:
            yield hooks
        finally:
            await hooks.close()
            await running.stop()

    async def chat(self, hooks: Hooks, prompt: str, **options: object) -> ScriptedBackend:
        """One turn with the agent of another module."""
        backend = ScriptedBackend([say("Dug.")])
        runs = self.rig.given(self.rig.approve(CHATTER), self.rig.agents(backend, asker=hooks)).runs
        await runs.result(await runs.start("chat", prompt, {"conversation": True, **options}))
        return backend


@pytest.fixture
def garden(module_rig, home) -> GardenRig:
    return GardenRig(module_rig, home)


def hooks_of(running: ModuleHost, *, is_trusted: bool) -> list[ModuleHook]:
    audit = ModuleAudit(MemoryAudit(), lambda: NOON)
    return [
        ModuleHook(running, spec, audit, is_trusted=is_trusted) for spec in running.declared.hooks
    ]


def prompt_event(vault: Path, prompt: str, module: str | None = None) -> HookEvent:
    data, caller = {"prompt": prompt, "source": "user"}, Caller()
    return HookEvent(
        event="prompt.before", at=NOON, vault=vault, module=module, data=data, caller=caller
    )


async def test_a_module_adds_to_a_prompt_and_has_a_turn_go_on_eight_times(garden):
    async with garden.joined(GARDEN) as hooks:
        backend = await garden.chat(hooks, "Dig.")

        first, *others = [job.prompt for job in backend.jobs]
        assert first == "Dig.\n\nFrom the module garden:\nIt is May (user)."
        assert others == ["the module garden: Dug. Water it too."] * 8
        with pytest.raises(ActRefusedError, match="the module garden: no secrets here"):
            await garden.chat(hooks, "A secret.")
        own = prompt_event(garden.rig.vault, "A secret.", module="garden")
        assert (await hooks.ask(own)).allowed, "it is not asked about its own agents"

        agent = make_hooks(hooks, garden.rig.vault, agent="chat", caller=Caller)
        assert await agent.compacting("auto", None) == CompactionAnswer(
            instructions="From the module garden:\nKeep the names (auto)."
        )
    assert garden.failed == []


FAILING = """
@hook("prompt.before")
async def before_prompt(self, prompt: str):
    if "fail" in prompt:
        raise ZeroDivisionError("by zero")
    if "wait" in prompt:
        await asyncio.Event().wait()
    if "odd" in prompt:
        return {"reason": "no such field"}
    if "long" in prompt:
        return HookResult(context="x" * 100_001)
"""


async def test_a_turn_goes_on_without_a_module_that_fails_and_says_so(garden, monkeypatch):
    monkeypatch.setattr(host, "_HOOK_LIMIT_S", 0.2)
    hook = "module:garden:prompt.before"
    async with garden.joined(FAILING) as hooks:
        for prompt in ("fail", "wait", "odd", "long"):
            backend = await garden.chat(hooks, prompt)

            assert [job.prompt for job in backend.jobs] == [prompt]
            assert "garden" in garden.problems[f"hooks:{hook}"]
            assert [error.hook for error in garden.failed] == [hook]
            garden.failed.clear()
            await garden.chat(hooks, "fine")
            assert garden.problems[f"hooks:{hook}"] is None


async def test_what_an_untrusted_module_adds_marks_the_run_and_silence_does_not(garden):
    async with garden.joined(GARDEN, is_trusted=False) as hooks:
        added = prompt_event(garden.rig.vault, "Dig.")
        await hooks.ask(added)
        assert added.caller.taint
        assert "the module garden" in added.caller.taint.why()
    async with garden.joined(FAILING, is_trusted=False) as hooks:
        silent = prompt_event(garden.rig.vault, "Dig.")
        await hooks.ask(silent)
        assert not silent.caller.taint


LISTING = """
@hook("prompt.before")
async def before_prompt(self):
    return HookResult(context=", ".join(await self.vault.list()))
"""


async def test_a_module_reads_no_more_for_a_prompt_than_who_asked_for_the_run(garden):
    async with garden.joined(LISTING) as hooks:
        whole = await garden.chat(hooks, "Dig.")
        with acting(
            Caller(request=WorkRequest(by="person"), grant=CallerGrant(reads=grant_of(["Work/**"])))
        ):
            limited = await garden.chat(hooks, "Dig.")

    assert whole.jobs[0].prompt.endswith("\nBrain/a.md, Work/b.md")
    assert limited.jobs[0].prompt.endswith("\nWork/b.md")


async def test_a_module_in_a_container_takes_part_as_well(tmp_path):
    async with hosted(tmp_path, GARDEN, name="garden", manifest=RIGHT) as host:
        asked = hooks_of(host, is_trusted=False)
        hook = next(one for one in asked if one.event == "prompt.before")
        answer = await hook.answer(prompt_event(tmp_path, "Dig."))
        assert answer.context == ("From the module garden:\nIt is May (user).",)


async def test_a_module_without_the_right_is_not_started(tmp_path):
    right = "permissions: {hooks: [prompt.before]}"
    approved = approve(write_module(tmp_path / "m", GARDEN, manifest=right))
    host = InProcessHost(approved, StubServices())
    with pytest.raises(ModuleFailedError):
        await host.start()
    said = str(host.problem)
    assert "permissions.hooks: add stop.before, which before_stop takes part in" in said
    assert "before_prompt" not in said


async def test_an_author_tries_a_hook_without_a_daemon(vault, tmp_path):
    folder = write_module(tmp_path / "m", GARDEN, manifest=RIGHT)
    async with running_module(folder, vault=vault) as module:
        said = await module.hook("prompt.before", prompt="Dig.", source="user")
        assert (said.block, said.context) == ("", "It is May (user).")
        said = await module.hook("prompt.before", prompt="A secret.", source="user")
        assert said.block == "no secrets here"
