"""Hooks: asked, told and remembered, with real programs of every kind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.hooks import HookDecision, HookError, HookEvent, HookOptions, Hooks
from parachuted.hooks.decision import ALLOWED
from tests.hooks.serving import drop, put_settings, running_hooks

AT = datetime(2025, 1, 6, 12, 0, tzinfo=UTC)


@dataclass(kw_only=True)
class HooksRig:
    """A home with hooks in it, and what they said of themselves."""

    hooks: Hooks
    home: Path
    vault: Path
    out: Path
    reports: dict[str, str | None] = field(default_factory=dict)
    failed: list[HookError] = field(default_factory=list)

    def hook_event(
        self, event: str, data: Mapping[str, object] | None = None, **more: object
    ) -> HookEvent:
        return HookEvent(event=event, at=AT, data=data or {}, vault=self.vault, **more)  # type: ignore[arg-type]

    async def ask(
        self, event: str, data: Mapping[str, object] | None = None, **more: object
    ) -> HookDecision:
        return await self.hooks.ask(self.hook_event(event, data, **more))

    def said(self, name: str = "out") -> str:
        path = self.out / name
        return path.read_text() if path.exists() else ""


class HooksOpener:
    """Lays down hooks, then opens them: settings as they would be in hooks.yaml, scripts as they
    would be dropped.
    """

    def __init__(self, home: Path, vault: Path, out: Path) -> None:
        self.home, self.vault, self.out = home, vault, out

    def settings(self, hooks: Mapping[str, object]) -> None:
        put_settings(self.home, json.dumps({"hooks": hooks}))

    def commands(self, **hooks: str) -> None:
        self.settings(
            {
                event.replace("_", "."): [{"type": "command", "command": command}]
                for event, command in hooks.items()
            }
        )

    def script(self, name: str, text: str) -> Path:
        return drop(self.home, name, text)

    @contextlib.asynccontextmanager
    async def __call__(self, **more: object) -> AsyncIterator[HooksRig]:
        reports: dict[str, str | None] = {}
        failed: list[HookError] = []
        async with running_hooks(
            self.home,
            self.vault,
            clock=lambda: AT,
            report=reports.__setitem__,
            env={**os.environ, "ANTHROPIC_API_KEY": "secret-canary", "LANG": "C.UTF-8", "OUT": "x"},
            on_error=failed.append,
            options=HookOptions(**more),  # type: ignore[arg-type]
        ) as hooks:
            yield HooksRig(
                hooks=hooks,
                home=self.home,
                vault=self.vault,
                out=self.out,
                reports=reports,
                failed=failed,
            )


@pytest.fixture
def opened(home: Path, vault: Path, tmp_path: Path) -> HooksOpener:
    out = tmp_path / "out"
    out.mkdir()
    return HooksOpener(home, vault, out)


@contextlib.asynccontextmanager
async def running(hooks: Hooks) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(hooks.run())
        try:
            yield
        finally:
            task.cancel()


async def until(holds: Callable[[], object], *, within_s: float = 120) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        await asyncio.sleep(0.01)


# what a hook is given


async def test_a_hook_gets_the_event_on_stdin_in_a_clean_environment(opened: HooksOpener):
    opened.commands(
        write_before=f"cat > {opened.out}/out; env > {opened.out}/env; pwd > {opened.out}/cwd"
    )
    async with opened() as stand:
        assert (await stand.ask("write.before", {"path": "a.md"}, cause={"id": "c"})).allowed

    reported = json.loads(stand.said())
    assert reported["event"] == reported["hook_event_name"] == "write.before"
    assert reported["data"]["file_path"] == str(stand.vault / "a.md")
    assert reported["cause"] == {"id": "c"}
    env = dict(line.split("=", 1) for line in stand.said("env").splitlines())
    assert env["CLAUDE_PROJECT_DIR"] == env["PARACHUTE_VAULT"] == str(stand.vault)
    assert (env["PARACHUTE_EVENT"], env["PARACHUTE_HOME"], env["LANG"]) == (
        "write.before",
        str(stand.home),
        "C.UTF-8",
    )
    assert env["PATH"] == os.environ["PATH"]
    assert "secret-canary" not in stand.said("env")
    assert "OUT" not in env
    assert stand.said("cwd").strip() == str(stand.vault)


async def test_nothing_of_the_event_reaches_a_shell(opened: HooksOpener):
    opened.commands(file_created=f"cat > {opened.out}/out")
    name = (
        f"$(touch {opened.out}/pwned)`touch {opened.out}/pwned`; touch {opened.out}/pwned #\n'\".md"
    )
    async with opened() as stand:
        await stand.ask("file.created", {"path": name}, session_id=name)

    assert json.loads(stand.said())["data"]["path"] == name
    assert not (opened.out / "pwned").exists()


async def test_a_hook_runs_where_the_session_works(opened: HooksOpener, tmp_path: Path):
    opened.commands(SessionStart="pwd")
    async with opened() as stand:
        assert (await stand.ask("session.start", cwd=tmp_path)).context == (str(tmp_path),)
        assert (await stand.ask("session.start", cwd=tmp_path / "gone")).context == (
            str(stand.vault),
        )


# a hook and settings written for Claude Code


async def test_a_guard_written_for_claude_code_runs_here_unchanged(opened: HooksOpener):
    guard = opened.out / "guard.py"
    guard.write_text(
        "import json, sys\n"
        "told = json.load(sys.stdin)\n"
        "assert told['hook_event_name'] == 'PreToolUse' and told['session_id'] and "
        "told['transcript_path']\n"
        "if 'rm -rf' in told['tool_input'].get('command', ''):\n"
        "    print('never that', file=sys.stderr)\n"
        "    sys.exit(2)\n"
    )
    command = {"type": "command", "command": f"{sys.executable} {guard}"}
    opened.settings({"PreToolUse": [{"matcher": "Bash", "hooks": [command]}]})
    async with opened() as stand:
        said = {}
        for tool, command in (("Bash", "ls"), ("Bash", "rm -rf /"), ("Edit", "rm -rf /")):
            data = {"tool_name": tool, "tool_input": {"command": command}}
            decision = await stand.ask("tool.before", data, session_id="s")
            said[tool, command] = decision.allowed, decision.reason

    assert said == {
        ("Bash", "ls"): (True, ""),
        ("Bash", "rm -rf /"): (False, "never that"),
        ("Edit", "rm -rf /"): (True, ""),
    }


# many hooks


async def test_all_hooks_of_an_event_run_at_once(opened: HooksOpener):
    """Each waits for the other's mark, so that one after the other would never end."""
    meet = "touch {out}/{me}; until [ -e {out}/{you} ]; do :; done; echo {me}"
    commands = [
        {"command": meet.format(out=opened.out, me=me, you=you), "timeout": 20}
        for me, you in (("a", "b"), ("b", "a"))
    ]
    opened.settings({"SessionStart": commands})
    async with opened() as stand:
        assert (await stand.ask("session.start")).context == ("a", "b")


