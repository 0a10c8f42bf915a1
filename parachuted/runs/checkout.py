"""The private copy of the notes granted to an agent with a shell, and its way back into the vault.

The container sees this copy and never the vault. When it has ended, what differs comes back file by
file through the one writer, as that run, based on the copied content. So a kill leaves each file
old or new, others' edits are merged or win, and hooks, audit and undo apply as for any tool. What
the agent may not write itself is proposed to a person, or refused.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from parachuted.access.filter import ignored
from parachuted.access.grant import Grant
from parachuted.access.private_text import without_private
from parachuted.access.run_records import ProposedChange
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
from parachuted.runs.granted_files import GrantedFiles, Objection
from parachuted.runs.note_values import FileChange
from parachuted.runs.run_guard import RunGuard
from parachuted.tools.checkin import (
    CheckinAction,
    CheckinResult,
    acts_of,
    objection,
    too_many,
    twin_of,
)
from parachuted.tools.folder_files import LeftOut, files_in, put_file, read_file, shown
from parachuted.vault import (
    NOTE_SUFFIXES,
    FileContent,
    IndexEntry,
    ReplaceAll,
    VaultIndex,
    VaultPath,
    WriteResult,
    diff_of,
    digest_of,
    printable,
)

log = logging.getLogger(__name__)

MOST_FILES = 20_000
MOST_BYTES = 256 << 20
LARGEST_FILE = 32 << 20
_LARGEST_WRITE = 16 << 20
_LARGEST_BASE = 1 << 20
_SEEN_AT_ONCE = 200
_MOST_SHOWN = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutResult:
    """What was copied. `left_out` are paths, as they may be shown, with the reason."""

    files: int
    left_out: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Outcome:
    written: list[WriteResult] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    suggested: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)


class Checkout:
    """One run's copy: `fill` before its container begins, `check_in` once that has ended."""

    def __init__(
        self,
        files: GrantedFiles,
        index: VaultIndex,
        grant: Grant,
        guard: RunGuard,
        *,
        folder: Path,
        uid: int | None,
        hook_refused: Callable[[str], None] = lambda _words: None,
    ) -> None:
        """`files` are the vault's, as the run may use them. `folder` is empty, and is what the
        container sees as /vault; `uid`: whose the copies are.
        """
        self._files, self._store, self._index = files, files.store, index
        self._grant, self._guard = grant, guard
        self._folder, self._uid, self._hook_refused = folder, uid, hook_refused
        self._copied: dict[str, str] = {}

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
                extra={"run": self._guard.run, "acts": len(acts)},
            )
        return CheckinResult(
            written=tuple(outcome.written),
            merged=tuple(outcome.merged),
            suggested=tuple(outcome.suggested),
            refused=tuple(outcome.refused),
        )

    def _fill(self) -> CheckoutResult:
        granted = list(self._granted())
        total = sum(entry.size for _, entry in granted)
        if len(granted) > MOST_FILES or total > MOST_BYTES:
            raise ActRefusedError(
                f"{self._grant.agent} is granted {len(granted):,} files of {total >> 20:,} MB, and "
                f"a container is given at most {MOST_FILES:,} of {MOST_BYTES >> 20} MB; narrow its "
                "paths"
            )
        left_out: dict[str, str] = {}
        strangers, bases = 0, dict[VaultPath, bytes]()
        with _failing_disk("the agent's copy of the notes could not be made"):
            for path, _ in granted:
                content = self._readable(path, left_out)
                if content is None:
                    continue
                if self._guard.is_stranger(path, content.digest, content.data):
                    strangers += 1
                    continue
                put_file(self._folder, path, content.data, self._uid)
                self._copied[path] = content.digest
                self._files.remember(path, content.digest)
                if path.endswith(NOTE_SUFFIXES) and len(content.data) <= _LARGEST_BASE:
                    bases[path] = content.data
                if len(bases) >= _SEEN_AT_ONCE:
                    self._store.bases.see(bases.items())
                    bases = {}
            self._store.bases.see(bases.items())
        return CheckoutResult(
            files=len(self._copied), left_out=tuple(self._left_out(left_out, strangers))
        )

    def _granted(self) -> Iterator[tuple[VaultPath, IndexEntry]]:
        for folder in self._index.below(""):
            if self._grant.may_enter(folder):
                for name, entry in tuple(self._index.entries(folder).items()):
                    path = VaultPath(f"{folder}/{name}" if folder else name)
                    if self._grant.may_read(path) and not self._store.root.ignore.hides(path):
                        yield path, entry

    def _readable(self, path: VaultPath, left_out: dict[str, str]) -> FileContent | None:
        """A file of the vault as this agent may have it in its copy."""
        root = self._store.root
        try:
            with root.straight():
                content = root.read(path) if root.size(path) <= LARGEST_FILE else None
        except NotFoundError:
            return None
        except ParachuteError as error:
            left_out[path] = error.message
            return None
        if content is None:
            left_out[path] = f"it is larger than {LARGEST_FILE >> 20} MB"
        elif without_private(content.data) is not content.data:
            left_out[path] = "it has a private part; read_note reads the rest of it"
            return None
        return content

    def _left_out(self, found: dict[str, str], strangers: int) -> Iterator[tuple[str, str]]:
        """What is not in the copy, and why.

        The names that strangers gave are texts of theirs, which a run is not told unasked.
        """
        for path, why in found.items():
            if self._guard.is_tainted or not self._guard.is_stranger(path, None, None):
                yield printable(path), why
        if strangers:
            why = "text of strangers, which list_notes names when asked, and read_note alone reads"
            yield f"({strangers} files)", why

    def _look(self, outcome: _Outcome) -> list[CheckinAction]:
        """What was done to the copy. What is no act is reported."""
        left_out = LeftOut()
        with _failing_disk("the agent's copy of the notes could not be read"):
            files = files_in(
                self._folder, left_out, most=MOST_FILES * 2, largest=LARGEST_FILE, opens=True
            )
            found = {path: digest_of(data) for path, data in files}
        outcome.refused += [(shown(path), what) for path, what in left_out.odd.items()]
        outcome.refused += [
            (shown(path) or "(the rest)", why) for path, why in left_out.closed.items()
        ]
        if left_out.hidden:
            reason = "what begins with a dot stays in the container, and goes with it"
            outcome.refused.append((f"({left_out.hidden} hidden)", reason))
        acts = acts_of(self._copied, found, left_out.is_known)
        for kind, reason in too_many(acts, len(self._copied)).items():
            outcome.refused.append((f"({kind})", reason))
            acts = [act for act in acts if act.kind != kind]
        return acts

    async def _do(self, act: CheckinAction, outcome: _Outcome) -> None:
        reason = objection(act, self._grant) or self._ignored(act) or self._twin(act)
        if reason is not None:
            outcome.refused.append((shown(act.path), reason))
            return
        for part in self._parts(act):
            try:
                written = await run_uninterrupted(self._write, part)
            except StorageFailedError:
                raise
            except (ConflictError, NotFoundError) as error:
                await self._propose_beside(part, error, outcome)
            except (ParachuteError, OSError) as error:
                if isinstance(error, HookRefusedError):
                    self._hook_refused(error.message)
                outcome.refused.append((shown(act.path), str(error)))
            else:
                if isinstance(written, Objection):
                    await self._propose(written.change, written.why, outcome)
                else:
                    self._note(part, written, outcome)

    def _parts(self, act: CheckinAction) -> list[CheckinAction]:
        """A move that the run may not make itself is proposed as two changes."""
        paths = filter(None, (act.path, act.source))
        if act.source is None or not any(map(self._guard.objection, paths)):
            return [act]
        return [
            replace(act, kind="create", base=None, source=None),
            CheckinAction(kind="delete", path=act.source, base=act.base, digest=None),
        ]

    def _write(self, act: CheckinAction) -> WriteResult | Objection:
        """Through the one writer. Raises ConflictError where others wrote in the same place, and
        NotFoundError where the file is gone.
        """
        if self._files.place(act.path) != act.path:
            raise PathRefusedError(f"{printable(act.path)} is a link now")
        edit = None if act.digest is None else ReplaceAll(data=self._read(act.path))
        return self._files.write(
            FileChange(
                path=act.path,
                edit=edit,
                base=act.base,
                is_new=act.kind == "create",
                source=act.source,
            )
        )

    def _read(self, path: VaultPath) -> bytes:
        """What the copy holds there. Raises ReadRefusedError and OSError."""
        return read_file(self._folder / path, _LARGEST_WRITE)

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
        if twin is None:
            return None
        return f"{twin} is there already, and on many disks that is the same name"

    async def _propose_beside(
        self, act: CheckinAction, error: ConflictError | NotFoundError, outcome: _Outcome
    ) -> None:
        """Theirs stands, and what they wrote is not quoted. What the agent made is proposed on the
        file that somebody made or took away meanwhile.
        """
        data = b"" if act.digest is None else await run_uninterrupted(self._read, act.path)
        before = self._store.objects.get(act.base) if act.base is not None else None
        why = (
            "others changed it in the same place meanwhile, and theirs stands. This would have "
            f"changed:\n{diff_of(before or b'', data, act.path)[:_MOST_SHOWN]}"
        )
        if act.kind == "delete":
            outcome.refused.append((shown(act.path), why))
            return
        is_there = isinstance(error, ConflictError) and error.is_known
        base = digest_of(error.theirs) if isinstance(error, ConflictError) and is_there else None
        change = ProposedChange(
            path=act.path,
            action="update" if is_there else "create",
            base=act.base if act.kind == "update" and is_there else base,
            data=data,
        )
        await self._propose(change, why, outcome)

    async def _propose(self, change: ProposedChange, why: str, outcome: _Outcome) -> None:
        """As a suggestion, where these are accepted: so what the agent made is not lost."""
        forward = self._guard.put_forward
        if forward is None:
            outcome.refused.append((shown(change.path), why))
            return
        try:
            name = await forward(change.action, change.path, change.base, change.data, why)
        except (ParachuteError, OSError) as error:
            outcome.refused.append((shown(change.path), f"{why}; {error}"))
        else:
            outcome.suggested.append(name)

    def _note(self, act: CheckinAction, written: WriteResult, outcome: _Outcome) -> None:
        if act.source is not None and self._guard.origins is not None:
            self._guard.origins.moved(act.source, act.path)
        if written.changed:
            outcome.written.append(written)
            outcome.touched += filter(None, (written.path, act.source))
        if written.after not in (None, act.digest):
            outcome.merged.append(printable(act.path))


@contextlib.contextmanager
def _failing_disk(what: str) -> Iterator[None]:
    """Turn an OSError inside into StorageFailedError, in words that begin with `what`."""
    try:
        yield
    except OSError as error:
        raise StorageFailedError(f"{what}: {error.strerror or error}", errno=error.errno) from error
