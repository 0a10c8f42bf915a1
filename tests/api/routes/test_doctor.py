from __future__ import annotations

import sqlite3

from parachuted.errors import StorageFailedError
from tests.api.calls import get, noticed
from tests.api.routes.test_module_settings import approved
from tests.stories.daemon_rig import DaemonRig, note, save


async def test_the_doctor_names_each_note_that_cannot_be_read_and_why(vault, daemon_rig: DaemonRig):
    odd = {
        "both.md": b"---\nwatch: [1\n---\n# Both\n",
        "broken.md": b"---\na: [1\n---\n# Broken\n",
        "latin.md": b"# \xe9t\xe9\n",
        "watch.md": b"---\nwatch:\n  - '../../etc/*'\n---\n# W\n",
    }
    for name, data in odd.items():
        (vault / name).write_bytes(data)
    save(vault / "fine.md", note("Fine"))
    await noticed(daemon_rig)
    answer = await get(daemon_rig, "/api/doctor")

    findings = [(one["path"], one["is_problem"]) for one in answer["findings"]]
    assert {*findings} == {(name, False) for name in odd}
    assert all(one["advice"] and one["problem"] for one in answer["findings"])


async def test_each_problem_comes_with_advice_and_a_remedy_of_the_api(daemon_rig: DaemonRig):
    daemon_rig.daemon.watched.problems.set("missing", "600 of 700 files are gone")
    daemon_rig.daemon.watched.problems.set("file:Kitchen/a.md", "it cannot be read")
    daemon_rig.daemon.watched.problems.set("tables", "the state was damaged")
    found = {one["about"]: one for one in (await get(daemon_rig, "/api/doctor"))["findings"]}

    missing, file = found["missing"], found["file:Kitchen/a.md"]
    assert (missing["remedy"], missing["is_problem"]) == ("accept_missing", True)
    assert "Put the files back" in missing["advice"]
    assert (file["path"], file["remedy"]) == ("Kitchen/a.md", "scan")
    assert (found["tables"]["remedy"], bool(found["tables"]["advice"])) == ("restart", True)


async def test_the_doctor_shows_the_state_of_every_database(vault, daemon_rig: DaemonRig):
    save(vault / "Kitchen/a.md", "beans")
    await noticed(daemon_rig)
    answer = (await get(daemon_rig, "/api/doctor"))["databases"]

    files = {one["file"]: one for one in answer["files"]}
    assert answer["sqlite"] == sqlite3.sqlite_version
    for name, version in {"history.db": 3, "state.db": 1, "seen.db": 1, "search.db": 6}.items():
        assert files[name]["version"] == version
        assert files[name]["size"] > 0
    assert all(file["problem"] is None for file in files.values())


async def test_the_doctor_answers_while_there_is_no_search_index(
    monkeypatch, daemon_rig: DaemonRig
):
    def fail(*_arguments: object) -> None:
        raise StorageFailedError("the search index is not made yet")

    with monkeypatch.context() as patch:
        patch.setattr(daemon_rig.daemon.vault.search, "count", fail)
        assert (await get(daemon_rig, "/api/doctor"))["search"]["indexed"] == 0


DOCTOR = """
async def doctor(self):
    from parachuted.modules import Finding
    return [
        Finding(problem="two files have one id", path="Kitchen/a.md", line=1, advice="change one"),
        Finding(problem="of another folder", path="Work/b.md"),
        Finding(problem="of none"),
    ]
"""


async def test_the_doctor_asks_each_module(vault, daemon_rig: DaemonRig):
    save(vault / "Kitchen/a.md", "beans")
    save(vault / "Work/b.md", "plans")
    await approved(daemon_rig, "garden", DOCTOR)
    first, *others = (await get(daemon_rig, "/api/doctor"))["findings"]

    found = {"about": "garden", "problem": "two files have one id", "advice": "change one"}
    assert first == {**first, **found, "path": "Kitchen/a.md", "line": 1}
    assert len(others) == 2