async def test_an_asynchronous_hook_holds_no_one_up_and_cannot_object(opened: HooksOpener):
    wait = f"until [ -e {opened.out}/go ]; do sleep 0.01; done; echo late >&2; exit 2"
    opened.settings({"write.before": [{"command": wait, "async": True}]})
    async with opened() as stand, running(stand.hooks):
        assert (await stand.ask("write.before", {"path": "a"})).allowed
        (opened.out / "go").touch()
        await until(lambda: stand.hooks.errors)

    assert (
        stand.hooks.errors[0].message
        == "write.before[0] objects to write.before, which cannot be stopped any more: late"
    )


# failures


async def test_a_broken_guard_lets_it_pass_and_is_reported_until_it_works_again(
    opened: HooksOpener,
):
    script = opened.script(
        "on-write-before.sh", f"[ -e {opened.out}/mended ] || {{ echo broken >&2; exit 1; }}"
    )
    async with opened() as stand:
        decision = await stand.ask("write.before", {"path": "a"})
        assert decision.allowed
        failure = f"{script.name} ended with 1: broken"
        assert stand.reports[f"hooks:{script.name}"] == failure
        assert stand.hooks.errors == (
            HookError(hook=script.name, message=failure, timestamp=AT, event="write.before"),
        )
        assert stand.failed == list(stand.hooks.errors)
        (opened.out / "mended").touch()
        await stand.ask("write.before", {"path": "a"})
        assert stand.reports[f"hooks:{script.name}"] is None


# approval


