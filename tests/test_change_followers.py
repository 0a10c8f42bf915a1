"""What follows a change, in which order, and what first contact leaves out."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest

from parachuted.events import PERSON, Change
from parachuted.followers import ChangeFollowers
from parachuted.vault import IndexEntry, VaultPath

ENTRY = IndexEntry(mtime_ns=1, ctime_ns=1, size=1, inode=1, digest="a" * 64)
MOVED = Change(
    "moved", VaultPath("new.md"), ENTRY, ENTRY, PERSON, source=VaultPath("old.md"), data=b"# x\n"
)


@pytest.fixture
def calls():
    return []


@pytest.fixture
def follow(calls):
    """Followers that note the order in which they are called."""

    async def record(changes):
        calls.append(("tasks", len(changes)))
        return lambda: calls.append("what follows")

    @contextlib.contextmanager
    def about(_changes):
        calls.append("hooks know the change")
        yield
        calls.append("hooks forget it")

    def make(*, is_first_contact: bool) -> ChangeFollowers:
        return ChangeFollowers(
            reconciler=SimpleNamespace(
                record=record, baseline=lambda first: calls.append(("baseline", len(first)))
            ),
            writes=SimpleNamespace(noticed=lambda _changes: calls.append("audit")),
            indexer=SimpleNamespace(
                follow=lambda files: calls.extend(
                    (path, update.entry is not None) for path, update in files
                )
            ),
            hooks=SimpleNamespace(about=about),
            bus=SimpleNamespace(publish_all=calls.extend),
            is_first_contact=is_first_contact,
        )

    return make


def test_a_listener_finds_the_change_in_the_audit_and_the_search_already(follow, calls):
    follow(is_first_contact=False).listeners().tell([MOVED])

    facts = {
        "path": "new.md",
        "by": "person",
        "run": None,
        "key": None,
        "causes": [],
        "digest": "a" * 64,
        "from": "old.md",
    }
    assert calls == [
        "hooks know the change",
        "audit",
        ("old.md", False),
        ("new.md", True),
        ("file.moved", facts),
        "hooks forget it",
    ]


async def test_first_contact_is_one_baseline_that_is_not_published(follow, calls):
    followers = follow(is_first_contact=True)
    for _ in range(2):
        (await followers.listeners().record([MOVED]))()
        followers.listeners().tell([MOVED])
    followers.end_first_contact()
    followers.end_first_contact()
    assert calls == [("baseline", 2)]

    await followers.listeners().record([MOVED])
    assert calls[-1] == ("tasks", 1)
