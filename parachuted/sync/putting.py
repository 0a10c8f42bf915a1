"""Putting: a device writes a whole file, so that no other text is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from parachuted.errors import ConflictError, NotFoundError, StorageFailedError
from parachuted.vault import Author, Store, VaultPath, WriteResult, printable

_ATTEMPTS = 5
Outcome: TypeAlias = Literal["created", "written", "merged", "unchanged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PutResult:
    """`replaced` is the digest of a text that was overwritten unseen; `hash` of the present one."""

    path: VaultPath
    outcome: Outcome
    hash: str
    replaced: str | None = None


def can_be_merged(*texts: bytes) -> bool:
    try:
        return all("\0" not in text.decode("utf-8") for text in texts)
    except UnicodeDecodeError:
        return False


def put_whole(
    store: Store,
    path: VaultPath,
    data: bytes,
    author: Author,
    *,
    base: str | None = None,
    sees: Callable[[str], bool] | None = None,
) -> PutResult:
    """Make the file, or replace it; `base` is the text it was made from. Blocks.

    A text that moved on is merged. Raises ConflictError, with the present text, which is kept as a
    base for the next attempt; PathRefusedError, StorageFailedError.
    """
    for _ in range(_ATTEMPTS):
        try:
            present = store.read(path)
        except NotFoundError:
            try:
                made = store.create(path, data, author)
            except ConflictError:
                continue  # somebody made it in between
            return PutResult(path=made.path, outcome="created", hash=str(made.after))
        if present.data == data:
            return PutResult(path=path, outcome="unchanged", hash=present.digest)
        if base is None:
            written = store.replace(path, data, author)
            return _put_result(written, replaced=written.before)
        known = present.data if base == present.digest else store.bases.text(path, base, sees)
        if known is None or (
            base != present.digest and not can_be_merged(known, data, present.data)
        ):
            store.bases.keep(path, present.data)
            raise ConflictError(base=known or b"", ours=data, theirs=present.data)
        store.bases.keep(path, known)
        try:
            return _put_result(store.replace(path, data, author, base=base, sees=sees))
        except ConflictError as error:
            store.bases.keep(path, error.theirs)
            raise
        except NotFoundError:
            continue  # it went in between
    raise StorageFailedError(f"{printable(path)} is being changed too quickly; nothing was written")


def _put_result(written: WriteResult, *, replaced: str | None = None) -> PutResult:
    outcome: Outcome = "merged" if written.merged else "written" if written.changed else "unchanged"
    return PutResult(
        path=written.path,
        outcome=outcome,
        hash=str(written.after),
        replaced=replaced if written.changed else None,
    )
