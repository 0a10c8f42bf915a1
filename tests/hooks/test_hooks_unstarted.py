"""A guard that never ran: whatever kept it from starting, the act it guards does not happen, and
says what to do.
"""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from parachuted.hooks.hook import BLOCKING
from tests.api.calls import call, refused
from tests.hooks.serving import drop, put_settings
from tests.hooks.test_hooks import HooksOpener, opened
from tests.stories.daemon_rig import Live

__all__ = ["opened"]

GUARDS = sorted(BLOCKING - {"stop.before"})  # an agent is never kept from ending
NO_ROOM = {
    "no process": BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
    "no memory": OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    "no file": OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    "no thread": RuntimeError("can't start new thread"),
}
UNSTARTABLE = {
    "its interpreter is missing": "#!/nowhere/interpreter\nexit 0\n",
    "env finds no interpreter": "#!/usr/bin/env nothing-of-that-name\nexit 0\n",
    "Windows line ends": "#!/bin/sh\r\nexit 0\r\n",
    "its command is missing": "#!/bin/sh\nexec nothing-of-that-name\n",
}
UNREADABLE = {
    "not YAML": ("hooks: [", 0o600),
    "others may change it": ("write.before: [{command: exit 0}]", 0o666),
    "no events": ("hooks: [write.before]", 0o600),
    "not a list": ("write.before: {command: exit 0}", 0o600),
    "not a hook": ("write.before: [exit 0]", 0o600),
    "a time that is none": ("write.before: [{command: exit 0, timeout: soon}]", 0o600),
    "a type that is none": ("write.before: [{type: comand, command: exit 0}]", 0o600),
    "a matcher that is none": ("write.before: [{command: exit 0, matcher: 'a('}]", 0o600),
    "a group that is none": ("write.before: [{matcher: x, hooks: {command: exit 0}}]", 0o600),
}
GUARDS_NOTHING = {
    "a mistake elsewhere": "nonsense: 1\nfile.modified: [{command: exit 0, timeout: soon}]\n",
    "an async hook": "write.before: [{command: exit 0, timeout: soon, async: true}]",
    "all is switched "
    "off": "disableAllHooks: true\nwrite.before: [{command: exit 0, timeout: soon}]",
    "a type of Claude Code's that is not run here": "write.before: [{type: prompt, prompt: x}]",
}


def put_guard(home: Path, event: str, text: str = "#!/bin/sh\nexit 0\n") -> Path:
    return drop(home, f"on-{event.replace('.', '-')}.sh", text)


async def test_a_note_is_not_written_while_the_machine_has_no_room_for_its_guard(
    live: Live, vault: Path, home: Path, monkeypatch: pytest.MonkeyPatch
):
    put_guard(home, "write.before")
    (vault / "a.md").write_text("old\n")
    async with live() as daemon_rig:
        for why, error in NO_ROOM.items():

            async def nothing_starts(*_words: object, at: Exception = error, **_: object) -> None:
                raise at

            with monkeypatch.context() as patch:
                patch.setattr(asyncio.get_running_loop(), "subprocess_exec", nothing_starts)
                status, message = await refused(daemon_rig, "PUT", "/api/notes/a.md", data=b"new\n")
                assert (status, (vault / "a.md").read_text()) == (403, "old\n"), why
                assert "cannot start" in message, why

        status, answer = await call(daemon_rig, "PUT", "/api/notes/a.md", data=b"new\n")
        assert (status, (vault / "a.md").read_text()) == (200, "new\n"), answer


@pytest.mark.parametrize("why", UNSTARTABLE)
async def test_a_write_is_refused_while_its_guard_is_not_a_program(
    why: str, opened: HooksOpener, home: Path
):
    put_guard(home, "write.before", UNSTARTABLE[why])
    async with opened() as stand:
        assert not (await stand.ask("write.before", {"path": "a"})).allowed


@pytest.mark.parametrize("event", GUARDS)
@pytest.mark.parametrize("setting", ["", ", on_failure: continue"])
async def test_no_act_goes_on_without_its_guard_whatever_the_settings_say(
    event: str, setting: str, opened: HooksOpener, home: Path
):
    command = f"{{type: command, command: /nowhere/guard x{setting}}}"
    put_settings(home, f"hooks:\n  {event}:\n    - {command}\n")
    async with opened() as stand:
        decision = await stand.ask(event)

    assert not decision.allowed
    assert "/nowhere/guard: not found" in decision.reason


async def test_an_agent_may_end_though_its_hooks_do_not_start(opened: HooksOpener, home: Path):
    for event in ("stop.before", "file.modified"):
        put_guard(home, event, "#!/nowhere/interpreter\n")
    async with opened() as stand:
        assert (await stand.ask("stop.before", session_id="s")).allowed
        assert (await stand.ask("file.modified", {"path": "a"})).allowed


@pytest.mark.parametrize("why", UNREADABLE)
async def test_a_write_is_refused_while_its_guard_cannot_be_read(
    why: str, opened: HooksOpener, home: Path
):
    put_settings(home, *UNREADABLE[why])
    async with opened() as stand:
        decision = await stand.ask("write.before", {"path": "a"})

    assert not decision.allowed
    assert "hooks.yaml" in decision.reason


@pytest.mark.parametrize("why", GUARDS_NOTHING)
async def test_a_mistake_that_guards_nothing_stops_nothing(
    why: str, opened: HooksOpener, home: Path
):
    put_settings(home, GUARDS_NOTHING[why])
    async with opened() as stand:
        assert (await stand.ask("write.before", {"path": "a"})).allowed


async def test_no_act_goes_on_while_the_settings_cannot_be_read_but_an_end(
    opened: HooksOpener, home: Path
):
    put_settings(home, "hooks: [")
    async with opened() as stand:
        decisions = {event: await stand.ask(event) for event in sorted(BLOCKING)}
        assert {event for event, decision in decisions.items() if not decision.allowed} == set(
            GUARDS
        )
        put_settings(home, "hooks: {}")
        stand.hooks.look()
        assert (await stand.ask("write.before", {"path": "a"})).allowed


async def test_scripts_that_others_may_change_guard_and_other_acts_go_on(
    opened: HooksOpener, home: Path
):
    script = put_guard(home, "write.before")
    for unsafe in (script, script.parent):
        mode = unsafe.stat().st_mode
        unsafe.chmod(0o777)
        async with opened() as stand:
            decision = await stand.ask("write.before", {"path": "a"})
            assert not decision.allowed
            assert f"chmod go-w {unsafe}" in decision.reason
            others = await stand.ask("prompt.before", {"prompt": "a"})
            assert others.allowed == (unsafe == script)
        unsafe.chmod(mode)
