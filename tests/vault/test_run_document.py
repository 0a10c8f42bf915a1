"""The document of a run: what is not given is empty, and what was written names both digests."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from parachuted.vault import ObjectStore
from parachuted.vault.trail import requested, run_document, wrote

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


def test_what_is_not_given_is_empty_and_a_request_is_a_cause():
    causes = requested(["c-1"], "note.md", 2, NOON)
    document = run_document("r-1", watcher="note.md", agent="undo", started=NOON, causes=causes)

    assert (document["id"], document["ended"], document["wrote"]) == ("r-1", None, [])
    assert document["causes"] == [
        {"id": "c-1", "kind": "request", "path": "note.md", "files": 2, "at": NOON.isoformat()}
    ]


def test_a_written_file_shows_its_difference_even_when_it_is_new(tmp_path: Path):
    objects = ObjectStore(tmp_path)
    digest = objects.put(b"a\n")

    entry = wrote("note.md", (None, digest), objects)
    objects.close()

    assert (entry["path"], entry["before"], entry["after"]) == ("note.md", None, digest)
    assert "+a\n" in str(entry["diff"])