async def test_a_script_that_changed_does_not_run_until_it_is_approved(opened: HooksOpener):
    script = opened.script("on-write-before.sh", f"echo first >> {opened.out}/out")
    async with opened() as stand:
        await stand.ask("write.before", {"path": "a"})
        script.write_text(f"echo second >> {opened.out}/out")
        stand.hooks.look()
        assert "hooks approve" in str(stand.reports[f"hooks:{script.name}"])
        assert "hooks approve" in str(stand.hooks.listed[0].problem)
        decision = await stand.ask("write.before", {"path": "a"})
        assert "hooks approve" in decision.reason
        assert stand.said() == "first\n"
        assert stand.hooks.approve([script.name]) == [str(script)]
        assert stand.reports[f"hooks:{script.name}"] is None
        await stand.ask("write.before", {"path": "a"})
        assert stand.said() == "first\nsecond\n"
        with pytest.raises(NotFoundError):
            stand.hooks.approve(["nothing"])


async def test_a_change_between_two_looks_is_not_run_either(opened: HooksOpener):
    script = opened.script("on-write-before.sh", "true")
    async with opened() as stand:
        script.write_text(f"touch {opened.out}/ran")
        assert not (await stand.ask("write.before", {"path": "a"})).allowed
        assert not (opened.out / "ran").exists()


async def test_settings_may_say_that_nothing_needs_approval(opened: HooksOpener):
    script = opened.script("on-write-before.sh", "true")
    async with opened(must_approve=False) as stand:
        script.write_text("exit 2")
        assert not (await stand.ask("write.before", {"path": "a"})).allowed


# reading again


async def test_hooks_are_read_again_when_their_files_change(opened: HooksOpener):
    opened.commands(write_before="exit 2")
    async with opened() as stand:
        assert not (await stand.ask("write.before", {"path": "a"})).allowed
        opened.settings({"nonsense": []})
        stand.hooks.look()
        assert (await stand.ask("write.before", {"path": "a"})).allowed
        assert stand.hooks.problems == [
            "hooks.yaml line 1: there is no event 'nonsense'; `parachute hooks docs` lists them",
        ]
        assert stand.reports["hooks:files"] == stand.hooks.problems[0]
        (stand.home / "hooks.yaml").unlink()
        opened.script("on-session-start.sh", "echo new")
        stand.hooks.look()
        assert stand.reports["hooks:files"] is None
        assert (await stand.ask("session.start")).context == ("new",)


async def test_the_problem_of_a_hook_that_is_gone_is_none_any_more(opened: HooksOpener):
    script = opened.script("on-write-before.sh", "exit 1")
    async with opened() as stand:
        await stand.ask("write.before", {"path": "a"})
        assert stand.reports[f"hooks:{script.name}"]
        script.unlink()
        stand.hooks.look()
        assert stand.reports[f"hooks:{script.name}"] is None


# telling


async def test_facts_are_reported_in_the_background_to_those_who_are_meant(opened: HooksOpener):
    opened.settings(
        {"file.modified": [{"command": f"cat >> {opened.out}/out", "matcher": "^Daily/"}]}
    )
    async with opened() as stand, running(stand.hooks):
        for path in ("Daily/a.md", "Work/b.md", "Daily/c.md"):
            stand.hooks.tell(stand.hook_event("file.modified", {"path": path}))
            await until(lambda path=path: path.startswith("Work") or path in stand.said())

    assert [json.loads(line)["data"]["path"] for line in stand.said().splitlines()] == [
        "Daily/a.md",
        "Daily/c.md",
    ]


