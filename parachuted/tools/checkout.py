"""The private copy of the notes granted to an agent with a shell, and its way back into the vault.

The container sees this copy and never the vault. Changes go file by file through the one writer, as
that run, based on the copied content. So a kill leaves each file old or new, others' edits are
merged or win, and hooks, audit and undo apply as for any tool. What the agent may not change is
reported, and the copy is reset to the vault's content.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.access.grant import Grant
from parachuted.access.origin import UNTRUSTED, Taint
from parachuted.access.origins import Origins
from parachuted.audit.events import CALLER, AuditCaller, AuditRecorder, NullAuditRecorder
from parachuted.bubbling import watched_beyond
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    HookRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
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
    FileStamp,
    FolderContents,
    HostileFolder,
    ReadRefusedError,
    StillChangingError,
    shown,
)
from parachuted.tools.outside_copies import copy_outside
from parachuted.vault import (
    NOTE_SUFFIXES,
    Author,
    FileContent,
    IndexEntry,
    ObjectStore,
    Store,
    VaultIndex,
    VaultPath,
    VaultRoot,
    WriteResult,
    diff_of,
    digest_of,
    printable,
)

log = logging.getLogger(__name__)

MOST_FILES = 20_000
MOST_BYTES = 256 << 20
LARGEST_FILE = 32 << 20
LARGEST_WRITE = 16 << 20
_LARGEST_BASE = 1 << 20
_MOST_SHOWN = 2_000
_SEEN_AT_ONCE = 200
_SWAPPED = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY}
)
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
class _CopiedFile:
    """One file of the copy as it was given: the vault's digest, what the index said, and the copy's
    mark.
    """

    digest: str
    entry: IndexEntry | None
    mark: FileStamp | None


@dataclass(slots=True)
class _Outcome:
    """A check-in while it goes on."""

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
        root: VaultRoot,
        store: Store,
        index: VaultIndex,
        objects: ObjectStore,
        grant: Grant,
        author: Author,
        origins: Origins,
        taint: Taint,
        folder: Path,
        suggest: Callable[[CheckinProposal], Awaitable[str]] | None,
        notice: Callable[[Iterable[str]], Awaitable[None]],
        uid: int | None,
        outside: Path | None = None,
        user_home: Path | None = None,
        private: tuple[Path, ...] = (),
        audit: AuditRecorder | None = None,
        wrote: Callable[[WriteResult], None] = lambda _written: None,
        hook_refused: Callable[[str], None] = lambda _words: None,
    ) -> None:
        """`folder` is empty, and is what the container sees as /vault; `outside` what it sees as
        /outside. `uid`: whose the copies are.

        `suggest` proposes what the run may not do itself, and answers the id of the suggestion.
        `wrote` is told of each write. `private` are folders that are never copied, such as the home
        of this program. OSError when `folder` cannot be opened.
        """
        self._root, self._store, self._index, self._objects = root, store, index, objects
        self._grant, self._author, self._origins, self._taint = grant, author, origins, taint
        self._suggest, self._notice, self._audit = suggest, notice, audit or NullAuditRecorder()
        self._outside, self._user_home, self._private, self._uid = outside, user_home, private, uid
        self._folder = HostileFolder(folder, uid=uid)
        self._wrote, self._hook_refused = wrote, hook_refused
        self._copied: dict[str, _CopiedFile] = {}
        self._reported_left_out: set[str] = set()
        self._unread: set[str] = set()
        self._left_out: dict[str, str] = {}
        self._strangers: set[str] = set()
        self._version = -1
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
        """A call begins that may change the copy."""
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
        if self._index.version == self._version:
            return ()
        async with self._turn:
            return await run_uninterrupted(self._refresh) if not self._is_dropped else ()

    async def check_in(self, because: str) -> CheckinResult:
        """Write back what the agent made, as far as it may.

        `because` is what was just done, such as a tool's name.

        What is refused, by whomever, is told and never raised; only a disk that fails is:
        StorageFailedError.
        """
        async with self._turn:
            if self._is_dropped:
                return CheckinResult()
            outcome, self._is_behind = _Outcome(), True
            with self._as_agent():
                acts = await run_uninterrupted(self._look, outcome)
                for act in acts:
                    await self._do(act, outcome)
            if outcome.written:
                await self._notice(outcome.touched)
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
            self._folder.empty()
        except OSError as error:
            log.warning(
                "an agent's copy of notes could not be removed",
                extra={"run": self._author.run, "error": str(error)},
            )
        finally:
            self._folder.close()

    def _fill(self) -> CheckoutResult:
        self._version = self._index.version
        paths = list(self._granted())
        total = sum(entry.size for _, entry in paths)
        if len(paths) > MOST_FILES or total > MOST_BYTES:
            raise ActRefusedError(
                f"{self._grant.agent} is granted {len(paths):,} files of {total >> 20:,} MB, and "
                "a container is given at most "
                f"{MOST_FILES:,} of {MOST_BYTES >> 20} MB; narrow its paths"
            )
        size, seen = 0, dict[VaultPath, bytes]()
        with _disk("the agent's copy of the notes could not be made"):
            for path, entry in paths:
                data = self._read_file(path, entry)
                size += len(data or b"")
                if data is not None and path.endswith(NOTE_SUFFIXES) and len(data) <= _LARGEST_BASE:
                    seen[path] = data
                if len(seen) >= _SEEN_AT_ONCE:
                    self._store.bases.see(seen.items())
                    seen = {}
            self._store.bases.see(seen.items())
            for name, mark in self._folder.walk(
                MOST_FILES * 2
            ).files.items():  # nobody is at work in it yet
                self._copied[name].mark = mark
            outside = copy_outside(
                self._grant.outside,
                self._outside,
                uid=self._uid,
                user_home=self._user_home,
                never=(self._root.folder, *self._private),
            )
        left_out = (*self._report_left_out(), *outside.left_out)
        return CheckoutResult(
            files=len(self._copied), size=size, left_out=left_out, outside=outside.copied
        )

    def _report_left_out(self) -> Iterator[tuple[str, str]]:
        """What is not in the copy, and why.

        The names that strangers gave are texts of theirs, which a run is not told unasked.
        """
        for path, why in self._left_out.items():
            if self._taint or self._origins.of(path) not in UNTRUSTED:
                yield printable(path), why
        if self._strangers:
            yield (
                f"({len(self._strangers)} files)",
                (
                    "text of strangers, which list_notes with its folder finds, and read_note "
                    "alone "
                    "reads"
                ),
            )

    def _granted(self) -> Iterator[tuple[VaultPath, IndexEntry]]:
        for folder in self._index.below(""):
            if self._grant.may_enter(folder):
                for name, entry in tuple(self._index.entries(folder).items()):
                    path = VaultPath(f"{folder}/{name}" if folder else name)
                    if self._grant.may_read(path):
                        yield path, entry

    def _read_file(self, path: VaultPath, entry: IndexEntry | None) -> bytes | None:
        """Copy one file of the vault, unless there is a reason not to. OSError."""
        content = self._readable(path)
        if content is None:
            return None
        mark = self._folder.put(path, content.data)
        self._copied[path] = _CopiedFile(content.digest, entry, mark)
        return content.data

    def _readable(self, path: VaultPath) -> FileContent | None:
        """A file of the vault as this agent may have it in its copy; None, and the reason is kept:
        it may not.
        """
        self._left_out.pop(path, None)
        self._strangers.discard(path)
        try:
            with self._root.straight():
                size = self._root.size(path)
                content = self._root.read(path) if size <= LARGEST_FILE else None
        except NotFoundError:
            return None
        except ParachuteError as error:
            self._left_out[path] = error.message
            return None
        if content is None:
            self._left_out[path] = f"it is larger than {LARGEST_FILE >> 20} MB"
            return None
        origin = self._origins.of_text(path, content.data, content.digest)
        if origin in UNTRUSTED:
            self._strangers.add(path)
            return None
        return content

    def _refresh(self) -> tuple[str, ...]:
        self._version = self._index.version
        found: list[str] = []
        now = dict(self._granted())
        with _disk("the agent's copy of the notes could not be brought up to date"):
            walked = self._folder.walk(MOST_FILES * 2)
            changed = self._changed(walked)
            for path in [
                *map(VaultPath, self._copied),
                *(one for one in now if one not in self._copied),
            ]:
                copied, entry = self._copied.get(path), now.get(path)
                if (
                    (copied is not None and copied.entry == entry)
                    or path in changed
                    or (copied is None and path in walked.files)
                ):
                    continue
                try:
                    if self._refresh_file(path, copied, entry):
                        found.append(printable(path))
                except OSError as error:
                    if error.errno not in _SWAPPED:
                        raise
                    # its program swaps folders under us: that is no failure of the disk, and is
                    # tried anew
                    self._version = -1
        return tuple(found)

    def _refresh_file(
        self, path: VaultPath, copied: _CopiedFile | None, entry: IndexEntry | None
    ) -> bool:
        """Make the copy of one file what the vault has; whether it was another."""
        if copied is None and len(self._copied) >= MOST_FILES:
            return False
        content = self._readable(path)
        if content is None:
            if copied is not None:
                self._folder.remove(path)
                del self._copied[path]
            return copied is not None
        if copied is not None and copied.digest == content.digest:
            copied.entry = entry
            return False
        self._keep_base(path, content)
        self._copied[path] = _CopiedFile(
            content.digest, entry, self._folder.put(path, content.data)
        )
        return True

    def _keep_base(self, path: VaultPath, content: FileContent) -> None:
        if path.endswith(NOTE_SUFFIXES) and len(content.data) <= _LARGEST_BASE:
            self._store.bases.see([(path, content.data)])

    def _changed(self, walked: FolderContents) -> set[str]:
        """Paths of the copy that the agent changed, or took away."""
        changed = set()
        for path, copied in self._copied.items():
            mark = walked.files.get(path)
            if mark is None or (mark != copied.mark and self._digest(path) != copied.digest):
                changed.add(path)
        return changed

    def _digest(self, path: str) -> str | None:
        """What the copy's file holds now; None: it cannot be told."""
        try:
            data, mark = self._folder.read(path, LARGEST_FILE)
        except (ReadRefusedError, OSError):
            return None
        digest, copied = digest_of(data), self._copied.get(path)
        if copied is not None and copied.digest == digest:
            copied.mark = mark
        return digest

    def _look(self, outcome: _Outcome) -> list[CheckinAction]:
        """What was done to the copy. What cannot be taken for an act is told and put back."""
        with _disk("the agent's copy of the notes could not be read"):
            walked = self._folder.walk(MOST_FILES * 2)
            found = self._found(walked, outcome)
            odd = tuple(walked.odd)
            for path, what in walked.odd.items():
                self._refuse(
                    VaultPath(path), f"it is {what}" if what.startswith("a ") else what, outcome
                )
            covered = (
                [path for path in self._copied if path.startswith(tuple(f"{one}/" for one in odd))]
                if odd
                else []
            )
            for path in covered:  # something else stands in the place of its folder
                self._put_back(VaultPath(path))
            shut = {*odd, *covered, *self._unread}
            for path, why in walked.closed.items():
                outcome.refused.append((shown(path) or "(the rest)", why))
            for path in walked.left:
                if (
                    path not in self._reported_left_out
                    and len(self._reported_left_out) < MOST_FILES
                ):
                    self._reported_left_out.add(path)
                    outcome.refused.append(
                        (
                            shown(path),
                            "what begins with a dot stays in the container, and goes with it",
                        )
                    )
            copied = {path: one.digest for path, one in self._copied.items()}
            acts = acts_of(copied, found, lambda path: walked.is_known(path) and path not in shut)
            for kind, reason in too_many(acts, len(copied)).items():
                for act in [act for act in acts if act.kind == kind]:
                    self._put_back(act.path)
                outcome.refused.append((f"({kind})", reason))
                acts = [act for act in acts if act.kind != kind]
        return acts

    def _found(self, walked: FolderContents, outcome: _Outcome) -> dict[str, str]:
        """The digests of the copy's files; of those that were not touched, what is known."""
        found: dict[str, str] = {}
        self._unread.clear()
        for path, mark in walked.files.items():
            copied = self._copied.get(path)
            if copied is not None and copied.mark == mark:
                found[path] = copied.digest
                continue
            try:
                data, now = self._folder.read(path, LARGEST_WRITE)
            except FileNotFoundError:
                continue
            except StillChangingError as error:
                self._unread.add(path)
                outcome.refused.append((shown(path), str(error)))
                continue
            except ReadRefusedError as error:
                self._unread.add(path)
                self._refuse(VaultPath(path), str(error), outcome)
                continue
            except OSError as error:
                self._unread.add(path)
                outcome.refused.append((shown(path), f"it cannot be read: {error.strerror}"))
                continue
            found[path] = digest_of(data)
            if copied is not None and copied.digest == found[path]:
                copied.mark = now
        return found

    async def _do(self, act: CheckinAction, outcome: _Outcome) -> None:
        """One act: done, proposed or refused."""
        reason = objection(act, self._grant) or self._twin(act)
        if reason is not None:
            await run_uninterrupted(self._refuse_act, act, reason, outcome)
        elif self._taint and not is_trusted_path(act, self._grant):
            await self._propose(act, outcome)
        else:
            await run_uninterrupted(self._write, act, outcome)

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
                self._refuse_act, act, f"{self._taint.why()}, so it is not written", outcome
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
            with self._root.straight(), self._origins.writing(act.path, self._taint.origin) as told:
                self._refuse_watching(act, data)
                written = self._made(act, data)
                told(written.after)
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
            data, _ = self._folder.read(act.path, LARGEST_WRITE)
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
            self._copied.pop(act.source, None)
        if written.changed:
            outcome.written.append(written)
            outcome.touched += filter(None, (written.path, act.source))
            self._wrote(written)
        if written.after is None:
            self._copied.pop(act.path, None)
        elif written.after == act.digest:
            self._copied[act.path] = _CopiedFile(written.after, None, None)
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
            self._copied[act.path] = _CopiedFile(digest_of(data), None, None)
        else:
            self._put_back(act.path)

    def _conflict(
        self, act: CheckinAction, error: ConflictError, data: bytes, outcome: _Outcome
    ) -> None:
        """Others wrote in the same place.

        Theirs stands; the agent is told both, and decides anew.
        """
        base = self._objects.get(act.base) if act.base is not None else None
        wanted = diff_of(base or b"", data, act.path)[:_MOST_SHOWN]
        self._put_back_all(act)
        now = (
            "your copy is as the vault is now"
            if act.path in self._copied
            else "it is not in your copy any more"
        )
        theirs = (
            diff_of(base or b"", error.theirs, act.path)[:_MOST_SHOWN]
            if act.path in self._copied
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
        self._put_back(path)
        outcome.refused.append((shown(path), reason))

    def _refuse_act(self, act: CheckinAction, reason: str, outcome: _Outcome) -> None:
        self._put_back_all(act)
        outcome.refused.append((shown(act.path), reason))

    def _put_back_all(self, act: CheckinAction) -> None:
        for path in filter(None, (act.path, act.source)):
            self._put_back(path)

    def _put_back(self, path: VaultPath) -> None:
        """Make the copy of a file what the vault has; nothing, where it has none that this agent
        may see.
        """
        try:
            content = (
                self._readable(path) if self._grant.may_read(path) and _is_path(path) else None
            )
            if content is None:
                self._folder.remove(path)
                self._copied.pop(path, None)
            else:
                self._keep_base(path, content)
                self._copied[path] = _CopiedFile(
                    content.digest, None, self._folder.put(path, content.data)
                )
        except OSError as error:  # the copy is the agent's own affair: the vault is as it was
            log.warning(
                "an agent's copy could not be put back",
                extra={"path": shown(path), "error": str(error)},
            )

    @contextmanager
    def _as_agent(self) -> Iterator[None]:
        """The audit tells of the agent."""
        asked = CALLER.get()
        token = CALLER.set(
            AuditCaller("agent", self._grant.agent, asked.request_id if asked is not None else "")
        )
        try:
            yield
        finally:
            CALLER.reset(token)


def _is_path(path: str) -> bool:
    with contextlib.suppress(PathRefusedError):
        VaultPath.parse(path)
        return True
    return False


@contextmanager
def _disk(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailedError(f"{what}: {error.strerror or error}", errno=error.errno) from error
