"""Listing: what a vault holds, by asking the disk again, by the daemon's index, and by the events
that were told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from parachuted.daemon import Daemon
from parachuted.events import load_ignore
from parachuted.vault import Scanner, VaultIndex, VaultRoot
from tests.stories.daemon_rig import DaemonRig

Listing = dict[str, tuple[str | None, int]]


def fresh_index(vault: Path) -> VaultIndex:
    """The index as a scan with no memory makes it."""
    root, index = VaultRoot(vault), VaultIndex()
    scan = Scanner(root, index, load_ignore(root)).walk(finished=True)
    for folder in scan.new_folders:
        index.add_folder(folder)
    for seen in scan.seen:
        index.set(seen.path, seen.new)
    return index


def listing(index: VaultIndex) -> tuple[Listing, list[str]]:
    """Each file with digest and size, and the folders."""
    files = {path: index.get(path) for path in index.paths()}
    return {
        path: (entry.digest, entry.size) for path, entry in files.items() if entry is not None
    }, sorted(index.all_folders())


def assert_index_equals_disk(daemon: Daemon, vault: Path) -> None:
    assert listing(daemon.watched.index) == listing(fresh_index(vault))


def kinds(daemon_rig: DaemonRig) -> dict[str, list[str]]:
    """For each path what happened to it, in order; a move is told under the new path as `moved from
    OLD`.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for event in daemon_rig.events:
        if event.event.startswith("file."):
            kind = event.event.removeprefix("file.")
            found[str(event.data["path"])].append(
                f"moved from {event.data['from']}" if kind == "moved" else kind
            )
    return dict(found)


def followed(files: Iterable[str], daemon_rig: DaemonRig) -> set[str]:
    """The paths that exist after the events; AssertionError where one contradicts what was
    there before it.
    """
    there = set(files)
    for event in daemon_rig.events:
        path = event.data.get("path")
        if event.event in {"file.created", "file.moved"}:
            if event.event == "file.moved":
                assert event.data["from"] in there
                there.remove(str(event.data["from"]))
            assert path not in there
            there.add(str(path))
        elif event.event == "file.modified":
            assert path in there
        elif event.event == "file.deleted":
            assert path in there
            there.remove(str(path))
    return there
