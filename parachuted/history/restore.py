"""Restore: brings back a file as it was in a version, or before or after a run, as a run itself."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from parachuted.errors import ConflictError, EditRefusedError, NotFoundError
from parachuted.history.run_account import Operation, new_act
from parachuted.history.why import SHORT, HistoryQueries
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.vault import (
    NOTE_SUFFIXES,
    RESTORE,
    Author,
    Requester,
    Store,
    TextVersion,
    VaultPath,
    WriteResult,
    printable,
)

_LARGEST_MERGED = 4 << 20
RefuseText: TypeAlias = Callable[[VaultPath, bytes, VaultPath], None]
"""Takes a path, its new text, and where that note is now; raises ParachuteError to refuse it."""


def _refuse_nothing(_path: VaultPath, _text: bytes, _was: VaultPath) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """Undoing `run` reverts it (None: the file had that text already). `merged`: somebody wrote
    meanwhile, and that was kept.
    """

    path: VaultPath
    version: str
    before: str | None
    after: str | None
    merged: bool
    run: str | None


class Restore:
    """`stood_at` gets a restored text's time, so that it wakes no watcher that saw both texts."""

    def __init__(self, store: Store, *, stood_at: MutableMapping[str, datetime]) -> None:
        self._store, self._objects = store, store.objects
        self._stood_at = stood_at
        self._past = HistoryQueries(store)
        self._turn = asyncio.Lock()

    async def restore(
        self,
        path: VaultPath,
        *,
        run: str | None = None,
        after: bool = False,
        version: str | None = None,
        base: str | None = None,
        sees: Callable[[str], bool] = lambda _path: True,
        refuse: RefuseText = _refuse_nothing,
        requester: Requester | None = None,
    ) -> RestoreResult:
        """Give the file the text that it had before (or `after`) the run, or in the version whose
        digest begins so. `base` is the digest of the text to be replaced (None: whatever is there);
        where another is there by now, both changes are merged. Earlier paths that the caller does
        not see (`sees`) do not exist for it. Raises NotFoundError, EditRefusedError, ConflictError
        with both texts, and what `refuse` raises of a note's text.
        """

        def find() -> tuple[str, str, datetime | None]:
            known = self._past.versions(path)
            hidden = [number for number, one in enumerate(known) if not sees(one.path)]
            known = known[hidden[-1] + 1 if hidden else 0 :]
            if version is not None:
                digest = _named(path, known, version)
                what = f"in version {digest[:SHORT]}"
            else:
                digest = _around(path, known, str(run), after=after)
                what = f"around {run}"
            self._keep(path, digest)
            if path.endswith(NOTE_SUFFIXES):
                refuse(path, self._objects.get(digest) or b"", path)
            # it was current until then, as the write says that replaced it
            last = max(number for number, one in enumerate(known) if one.digest == digest)
            stood = next((one.at for one in known[last + 1 :] if one.at is not None), None)
            return digest, what, stood

        async with self._turn:
            digest, what, stood = await asyncio.to_thread(find)
            act = new_act(
                RESTORE,
                self._store.clock(),
                watcher=printable(path),
                reason=f"restored {printable(path)} as it was {what}",
                carries=True,
                requester=requester,
            )
            if stood is not None:
                self._stood_at[digest] = stood
            try:
                restored = await run_uninterrupted(self._put, path, digest, base, sees, act)
                if restored.run is not None:
                    await self._store.notice([path])
            finally:
                self._stood_at.pop(digest, None)
        return restored

    def _put(
        self,
        path: VaultPath,
        digest: str,
        base: str | None,
        sees: Callable[[str], bool],
        act: Operation,
    ) -> RestoreResult:
        try:
            present: str | None = self._store.read(path, keep=True).digest
        except NotFoundError:
            present = None
        if present == digest and base in (None, present):
            return RestoreResult(
                path=path, version=digest, before=present, after=present, merged=False, run=None
            )
        act.begin(self._store)
        try:
            written = self._written(path, digest, present, base, act.author, sees)
        except Exception:
            act.end(self._store, f"{act.reason}: refused, and nothing was written")
            raise
        act.end(self._store, act.reason)
        return RestoreResult(
            path=path,
            version=digest,
            before=written.before,
            after=written.after,
            merged=written.merged,
            run=act.run,
        )

    def _written(
        self,
        path: VaultPath,
        digest: str,
        present: str | None,
        base: str | None,
        author: Author,
        sees: Callable[[str], bool],
    ) -> WriteResult:
        if present is None and base is None:
            return self._store.place(path, digest, author, is_new=True)
        if present is None:
            was, ours = self._store.bases.text(path, str(base), sees), self._objects.get(digest)
            raise ConflictError(base=was or b"", ours=ours or b"", theirs=b"", is_known=False)
        try:
            return self._store.place(path, digest, author, base=base or present)
        except ConflictError:
            data = self._objects.get(digest)
            if data is None or len(data) > _LARGEST_MERGED:
                raise
            return self._store.replace(path, data, author, base=base or present, sees=sees)

    def _keep(self, path: VaultPath, digest: str) -> None:
        """A text that was only seen is kept from now on."""
        try:
            with self._objects.opened(digest):
                return
        except OSError:
            data = self._objects.get(digest)
        if data is None:
            raise NotFoundError(
                f"the version {digest[:SHORT]} of {printable(path)} is no longer kept"
            )
        self._objects.put(data)


def _named(path: VaultPath, versions: list[TextVersion], name: str) -> str:
    known = {version.digest for version in versions if version.digest is not None}
    digests = sorted(digest for digest in known if digest.startswith(name))
    if not digests:
        raise NotFoundError(
            f"there is no version {name[:80]} of {printable(path)}; `parachute history` lists them"
        )
    if len(digests) > 1:
        some = ", ".join(digest[:SHORT] for digest in digests[:5])
        raise EditRefusedError(f"{name} begins several versions of {printable(path)}: {some}")
    return digests[0]


def _around(path: VaultPath, versions: list[TextVersion], run: str, *, after: bool) -> str:
    file, run = printable(path), printable(run[:80])
    places = [number for number, version in enumerate(versions) if version.run == run]
    if not places:
        lists = f"`parachute history {shlex.quote(file)}` lists what did"
        raise NotFoundError(f"no run or version {run} wrote {file}; {lists}")
    first = places[0]
    if after:
        digest = versions[places[-1]].digest
    elif first:
        digest = versions[first - 1].digest
    else:  # who moved it did not change the text that it had
        digest = versions[0].digest if versions[0].kind == "moved" else None
    if digest is None:
        when = "after" if after else "before"
        raise EditRefusedError(f"there was no {file} {when} {run}; `parachute undo` takes it back")
    return digest
