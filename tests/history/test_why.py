"""Why: who wrote each line, through edits, undos and texts that come back."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError
from parachuted.history import Why, revert
from parachuted.vault import UNDO, Author, VaultPath, digest_of
from tests.tools.conftest import ToolsRig

NOTE = VaultPath("note.md")


@pytest.fixture
def tools_rig(tmp_path: Path) -> Iterator[ToolsRig]:
    tools_rig = ToolsRig(folder=tmp_path)
    yield tools_rig
    tools_rig.close()


def writes(tools_rig: ToolsRig, run: str, text: str) -> None:
    """A run replaces the whole note."""
    tools_rig.store.replace(NOTE, text.encode(), Author(by="curator", run=run, causes=("c1",)))


def undoes(tools_rig: ToolsRig, run: str) -> None:
    for write in reversed(tools_rig.history.writes_by(run)):
        revert(write, tools_rig.store, tools_rig.objects, Author(by=UNDO))


def origins(tools_rig: ToolsRig) -> list[str]:
    """For each line its run, or who else wrote it."""
    return [origin.run or origin.by for origin in Why(tools_rig.store).lines(NOTE)]


def test_what_no_run_wrote_is_a_persons(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\nb\n")

    assert origins(tools_rig) == ["person", "person"]


def test_a_line_is_the_runs_that_wrote_it(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\nb\n")
    writes(tools_rig, "r1", "a\nx\nb\n")
    writes(tools_rig, "r2", "a\nx\ny\nb\n")

    assert origins(tools_rig) == ["person", "r1", "r2", "person"]
    line = Why(tools_rig.store).lines(NOTE)[1]
    assert (line.number, line.text, line.by, line.at) == (
        2,
        "x",
        "curator",
        tools_rig.now.isoformat(),
    )


def test_a_persons_edit_between_two_runs_and_after_them_is_a_persons(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\n")
    writes(tools_rig, "r1", "a\nx\n")
    tools_rig.save("note.md", "a\nmine\nx\n")
    writes(tools_rig, "r2", "a\nmine\nx\ny\n")
    tools_rig.save("note.md", "a\nmine\nx\ny\nlast\n")

    assert origins(tools_rig) == ["person", "person", "r1", "r2", "person"]


def test_a_line_that_a_person_rewrote_is_a_persons(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\n")
    writes(tools_rig, "r1", "a\nx\n")
    tools_rig.save("note.md", "a\nx!\n")

    assert origins(tools_rig) == ["person", "person"]


def test_a_note_that_a_run_made_is_the_runs(tools_rig: ToolsRig):
    tools_rig.store.create(NOTE, b"a\nb\n", Author(by="curator", run="r1"))

    assert origins(tools_rig) == ["r1", "r1"]


def test_after_an_undo_the_lines_are_whose_they_were(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\nb\nc\n")
    writes(tools_rig, "r1", "a\nx\nc\n")
    undoes(tools_rig, "r1")

    assert tools_rig.text("note.md") == "a\nb\nc\n"
    assert origins(tools_rig) == ["person"] * 3


def test_after_an_undo_around_a_later_edit_they_are_too(tools_rig: ToolsRig):
    """What comes out is a text that never was: b is back, and the person's line is there."""
    tools_rig.save("note.md", "a\n")
    writes(tools_rig, "r0", "a\nb\nc\nd\n")
    writes(tools_rig, "r1", "a\nx\nc\nd\n")
    tools_rig.save("note.md", "a\nx\nc\nd\nmine\n")
    undoes(tools_rig, "r1")

    assert tools_rig.text("note.md") == "a\nb\nc\nd\nmine\n"
    assert origins(tools_rig) == ["person", "r0", "r0", "r0", "person"]


