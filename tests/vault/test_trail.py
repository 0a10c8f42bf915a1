"""The trail of a file: each text it had, through moves by us and by people."""

from __future__ import annotations

from datetime import UTC, datetime

from parachuted.vault.author import Author
from parachuted.vault.paths import VaultPath
from parachuted.vault.root import digest_of
from parachuted.vault.trail import TextVersion, requested, run_document, trail_of

A, B, C = VaultPath("a.md"), VaultPath("b.md"), VaultPath("c.md")
NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
AGENT = Author(by="curator", run="r-1", causes=("c-1",))


def texts(versions: list[TextVersion], *known: str) -> list[str]:
    """For each version its text, by whom, and where."""
    names = {digest_of(text.encode()): text for text in known}
    return [f"{names.get(version.digest, '-')} {version.by} {version.path}" for version in versions]


def replace(rig, *texts: str, path: VaultPath = A) -> None:
    """A person makes the first of them, the agent the next, and so on."""
    for number, text in enumerate(texts):
        if number % 2:
            rig.store.replace(path, text.encode(), AGENT)
        else:
            rig.put(path, text)


def test_what_our_writer_wrote_and_what_it_found_are_versions(rig):
    replace(rig, *"12345")
    trail = trail_of(rig.history, A, digest_of(b"5"))

    assert texts(trail, *"12345") == [
        f"{number} {'person' if number % 2 else 'curator'} a.md" for number in range(1, 6)
    ]
    assert [(one.run, one.at is not None) for one in trail[:2]] == [(None, False), ("r-1", True)]
    assert [one.kind for one in trail] == ["created"] + ["changed"] * 4


def test_a_persons_save_that_was_noticed_has_its_time(rig):
    digest = rig.put(A, "1")
    rig.history.saw(rig.now, [(A, "created", None, digest)])
    replace(rig, "1", "2")
    trail = trail_of(rig.history, A, digest_of(b"2"))

    assert texts(trail, *"12") == ["1 person a.md", "2 curator a.md"]
    assert trail[0].at == rig.now


def test_a_file_is_followed_through_moves_of_both_kinds(rig):
    replace(rig, "1", "2")
    rig.store.move(A, B, AGENT)
    rig.store.replace(B, b"3", AGENT)
    (rig.vault / B).rename(rig.vault / C)
    rig.history.saw(rig.now, [(C, "moved", B, digest_of(b"3"))])
    rig.store.replace(C, b"4", AGENT)
    trail = trail_of(rig.history, C, digest_of(b"4"))

    assert texts(trail, *"1234") == [
        "1 person a.md",
        "2 curator a.md",
        "2 curator b.md",
        "3 curator b.md",
        "3 person c.md",
        "4 curator c.md",
    ]
    assert [one.source for one in trail if one.kind == "moved"] == ["a.md", "b.md"]


def test_the_trail_of_a_place_that_a_file_left_ends_there_and_a_ring_ends(rig):
    rig.put(A, "1")
    rig.store.move(A, B, AGENT)
    assert [one.kind for one in trail_of(rig.history, A)] == ["created", "deleted"]

    for _ in range(3):
        rig.store.move(B, A, AGENT)
        rig.store.move(A, B, AGENT)
    assert len(trail_of(rig.history, B, digest_of(b"1"))) <= 8


def test_what_had_the_name_before_is_another_file(rig):
    rig.put(A, "1")
    rig.put(B, "old")
    rig.store.delete(B, AGENT)
    rig.store.move(A, B, AGENT)

    assert texts(trail_of(rig.history, B, digest_of(b"1")), "1", "old") == ["1 curator b.md"]
    assert "old person b.md" not in texts(trail_of(rig.history, B), "1", "old")


def test_a_deleted_file_has_its_past(rig):
    rig.put(A, "1")
    rig.store.delete(A, AGENT)
    rig.store.create(A, b"2", AGENT)

    assert [(one.kind, one.by) for one in trail_of(rig.history, A)] == [
        ("created", "person"),
        ("deleted", "curator"),
        ("created", "curator"),
    ]


def test_what_is_not_given_is_empty_and_a_request_is_a_cause():
    causes = requested(["c-1"], "note.md", 2, NOON)
    document = run_document("r-1", watcher="note.md", agent="undo", started=NOON, causes=causes)

    assert (document["id"], document["ended"], document["wrote"]) == ("r-1", None, [])
    assert document["causes"] == [
        {"id": "c-1", "kind": "request", "path": "note.md", "files": 2, "at": NOON.isoformat()}
    ]
