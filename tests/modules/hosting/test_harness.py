"""Alone: a module's author tests it with no daemon, and what the daemon would refuse is refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    ModuleFailedError,
    NotFoundError,
    UnfitError,
)
from parachuted.modules.hosting.harness import ModuleHarness
from parachuted.testing import running_module
from tests.modules.small_modules import write_module

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTES = "permissions: {read: ['Notes/**'], write: ['Notes/**']}\n"


@pytest.fixture
def alone(vault: Path, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[ModuleHarness]]:
    """A module of that body, at work in the vault."""
    return lambda body, **more: running_module(
        write_module(tmp_path / "m", body, **more), vault=vault
    )


async def test_the_journal_of_the_prd_is_tried_alone(vault):
    async with running_module(EXAMPLES / "daily", vault=vault) as daily:
        entry = {"content": "Met Kim.", "entry_id": "e1"}
        assert (await daily.request("POST", "/entries", body=entry)).status == 201
        assert (await daily.request("GET", "/entries", query={"limit": "1"}))["count"] == 1
        items = await daily.request("POST", "/query", body={"message": "kim"})
        assert [item["type"] for item in items] == ["entry", "done"]
        assert await daily.tool("daily-journal", query="kim") == ["Daily/entries/e1.md"]
        reported = {**entry, "entry_path": "Daily/entries/e1.md"}
        assert ("daily.entry.created", reported) in daily.published
    assert "Met Kim." in (vault / "Daily/entries/e1.md").read_text()


def test_debug_mode_does_not_complain_of_a_start_on_a_busy_machine(vault, caplog):
    async def use() -> None:
        async with running_module(EXAMPLES / "daily", vault=vault):
            time.sleep(0.15)  # noqa: ASYNC251  what asyncio calls slow

    with asyncio.Runner(debug=True) as runner:
        runner.run(use())

    assert not [record for record in caplog.records if "took" in record.getMessage()]


async def test_what_anybody_puts_into_the_vault_meanwhile_is_there(vault, alone):
    body = """
    @route("GET", "/")
    async def all(self):
        return [await self.vault.list(), [hit.path for hit in await self.vault.search("kim")]]
    @event("file.modified")
    async def changed(self, path: str):
        await self.state.put(path, 1)
    """
    async with alone(body, manifest=NOTES) as module:
        assert await module.request("GET", "/") == [[], []]
        for folder in ("Notes", "Private"):
            (vault / folder).mkdir()
            (vault / folder / "a.md").write_text("Met Kim.\n")
            await module.event("file.modified", path=f"{folder}/a.md")

        assert await module.request("GET", "/") == [["Notes/a.md"], ["Notes/a.md"]]
        assert await module.state.keys() == ["Notes/a.md"], "it may hear of no other"

        scanner = module._vault._scanner
        walk, at_work, most = scanner.walk, [], []

        def counted(*given, **more):
            at_work.append(None)
            most.append(len(at_work))
            try:
                return walk(*given, **more)
            finally:
                at_work.pop()

        scanner.walk = counted
        await asyncio.gather(*(module.request("GET", "/") for _ in range(50)))
        assert set(most) == {1}, "the vault is looked at by one call at a time"


async def test_what_the_daemon_would_refuse_is_refused(vault, alone):
    body = """
    @route("POST", "/write")
    async def write(self, path: str):
        return await self.vault.create(path, "x")
    @route("POST", "/say")
    async def say(self, event: str):
        self.publish(event)
    @route("POST", "/crash")
    async def crash(self):
        return 1 / 0
    """
    async with alone(body, manifest=NOTES) as module:
        with pytest.raises(ActRefusedError):
            await module.request("POST", "/write", body={"path": "Private/a.md"})
        with pytest.raises(ActRefusedError):
            await module.request("POST", "/say", body={"event": "brain.said"})
        with pytest.raises(UnfitError):
            await module.request("POST", "/write", body={"to": "Notes/a.md"})
        with pytest.raises(ModuleFailedError):
            await module.request("POST", "/crash")
        assert module.problem.endswith("ZeroDivisionError: division by zero")
        for ask in (
            module.request("GET", "/nothing"),
            module.tool("nothing"),
            module.event("nothing.here"),
        ):
            with pytest.raises(NotFoundError):
                await ask
    assert list(vault.rglob("*.md")) == []
    assert module.published == []


async def test_interfaces_settings_and_the_answers_of_agents_are_handed_in(vault, tmp_path):
    class Brain:
        async def who(self) -> str:
            return "Kim"

    body = """
    @route("GET", "/")
    async def ask(self):
        who = await self.get_interface("BrainInterface").who()
        return [self.config["tone"], who, await self.run_agent("helper", "Well?")]
    """
    folder = write_module(tmp_path / "m", body, manifest="optional_requires: [BrainInterface]\n")
    given = {"config": {"tone": "dry"}, "interfaces": {"BrainInterface": Brain()}}
    async with running_module(
        folder, vault=vault, answers=lambda agent, _prompt: f"{agent}: yes", **given
    ) as module:
        assert await module.request("GET", "/") == ["dry", "Kim", "helper: yes"]
        assert module.asked == [("helper", "Well?")]
    async with running_module(folder, vault=vault, **given) as module:
        with pytest.raises(AgentFailedError, match="answers="):
            await module.request("GET", "/")


async def test_an_interface_and_a_tool_of_another_file_are_there_to_be_called(vault, alone):
    (vault / "Brain/entities").mkdir(parents=True)
    (vault / "Brain/entities/Kim.md").write_text("A friend.\n")
    async with running_module(EXAMPLES / "brain", vault=vault) as brain:
        for found in (
            await brain.interface("BrainInterface").search("friend"),
            await brain.tool("brain_search", query="friend"),
        ):
            assert [entity["name"] for entity in found] == ["Kim"]

    with pytest.raises(ModuleFailedError, match="on_enable"):
        async with alone("async def on_enable(self):\n    raise ValueError('no')"):
            pass


async def test_a_handler_reads_what_a_test_uploads(alone):
    body = """
    @route("POST", "/body")
    async def take(self, body: Body, name: str):
        return {"name": name, "size": body.size, "text": (await body.read()).decode()}
    """
    async with alone(body) as module:
        digits = {"name": "a", "size": 10, "text": "0123456789"}
        asked = {"query": {"name": "a"}}
        assert await module.request("POST", "/body", **asked, upload=b"0123456789") == digits
        with pytest.raises(UnfitError, match="body: Field required"):
            await module.request("POST", "/body", **asked)
