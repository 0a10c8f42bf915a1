"""Migration: old context files become those of folders through a running daemon, and an undo brings
them back.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.access.strangers import says_stranger
from parachuted.tools.migration import Migration
from tests.stories.daemon_rig import DaemonRig, Live, note, save

OLD = {
    "general-context.md": "# Me\n\n## Facts\n- I garden\n",
    "garden-context.md": note("Garden", focus="- sow"),
    "attic.md": "# Attic\n",
}


@pytest.fixture
def old(vault: Path) -> Path:
    """A vault with old context files, one of which is about a folder that has a context file."""
    for name, text in OLD.items():
        save(vault / "Chat/contexts" / name, text)
    save(vault / "AGENTS.md", "# Everything\n\n> Mine.\n")
    save(vault / "Areas/garden/plan.md", "# Plan\n")
    return vault


def texts(vault: Path) -> dict[str, str]:
    return {
        path.relative_to(vault).as_posix(): path.read_text("utf-8") for path in vault.rglob("*.md")
    }


def migration(daemon_rig: DaemonRig) -> Migration:
    daemon = daemon_rig.daemon
    return Migration(
        store=daemon.vault.store,
        index=daemon.watched.index,
        sessions=daemon.loop.sessions,
        bus=daemon.watched.bus,
    )


def everything(_path: str) -> bool:
    return True


async def migrated(daemon_rig: DaemonRig) -> str:
    done = await migration(daemon_rig).apply(everything)
    assert done.run is not None
    return done.run


async def test_old_texts_move_to_their_folders_as_one_run_that_can_be_undone(live: Live, old: Path):
    """Sessions that chose an old file have chosen its folder until it is back."""
    before = texts(old)
    async with live() as daemon_rig:
        daemon = daemon_rig.daemon
        history, sessions = daemon.watched.history, daemon.loop.sessions
        moves = await migration(daemon_rig).plan(everything)
        assert [(move.file.name, move.action) for move in moves] == [
            ("attic.md", "create"),
            ("garden-context.md", "create"),
            ("general-context.md", "append"),
        ]
        assert (texts(old), history.runs()) == (before, [])
        sessions.choose("s", [move.file for move in moves])

        done = await migration(daemon_rig).apply(everything)
        await daemon_rig.settled()
        now = texts(old)
        assert daemon.watched.index.get("Projects/attic/AGENTS.md") is not None
        assert now["Projects/attic/AGENTS.md"] == OLD["attic.md"]
        assert now["Areas/garden/AGENTS.md"] == OLD["garden-context.md"]
        assert now["AGENTS.md"].startswith("# Everything\n\n> Mine.\n\n## Facts\n\n- I garden\n")
        assert {name: now[f"Chat/contexts/migrated/{name}"] for name in OLD} == OLD
        assert not any(f"Chat/contexts/{name}" in now for name in OLD)
        assert (len(done.moves), done.sessions) == (3, 3)
        folders = ["Projects/attic", "Areas/garden", ""]
        assert [one.folder_path for one in sessions.of("s")] == folders
        document = history.run(str(done.run))
        assert document is not None
        facts = (document["agent"], document["outcome"], document["cost_usd"])
        assert facts == ("migration", "changed", 0.0)

        again = await migration(daemon_rig).apply(everything)
        assert (again.run, again.moves, again.sessions) == (None, (), 0)
        assert (texts(old), len(history.runs())) == (now, 1)

        undone = await daemon.vault.undo.undo(str(done.run))
        assert (undone.runs, undone.kept) == ((done.run,), {})
        await daemon_rig.settled()
        chosen = [one.folder_path for one in sessions.of("s")]
        assert chosen == [f"Chat/contexts/{name}" for name in sorted(OLD)]
    assert texts(old) == before


async def test_watchers_wake_and_the_undo_keeps_what_a_person_wrote_since(live: Live, old: Path):
    save(old / "Projects/watcher/AGENTS.md", note("Watcher", watch=["AGENTS.md", "Areas/*"]))
    async with live() as daemon_rig:
        run = await migrated(daemon_rig)
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished")[1:])
        await daemon_rig.settled()
        runs = {one["watcher"]: one for one in daemon_rig.daemon.watched.history.runs()}
        assert runs["Projects/watcher/AGENTS.md"]["parents"] == [run]
        save(old / "AGENTS.md", texts(old)["AGENTS.md"].replace("Mine.", "Mine, still."))
        await daemon_rig.daemon.vault.undo.undo(run)
    assert texts(old)["AGENTS.md"] == "# Everything\n\n> Mine, still.\n"


async def test_what_one_file_refuses_stops_no_other_and_the_unseen_is_untouched(
    live: Live, old: Path
):
    (old / "AGENTS.md").write_bytes(b"# Everything\n\n```\nopen\n")
    async with live() as daemon_rig:
        for sees, actions in (
            (
                lambda path: not path.startswith("Areas/"),
                {"attic.md": "create", "general-context.md": "refuse"},
            ),
            (everything, {"garden-context.md": "create", "general-context.md": "refuse"}),
        ):
            assert (old / "Chat/contexts/garden-context.md").exists()
            done = await migration(daemon_rig).apply(sees)
            assert {move.file.name: move.action for move in done.moves} == actions
    assert (old / "Chat/contexts/general-context.md").read_text() == OLD["general-context.md"]
    assert (old / "AGENTS.md").read_bytes() == b"# Everything\n\n```\nopen\n"


async def test_a_note_that_takes_in_a_strangers_text_is_trusted_no_more(live: Live, old: Path):
    save(
        old / "Chat/contexts/general-context.md",
        f"---\norigin: web\n---\n{OLD['general-context.md']}",
    )
    async with live() as daemon_rig:
        await migrated(daemon_rig)
        await daemon_rig.settled()
        assert "I garden" in (old / "AGENTS.md").read_text()
        assert says_stranger((old / "AGENTS.md").read_bytes())
        assert not says_stranger((old / "Projects/attic/AGENTS.md").read_bytes())
