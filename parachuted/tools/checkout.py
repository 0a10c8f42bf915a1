"""The private copy of the notes granted to an agent with a shell, and its way back into the vault.

The container sees this copy and never the vault. Changes go file by file through the one writer, as
that run, based on the copied content. So a kill leaves each file old or new, others' edits are
merged or win, and hooks, audit and undo apply as for any tool. What the agent may not change is
reported, and the copy is reset to the vault's content.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.access.filter import ignored
from parachuted.access.grant import Grant
from parachuted.access.origin import Taint
from parachuted.access.origins import Origins
from parachuted.access.own_folders import OwnFolders
from parachuted.audit.chain import AuditRecorder, NullAuditRecorder
from parachuted.bubbling import watched_beyond
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    HookRefusedError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.tools.checkin import (
    CheckinAction,
    CheckinProposal,
    CheckinResult,
    acts_of,
    is_trusted_path,
    objection,
    too_many,
    twin_of,
)
from parachuted.tools.hostile_folder import (
    HostileFolder,
    ReadRefusedError,
    StillChangingError,
    shown,
)
from parachuted.tools.outside_copies import copy_outside
from parachuted.tools.vault_copy import (
    LARGEST_WRITE,
    MOST_FILES,
    CopiedFile,
    Refusals,
    VaultCopy,
    failing_disk,
)
from parachuted.vault import (
    Author,
    Store,
    VaultIndex,
    VaultPath,
    WriteResult,
    diff_of,
    digest_of,
    printable,
)

log = logging.getLogger(__name__)

_MOST_SHOWN = 2_000
_CHANGING = "it was changed while it was looked at, and is looked at again after the next call"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutResult:
    """What was copied.

    `left_out` are paths, as they may be shown, with the reason; `outside` what was asked for beside
    the vault, and the name of its folder among those copies.
    """

    files: int
    size: int
    left_out: tuple[tuple[str, str], ...]
    outside: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _Outcome:
    written: list[WriteResult] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    suggested: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)


class Checkout:
    """One run's copy.

    Methods may be called while the agent's programs are at work in it; one at a time is done.
    """

    def __init__(  # noqa: PLR0913  all that a write takes, and whose it is
        self,
        *,
        store: Store,
        index: VaultIndex,
        grant: Grant,
        author: Author,
        origins: Origins,
        taint: Taint,
        folder: Path,
        suggest: Callable[[CheckinProposal], Awaitable[str]] | None,
        uid: int | None,
        outside: Path | None = None,
        user_home: Path | None = None,
        private: tuple[Path, ...] = (),
        own: OwnFolders | None = None,
        audit: AuditRecorder | None = None,
        wrote: Callable[[WriteResult], None] = lambda _written: None,
        hook_refused: Callable[[str], None] = lambda _words: None,
    ) -> None:
        """`folder` is empty, and is what the container sees as /vault; `outside` what it sees as
        /outside. `uid`: whose the copies are.

        `suggest` proposes what the run may not do itself, and answers the id of the suggestion.
        `wrote` is called with each write. `private` are folders that are never copied, such as the
        home of this program; copies of folders that are not in `own` are a stranger's text.
        OSError when `folder` cannot be opened.
        """
        self._store, self._index = store, index
        self._root, self._objects = store.root, store.objects
        self._grant, self._author, self._origins, self._taint = grant, author, origins, taint
        self._suggest, self._audit = suggest, audit or NullAuditRecorder()
        self._outside, self._user_home, self._private, self._uid = outside, user_home, private, uid
        self._own = own or OwnFolders((), user_home or Path("/"))
        self._copy = VaultCopy(
            store=store,
            index=index,
            grant=grant,
            origins=origins,
            taint=taint,
            folder=HostileFolder(folder, uid=uid),
        )
        self._wrote, self._hook_refused = wrote, hook_refused
        self._reported_left_out: set[str] = set()
        self._turn = asyncio.Lock()
        self._is_dropped = False
        self._is_behind = False

    @property
    def is_behind(self) -> bool:
        """Whether work may lie in the copy that no check-in has seen the end of: a call is not told
        to have ended, or the disk failed.
        """
        return self._is_behind

    def expect(self) -> None:
        self._is_behind = True

    async def fill(self) -> CheckoutResult:
        """Copy what the grant reads.

        Raises ActRefusedError when that is too much for a container, StorageFailedError.
        """
        async with self._turn:
            return await run_uninterrupted(self._fill)

    async def refresh(self) -> tuple[str, ...]:
        """Bring in what changed in the vault since, but where the agent changed the copy too.

        The paths that are new or other now.
        """
        if self._copy.is_current:
            return ()
        async with self._turn:
            return await run_uninterrupted(self._refresh) if not self._is_dropped else ()

    async def check_in(self, because: str) -> CheckinResult:
        """Write back what the agent made, as far as it may.

        `because` is what was just done, such as a tool's name.

        What is refused is reported and never raised; only a disk that fails is:
        StorageFailedError.
        """
        async with self._turn:
            if self._is_dropped:
                return CheckinResult()
            outcome, self._is_behind = _Outcome(), True
            acts = await run_uninterrupted(self._look, outcome)
            for act in acts:
                await self._do(act, outcome)
            if outcome.written:
                await self._store.notice(outcome.touched)
            self._is_behind = False
        if acts:
            log.info(
                "an agent's copy was checked in",
                extra={"run": self._author.run, "because": because, "acts": len(acts)},
            )
        return CheckinResult(
            written=tuple(outcome.written),
            merged=tuple(outcome.merged),
            suggested=tuple(outcome.suggested),
            refused=tuple(outcome.refused),
        )

    async def drop(self) -> None:
        """The run is over: the copy goes. What was not checked in goes with it."""
        async with self._turn:
            if not self._is_dropped:
                self._is_dropped = True
                await run_uninterrupted(self._drop)

    def _drop(self) -> None:
        try:
            self._copy.folder.empty()
        except OSError as error:
            log.warning(
                "an agent's copy of notes could not be removed",
                extra={"run": self._author.run, "error": str(error)},
            )
        finally:
            self._copy.folder.close()

    def _fill(self) -> CheckoutResult:
        with failing_disk("the agent's copy of the notes could not be made"):
            size = self._copy.fill()
            outside = copy_outside(
                self._grant.outside,
                self._outside,
                uid=self._uid,
                user_home=self._user_home,
                never=(self._root.folder, *self._private),
                own=self._own,
            )
        for path in outside.strange:
            advice = self._own.advice(path.removesuffix("/**"))
            self._taint.read_words(f"a copy of {path} ({advice})", "imported")
        return CheckoutResult(
            files=len(self._copy.files),
            size=size,
            left_out=(*self._copy.left_out(), *outside.left_out),
            outside=outside.copied,
        )

    def _refresh(self) -> tuple[str, ...]:
        with failing_disk("the agent's copy of the notes could not be brought up to date"):
            return tuple(self._copy.refresh())

    def _look(self, outcome: _Outcome) -> list[CheckinAction]:
        """What was done to the copy. What is not an act is reported and put back."""
        with failing_disk("the agent's copy of the notes could not be read"):
            walked = self._copy.walk()
            found = self._copy.digests(walked, Refusals(outcome.refused))
            odd = tuple(walked.odd)
            for path, what in walked.odd.items():
                self._refuse(
                    VaultPath(path), f"it is {what}" if what.startswith("a ") else what, outcome
                )
            below = tuple(f"{path}/" for path in odd)
            covered = [path for path in self._copy.files if path.startswith(below)]
            for path in covered:  # something else stands in the place of its folder
                self._copy.put_back(VaultPath(path))
            shut = {*odd, *covered, *self._copy.unread}
            for path, why in walked.closed.items():
                outcome.refused.append((shown(path) or "(the rest)", why))
            for path in walked.left:
                if (
                    path not in self._reported_left_out
                    and len(self._reported_left_out) < MOST_FILES
                ):
                    self._reported_left_out.add(path)
                    reason = "what begins with a dot stays in the container, and goes with it"
                    outcome.refused.append((shown(path), reason))
            copied = {path: one.digest for path, one in self._copy.files.items()}
            acts = acts_of(copied, found, lambda path: walked.is_known(path) and path not in shut)
            for kind, reason in too_many(acts, len(copied)).items():
                for act in [act for act in acts if act.kind == kind]:
                    self._copy.put_back(act.path)
                outcome.refused.append((f"({kind})", reason))
                acts = [act for act in acts if act.kind != kind]
        return acts

    async def _do(self, act: CheckinAction, outcome: _Outcome) -> None:
        reason = objection(act, self._grant) or self._ignored(act) or self._twin(act)
        if reason is not None:
            await run_uninterrupted(self._refuse_act, act, reason, outcome)
        elif self._taint and not is_trusted_path(act, self._grant):
            await self._propose(act, outcome)
        else:
            await run_uninterrupted(self._write, act, outcome)

    def _ignored(self, act: CheckinAction) -> str | None:
        paths = (act.path, act.source)
        found = next((path for path in paths if path and self._root.ignore.hides(path)), None)
        return None if found is None else ignored(found).message

    def _twin(self, act: CheckinAction) -> str | None:
        if act.kind not in {"create", "move"}:
            return None
        leaving = frozenset({act.source} if act.source is not None else ())
        twin = twin_of(
            act.path,
            lambda folder: (*self._index.files(folder), *self._index.folders(folder)),
            leaving,
        )
        return (
            f"{twin} is there already, and on many disks that is the same name"
            if twin is not None
            else None
        )

    async def _propose(self, act: CheckinAction, outcome: _Outcome) -> None:
        if self._suggest is None:
            await run_uninterrupted(
                self._refuse_act,
                act,
                f"{self._taint.why(self._grant.may_read)}, so it is not written",
                outcome,
            )
            return
        try:
            for change in await run_uninterrupted(self._wishes, act):
                outcome.suggested.append(await self._suggest(change))
        except StillChangingError as error:
            outcome.refused.append((shown(act.path), str(error)))
        except (ParachuteError, ReadRefusedError) as error:
            await run_uninterrupted(self._refuse_act, act, str(error), outcome)
        else:
            await run_uninterrupted(self._put_back_all, act)

    def _wishes(self, act: CheckinAction) -> list[CheckinProposal]:
        data = self._data(act) if act.digest is not None else None
        if act.kind == "move" and act.source is not None:
            return [
                CheckinProposal(action="create", path=act.path, base=None, data=data),
                CheckinProposal(action="delete", path=act.source, base=act.base, data=None),
            ]
        actions: Mapping[str, str] = {"create": "create", "update": "update", "delete": "delete"}
        return [CheckinProposal(action=actions[act.kind], path=act.path, base=act.base, data=data)]  # type: ignore[arg-type]

    def _write(self, act: CheckinAction, outcome: _Outcome) -> None:
        """Through the one writer. Raises StorageFailedError when the disk, or the audit, fails."""
        if self._audit.refusal is not None:
            raise StorageFailedError(self._audit.refusal)
        try:
            data = self._data(act) if act.digest is not None else b""
            with (
                self._root.straight(),
                self._origins.writing(act.path, self._taint.origin) as record,
            ):
                self._refuse_watching(act, data)
                written = self._made(act, data)
                record(written.after)
        except ConflictError as error:
            self._conflict(act, error, data, outcome)
        except StorageFailedError:
            raise
        except StillChangingError as error:
            outcome.refused.append((shown(act.path), str(error)))
        except (ParachuteError, ReadRefusedError) as error:
            if isinstance(error, HookRefusedError):
                self._hook_refused(error.message)
            self._refuse_act(act, str(error), outcome)
        else:
            self._keep(act, written, data, outcome)

    def _made(self, act: CheckinAction, data: bytes) -> WriteResult:
        if act.kind == "create":
            return self._store.create(act.path, data, self._author)
        if act.kind == "delete":
            return self._store.delete(act.path, self._author, base=act.base)
        if act.kind == "move" and act.source is not None:
            return self._store.move(act.source, act.path, self._author, base=act.base)
        return self._store.replace(act.path, data, self._author, base=act.base)

    def _data(self, act: CheckinAction) -> bytes:
        """What the copy holds. Raises StillChangingError when that is not what was decided on."""
        try:
            data, _ = self._copy.folder.read(act.path, LARGEST_WRITE)
        except (OSError, ReadRefusedError) as error:
            raise StillChangingError(_CHANGING) from error
        if digest_of(data) != act.digest:
            raise StillChangingError(_CHANGING)
        return data

    def _refuse_watching(self, act: CheckinAction, data: bytes) -> None:
        """What a note watches, a curator reads and writes down in it."""
        if act.kind == "delete":
            return
        before = self._objects.get(act.base) if act.base is not None else None
        beyond = watched_beyond(self._grant.reads, act.path, before or b"", data, was=act.source)
        if beyond is not None:
            raise ActRefusedError(
                f"it may not watch {printable(beyond)}: {self._grant.agent} may not read all of "
                "that"
            )

    def _keep(
        self, act: CheckinAction, written: WriteResult, data: bytes, outcome: _Outcome
    ) -> None:
        """A write was made: the copy is what the vault has now, and the record says whose words
        these are.
        """
        if act.source is not None:
            self._origins.moved(act.source, act.path)
            self._copy.files.pop(act.source, None)
        if written.changed:
            outcome.written.append(written)
            outcome.touched += filter(None, (written.path, act.source))
            self._wrote(written)
        if written.after is None:
            self._copy.files.pop(act.path, None)
        elif written.after == act.digest:
            self._copy.files[act.path] = CopiedFile(written.after)
        else:
            outcome.merged.append(printable(act.path))
            self._take_merged(act, data)

    def _take_merged(self, act: CheckinAction, data: bytes) -> None:
        """The copy becomes what both changes came to, unless the agent went on: then what it made
        is the base of its next one.
        """
        try:
            self._data(act)
        except ReadRefusedError:
            self._store.bases.see([(act.path, data)])
            self._copy.files[act.path] = CopiedFile(digest_of(data))
        else:
            self._copy.put_back(act.path)

    def _conflict(
        self, act: CheckinAction, error: ConflictError, data: bytes, outcome: _Outcome
    ) -> None:
        """Others wrote in the same place.

        Theirs stands; the agent is shown both, and decides again.
        """
        base = self._objects.get(act.base) if act.base is not None else None
        wanted = diff_of(base or b"", data, act.path)[:_MOST_SHOWN]
        self._put_back_all(act)
        now = (
            "your copy is as the vault is now"
            if act.path in self._copy.files
            else "it is not in your copy any more"
        )
        theirs = (
            diff_of(base or b"", error.theirs, act.path)[:_MOST_SHOWN]
            if act.path in self._copy.files
            else "(not shown)"
        )
        outcome.refused.append(
            (
                shown(act.path),
                (
                    f"others changed it in the same place meanwhile, so {now}; decide again.\n"
                    f"Yours was:\n{wanted}\nTheirs:\n{theirs}"
                ),
            )
        )

    def _refuse(self, path: VaultPath, reason: str, outcome: _Outcome) -> None:
        self._copy.put_back(path)
        outcome.refused.append((shown(path), reason))

    def _refuse_act(self, act: CheckinAction, reason: str, outcome: _Outcome) -> None:
        self._put_back_all(act)
        outcome.refused.append((shown(act.path), reason))

    def _put_back_all(self, act: CheckinAction) -> None:
        for path in filter(None, (act.path, act.source)):
            self._copy.put_back(path)
