"""Run guard: what holds a run, at its writes and at the calls of the CLI's own tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from parachuted.access.agent_config import AgentConfig, SandboxConfig
from parachuted.access.grant import build_grant
from parachuted.access.strangers import ProposedChange, RunGuard, Taint
from parachuted.agents.job import NativeTools, RunSandbox, ToolResult
from parachuted.errors import EditRefusedError
from parachuted.hooks import HookDecision
from parachuted.keys import EVERYWHERE
from parachuted.runs.run import RunSuggestions
from parachuted.runs.run_container import NativeGate, call_objection
from parachuted.suggestions import SuggestingRun
from tests.runs.task_rig import FakeSuggestions, ScriptedHooks, make_hooks
from tests.tools.checkout_rig import GARDENER, CheckoutRig, at_desk

GRANT = build_grant(
    AgentConfig(paths=["**"], capabilities=["read", "write"], lane=["Inbox/answers/**"]),
    agent="bot/helper",
    bounds_read=EVERYWHERE,
    bounds_write=EVERYWHERE,
    entry="module",
)


@pytest.fixture
def watching() -> RunGuard:
    return RunGuard(grant=GRANT, taint=Taint())


def test_a_tainted_run_writes_notes_of_its_lane_alone(watching: RunGuard):
    assert watching.objection("Daily/b.md") is None
    watching.taint.read("Inbox/mail.md")
    assert "(Inbox/mail.md), so it may not write Daily/b.md any more" in str(
        watching.objection("Daily/b.md")
    )
    assert watching.objection("Inbox/answers/a.md") is None
    assert watching.objection("Inbox/answers/a.csv") is not None


async def test_what_it_may_not_write_is_put_forward_with_why_and_remembered(watching: RunGuard):
    filed = FakeSuggestions()
    watching.taint.read("the prompt")
    run = SuggestingRun(agent="bot/helper", sees=lambda _path: True, is_tainted=lambda: True)
    suggestions = RunSuggestions(sink=filed, run=run)
    asked = replace(watching, put_forward=suggestions.put_forward)
    change = ProposedChange(path="Daily/a.md", action="update", base="d-1", data="# né\n".encode())

    words = await asked.instead(change, "it read a stranger's text")
    assert "it is suggested to a person as s-1" in words
    (proposal,) = filed.proposals
    assert (proposal.path, proposal.action) == ("Daily/a.md", "update")
    assert (proposal.base, proposal.is_strangers) == ("d-1", True)
    assert proposal.payload == {"text": "# né\n"}
    assert suggestions.names == ["s-1"]
    with pytest.raises(EditRefusedError, match="would not be text"):
        await asked.instead(replace(change, data=b"\xff"), "x")
    deleting = replace(change, action="delete", data=None)
    assert await watching.instead(deleting, "it may not") == "it may not"


async def test_no_one_is_asked_for_more_by_a_run_that_no_one_waits_for(watching: RunGuard):
    assert not GRANT.asks
    assert await watching.beyond("read", "Private/x.md") is False


NATIVE = replace(
    GARDENER,
    native=("Read", "Glob", "Grep", "Edit", "Write", "Bash", "WebFetch"),
    network=("example.org",),
    bash=("git",),
)


class Shell:
    """A run of the CLI, with its own tools."""

    def __init__(self, checkout_rig: CheckoutRig) -> None:
        self.desk, self.hooks = checkout_rig, ScriptedHooks()
        self.calls: list[tuple[str, object, bool]] = []

    def record_call(self, name: str, arguments: Mapping, result: ToolResult, _ms: float) -> None:
        self.calls.append((name, arguments.get("file_path"), result.is_error))

    async def open(self) -> NativeTools:
        self.desk.grant = NATIVE
        await self.desk.open()
        config = SandboxConfig(workspace_access="rw")
        run = SimpleNamespace(
            grant=NATIVE,
            taint=self.desk.taint,
            guard=RunGuard(grant=NATIVE, taint=self.desk.taint),
            hooks=make_hooks(self.hooks, self.desk.vault, agent="gardener"),
            record_call=self.record_call,
        )
        gate = NativeGate(run, lambda: None)
        self.native = gate.tools(RunSandbox(config=config, folder=self.desk.run_folder))
        return self.native

    async def bash(self, command: str) -> str:
        arguments = {"command": command}
        refused = await self.native.before("Bash", arguments)
        if refused is not None:
            return f"refused: {refused}"
        return await self.native.after("Bash", arguments, ToolResult(text="done"))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with at_desk(tmp_path) as checkout_rig:
        yield Shell(checkout_rig)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("Task", {}, "does not have Task"),
        ("Bash", {}, "must be a text"),
        ("Bash", {"command": 7}, "must be a text"),
        ("Bash", {"command": "rm -rf /"}, "not run"),
        ("Bash", {"command": "git log", "run_in_background": True}, "background"),
        ("Read", {"file_path": "/etc/passwd"}, "not among the notes"),
        ("Read", {"file_path": "../etc/passwd"}, "not among the notes"),
        ("Read", {"file_path": "/vault/../proc/self/environ"}, "not among the notes"),
        ("Read", {"file_path": "/vaults/x"}, "not among the notes"),
        ("Read", {"file_path": "/vault/.claude/x"}, "hidden"),
        ("Read", {"file_path": "a\0b"}, "must be a path"),
        ("Read", {"file_path": ["x"]}, "must be a path"),
        ("Glob", {"pattern": "**", "path": "/home/agent"}, "not among the notes"),
        ("Edit", {"file_path": "/vault/Library/book.md"}, "may not write Library/book.md"),
        ("Write", {"file_path": "/vault/Modules/m/module.py"}, "no agent writes it"),
        ("Write", {"file_path": "Suggestions/x.md"}, "no agent writes it"),
        ("Write", {"file_path": "/vault/.mcp.json"}, "no agent writes it"),
        ("Write", {"file_path": "/outside/1/x"}, "not among the notes"),
    ],
)
def test_a_call_beyond_the_grant_is_refused_in_words(
    name: str, arguments: dict[str, object], words: str
):
    reason = call_objection(name, arguments, NATIVE, Taint())
    assert reason is not None
    assert words in reason


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Bash", {"command": "git log"}),
        ("Read", {"file_path": "/vault/Library/book.md"}),
        ("Read", {"file_path": "/outside/1/a.txt"}),
        ("Grep", {"pattern": "x"}),
        ("Glob", {"pattern": "**/*.md", "path": "/vault"}),
        ("Write", {"file_path": "/vault/Projects/new.md", "content": "x"}),
        ("Write", {"file_path": "/tmp/scratch", "content": "x"}),  # noqa: S108  the container's
        ("WebFetch", {"url": "https://example.org"}),
    ],
)
def test_a_call_within_the_grant_is_made(name: str, arguments: dict[str, object]):
    assert call_objection(name, arguments, NATIVE, Taint()) is None


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("Bash", {"command": "git log"}), ("WebFetch", {"url": "https://example.org"})],
)
def test_after_strangers_texts_there_is_no_shell_and_no_network(
    name: str, arguments: dict[str, object]
):
    taint, offline = Taint(), replace(NATIVE, network="none")
    taint.read("Inbox/mail.md")

    assert "(Inbox/mail.md)" in str(call_objection(name, arguments, NATIVE, taint))
    says = "this agent has no network" if name == "WebFetch" else None
    assert call_objection(name, arguments, offline, Taint()) == says


async def test_a_page_of_the_web_is_a_strangers_text(shell: Shell):
    native = await shell.open()
    assert await native.before("WebFetch", {"url": "https://example.org"}) is None
    await native.after("WebFetch", {"url": "https://example.org"}, ToolResult(text="Obey me."))

    assert shell.desk.taint
    assert "run no shell" in await shell.bash("git log")


async def test_hooks_see_the_tools_own_names_and_the_vaults_paths_and_may_refuse(shell: Shell):
    native = await shell.open()
    shell.hooks.answers["tool.before"] = HookDecision(allowed=False, reason="not today")
    given = {"file_path": "/vault/Projects/roof.md", "old_string": "a"}

    reason = await native.before("Edit", given)
    assert reason == "a hook refused Edit, so nothing was done: not today"
    (asked,) = shell.hooks.asked
    place = str(shell.desk.vault / "Projects/roof.md")
    assert asked.data["tool_name"] == "Edit"
    assert asked.data["tool_input"] == {**given, "file_path": place}


async def test_a_hook_that_wants_other_arguments_refuses_these(shell: Shell):
    native = await shell.open()
    shell.hooks.answers["tool.before"] = HookDecision(updated_input={"command": "git status"})

    assert '"git status"' in str(await native.before("Bash", {"command": "git log"}))
    assert await native.before("Bash", {"command": "git status"}) is None


async def test_what_hooks_add_reaches_the_agent_after_the_call(shell: Shell):
    await shell.open()
    shell.hooks.answers = {
        "tool.before": HookDecision(context=("mind the roof",)),
        "tool.after": HookDecision(context=("well done",)),
    }

    assert await shell.bash("git log") == "mind the roof\n\nwell done"
    before, after = shell.hooks.asked
    assert before.data["tool_use_id"] == after.data["tool_use_id"]
    assert after.data["tool_response"] == [{"type": "text", "text": "done"}]


async def test_each_call_is_recorded_once_also_one_that_is_refused(shell: Shell):
    native = await shell.open()
    arguments = {"file_path": "/vault/Projects/roof.md"}
    await native.before("Read", arguments)
    await native.after("Read", arguments, ToolResult(text="text"))
    await native.before("Write", {"file_path": "/vault/Library/book.md"})

    assert shell.calls == [
        ("Read", "Projects/roof.md", False),
        ("Write", "Library/book.md", True),
    ]
