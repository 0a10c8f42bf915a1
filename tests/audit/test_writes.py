from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from parachuted.audit.log import WriteAudit
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
    kept: MemoryAudit
    audit: WriteAudit
    store: Store
    history: WriteJournal


@pytest.fixture
def audited(vault, home):
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


def test_each_write_of_ours_is_reported_with_run_causes_and_digests(audited):
    made = audited.store.create(NOTE, b"one\n", AGENT)
    with pytest.raises(Exception, match="exists with other content"):
        audited.store.create(NOTE, b"two\n", AGENT)
    replaced = audited.store.replace(NOTE, b"two\n", AGENT)
    audited.store.replace(NOTE, b"two\n", AGENT)
    audited.store.move(NOTE, VaultPath("b.md"), AGENT)
    audited.store.delete(VaultPath("b.md"), AGENT)

    events = audited.kept.events
    assert [(one.target_endpoint, one.paths, one.before, one.after) for one in events] == [
        ("vault.Create", [NOTE], None, made.after),
        ("vault.ReplaceAll", [NOTE], made.after, replaced.after),
        ("vault.Move", [NOTE], replaced.after, None),
        ("vault.Move", ["b.md"], None, replaced.after),
        ("vault.Delete", ["b.md"], replaced.after, None),
    ]
    who = {(one.event_type, one.source_type, one.source_id, one.run, one.causes) for one in events}
    assert who == {("write", "agent", "curator", "r-1", ("c-1",))}
    assert sorted(one.write for one in events) == [1, 3, 4, 5, 6]  # the second failed


def test_a_write_on_behalf_of_a_caller_is_reported_as_the_callers(audited):
    phone = Requester("api_key", "phone", "abc123")
    audited.store.create(NOTE, b"one\n", replace(PERSONS, requester=phone))
    audited.store.replace(NOTE, b"two\n", PERSONS)

    events = audited.kept.events
    assert [(event.source_type, event.source_id, event.request_id) for event in events] == [
        ("api_key", "phone", "abc123"),
        ("person", "person", None),
    ]


def test_what_a_person_did_on_the_disk_is_reported(audited):
    old, new = entry("b" * 64), entry("d" * 64)
    moved = Change("moved", NOTE, old, new, ON_DISK, source=VaultPath("old\udcff.md"))
    for one in (change(ON_DISK, "c" * 64), change(ON_DISK, None, "deleted"), moved):
        audited.audit.noticed([one])

    events = audited.kept.events
    assert [(one.target_endpoint, one.source_type, one.before, one.after) for one in events] == [
        ("vault.modified", "person", "b" * 64, "c" * 64),
        ("vault.deleted", "person", "b" * 64, None),
        ("vault.moved", "person", "b" * 64, "d" * 64),
    ]
    assert events[2].paths == ["Projects/a.md", "old\\xff.md"]


def test_a_write_of_ours_is_not_reported_a_second_time_when_it_is_noticed(audited):
    audited.audit.noticed([change(PERSONS, "f" * 64)])  # before it is reported itself
    assert audited.kept.events == []
    written = audited.store.create(NOTE, b"one\n", PERSONS)
    audited.audit.noticed([change(PERSONS, written.after, "created")])
    audited.audit.noticed([change(AGENT, "e" * 64)])

    assert len(audited.kept.events) == 1


def test_a_picture_that_we_wrote_is_not_reported_again(
    audited,
):
    audited.store.create(NOTE, b"PNG", PERSONS)
    audited.audit.noticed([Change("created", NOTE, None, entry(None), ON_DISK)])
    audited.audit.noticed([Change("created", VaultPath("other.png"), None, entry(None), ON_DISK)])
    audited.audit.noticed([Change("deleted", NOTE, entry(None), None, ON_DISK)])

    assert [(event.target_endpoint, event.paths) for event in audited.kept.events[1:]] == [
        ("vault.created", ["other.png"]),
        ("vault.deleted", ["Projects/a.md"]),
    ]


def test_writes_not_published_before_a_kill_are_reported_at_the_start(audited):
    audited.store.create(NOTE, b"one\n", AGENT)
    for text in (b"two\n", b"three\n"):
        audited.store.replace(NOTE, text, AGENT)
    audited.kept.events.clear()

    assert audited.audit.catch_up(audited.history, 1) == 2
    late = {"late": True}
    assert [(event.write, event.details) for event in audited.kept.events] == [(2, late), (3, late)]
    assert audited.audit.catch_up(audited.history, audited.history.last_write()) == 0
