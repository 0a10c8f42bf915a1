"""Acts killed: what is one act for a person is done whole or not at all, at whatever step of it the
daemon dies.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stories.daemon_rig import note, save, seeded
from tests.stories.restart_rig import RestartRig, restart_rig

pytestmark = pytest.mark.timeout(900)
_NOTES, _EACH = 30, 4
_LINK = re.compile(r"\[\[(hub|centre)\]\]|\]\((?:\.\./)?(hub|Deep/centre)\.md\)")
_AGAIN = 0.3


@pytest.fixture
def place(tmp_path: Path, program: subprocess.Popen[bytes]) -> RestartRig:
    return restart_rig(tmp_path, program)


def with_links(place: RestartRig) -> None:
    """120 links to a note, in 30 others."""
    save(place.vault / "hub.md", "# Hub\n[k](keep.md)\n")
    save(place.vault / "keep.md", "# Keep\n\n## Facts\n\n- of keep\n")
    for number in range(_NOTES):
        lines = "[[hub]] and [it](../hub.md)\n" * (_EACH // 2)
        save(place.vault / f"Links/{number}.md", f"# Note {number}\n\n{lines}\nThe end.\n")
    place.live()
    place.keep()


def links(place: RestartRig) -> dict[str, int]:
    """How many links lead where."""
    found: dict[str, int] = {}
    for data in place.files().values():
        for match in _LINK.finditer(data.decode()):
            name = match[1] or match[2].rpartition("/")[2]
            found[name] = found.get(name, 0) + 1
    return found


def chosen(steps: int, most: int, *, torture: bool, rng: random.Random) -> list[int]:
    return list(range(1, steps + 1)) if torture else sorted(rng.sample(range(1, steps + 1), most))


def die_at_each(
    place: RestartRig, does: str, check: Callable[[str], None], *, torture: bool, most: int = 2
) -> None:
    """Die at every step of that act in turn, or at some of them, and now and then in the next life
    too; then live on, and check.
    """
    place.put_back()
    _died, steps = place.live(does=does)
    assert steps > most
    check("undisturbed")
    seed, rng = seeded()
    for step in chosen(steps, most, torture=torture, rng=rng):
        place.put_back()
        died, _steps = place.live(step, does=does)
        deaths = [step]
        while died and len(deaths) < 3 and rng.random() < _AGAIN:
            deaths.append(rng.randrange(1, 2 * steps))
            died, _steps = place.live(deaths[-1])
        if died:
            place.live()
        check(f"seed {seed}, died at {deaths} of {steps}")


def test_a_move_takes_all_links_along_or_none(place: RestartRig, torture):
    with_links(place)

    def check(said: str) -> None:
        has_moved = (place.vault / "Deep/centre.md").exists()
        assert (place.vault / "hub.md").exists() != has_moved, said
        name = "centre" if has_moved else "hub"
        assert links(place) == {name: _NOTES * _EACH}, said
        with place.history() as history:
            writes = history.done_after(0)
            assert history.acts() == [], said
        assert len(writes) == (_NOTES + 3 if has_moved else 0), said
        assert len({write.author for write in writes}) <= 1, said
        if not has_moved:
            place.live(does="move")
            assert links(place) == {"centre": _NOTES * _EACH}, said

    die_at_each(place, "move", check, torture=torture)


def test_what_a_person_wrote_while_the_daemon_was_away_is_kept(place: RestartRig):
    """Their words stay in a note whose links follow, and so do a link and a note of theirs."""
    with_links(place)
    _died, steps = place.live(does="move")
    place.put_back()
    place.live(steps * 3 // 4, does="move")  # the texts were kept before
    assert (place.vault / "Deep/centre.md").exists()
    waiting = sorted(
        file for file in (place.vault / "Links").glob("*.md") if "[[hub]]" in file.read_text()
    )
    assert len(waiting) > 4
    save(waiting[0], f"Mine.\n{waiting[0].read_text()}Mine too.\n")
    save(waiting[1], waiting[1].read_text().replace("[[hub]]", "[[my hub]]"))
    waiting[2].unlink()
    save(waiting[3], waiting[3].read_text().replace("\n\nThe end.", "\nMy line beside it."))
    save(waiting[4], "Mine: [[hub|my label]] [it](<../hub.md#h>)\n")  # the line itself, otherwise
    place.live()

    assert waiting[0].read_text().count("[[centre]]") == 2
    assert waiting[0].read_text().startswith("Mine.")
    assert waiting[0].read_text().endswith("Mine too.\n")
    assert waiting[1].read_text().count("[[my hub]]") == 2
    assert not waiting[2].exists()
    assert waiting[3].read_text().count("[[centre]] and [it](../Deep/centre.md)") == 2
    assert waiting[3].read_text().endswith("\nMy line beside it.\n")
    assert waiting[4].read_text() == "Mine: [[centre|my label]] [it](<../Deep/centre.md#h>)\n"
    assert "hub" not in links(place)


def test_a_merge_of_notes_is_whole_or_not_begun_and_one_run(place: RestartRig, torture):
    with_links(place)

    def check(said: str) -> None:
        about = [
            b"about: keep" in data
            for path, data in place.files().items()
            if path.startswith("Links/")
        ]
        took = "- of hub" in (place.vault / "keep.md").read_text()
        gone = not (place.vault / "hub.md").exists()
        assert about in ([True] * _NOTES, [False] * _NOTES), said
        assert took == gone == about[0], said
        with place.history() as history:
            runs, writes = history.runs(), history.done_after(0)
        if took:
            (run,) = runs
            assert len(writes) == len(run["wrote"]) == _NOTES + 2, said
            assert {write.author.run for write in writes} == {run["id"]}, said
            assert run["reason"] == "merged", said
            place.live(does="undo")
            assert b"about: keep" not in b"".join(place.files().values()), said
            assert (place.vault / "hub.md").exists(), said

    die_at_each(place, "merge", check, torture=torture)


def test_an_undo_of_a_cascade_takes_back_all_of_it_or_nothing(place: RestartRig, torture):
    save(place.vault / "p/AGENTS.md", note("P"))
    for name, watched in {"b": ["p"], "c": ["b"], "d": ["c"]}.items():
        save(place.vault / f"{name}/AGENTS.md", note(name.upper(), watch=watched))
    place.live()
    before = place.files()
    save(place.vault / "p/AGENTS.md", note("P", focus="- sow"))
    place.live()
    after = place.files()
    place.keep()
    undone = {**before, "p/AGENTS.md": after["p/AGENTS.md"]}
    assert before["d/AGENTS.md"] != after["d/AGENTS.md"]

    def check(said: str) -> None:
        files = place.files()
        assert files in (undone, after), said
        with place.history() as history:
            runs = history.runs()
        undos = [run for run in runs if run["agent"] == "undo"]
        if files == undone:
            assert [run["outcome"] for run in undos] == ["changed"], said
            assert all(run["undone"] for run in runs if run not in undos), said
        else:
            assert not any(run["undone"] for run in runs), said

    die_at_each(place, "undo", check, torture=torture)


def test_an_import_that_was_cut_short_is_whole_once_it_is_sent_again(place: RestartRig, torture):
    conversations = [
        {
            "uuid": f"claude-{number}",
            "name": f"Talk {number}",
            "created_at": "2025-05-01T08:00:00.000000Z",
            "chat_messages": [{"sender": "human", "text": f"Words {number}."}],
        }
        for number in range(4)
    ]
    entries = [
        {"uuid": f"A{number}", "creationDate": f"2026-02-{at}T08:00:00Z", "text": f"Day {number}."}
        for number, at in enumerate((25, 25, 26, 27))
    ]
    save(place.vault / "conversations.json", json.dumps(conversations))
    save(place.vault / "Daily/import/Journal.json", json.dumps({"entries": entries}))
    place.live(does="install")
    place.keep()

    def check(said: str) -> None:
        if said != "undisturbed":
            place.live(does="bring")
        files = place.files()
        talks = [data for path, data in files.items() if path.startswith("Chat/sessions/")]
        days = [data for path, data in files.items() if path.startswith("Daily/journals/")]
        assert len(talks) == 4, said
        for number in range(4):
            assert b"".join(talks).count(b"Words %d." % number) == 1, said
            assert b"".join(days).count(b"Day %d." % number) == 1, said

    die_at_each(place, "bring", check, torture=torture, most=1)


def test_a_tick_in_the_file_of_a_suggestion_is_acted_on_once(place: RestartRig, torture):
    save(place.vault / "a.md", "one\n")
    place.live(does="suggest")
    (file,) = (place.vault / "Suggestions").glob("*.md")
    place.keep()

    def check(said: str) -> None:
        text = file.read_text()
        with place.history() as history:
            runs = history.runs()
        if (place.vault / "a.md").read_text() == "one\n":
            assert "- [ ] approve" in text, said  # the editor had not saved it
            assert (runs, "nothing was done" in text) == ([], False), said
            place.live(does="tick")
            text = file.read_text()
        else:
            assert len(runs) == 1, said
        assert (place.vault / "a.md").read_text() == "two\n", said
        assert "**approved** by user" in text, said

    die_at_each(place, "tick", check, torture=torture, most=4)
