"""Revert: removes a write from a file, keeping what was written there since."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from parachuted.errors import ConflictError, NotFoundError
from parachuted.vault.author import Author
from parachuted.vault.merge import MergeResult, merge_three
from parachuted.vault.paths import VaultPath, printable
from parachuted.vault.store import Store
from parachuted.vault.write_records import Write

_ATTEMPTS = 5
_MOST_LINES = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class RevertResult:
    path: VaultPath
    changed: bool
    kept: tuple[str, ...] = ()


def revert(
    write: Write, store: Store, author: Author, *, at: VaultPath | None = None
) -> RevertResult:
    """Undo one write; `at` is where the file is now. Raises StorageFailedError, and NotFoundError
    when the text before it is no longer kept.
    """
    path = at if at is not None else VaultPath(write.path)
    for _ in range(_ATTEMPTS):
        try:
            return _revert(path, write, store, author)
        except ConflictError:
            continue  # saved by someone between our read and our write: look again
    return _left(path, "the file is being changed too quickly")


def revert_move(
    came: Write, gone: Write, store: Store, author: Author
) -> tuple[RevertResult, RevertResult]:
    """Undo a move, whose two writes say where the file came to and where it was. What was written
    there since moves back too. Raises StorageFailedError.
    """
    target, source = VaultPath(came.path), VaultPath(gone.path)
    try:
        store.move(target, source, author)
    except NotFoundError:
        return _left(target), _left(source)
    except ConflictError:
        newer = f"it cannot go back to {printable(source)}, where there is a newer file"
        return _left(target, newer), _left(source)
    return RevertResult(path=target, changed=True), RevertResult(path=source, changed=True)


def _left(path: VaultPath, *why: str) -> RevertResult:
    return RevertResult(path=path, changed=False, kept=why)


def _revert(path: VaultPath, write: Write, store: Store, author: Author) -> RevertResult:
    before, after = (_kept_text(one, store, path) for one in (write.before, write.after))
    try:
        present = store.read(path, keep=True)
    except NotFoundError:
        if write.after is not None or before is None:
            return _left(path)
        store.create(path, before, author)
        return RevertResult(path=path, changed=True)
    if before is None:
        if present.digest != write.after:
            return _left(path, "the new file has been edited since")
        store.delete(path, author, base=present.digest)
        return RevertResult(path=path, changed=True)
    if after is None:
        return _left(path, "there is a newer file of that name")
    merged = _taken_out(before, after, present.data)
    written = store.replace(path, merged.data, author, base=present.digest)
    return RevertResult(path=path, changed=written.changed, kept=merged.kept)


def _taken_out(before: bytes, after: bytes, present: bytes) -> MergeResult:
    if present in (before, after):  # unchanged since: it is to be what it was, to the byte
        return MergeResult(data=before, clean=True)
    text, is_whole = _without_what_still_stands(before, after, present)
    return (
        MergeResult(data=text, clean=True)
        if is_whole
        else merge_three(after, before, text, prefer="theirs")
    )


def _without_what_still_stands(before: bytes, after: bytes, present: bytes) -> tuple[bytes, bool]:
    """The present text without each passage of the write that still stands once and whole; whether
    that was all. A merge alone sees a clash as soon as the lines next to a passage changed.
    """
    old, new, now = (text.splitlines(keepends=True) for text in (before, after, present))
    if max(len(old), len(new), len(now)) > _MOST_LINES:
        return present, False
    is_whole = True
    for tag, old_start, old_stop, new_start, new_stop in reversed(
        difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    ):
        passage = new[new_start:new_stop]
        place = (
            _only_place(passage, now)
            if tag != "equal" and any(line.strip() for line in passage)
            else None
        )
        if place is not None:
            now[place : place + len(passage)] = old[old_start:old_stop]
        is_whole &= tag == "equal" or place is not None
    return b"".join(now), is_whole


def _only_place(passage: Sequence[bytes], lines: Sequence[bytes]) -> int | None:
    places = [
        start
        for start in range(len(lines) - len(passage) + 1)
        if lines[start : start + len(passage)] == passage
    ]
    return places[0] if len(places) == 1 else None


def _kept_text(digest: str | None, store: Store, path: VaultPath) -> bytes | None:
    if digest is None:
        return None
    data = store.objects.get(digest)
    if data is None:
        raise NotFoundError(
            f"an earlier text of {printable(path)} is no longer kept, so this cannot be undone"
        )
    return data