async def test_when_too_many_wait_the_oldest_are_dropped_and_that_is_a_problem(
    opened: HooksOpener, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("parachuted.hooks.hooks._MOST_WAITING", 20)
    opened.settings(
        {
            "file.modified": [{"command": f"cat >> {opened.out}/out", "matcher": "last.md"}],
            "file.created": [{"command": "true"}],
        }
    )
    async with opened() as stand:
        for number in range(20):
            stand.hooks.tell(stand.hook_event("file.created", {"path": f"{number}.md"}))
        assert "hooks:waiting" not in stand.reports
        stand.hooks.tell(stand.hook_event("file.modified", {"path": "last.md"}))
        assert "more than 20 runs of hooks wait" in str(stand.reports["hooks:waiting"])
        async with running(stand.hooks):
            await until(stand.said, within_s=30)
            await until(lambda: stand.reports["hooks:waiting"] is None)

    assert json.loads(stand.said())["data"]["path"] == "last.md"


async def test_when_the_daemon_ends_what_runs_is_ended_too(opened: HooksOpener):
    opened.commands(file_modified=f"echo $$ > {opened.out}/out; sleep 60")
    async with opened() as stand:
        async with running(stand.hooks):
            stand.hooks.tell(stand.hook_event("file.modified", {"path": "a"}))
            await until(lambda: stand.said().strip())
        await until(lambda: not Path(f"/proc/{stand.said().strip()}").exists())


# from another thread


async def test_a_thread_may_ask_while_the_loop_runs(opened: HooksOpener):
    opened.commands(write_before="echo not now >&2; exit 2")
    async with opened() as stand:
        loop = asyncio.get_running_loop()
        decision = await asyncio.to_thread(
            stand.hooks.ask_from_thread, stand.hook_event("write.before", {"path": "a"}), loop
        )
        assert (decision.allowed, decision.reason) == (False, "not now")
        assert (
            await asyncio.to_thread(
                stand.hooks.ask_from_thread, stand.hook_event("stop.before"), loop
            )
            is ALLOWED
        )


async def test_a_thread_that_asks_while_the_daemon_stops_is_refused(
    opened: HooksOpener,
):
    opened.commands(write_before=f"touch {opened.out}/out; sleep 60")
    async with opened() as stand:
        loop = asyncio.get_running_loop()
        asking = asyncio.ensure_future(  # noqa: TID251  a test's own
            asyncio.to_thread(
                stand.hooks.ask_from_thread, stand.hook_event("write.before", {"path": "a"}), loop
            )
        )
        await until((opened.out / "out").exists)
        await stand.hooks.close()
        decision = await asking
        assert not decision.allowed
        assert "stopping" in decision.reason
        assert not (await stand.ask("write.before", {"path": "a"})).allowed


# seeing


async def test_every_run_is_recorded_with_what_went_in_and_what_came_of_it(opened: HooksOpener):
    opened.commands(write_before="echo out; echo no >&2; exit 2")
    async with opened() as stand:
        await stand.ask("write.before", {"path": "a.md"})
        (record,) = stand.hooks.recorder.last(10)

    assert (record.hook, record.event, record.decision, record.exit_code) == (
        "write.before[0]",
        "write.before",
        "blocked: no",
        2,
    )
    assert json.loads(record.stdin)["data"]["path"] == "a.md"
    assert (record.stdout, record.stderr) == ("out\n", "no\n")


async def test_a_run_may_be_replayed_with_exactly_what_it_was_given(opened: HooksOpener):
    opened.commands(write_before="cat; exit 2")
    async with opened() as stand:
        await stand.ask("write.before", {"path": "a.md", "secret": "né"}, session_id="s")
        (old,) = stand.hooks.recorder.last(1)
        new = await stand.hooks.replay(old.id)
        assert (new.stdin, new.stdout, new.decision) == (old.stdin, old.stdout, old.decision)
        assert new.id != old.id
        with pytest.raises(NotFoundError, match="hooks history"):
            await stand.hooks.replay("h99999999")
        opened.commands(prompt_before="true")
        stand.hooks.look()
        with pytest.raises(NotFoundError):
            await stand.hooks.replay(old.id)


async def test_a_run_whose_input_was_not_kept_whole_is_not_replayed(opened: HooksOpener):
    opened.commands(write_before="true")
    async with opened() as stand:
        await stand.ask("write.before", {"path": "a.md", "text": "x" * 100_000})
        with pytest.raises(ParachuteError, match="too long"):
            await stand.hooks.replay(stand.hooks.recorder.last(1)[0].id)


async def test_hooks_are_listed_as_they_stand(opened: HooksOpener):
    opened.settings(
        {
            "PreToolUse": [{"command": "exit 1", "matcher": "Bash"}],
            "file.modified": [{"command": "true", "async": True}],
        }
    )
    opened.script("on-session-start.sh", "# Says hello.\necho hello\n")
    async with opened() as stand:
        await stand.ask("tool.before", {"tool_name": "Bash"})
        first, second, third = stand.hooks.listed

    assert (first.name, first.blocking) == ("PreToolUse[0]", True)
    assert (first.runs, first.failures) == (1, 1)
    assert (second.blocking, second.runs) == (False, 0)
    assert (third.description, third.source, third.problem) == (
        "Says hello.",
        "script",
        None,
    )
