"""The run of an approval, in the history as any run."""

from __future__ import annotations

from parachuted.suggestions.applying import save_run
from parachuted.vault import Author, VaultPath
from tests.suggestions.sample_suggestions import NOON, suggestion


def test_it_names_the_file_the_one_who_proposed_and_the_one_who_approved(suggestion_rig):
    author = Author(by="suggestion:s0000000001", run="r-2", causes=("c-1",))
    suggestion_rig.store.create(VaultPath("Brain/Kevin.md"), b"two\n", author)
    save_run(
        suggestion_rig.history,
        suggestion_rig.objects,
        suggestion(),
        author,
        by="user",
        writes=suggestion_rig.history.writes_by("r-2"),
        at=NOON,
    )
    document = suggestion_rig.history.run("r-2")
    assert (document["watcher"], document["parents"], document["causes"]) == (
        "Brain/Kevin.md",
        ["r-1"],
        [{"id": "c-1"}],
    )
    assert "suggested by reflector as s0000000001, approved by user" in document["reason"]
    assert [(one["path"], "+two" in one["diff"]) for one in document["wrote"]] == [
        ("Brain/Kevin.md", True)
    ]
    assert [one["id"] for one in suggestion_rig.history.runs_of_causes(["c-1"])] == ["r-2"]
