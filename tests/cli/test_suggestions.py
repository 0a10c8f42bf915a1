"""`parachute suggestions`: what waits, and deciding on it."""

from __future__ import annotations

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
    live: Live, vault, tmp_path, command_line: CommandLine
):
    async def does(*words: str) -> str:
        return await command_line.tells("suggestions", *words)

    save(vault / "a.md", "one\n")
    async with live() as daemon_rig:
        assert (await does("list")).startswith("No suggestion waits.")
        assert (await does("list", "--all")).startswith("No suggestion was made yet.")
        made = [await propose(daemon_rig, "a.md", {"text": "two\n"})]
        for name in "bcd":
            made += [await propose(daemon_rig, f"{name}.md", {"text": f"{name}\n"}, "create")]
        first, second, third, fourth = (suggestion.id for suggestion in made)
        listed = (await does("list")).splitlines()
        assert [line.split()[0] for line in listed[1:]] == [fourth, third, second, first]
        shown = await does("show", first)
        for part in ("Update a.md", "because   | it follows", "-one", "+two"):
            assert part in shown
        assert f"parachute suggestions approve {first}" in shown
        written = "approved   Update a.md: a.md was written; `parachute undo r-"
        assert (await does("approve", first)).startswith(written)
        code, complaint = await command_line.types("suggestions", "approve", first)
        assert (code, "was approved already" in complaint) == (1, True)
        said = await does("reject", second, "--reason", "no need")
        assert "rejected   Create b.md: no need" in said
        (tmp_path / "payload.json").write_text(json.dumps({"text": "C\n"}))
        said = await does("edit", third, "--payload", str(tmp_path / "payload.json"))
        assert "modified   Create c.md" in said
        assert "approved   Create d.md" in await does("approve-all")
        code, complaint = await command_line.types("suggestions", "show", "../x")
        assert (code, "there is no suggestion" in complaint) == (1, True)
    assert [(vault / f"{name}.md").exists() for name in "abcd"] == [True, False, True, True]
    assert (vault / "c.md").read_text() == "C\n"


async def test_the_text_can_be_changed_in_the_persons_own_editor_and_is_done_so(
    live: Live, vault, tmp_path, command_line: CommandLine
):
    save(vault / "a.md", "one\n")
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf "three\\n" > "$1"\n')
    editor.chmod(0o755)
    async with live() as daemon_rig:
        edit = ("suggestions", "edit", (await propose(daemon_rig, "a.md", {"text": "two\n"})).id)
        for program, code, says in (
            ("true", 0, "Nothing was changed"),
            ("false", 1, "ended with 1"),
            (str(editor), 0, "modified"),
        ):
            done = await command_line.types(*edit, EDITOR=program, VISUAL="")
            assert (done[0], says in done[1]) == (code, True), done
    assert (vault / "a.md").read_text() == "three\n"
