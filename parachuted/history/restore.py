"""Restore: brings back a file as it was in an earlier version, or before or after a run.

A run of its own, so that it can be taken back.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from datetime import datetime

from parachuted.errors import ConflictError, EditRefusedError, NotFoundError
from parachuted.history.revert import RefuseText, refuse_nothing
from parachuted.history.run_account import new_act
from parachuted.history.why import SHORT, HistoryQueries
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.vault import (
    NOTE_SUFFIXES,
    RESTORE,
    Author,
    Caller,
    Store,
    TextVersion,
    VaultPath,
    WriteResult,
    printable,
    version_named,
)

_LARGEST_MERGED = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """What was done: undoing `run` reverts it (None: the file already had that text), `version` is
    the requested digest.

    `merged`: somebody wrote meanwhile, and that was kept.
    """

    path: VaultPath
    version: str
    before: str | None
    after: str | None
    merged: bool
    run: str | None


class Restore:
    """Restores texts.

    It wakes no watcher that has seen both the current text and the restored one.

    `stood_at` receives the time of a restored text, by its digest.
    """

    def __init__(self, store: Store, *, stood_at: MutableMapping[str, datetime]) -> None:
        self._store, self._objects, self._history = store, store.objects, store.history
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
        refuse: RefuseText = refuse_nothing,
        caller: Caller | None = None,
    ) -> RestoreResult:
        """Give the file the text that it had before (or `after`) the run, or in the version whose
        digest begins so.

        `base` is the digest of the text that is meant to be replaced (None: whatever is there):
        when another is there by now, both changes of it are brought together. What the file said
        where they do not see it (`sees`), before it was moved, does not exist for them. Raises
        NotFoundError, EditRefusedError when that is not to be had, and ConflictError, with both
        texts, when the file has changed in the same place; what `refuse` raises of the text of a
        note.
        """
        async with self._turn:
            chosen = await asyncio.to_thread(self._chosen, path, run, version, sees, after=after)
            digest = str(chosen.digest)
            stood = self._stood(path, digest)
            if stood is not None:
                self._stood_at[digest] = stood
            try:
                restored = await run_uninterrupted(
                    self._put, path, chosen, base, run, sees, refuse, caller
                )
                if restored.run is not None:
                    await self._store.notice([path])
            finally:
                self._stood_at.pop(digest, None)
        return restored

    def _stood(self, path: VaultPath, digest: str) -> datetime | None:
        """Until when that text was current, as far as is known: the write that replaced it
        says so.
        """
        versions = self._past.versions(path)
        last = max(
            (number for number, one in enumerate(versions) if one.digest == digest), default=0
        )
        return next((one.at for one in versions[last + 1 :] if one.at is not None), None)

    def _chosen(
        self,
        path: VaultPath,
        run: str | None,
        version: str | None,
        sees: Callable[[str], bool],
        *,
        after: bool,
    ) -> TextVersion:
        versions = self._past.versions(path)
        hidden = max(
            (number + 1 for number, one in enumerate(versions) if not sees(one.path)), default=0
        )
        versions = versions[hidden:]
        if version is not None:
            return self._by_name(path, versions, version)
        found = self._around(path, versions, str(run), after=after)
        if found.digest is None:
            state = "after" if after else "before"
            raise EditRefusedError(
                f"there was no {printable(path)} {state} {run}; `parachute undo {run}` takes back "
                "what the run did"
            )
        return found

    def _by_name(self, path: VaultPath, versions: list[TextVersion], name: str) -> TextVersion:
        found = version_named(versions, name)
        digests = {one.digest for one in found}
        if not digests:
            raise NotFoundError(
                f"there is no version {name[:80]} of {printable(path)}; `parachute history` lists "
                "them"
            )
        if len(digests) > 1:
            some = ", ".join(sorted(str(digest)[:SHORT] for digest in digests)[:5])
            raise EditRefusedError(f"{name} begins several versions of {printable(path)}: {some}")
        return found[-1]

    def _around(
        self, path: VaultPath, versions: list[TextVersion], run: str, *, after: bool
    ) -> TextVersion:
        """The version before the run's first write of the file, or after its last."""
        if self._history.run(run) is None and not any(one.run == run for one in versions):
            raise NotFoundError(
                f"there is no run or version {printable(run[:80])}; `parachute history "
                f"{shlex.quote(printable(path))}` lists them"
            )
        places = [number for number, one in enumerate(versions) if one.run == run]
        if not places:
            raise NotFoundError(
                f"{run} wrote nothing in {printable(path)}; `parachute diff {run}` says what it "
                "wrote"
            )
        if after:
            return versions[places[-1]]
        first = versions[places[0]]
        if not places[0] and first.kind == "moved":  # with the text that it had
            return first
        return (
            versions[places[0] - 1]
            if places[0]
            else TextVersion(path=first.path, digest=None, by=first.by, kind="deleted")
        )

    def _put(
        self,
        path: VaultPath,
        chosen: TextVersion,
        base: str | None,
        run: str | None,
        sees: Callable[[str], bool],
        refuse: RefuseText,
        caller: Caller | None,
    ) -> RestoreResult:
        digest = self._kept(path, str(chosen.digest))
        if path.endswith(NOTE_SUFFIXES):
            refuse(path, self._objects.get(digest) or b"", path)
        try:
            present: str | None = self._store.read(path, keep=True).digest
        except NotFoundError:
            present = None
        if present == digest and base in (None, present):
            return RestoreResult(
                path=path, version=digest, before=present, after=present, merged=False, run=None
            )
        what = f"as it was {'around ' + run if run is not None else 'in version ' + digest[:SHORT]}"
        act = new_act(
            RESTORE,
            self._store.clock(),
            watcher=printable(path),
            reason=f"restored {printable(path)} {what}",
            carries=True,
            caller=caller,
        )
        act.begin(self._history)
        try:
            written = self._written(path, digest, present, base, act.author, sees)
        except Exception:
            act.end(
                self._history,
                self._objects,
                self._store.clock(),
                f"{act.reason}: refused, and nothing was written",
            )
            raise
        act.end(self._history, self._objects, self._store.clock(), act.reason)
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
        if present is None:
            if base is not None:
                texts = (
                    self._store.bases.text(path, base, sees) or b"",
                    self._objects.get(digest) or b"",
                )
                raise ConflictError(base=texts[0], ours=texts[1], theirs=b"", is_known=False)
            return self._store.place(path, digest, author, is_new=True)
        try:
            return self._store.place(path, digest, author, base=base or present)
        except ConflictError:
            data = self._objects.get(digest)
            if data is None or len(data) > _LARGEST_MERGED:
                raise
            return self._store.replace(path, data, author, base=base or present, sees=sees)

    def _kept(self, path: VaultPath, digest: str) -> str:
        """Ensure that the text is stored durably, also one that was only seen."""
        try:
            with self._objects.opened(digest):
                return digest
        except OSError:
            data = self._objects.get(digest)
        if data is None:
            raise NotFoundError(
                f"the version {digest[:SHORT]} of {printable(path)} is no longer kept"
            )
        return self._objects.put(data)
