from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from parachuted.audit.writes import WriteAudit
from parachuted.events.changes import ON_DISK, Change
from parachuted.vault import (
    Author,
    IndexEntry,
    ObjectStore,
    Requester,
    Store,
    VaultPath,
    VaultRoot,
    WriteJournal,
)
from tests.audit.audit_rig import NOON
from tests.suggestions.suggestion_rig import MemoryAudit

NOTE = VaultPath("Projects/a.md")
AGENT = Author(by="curator", run="r-1", causes=("c-1",))
PERSONS = Author(by="person", causes=("c-2",))


@dataclass
class AuditedStore:
    """A store that tells the audit."""

    kept: MemoryAudit
    audit: WriteAudit
    store: Store
    history: WriteJournal


@pytest.fixture
def audited_store(vault, home):
    kept = MemoryAudit()
    audit = WriteAudit(kept, lambda: NOON)
    objects, history = ObjectStore(home / "objects"), WriteJournal(home / "history.db")
    store = Store(VaultRoot(vault), objects, history, lambda: NOON, audit.wrote)
    yield AuditedStore(kept, audit, store, history)
    store.close()
    history.close()
    objects.close()


def entry(digest: str | None) -> IndexEntry:
    return IndexEntry(mtime_ns=1, ctime_ns=1, size=1, inode=1, digest=digest)


def change(author: Author, after: str | None, kind: str = "modified") -> Change:
    return Change(kind, NOTE, entry("b" * 64), entry(after) if after else None, author)


def test_each_write_of_ours_is_reported_with_its_run_its_causes_and_both_digests(audited_store):
    made = audited_store.store.create(NOTE, b"one\n", AGENT)
    replaced = audited_store.store.replace(NOTE, b"two\n", AGENT)
    audited_store.store.replace(NOTE, b"two\n", AGENT)
    audited_store.store.delete(NOTE, AGENT)

    reported = [
        (event.target_endpoint, event.before, event.after) for event in audited_store.kept.events
    ]
    assert reported == [
        ("vault.Create", None, made.after),
        ("vault.ReplaceAll", made.after, replaced.after),
        ("vault.Delete", replaced.after, None),
    ]
    assert {
        (event.event_type, event.source_type, event.source_id, event.run, event.causes)
        for event in audited_store.kept.events
    } == {("write", "agent", "curator", "r-1", ("c-1",))}
    assert [event.write for event in audited_store.kept.events] == [1, 2, 3]


def test_a_move_is_reported_with_both_paths(audited_store):
    audited_store.store.create(NOTE, b"one\n", AGENT)
    audited_store.store.move(NOTE, VaultPath("b.md"), AGENT)

    assert [event.paths for event in audited_store.kept.events[1:]] == [["Projects/a.md"], ["b.md"]]


def test_a_write_on_behalf_of_a_caller_is_reported_as_the_callers(audited_store):
    phone = Requester("api_key", "phone", "abc123")
    audited_store.store.create(NOTE, b"one\n", replace(PERSONS, requester=phone))
    audited_store.store.replace(NOTE, b"two\n", PERSONS)

    assert [
        (event.source_type, event.source_id, event.request_id)
        for event in audited_store.kept.events
    ] == [
        ("api_key", "phone", "abc123"),
        ("person", "person", None),
    ]


def test_a_write_that_failed_is_none(audited_store):
    audited_store.store.create(NOTE, b"one\n", AGENT)
    with pytest.raises(Exception, match="exists with other content"):
        audited_store.store.create(NOTE, b"two\n", AGENT)

    assert len(audited_store.kept.events) == 1


def test_what_a_person_did_on_the_disk_is_reported(audited_store):
    audited_store.audit.noticed([change(ON_DISK, "c" * 64)])
    audited_store.audit.noticed([change(ON_DISK, None, "deleted")])
    audited_store.audit.noticed(
        [
            Change(
                "moved",
                NOTE,
                entry("b" * 64),
                entry("d" * 64),
                ON_DISK,
                source=VaultPath("old\udcff.md"),
            )
        ]
    )

    assert [
        (event.target_endpoint, event.source_type, event.before, event.after)
        for event in audited_store.kept.events
    ] == [
        ("vault.modified", "person", "b" * 64, "c" * 64),
        ("vault.deleted", "person", "b" * 64, None),
        ("vault.moved", "person", "b" * 64, "d" * 64),
    ]
    assert audited_store.kept.events[2].paths == ["Projects/a.md", "old\\xff.md"]


def test_a_write_of_ours_is_not_reported_a_second_time_when_it_is_noticed(audited_store):
    written = audited_store.store.create(NOTE, b"one\n", PERSONS)
    audited_store.audit.noticed([change(PERSONS, written.after, "created")])
    audited_store.audit.noticed([change(AGENT, "e" * 64)])

    assert len(audited_store.kept.events) == 1


def test_a_write_of_ours_noticed_before_it_is_reported_is_not_taken_for_a_change_on_the_disk(
    audited_store,
):
    audited_store.audit.noticed([change(PERSONS, "f" * 64)])

    assert audited_store.kept.events == []


def test_a_picture_that_we_wrote_is_not_reported_again_though_no_one_reads_its_digest(
    audited_store,
):
    audited_store.store.create(NOTE, b"PNG", PERSONS)
    audited_store.audit.noticed([Change("created", NOTE, None, entry(None), ON_DISK)])
    audited_store.audit.noticed(
        [Change("created", VaultPath("other.png"), None, entry(None), ON_DISK)]
    )
    audited_store.audit.noticed([Change("deleted", NOTE, entry(None), None, ON_DISK)])

    assert [(event.target_endpoint, event.paths) for event in audited_store.kept.events[1:]] == [
        ("vault.created", ["other.png"]),
        ("vault.deleted", ["Projects/a.md"]),
    ]


def test_writes_that_could_not_be_published_before_a_kill_are_reported_at_the_next_start(
    audited_store,
):
    for text in (b"one\n", b"two\n", b"three\n"):
        audited_store.store.replace(
            NOTE, text, AGENT
        ) if text != b"one\n" else audited_store.store.create(NOTE, text, AGENT)
    audited_store.kept.events.clear()

    assert audited_store.audit.catch_up(audited_store.history, 1) == 2
    assert [(event.write, event.details) for event in audited_store.kept.events] == [
        (2, {"late": True}),
        (3, {"late": True}),
    ]
    assert (
        audited_store.audit.catch_up(audited_store.history, audited_store.history.last_write()) == 0
    )
