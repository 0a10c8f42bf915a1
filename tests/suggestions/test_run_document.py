"""The run of an approval, in the history as any run."""

from __future__ import annotations

from parachuted.suggestions.run_document import save_run
from parachuted.vault import Author, VaultPath
from tests.suggestions.sheets import NOON, suggestion


def test_it_names_the_file_the_one_who_proposed_and_the_one_who_approved(office):
    author = Author(by="suggestion:s0000000001", run="r-2", causes=("c-1",))
    office.store.create(VaultPath("Brain/Kevin.md"), b"two\n", author)
    save_run(
        office.history,
        office.objects,
        suggestion(),
        author,
        by="user",
        writes=office.history.writes_by("r-2"),
        at=NOON,
    )
    document = office.history.run("r-2")
    assert (document["watcher"], document["parents"], document["causes"]) == (
        "Brain/Kevin.md",
        ["r-1"],
        [{"id": "c-1"}],
    )
    assert "suggested by reflector as s0000000001, approved by user" in document["reason"]
    assert [(one["path"], "+two" in one["diff"]) for one in document["wrote"]] == [
        ("Brain/Kevin.md", True)
    ]
    assert [one["id"] for one in office.history.runs_of_causes(["c-1"])] == ["r-2"]
