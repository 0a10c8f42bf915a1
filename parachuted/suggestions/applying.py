"""Makes a suggested change through the one writer, if its base is unchanged or can be merged."""

from __future__ import annotations

from dataclasses import dataclass

from parachuted.errors import ConflictError, EditRefusedError, NotFoundError, PathRefusedError
from parachuted.suggestions.payload import text_after
from parachuted.suggestions.suggestion import Suggestion
from parachuted.suggestions.targets import check_target
from parachuted.vault import Author, Store, VaultPath, VaultRoot, WriteResult, printable

_LARGEST_TARGET = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSuggestion:
    """What a suggestion would do: the texts before and after, None where there is no file, and the
    digest that it is based on.
    """

    before: bytes | None
    after: bytes | None
    base: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSuggestion:
    """What came of it.

    `why`: the reason for which it could not be done any more; `ours` and `theirs` are then both
    texts.
    """

    written: WriteResult | None = None
    why: str | None = None
    ours: bytes | None = None
    theirs: bytes | None = None


class SuggestionApplier:
    """Plans and applies. Blocks on the disk. No link is followed."""

    def __init__(self, root: VaultRoot, store: Store) -> None:
        self._root, self._store = root, store

    def plan(self, suggestion: Suggestion) -> PlannedSuggestion:
        """What it would do, on the text that it was decided on.

        Raises EditRefusedError, NotFoundError, PathRefusedError.
        """
        path = self._straight(suggestion.path)
        before, base = self._base(path, suggestion)
        after = text_after(suggestion.action, suggestion.effect, before)
        if after == before:
            raise EditRefusedError(
                f"{printable(path)} says that already, so there is nothing to suggest"
            )
        return PlannedSuggestion(before=before, after=after, base=base)

    def apply(self, suggestion: Suggestion, author: Author) -> AppliedSuggestion:
        """Do it.

        Raises what the store raises when the disk refuses or a hook objects; then nothing was done.
        """
        path = self._straight(suggestion.path)
        with self._root.straight():
            match suggestion.action:
                case "create":
                    return self._create(path, suggestion, author)
                case "delete":
                    return self._delete(path, suggestion, author)
                case _:
                    return self._update(path, suggestion, author)

    def _create(self, path: VaultPath, suggestion: Suggestion, author: Author) -> AppliedSuggestion:
        data = text_after("create", suggestion.effect, None) or b""
        try:
            return AppliedSuggestion(written=self._store.create(path, data, author))
        except ConflictError as error:
            if error.theirs == data:
                return AppliedSuggestion()
            return AppliedSuggestion(
                why="there is another file of that name by now", ours=data, theirs=error.theirs
            )

    def _delete(self, path: VaultPath, suggestion: Suggestion, author: Author) -> AppliedSuggestion:
        try:
            return AppliedSuggestion(written=self._store.delete(path, author, base=suggestion.base))
        except NotFoundError:
            return AppliedSuggestion()
        except ConflictError as error:
            return AppliedSuggestion(
                why="the file was changed since, so it is not removed",
                ours=b"",
                theirs=error.theirs,
            )

    def _update(self, path: VaultPath, suggestion: Suggestion, author: Author) -> AppliedSuggestion:
        try:
            present = self._store.read(path, keep=True)
        except NotFoundError:
            return AppliedSuggestion(why="the file is gone", ours=None, theirs=None)
        is_same = present.digest == suggestion.base
        base = present.data if is_same else self._store.bases.text(path, str(suggestion.base))
        if base is None:
            return AppliedSuggestion(
                why="the file was changed since, and the text that this was decided on is not kept",
                theirs=present.data,
            )
        try:
            ours = text_after(suggestion.action, suggestion.effect, base) or b""
        except (EditRefusedError, NotFoundError) as error:
            if (
                suggestion.modifications is not None
            ):  # what a person would have in its place is wrong; the suggestion waits still
                raise
            return AppliedSuggestion(why=error.message, theirs=present.data)
        try:
            return AppliedSuggestion(
                written=self._store.replace(path, ours, author, base=suggestion.base)
            )
        except ConflictError as error:
            return AppliedSuggestion(
                why="the file was changed since in the same place", ours=ours, theirs=error.theirs
            )
        except NotFoundError:
            return AppliedSuggestion(why="the file is gone", ours=ours)

    def _base(self, path: VaultPath, suggestion: Suggestion) -> tuple[bytes | None, str | None]:
        """The text that it is decided on, which is kept for good."""
        try:
            with self._root.straight():
                if self._root.size(path) > _LARGEST_TARGET:
                    raise EditRefusedError(
                        f"{printable(path)} is larger than {_LARGEST_TARGET >> 20} MB; nothing is "
                        "suggested for it"
                    )
                present = self._store.read(path, keep=True)
        except NotFoundError:
            if suggestion.action == "create":
                return None, None
            raise
        if suggestion.action == "create":
            raise EditRefusedError(f"{printable(path)} is there already; suggest to update it")
        if suggestion.base in {None, present.digest}:
            return present.data, present.digest
        known = self._store.bases.text(path, str(suggestion.base))
        if known is None:
            raise NotFoundError(
                f"the text this was decided on ({str(suggestion.base)[:12]}) is not one of "
                f"{printable(path)}; read it again"
            )
        self._store.bases.keep(path, known)
        return known, suggestion.base

    def _straight(self, path: str) -> VaultPath:
        target = check_target(path)
        if self._store.resolve(target) != target:
            raise PathRefusedError(
                f"{printable(target)} is a link, so nothing is suggested for it; name the file "
                "itself"
            )
        return target