def test_what_a_run_writes_after_an_undo_is_that_runs(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\n")
    writes(tools_rig, "r1", "a\nx\n")
    undoes(tools_rig, "r1")
    writes(tools_rig, "r2", "a\nx\n")

    assert origins(tools_rig) == ["person", "r2"]


def test_a_text_that_a_person_restored_is_as_it_was(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\nb\n")
    writes(tools_rig, "r1", "a\nx\n")
    tools_rig.save("note.md", "a\nb\n")
    assert origins(tools_rig) == ["person", "person"]
    writes(tools_rig, "r2", "a\nb\nz\n")

    assert origins(tools_rig) == ["person", "person", "r2"]


def test_line_ends_of_another_system_make_no_one_the_author(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\r\nb\r\n")
    writes(tools_rig, "r1", "a\r\nx\r\nb\r\n")
    tools_rig.save("note.md", "a\nx\nb\n")

    assert origins(tools_rig) == ["person", "r1", "person"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("a\rb\n", ["a\rb"]),
        ("\n", [""]),
    ],
)
def test_lines_are_counted_as_editors_count_them(tools_rig: ToolsRig, text: str, lines: list[str]):
    tools_rig.save("note.md", text)

    assert [origin.text for origin in Why(tools_rig.store).lines(NOTE)] == lines


def test_a_note_that_is_not_there_cannot_be_explained(tools_rig: ToolsRig):
    with pytest.raises(NotFoundError):
        origins(tools_rig)


def test_what_came_with_a_text_whose_forerunner_is_lost_may_be_anybodys(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\n")
    writes(tools_rig, "r1", "a\nx\n")
    writes(tools_rig, "r2", "a\nx\ny\n")
    for write in tools_rig.history.writes_of(NOTE)[:1]:
        (tools_rig.folder / "objects" / write.before[:2] / write.before[2:]).unlink()

    assert origins(tools_rig) == ["earlier", "earlier", "r2"]


def test_random_histories_of_lines_that_are_never_the_same_are_reported_right(tools_rig: ToolsRig):
    """Against a model in which each line carries its author."""
    seed = random.randrange(1 << 32)  # noqa: S311  a seed to be told
    rng = random.Random(seed)  # noqa: S311
    lines = [(f"line {number}", "person") for number in range(5)]
    tools_rig.save("note.md", "".join(f"{text}\n" for text, _who in lines))
    for step in range(60):
        who = rng.choice(["person", f"r{step}"])
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(lines) + 1)
            if rng.random() < 0.4 and len(lines) > 1:
                del lines[min(at, len(lines) - 1)]
            else:
                lines.insert(at, (f"step {step} {rng.random()}", who))
        text = "".join(f"{text}\n" for text, _who in lines)
        if who == "person":
            tools_rig.save("note.md", text)
        else:
            writes(tools_rig, who, text)

        assert origins(tools_rig) == [who for _text, who in lines], f"seed {seed}"


def test_a_long_note_with_a_long_history_is_explained_soon(tools_rig: ToolsRig):
    lines = [f"- {number % 50}" for number in range(4000)]
    tools_rig.save("note.md", "\n".join(lines))
    for number in range(60):
        lines.insert(number * 60, f"run {number}")
        writes(tools_rig, f"r{number}", "\n".join(lines))
    began = time.process_time()

    assert sorted(set(origins(tools_rig))) == sorted(
        {"person", *(f"r{number}" for number in range(60))}
    )
    assert time.process_time() - began < 20


def test_lines_are_followed_to_where_the_note_was_before_it_moved(tools_rig: ToolsRig):
    tools_rig.save("old.md", "a\n")
    tools_rig.store.replace(VaultPath("old.md"), b"a\nx\n", Author(by="curator", run="r1"))
    tools_rig.store.move(VaultPath("old.md"), NOTE, Author(by="maintenance", run="r2"))
    writes(tools_rig, "r3", "a\nx\ny\n")

    assert origins(tools_rig) == ["person", "r1", "r3"]


def test_who_moved_a_note_did_not_write_it(tools_rig: ToolsRig):
    tools_rig.save("old.md", "a\n")
    tools_rig.store.move(VaultPath("old.md"), NOTE, Author(by="maintenance", run="r2"))

    assert origins(tools_rig) == ["person"]


def test_a_persons_save_that_was_noticed_has_its_time_and_needs_no_kept_text(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\n")
    writes(tools_rig, "r1", "a\nx\n")
    for text in ("a\nx\nmine\n", "a\nx\nmine\nmore\n"):
        tools_rig.save("note.md", text)
        tools_rig.history.saw(
            tools_rig.now, [("note.md", "modified", None, digest_of(text.encode()))]
        )
    lines = Why(tools_rig.store).lines(NOTE)

    assert [line.run or line.by for line in lines] == ["person", "r1", "person", "person"]
    assert lines[3].at == tools_rig.now.isoformat()


def test_what_is_older_than_the_history_may_be_anybodys(tools_rig: ToolsRig):
    tools_rig.save("note.md", "a\n")
    writes(tools_rig, "r1", "a\nx\n")
    writes(tools_rig, "r2", "a\nx\ny\n")
    tools_rig.history.drop_writes([tools_rig.history.writes_by("r1")[0].id])
    assert origins(tools_rig) == ["earlier", "earlier", "r2"]
    tools_rig.save("note.md", "a\nx\ny\nmine\n")

    assert origins(tools_rig) == ["earlier", "earlier", "r2", "person"]


def test_the_chain_of_a_run_leads_to_the_change_that_woke_the_first(tools_rig: ToolsRig):
    def ran(run: str, *parents: str) -> None:
        document = {"id": run, "parents": list(parents)}
        tools_rig.history.save_run(
            run, started=tools_rig.now, watcher="w", outcome="changed", causes=(), document=document
        )

    for run, parents in (
        ("r1", ()),
        ("r2", ("r1",)),
        ("r3", ("r2", "r1", "gone")),
        ("r4", ("r3", "r4")),
    ):
        ran(run, *parents)

    assert [one["id"] for one in Why(tools_rig.store).chain("r4")] == [
        "r3",
        "r2",
        "r1",
    ]
    assert Why(tools_rig.store).chain("r9") == []
