"""Contexts: the command that moves an older program's context files, typed as a person types it."""

from __future__ import annotations

from tests.cli.typed import Typed


def test_the_plan_is_shown_first_then_done_then_undone(typed: Typed):
    old = typed.vault / "Chat/contexts/garden-context.md"
    old.parent.mkdir(parents=True)
    old.write_text("# Old garden\n\n## Plans\n- beans\n")
    (typed.vault / "Projects/garden").mkdir(parents=True)
    (typed.vault / "Projects/garden/AGENTS.md").write_text("# Garden\n")
    assert "no daemon" in typed.fails(3, "contexts", "migrate").lower()
    typed.does("start", "--vault", str(typed.vault), "--port", "0")

    plan = typed.does("contexts", "migrate")
    assert "Chat/contexts/garden-context.md  add to  Projects/garden/AGENTS.md  Plans" in plan
    assert "Nothing was changed" in plan
    assert old.exists()

    done = typed.does("contexts", "migrate", "--apply")
    assert (
        (typed.vault / "Projects/garden/AGENTS.md")
        .read_text()
        .startswith("# Garden\n\n## Plans\n\n- beans\n")
    )
    assert (
        typed.vault / "Chat/contexts/migrated/garden-context.md"
    ).read_text() == "# Old garden\n\n## Plans\n- beans\n"
    assert not old.exists()
    assert (
        typed.does("contexts", "migrate", "--apply")
        == "There are no context files in Chat/contexts.\n"
    )
    run = typed.json("runs")["runs"][0]["id"]
    assert f"parachute undo {run}" in done
    assert run in typed.does("runs", run)
    assert run in typed.does("why", f"{typed.vault}/Projects/garden/AGENTS.md:5")

    typed.does("undo", run)
    assert (typed.vault / "Projects/garden/AGENTS.md").read_text() == "# Garden\n"
    assert old.exists()


def test_what_cannot_be_moved_is_reported_and_fails(typed: Typed):
    (typed.vault / "Chat/contexts").mkdir(parents=True)
    (typed.vault / "Chat/contexts/general-context.md").write_bytes(b"# \xff\n")
    (typed.vault / "AGENTS.md").write_text("# Mine\n")
    typed.does("start", "--vault", str(typed.vault), "--port", "0")

    assert typed.json("contexts", "migrate")["moves"][0]["action"] == "refuse"
    assert "not UTF-8" in typed("contexts", "migrate", "--apply").stdout
    typed.fails(1, "contexts", "migrate", "--apply")
