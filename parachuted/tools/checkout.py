"""The private copy of the notes granted to an agent with a shell, and its way back into the vault.

The container sees this copy and never the vault. When it has ended, what differs comes back file by
file through the one writer, as that run, based on the copied content. So a kill leaves each file
old or new, others' edits are merged or win, and hooks, audit and undo apply as for any tool. What
the agent may not write itself is proposed to a person, or refused.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    NotFoundError,
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
from parachuted.tools.folder_files import LeftOut, shown
from parachuted.tools.outside_copies import copy_outside
from parachuted.tools.vault_copy import VaultCopy
from parachuted.vault import Author, Store, VaultIndex, WriteResult, diff_of, digest_of, printable

log = logging.getLogger(__name__)

_MOST_SHOWN = 2_000


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
    """One run's copy: `fill` before its container begins, `check_in` once that has ended."""

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
        """
        self._store, self._index, self._grant, self._author = store, index, grant, author
        self._origins, self._taint, self._suggest = origins, taint, suggest
        self._audit, self._uid = audit or NullAuditRecorder(), uid
        self._outside, self._user_home, self._private = outside, user_home, private
        self._own = own or OwnFolders((), user_home or Path("/"))
        self._copy = VaultCopy(
            store=store,
            index=index,
            grant=grant,
            origins=origins,
            taint=taint,
            folder=folder,
            uid=uid,
        )
        self._wrote, self._hook_refused = wrote, hook_refused

    async def fill(self) -> CheckoutResult:
        """Copy what the grant reads.

        Raises ActRefusedError when that is too much for a container, StorageFailedError.
        """
        return await run_uninterrupted(self._fill)

    async def check_in(self) -> CheckinResult:
        """Write back what the agent made, as far as it may. To be called once.

        What is refused is reported and never raised; only a disk that fails is:
        StorageFailedError.
        """
        outcome = _Outcome()
        acts = await run_uninterrupted(self._look, outcome)
        for act in acts:
            await self._do(act, outcome)
        if outcome.written:
            await self._store.notice(outcome.touched)
        if acts:
            log.info(
                "an agent's copy was checked in",
                extra={"run": self._author.run, "acts": len(acts)},
            )
        return CheckinResult(
            written=tuple(outcome.written),
            merged=tuple(outcome.merged),
            suggested=tuple(outcome.suggested),
            refused=tuple(outcome.refused),
        )

    def _fill(self) -> CheckoutResult:
        with _failing_disk("the agent's copy of the notes could not be made"):
            size = self._copy.fill()
            outside = copy_outside(
                self._grant.outside,
                self._outside,
                uid=self._uid,
                user_home=self._user_home,
                never=(self._store.root.folder, *self._private),
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

    def _look(self, outcome: _Outcome) -> list[CheckinAction]:
        """What was done to the copy. What is no act is reported."""
        left_out = LeftOut()
        with _failing_disk("the agent's copy of the notes could not be read"):
            found = self._copy.digests(left_out, outcome.refused)
        outcome.refused += [(shown(path), what) for path, what in left_out.odd.items()]
        outcome.refused += [
            (shown(path) or "(the rest)", why) for path, why in left_out.closed.items()
        ]
        if left_out.hidden:
            reason = "what begins with a dot stays in the container, and goes with it"
            outcome.refused.append((f"({left_out.hidden} hidden)", reason))
        # where something odd stands in the place of a file or of its folder, that is not its end
        odd = tuple(left_out.odd)
        below = tuple(f"{path}/" for path in odd)
        copied = {path: file.digest for path, file in self._copy.files.items()}
        acts = acts_of(
            copied,
            found,
            lambda path: left_out.is_known(path) and path not in odd and not path.startswith(below),
        )
        for kind, reason in too_many(acts, len(copied)).items():
            outcome.refused.append((f"({kind})", reason))
            acts = [act for act in acts if act.kind != kind]
        return acts

    async def _do(self, act: CheckinAction, outcome: _Outcome) -> None:
        reason = objection(act, self._grant) or self._ignored(act) or self._twin(act)
        if reason is not None:
            outcome.refused.append((shown(act.path), reason))
        elif self._taint and not is_trusted_path(act, self._grant):
            await self._propose(act, self._taint.why(self._grant.may_read), outcome)
        else:
            try:
                await run_uninterrupted(self._write, act, outcome)
            except ConflictError as error:
                why = self._conflict(act, error)
                if act.kind == "delete":
                    outcome.refused.append((shown(act.path), why))
                else:
                    await self._propose(_beside(act, error), why, outcome)

    def _ignored(self, act: CheckinAction) -> str | None:
        hides = self._store.root.ignore.hides
        found = next((path for path in (act.path, act.source) if path and hides(path)), None)
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

    async def _propose(self, act: CheckinAction, why: str, outcome: _Outcome) -> None:
        """As a suggestion, where these are accepted: so what the agent made is not lost."""
        if self._suggest is None:
            outcome.refused.append((shown(act.path), f"{why}, so it is not written"))
            return
        try:
            for change in await run_uninterrupted(self._wishes, act):
                outcome.suggested.append(await self._suggest(change))
        except (ParachuteError, OSError) as error:
            outcome.refused.append((shown(act.path), f"{why}; {error}"))

    def _wishes(self, act: CheckinAction) -> list[CheckinProposal]:
        data = self._copy.read(act.path) if act.digest is not None else None
        if act.kind == "move" and act.source is not None:
            return [
                CheckinProposal(action="create", path=act.path, base=None, data=data),
                CheckinProposal(action="delete", path=act.source, base=act.base, data=None),
            ]
        actions: Mapping[str, str] = {"create": "create", "update": "update", "delete": "delete"}
        return [CheckinProposal(action=actions[act.kind], path=act.path, base=act.base, data=data)]  # type: ignore[arg-type]

    def _write(self, act: CheckinAction, outcome: _Outcome) -> None:
        """Through the one writer. Raises ConflictError where others wrote in the same place, and
        StorageFailedError when the disk, or the audit, fails.
        """
        if self._audit.refusal is not None:
            raise StorageFailedError(self._audit.refusal)
        try:
            data = self._copy.read(act.path) if act.digest is not None else b""
            with (
                self._store.root.straight(),
                self._origins.writing(act.path, self._taint.origin) as record,
            ):
                self._refuse_watching(act, data)
                written = self._made(act, data)
                record(written.after)
        except NotFoundError as error:
            raise ConflictError(
                error.message, base=b"", ours=data, theirs=b"", is_known=False
            ) from error
        except (ConflictError, StorageFailedError):
            raise
        except (ParachuteError, OSError) as error:
            if isinstance(error, HookRefusedError):
                self._hook_refused(error.message)
            outcome.refused.append((shown(act.path), str(error)))
        else:
            self._note(act, written, outcome)

    def _made(self, act: CheckinAction, data: bytes) -> WriteResult:
        if act.kind == "create":
            return self._store.create(act.path, data, self._author)
        if act.kind == "delete":
            return self._store.delete(act.path, self._author, base=act.base)
        if act.kind == "move" and act.source is not None:
            return self._store.move(act.source, act.path, self._author, base=act.base)
        return self._store.replace(act.path, data, self._author, base=act.base)

    def _refuse_watching(self, act: CheckinAction, data: bytes) -> None:
        """What a note watches, a curator reads and writes down in it."""
        if act.kind == "delete":
            return
        before = self._store.objects.get(act.base) if act.base is not None else None
        beyond = watched_beyond(self._grant.reads, act.path, before or b"", data, was=act.source)
        if beyond is not None:
            raise ActRefusedError(
                f"it may not watch {printable(beyond)}: {self._grant.agent} may not read all of "
                "that"
            )

    def _note(self, act: CheckinAction, written: WriteResult, outcome: _Outcome) -> None:
        if act.source is not None:
            self._origins.moved(act.source, act.path)
        if written.changed:
            outcome.written.append(written)
            outcome.touched += filter(None, (written.path, act.source))
            self._wrote(written)
        if written.after not in (None, act.digest):
            outcome.merged.append(printable(act.path))

    def _conflict(self, act: CheckinAction, error: ConflictError) -> str:
        """Why it was not written: theirs stands. What they wrote is not quoted."""
        base = self._store.objects.get(act.base) if act.base is not None else None
        ours = error.ours if act.digest is not None else b""
        return (
            "others changed it in the same place meanwhile, and theirs stands. This would have "
            f"changed:\n{diff_of(base or b'', ours, act.path)[:_MOST_SHOWN]}"
        )


def _beside(act: CheckinAction, error: ConflictError) -> CheckinAction:
    """The act as it can be proposed: on the file that somebody made or took away meanwhile."""
    if act.kind == "create" and error.is_known:
        return replace(act, kind="update", base=digest_of(error.theirs))
    if act.kind == "update" and not error.is_known:
        return replace(act, kind="create", base=None)
    return act


@contextlib.contextmanager
def _failing_disk(what: str) -> Iterator[None]:
    """Turn an OSError inside into StorageFailedError, in words that begin with `what`."""
    try:
        yield
    except OSError as error:
        raise StorageFailedError(f"{what}: {error.strerror or error}", errno=error.errno) from error
