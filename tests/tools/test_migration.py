"""Migration: old context files become those of folders, and an undo brings them back."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.tools.migration import Migration, plan_moves, target_of
from parachuted.vault import IndexEntry, VaultIndex, VaultPath
from tests.stories.daemon_rig import Live, note, save


def index_of(*paths: str) -> VaultIndex:
    index = VaultIndex()
    for path in paths:
        index.set(path, IndexEntry(0, 0, 10, 1, "d"))
    return index


@pytest.mark.parametrize(
    ("file", "paths", "target"),
    [
        ("general-context.md", (), "AGENTS.md"),
        ("General-Context.md", ("CLAUDE.md",), "CLAUDE.md"),
        ("general.md", ("AGENTS.md",), "AGENTS.md"),
        ("parachute-context.md", ("Projects/parachute/CLAUDE.md",), "Projects/parachute/CLAUDE.md"),
        ("parachute-context.md", (), "Projects/parachute/AGENTS.md"),
        ("tai_chi-context.md", ("Areas/Tai Chi/notes.md",), "Areas/Tai Chi/AGENTS.md"),
        ("garden.md", ("Areas/garden/a.md", "Projects/Garden/a.md"), "Projects/Garden/AGENTS.md"),
        ("garden.md", ("z/y/garden/a.md", "z/garden/a.md"), "z/garden/AGENTS.md"),
        (
            "garden.md",
            (".trash/garden/a.md", "Chat/garden/a.md", "x/.old/garden/a.md"),
            "Projects/garden/AGENTS.md",
        ),
        ("-context.md", (), "Projects/-context/AGENTS.md"),
    ],
)
def test_an_old_file_belongs_to_the_folder_with_its_name(file, paths, target):
    assert target_of(VaultPath(f"Chat/contexts/{file}"), index_of(*paths)) == target


def test_each_old_file_moves_unless_the_folder_has_a_context_file():
    names = ("a-context.md", "a.md", "general.md", "secret.md", ".hidden.md", "picture.png")
    index = index_of("AGENTS.md", *(f"Chat/contexts/{name}" for name in names))
    moves = plan_moves(index, lambda path: "secret" not in path and "/." not in path)
    assert [(one.file.name, one.target, one.action) for one in moves] == [
        ("a-context.md", "Projects/a/AGENTS.md", "move"),
        ("a.md", "Projects/a/AGENTS.md", "refuse"),
        ("general.md", "AGENTS.md", "refuse"),
    ]


async def test_old_texts_move_to_their_folders_as_one_run_that_can_be_undone(
    live: Live, vault: Path
):
    """Sessions that chose an old file have chosen its folder."""
    garden = note("Garden", focus="- sow")
    save(vault / "Chat/contexts/attic.md", "# Attic\n")
    save(vault / "Chat/contexts/garden-context.md", garden)
    save(vault / "Chat/contexts/general.md", "# Me\n")
    save(vault / "AGENTS.md", "# Everything\n")
    save(vault / "Areas/garden/plan.md", "# Plan\n")
    save(vault / "Projects/watcher/AGENTS.md", note("Watcher", watch=["Areas/*"]))
    async with live() as daemon_rig:
        daemon = daemon_rig.daemon
        history, sessions = daemon.watched.history, daemon.loop.sessions
        migration = Migration(
            store=daemon.vault.store,
            index=daemon.watched.index,
            sessions=sessions,
            bus=daemon.watched.bus,
        )
        sessions.choose("s", [move.file for move in migration.plan(lambda _path: True)])
        done = await migration.apply(lambda _path: True)
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished")[1:])
        await daemon_rig.settled()
        assert (vault / "Projects/attic/AGENTS.md").read_text() == "# Attic\n"
        assert (vault / "Areas/garden/AGENTS.md").read_text() == garden
        assert (vault / "AGENTS.md").read_text() == "# Everything\n"
        left = [file.name for file in (vault / "Chat/contexts").iterdir()]
        assert (left, done.sessions) == (["general.md"], 2)
        chosen = {one.folder_path for one in sessions.of("s")}
        assert chosen == {"Projects/attic", "Areas/garden", "Chat/contexts/general.md"}
        runs = {one["watcher"]: one for one in history.runs()}
        assert runs["Projects/watcher/AGENTS.md"]["parents"] == [done.run]
        assert (await migration.apply(lambda _path: True)).run is None

        undone = await daemon.vault.undo.undo(str(done.run))
        assert undone.kept == {}
    assert (vault / "Chat/contexts/attic.md").read_text() == "# Attic\n"
    assert (vault / "Chat/contexts/garden-context.md").read_text() == garden
    assert not (vault / "Areas/garden/AGENTS.md").exists()
