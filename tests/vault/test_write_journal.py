"""The write journal: who wrote what, found again by path, run and cause, after a restart and after
damage.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parachuted.vault.author import Author, Requester
from parachuted.vault.write_journal import RunSpending, WriteJournal, new_id
from parachuted.vault.write_records import Write

NOW = datetime(2026, 11, 21, 23, 15, 2, tzinfo=UTC)
A, B = "a" * 64, "b" * 64


@pytest.fixture
def history(home: Path) -> Iterator[WriteJournal]:
    history = WriteJournal(home / "history.db")
    yield history
    history.close()


def intend(
    history: WriteJournal, path: str = "note.md", *, after: str | None = B, run: str | None = "r-1"
) -> Write:
    author = Author(by="agent:watch", run=run, causes=("c-1", "c-2"))
    return history.intend(
        Write(
            at=NOW,
            path=path,
            author=author,
            operation="ReplaceSection",
            before=A,
            after=after,
            temporary=".t",
        )
    )


def save_run(
    history: WriteJournal,
    run: str,
    *,
    outcome: str = "done",
    started: datetime = NOW,
    causes: tuple[str, ...] = (),
) -> None:
    history.save_run(
        run,
        started=started,
        watcher="w.md",
        outcome=outcome,
        causes=causes,
        document={"id": run, "outcome": outcome},
    )


def ids(documents: list[dict[str, object]]) -> list[object]:
    return [document["id"] for document in documents]


def test_a_write_is_found_by_path_and_by_run_as_it_was_recorded(history):
    write = intend(history)
    intend(history, "other.md", run="r-2")
    assert history.writes_of("note.md") == history.writes_by("r-1") == [write]
    assert write.author.causes == ("c-1", "c-2")


def test_what_runs_took_since_a_moment_is_summed(history):
    for number, started in enumerate(
        (NOW - timedelta(microseconds=1), NOW, NOW + timedelta(days=1))
    ):
        document = {"cost_usd": 0.1, "input_tokens": 10**number, "output_tokens": 2, "steps": []}
        history.save_run(
            f"r-{number}",
            started=started,
            watcher="w.md",
            outcome="done",
            causes=(),
            document=document,
        )
    save_run(history, "r-9")
    assert history.spent(NOW) == RunSpending(
        date=f"{NOW:%Y-%m-%d}", runs=3, cost_usd=0.2, input_tokens=110, output_tokens=4
    )
    assert history.spent(NOW + timedelta(days=2)).runs == 0


def test_a_write_whose_end_is_not_recorded_is_found_after_a_restart(home, history):
    first, second, third = intend(history), intend(history), intend(history)
    history.settle(first.id, "done")
    history.settle(second.id, "void")
    history.close()
    again = WriteJournal(home / "history.db")
    assert (again.intended(), again.problem) == ([third], None)
    assert [write.id for write in again.writes_of("note.md")] == [first.id, third.id]
    again.close()


def test_a_write_is_noticed_once_and_the_same_text_is_a_persons_next_time(home, history):
    write = intend(history)
    assert history.unnoticed("note.md", A) is None
    assert history.unnoticed("note.md", B) == write
    history.notice([write])
    assert history.unnoticed("note.md", B) is None
    later = intend(history)
    history.close()
    again = WriteJournal(home / "history.db")
    assert again.unnoticed("note.md", B) == later
    again.close()


def test_noticing_a_write_covers_those_before_it_and_no_later_one(history):
    first, second, third = intend(history, after=A), intend(history), intend(history, after=None)
    history.notice([second])
    assert history.unnoticed("note.md", A) is None
    assert history.unnoticed("note.md", None) == third
    assert first.id < second.id < third.id


def test_a_void_write_has_no_author(history):
    write = intend(history)
    history.settle(write.id, "void")
    assert history.unnoticed("note.md", B) is None
    assert history.writes_by("r-1") == []


def test_runs_are_listed_newest_first_page_by_page(history):
    for number in range(5):
        save_run(history, f"r-{number}")
    page = history.runs(limit=2)
    assert ids(page) == ["r-4", "r-3"]
    assert ids(history.runs(limit=2, before="r-3")) == ["r-2", "r-1"]
    assert ids(history.runs(limit=2, before="r-1")) == ["r-0"]


def test_what_has_become_of_a_run_takes_the_place_of_what_it_was(history):
    save_run(history, "r-1", outcome="running", causes=("c-1",))
    save_run(history, "r-2", outcome="waiting")
    assert sorted(ids(history.unended())) == ["r-1", "r-2"]
    save_run(history, "r-1", outcome="done", causes=("c-1",))
    assert ids(history.unended()) == ["r-2"]
    assert history.run("r-1") == {"id": "r-1", "outcome": "done"}
    assert history.run("r-9") is None
    assert history.count_runs(cause="c-1") == 1


def test_runs_are_counted_by_time_and_by_cause(history):
    for number in range(4):
        save_run(
            history,
            f"r-{number}",
            started=NOW + timedelta(hours=number),
            causes=("c-1",) if number % 2 else ("c-1", "c-2"),
        )
    hour = timedelta(hours=1)
    assert history.count_runs() == 4
    assert len(history.runs_started(NOW + hour, NOW + 9 * hour)) == 3
    assert len(history.runs_started(NOW - hour, NOW + hour)) == 2
    assert len(history.runs_started(NOW + hour, NOW + hour)) == 1
    assert (
        history.count_runs(cause="c-1"),
        history.count_runs(cause="c-2"),
        history.count_runs(cause="c-3"),
    ) == (4, 2, 0)


def test_runs_of_some_causes_come_once_each_oldest_first(history):
    save_run(history, "r-2", causes=("c-1", "c-2"))
    save_run(history, "r-1", causes=("c-1",))
    save_run(history, "r-3", causes=("c-3",))
    assert ids(history.runs_of_causes(["c-1", "c-2"])) == ["r-1", "r-2"]
    assert history.runs_of_causes([]) == []


@pytest.mark.parametrize("name", ["caf\u00e9.md", os.fsdecode(b"caf\xe9.md"), "\U0001f32a.md"])
def test_names_come_back_as_they_were_even_where_they_are_not_utf_8(home, history, name):
    write = intend(history, name)
    assert history.writes_of(name) == [write]
    history.close()
    again = WriteJournal(home / "history.db")
    assert again.unnoticed(name, B) == write
    again.notice([write])
    assert again.unnoticed(name, B) is None
    again.close()


def test_a_garbled_file_is_set_aside_and_a_new_one_is_started(home, history):
    intend(history)
    history.close()
    file = home / "history.db"
    garbled = b"\xff" * 200 + file.read_bytes()[200:]
    file.write_bytes(garbled)
    again = WriteJournal(file)
    (aside,) = home.glob("history.db.garbled-*")
    assert aside.name in again.problem
    assert aside.read_bytes() == garbled
    assert again.writes_of("note.md") == []
    assert intend(again).id == 1
    again.close()


def test_authors_that_differ_in_their_caller_alone_are_the_same():
    phone = Author(by="person", requester=Requester("api_key", "phone", "request-1"))

    assert phone == Author(by="person")
    assert phone != Author(by="person", run="r-1", requester=phone.requester)


def test_an_id_says_what_it_names_and_when_it_was_made_and_is_the_only_one():
    early = NOW.replace(microsecond=7_999)

    assert re.fullmatch(r"r-20261121-231502-007-[0-9a-f]{4,}", new_id("r", early))
    assert len({new_id("r", early) for _ in range(20)}) > 1


def test_ids_sort_by_time():
    steps = (0, 1, 999, 60_000, 86_400_000, 40 * 86_400_000)
    ids = [new_id("r", NOW + timedelta(milliseconds=step)) for step in steps]

    assert ids == sorted(ids)
