"""Edit request: applies several callers' edits of one note in order, so that they are one write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parachuted.errors import ConflictError, ParachuteError
from parachuted.vault.bases import PathPredicate
from parachuted.vault.edits import Edit, apply_edit
from parachuted.vault.rebase import rebase
from parachuted.vault.root import digest_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """An edit, decided on the content of digest `base` (None: on whatever is there), which stood at
    its path, or, where `sees` sees them, at a path that the file had before.
    """

    edit: Edit
    base: str | None = None
    sees: PathPredicate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeDecision:
    """The text with all edits in it.

    By wish, whether it was merged with what others wrote since its base, or why it was refused.
    """

    data: bytes
    merged: tuple[bool | ParachuteError, ...]


def decide_all(
    requests: Sequence[EditRequest],
    data: bytes,
    known: Callable[[str, PathPredicate | None], bytes | None],
) -> MergeDecision:
    """Apply the edits one after the other to `data`.

    `known` answers the text of a base, for who `sees` some paths.
    """
    merged: list[bool | ParachuteError] = []
    first, digest = data, digest_of(data)
    for request in requests:
        base = request.base
        try:
            if base is None or base == (digest if data is first else digest_of(data)):
                data, is_merged = apply_edit(request.edit, data), len(requests) > 1
            else:
                text = first if base == digest else known(base, request.sees)
                data, is_merged = rebase(request.edit, _kept(text, request, data), data), True
        except ParachuteError as error:
            merged.append(error)
        else:
            merged.append(is_merged)
    return MergeDecision(data=data, merged=tuple(merged))


def _kept(text: bytes | None, request: EditRequest, data: bytes) -> bytes:
    if text is None:
        name = str(request.base)[:12]
        message = (
            f"the text this edit was decided on ({name}) is not known as one of this "
            "note's, so nothing was merged or written"
        )
        raise ConflictError(message, base=b"", ours=apply_edit(request.edit, data), theirs=data)
    return text
