"""Edit request: applies several callers' edits of one note in order, so that they are one write,
each on the text that it was based on or, merged, on what the text is now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from parachuted.errors import ConflictError, NotFoundError, ParachuteError
from parachuted.vault.edits import (
    AppendToSection,
    DeleteKey,
    Edit,
    ReplaceSection,
    SetFrontmatterKey,
    SeveralEdits,
    apply_edit,
    section_for,
)
from parachuted.vault.merge import merge_three
from parachuted.vault.note import ParsedNote, parse_note
from parachuted.vault.paths import VaultPath
from parachuted.vault.root import digest_of
from parachuted.vault.trail import PathPredicate


def rebase(edit: Edit, base: bytes, current: bytes) -> bytes:
    """The current text with the edit in it.

    Raises ConflictError when both changed the same place.
    """
    if _same_place(edit, parse_note(base), parse_note(current)):
        return apply_edit(edit, current)
    ours = apply_edit(edit, base)
    merged = merge_three(base, ours, current)
    if not merged.clean:
        raise ConflictError(base=base, ours=ours, theirs=current)
    return merged.data


def _same_place(edit: Edit, base: ParsedNote, current: ParsedNote) -> bool:
    """Whether the edit means in the current text what it meant in its base."""
    if isinstance(edit, AppendToSection):
        return True
    if isinstance(edit, SeveralEdits):
        return all(_same_place(one, base, current) for one in edit.edits)
    if isinstance(edit, ReplaceSection):
        return _section_bytes(base, edit) == _section_bytes(current, edit)
    if isinstance(edit, SetFrontmatterKey | DeleteKey):
        return _key_bytes(base, edit.key) == _key_bytes(current, edit.key)
    return False


def _section_bytes(note: ParsedNote, edit: ReplaceSection) -> bytes | None:
    try:
        section = section_for(edit, note)
    except NotFoundError:
        return None
    return note.data[section.span.start : section.span.stop] if section else None


def _key_bytes(note: ParsedNote, name: str) -> bytes | None:
    return next(
        (note.data[key.span.start : key.span.stop] for key in note.keys if key.name == name), None
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What a write did.

    `before` and `after` are digests, None where there is no file; equal when nothing had to change.
    """

    path: VaultPath
    before: str | None
    after: str | None
    merged: bool = False

    @property
    def changed(self) -> bool:
        return self.before != self.after


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


def operation_of(requests: Sequence[EditRequest]) -> str:
    """The word for it in the history."""
    edit = requests[0].edit
    is_one = len(requests) == 1 and not isinstance(edit, SeveralEdits)
    if not is_one:
        return "Several"
    # The name of a key's change in the histories of earlier versions.
    return "SetKey" if isinstance(edit, SetFrontmatterKey) else type(edit).__name__


def answers_of(decided: MergeDecision, written: WriteResult) -> list[WriteResult | ParachuteError]:
    """What each caller is answered."""
    return [
        merged if isinstance(merged, ParachuteError) else replace(written, merged=merged)
        for merged in decided.merged
    ]
