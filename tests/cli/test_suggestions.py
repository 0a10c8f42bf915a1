"""`parachute suggestions`: what waits, and deciding on it."""

from __future__ import annotations

import asyncio
import json

from parachuted.suggestions import Proposal
from tests.cli.command_line import CommandLine
from tests.stories.daemon_rig import Live, save


async def propose(daemon_rig, path, payload, action="update"):
    proposal = Proposal(
        source_agent="reflector", reasoning="it follows", path=path, payload=payload, action=action
    )
    return await daemon_rig.daemon.vault.suggestions.propose(proposal)


async def test_a_suggestion_is_listed_shown_approved_and_reported_afterwards(
    live: Live, home, vault, tmp_path
):
    command_line = CommandLine(home=home, vault=vault, folder=tmp_path)
    save(vault / "a.md", "one\n")

    async def does(*words: str, **env: str) -> str:
        return await asyncio.to_thread(command_line.does, "suggestions", *words, **env)

    async with live() as daemon_rig:
        assert (await does("list")).startswith("No suggestion waits.")
        assert (await does("list", "--all")).startswith("No suggestion was made yet.")
        first, second = (
            await propose(daemon_rig, "a.md", {"text": "two\n"}),
            await propose(daemon_rig, "b.md", {"text": "b\n"}, "create"),
        )
        third, fourth = (
            await propose(daemon_rig, "c.md", {"text": "c\n"}, "create"),
            await propose(daemon_rig, "d.md", {"text": "d\n"}, "create"),
        )
        listed = (await does("list")).splitlines()
        assert [line.split()[0] for line in listed[1:]] == [
            fourth.id,
            third.id,
            second.id,
            first.id,
        ]
        shown = await does("show", first.id)
        for part in (
            "Update a.md",
            "because   | it follows",
            "-one",
            "+two",
            f"parachute suggestions approve {first.id}",
        ):
            assert part in shown
        assert (await does("approve", first.id)).startswith(
            "approved   Update a.md: a.md was written; `parachute undo r-"
        )
        assert "was approved already" in await asyncio.to_thread(
            command_line.fails, 1, "suggestions", "approve", first.id
        )
        assert "rejected   Create b.md: no need" in await does(
            "reject", second.id, "--reason", "no need"
        )
        (tmp_path / "payload.json").write_text(json.dumps({"text": "C\n"}))
        assert "modified   Create c.md" in await does(
            "edit", third.id, "--payload", str(tmp_path / "payload.json")
        )
        assert "approved   Create d.md" in await does("approve-all")
        assert "reflector: 3 creates decided on, 50% accepted" in await does("list", "--all")
        assert "there is no suggestion" in await asyncio.to_thread(
            command_line.fails, 1, "suggestions", "show", "../x"
        )
    assert [(vault / f"{name}.md").exists() for name in "abcd"] == [True, False, True, True]
    assert (vault / "c.md").read_text() == "C\n"


async def test_the_text_can_be_changed_in_the_persons_own_editor_and_is_done_so(
    live: Live, home, vault, tmp_path
):
    command_line = CommandLine(home=home, vault=vault, folder=tmp_path)
    save(vault / "a.md", "one\n")
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "three\\n" > "$1"\n')
    editor.chmod(0o755)
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "a.md", {"text": "two\n"})
        assert "Nothing was changed" in await asyncio.to_thread(
            command_line.does, "suggestions", "edit", made.id, EDITOR="true", VISUAL=""
        )
        assert "ended with 1" in await asyncio.to_thread(
            command_line.fails, 1, "suggestions", "edit", made.id, EDITOR="false", VISUAL=""
        )
        assert "modified" in await asyncio.to_thread(
            command_line.does, "suggestions", "edit", made.id, EDITOR=str(editor), VISUAL=""
        )
    assert (vault / "a.md").read_text() == "three\n"
