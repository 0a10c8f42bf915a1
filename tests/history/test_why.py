"""Why: who wrote each line, through edits, undos and texts that come back."""

from __future__ import annotations

import random
import time

import pytest

from parachuted.errors import NotFoundError
from parachuted.history import Why
from parachuted.history.undo import revert
from parachuted.vault import UNDO, Author, VaultPath, digest_of
from tests.tools.conftest import ToolsRig

NOTE = VaultPath("note.md")


def writes(tools_rig: ToolsRig, run: str, text: str) -> None:
    tools_rig.store.replace(NOTE, text.encode(), Author(by="curator", run=run, causes=("c1",)))


def undoes(tools_rig: ToolsRig, run: str) -> None:
    for write in reversed(tools_rig.history.writes_by(run)):
        revert(write, tools_rig.store, Author(by=UNDO))


def origins(tools_rig: ToolsRig) -> list[str]:
    """For each line its run, or who else wrote it."""
    return [origin.run or origin.by for origin in Why(tools_rig.store).lines(NOTE)]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # what a person, in the first step, and runs wrote
        (["person a.b"], "person person"),
        (["person a.b", "r1 a.x.b", "r2 a.x.y.b"], "person r1 r2 person"),
        (["person a", "r1 a.x", "person a.x!"], "person person"),
        (["r1 a.b"], "r1 r1"),
        (
            ["person a", "r1 a.x", "person a.m.x", "r2 a.m.x.y", "person a.m.x.y.l"],
            "person person r1 r2 person",
        ),
        # after an undo, also one around a later edit, the lines are whose they were
        (["person a.b.c", "r1 a.x.c", "undo r1"], "person person person"),
        (
            ["person a", "r0 a.b.c.d", "r1 a.x.c.d", "person a.x.c.d.m", "undo r1"],
            "person r0 r0 r0 person",
        ),
        (["person a", "r1 a.x", "undo r1", "r2 a.x"], "person r2"),
        # a text that a person restored
        (["person a.b", "r1 a.x", "person a.b"], "person person"),
        (["person a.b", "r1 a.x", "person a.b", "r2 a.b.z"], "person person r2"),
        # line ends of another system
        (["person a\r.b\r", "r1 a\r.x\r.b\r", "person a.x.b"], "person r1 person"),
    ],
)
def test_each_line_is_whose_it_was(tools_rig: ToolsRig, steps: list[str], expected: str):
    for step in steps:
        who, _, lines = step.partition(" ")
        text = "".join(f"{line}\n" for line in lines.split("."))
        if who == "undo":
            undoes(tools_rig, lines)
        elif who == "person":
            tools_rig.save("note.md", text)
        elif (tools_rig.vault / NOTE).exists():
            writes(tools_rig, who, text)
        else:
            tools_rig.store.create(NOTE, text.encode(), Author(by="curator", run=who))

    assert origins(tools_rig) == expected.split()


def test_a_line_tells_its_number_text_author_and_time(tools_rig: ToolsRig):
    with pytest.raises(NotFoundError):
        origins(tools_rig)
    tools_rig.save("note.md", "a\n")
    writes(tools_rig, "r1", "a\nx\n")

    line = Why(tools_rig.store).lines(NOTE)[1]
    at = tools_rig.now.isoformat()
    assert (line.number, line.text, line.by, line.at) == (2, "x", "curator", at)


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


@pytest.mark.parametrize("is_lost", [True, False], ids=["text", "record"])
def test_what_is_older_than_what_is_kept_may_be_anybodys(tools_rig: ToolsRig, *, is_lost: bool):
    tools_rig.save("note.md", "a\n")
    writes(tools_rig, "r1", "a\nx\n")
    writes(tools_rig, "r2", "a\nx\ny\n")
    first = tools_rig.history.writes_by("r1")[0]
    if is_lost:
        (tools_rig.folder / "objects" / first.before[:2] / first.before[2:]).unlink()
    else:
        tools_rig.history.drop_writes([first.id])
    assert origins(tools_rig) == ["earlier", "earlier", "r2"]
    tools_rig.save("note.md", "a\nx\ny\nmine\n")

    assert origins(tools_rig) == ["earlier", "earlier", "r2", "person"]


def test_random_histories_of_lines_are_reported_right(tools_rig: ToolsRig):
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
    assert origins(tools_rig) == ["person", "r1"]  # who moved it did not write it
    writes(tools_rig, "r3", "a\nx\ny\n")

    assert origins(tools_rig) == ["person", "r1", "r3"]


def test_a_noticed_save_of_a_person_has_its_time_and_needs_no_text(tools_rig: ToolsRig):
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


def test_the_chain_of_a_run_leads_to_the_change_that_woke_the_first(tools_rig: ToolsRig):
    given = {"started": tools_rig.now, "watcher": "w", "outcome": "changed", "causes": ()}
    runs = {"r1": "", "r2": "r1", "r3": "r2 r1 gone", "r4": "r3 r4"}
    for run, parents in runs.items():
        document = {"id": run, "parents": parents.split()}
        tools_rig.history.save_run(run, document=document, **given)

    assert [one["id"] for one in Why(tools_rig.store).chain("r4")] == ["r3", "r2", "r1"]
    assert Why(tools_rig.store).chain("r9") == []
