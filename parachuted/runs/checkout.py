"""Checkout: the private copy of the notes granted to an agent with a shell, and its way back.

When the container's program has ended, what differs goes file by file through the one writer, as
that run, based on the copied content. So a kill leaves each file old or new, others' edits are
merged or win, and hooks, audit and undo apply as for any tool.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

from parachuted.access.grant import Grant
from parachuted.access.private_text import without_private
from parachuted.access.strangers import ProposedChange, RunGuard
from parachuted.agents.job import RunFolder
from parachuted.agents.sandbox.archive import ArchiveReader, ArchiveWriter, LeftOut
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    HookRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
    storage_errors,
)
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.granted_files import GrantedFiles, Objection
from parachuted.runs.note_values import FileChange
from parachuted.vault import (
    NOTE_SUFFIXES,
    ReplaceAll,
    VaultIndex,
    VaultPath,
    WriteResult,
    diff_of,
    digest_of,
    printable,
)

MOST_FILES = 20_000
MOST_BYTES = 256 << 20
LARGEST_FILE = 32 << 20
_LARGEST_WRITE = 16 << 20
_LARGEST_BASE = 1 << 20
_SEEN_AT_ONCE = 200
_MOST_SHOWN = 2_000
_SHOWN_CHARS = 200
_MOST_DELETED = 100
_MOST_CREATED = 200
_MOST_TOLD = 20
_UNREAD = "the agent's copy of the notes could not be read"

ActKind: TypeAlias = Literal["delete", "move", "update", "create"]
_ORDER: tuple[ActKind, ...] = ("delete", "move", "update", "create")


@dataclass(frozen=True, slots=True)
class CheckinAction:
    """`base` is the vault's digest when copied, `digest` the copy's, `source` where it was."""

    path: VaultPath
    base: str | None
    digest: str | None
    source: VaultPath | None = None

    @property
    def kind(self) -> ActKind:
        if self.digest is None:
            return "delete"
        if self.source is not None:
            return "move"
        return "create" if self.base is None else "update"


@dataclass(slots=True, kw_only=True)
class CheckinResult:
    """`merged` and `refused` are paths as they may be shown, `suggested` ids of suggestions."""

    written: list[WriteResult] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    suggested: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    def words(self) -> str:
        """What the agent is to know of it; "": all is as it made it."""
        said = [
            f"{path} was changed by others meanwhile; both changes are in it now."
            for path in self.merged[:_MOST_TOLD]
        ]
        said += [f"Not written: {path}: {reason}" for path, reason in self.refused[:_MOST_TOLD]]
        if len(self.refused) > _MOST_TOLD:
            said.append(f"(and {len(self.refused) - _MOST_TOLD} more that were not written)")
        if self.suggested:
            ids = ", ".join(self.suggested[:_MOST_TOLD])
            said.append(
                f"Proposed to a person, and not done before they approve: {ids}. Your copy is as "
                "the vault is."
            )
        return "\n".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutResult:
    """`left_out` are paths, as they may be shown, with the reason."""

    files: int
    left_out: tuple[tuple[str, str], ...]


class Checkout:
    """One run's copy: `fill` before its container begins, `check_in` once that has ended."""

    def __init__(
        self,
        files: GrantedFiles,
        index: VaultIndex,
        grant: Grant,
        guard: RunGuard,
        *,
        folder: RunFolder,
        owner: tuple[int, int] | None,
        hook_refused: Callable[[str], None] = lambda _words: None,
    ) -> None:
        self._files, self._store, self._index = files, files.store, index
        self._agent, self._guard = grant.agent, guard
        self._folder, self._owner, self._hook_refused = folder, owner, hook_refused
        self._copied: dict[str, str] = {}

    async def fill(self) -> CheckoutResult:
        """Raises ActRefusedError for too much for a container, StorageFailedError."""
        return await run_uninterrupted(self._fill)

    async def check_in(self) -> CheckinResult:
        """Once. What is refused is reported. Raises StorageFailedError alone."""
        result = CheckinResult()
        if not self._folder.returned.exists():  # none ran, or it could write nothing
            return result
        with (
            storage_errors(_UNREAD),
            contextlib.closing(ArchiveReader(self._folder.returned)) as returned,
        ):
            acts = await run_uninterrupted(partial(self._look, returned, result))
            for act in acts:
                await self._do(act, returned, result)
        if result.written:
            sources = (act.source for act in acts if act.source is not None)
            await self._store.notice([*(written.path for written in result.written), *sources])
        return result

    def _fill(self) -> CheckoutResult:
        granted = dict(self._granted())
        total = sum(granted.values())
        if len(granted) > MOST_FILES or total > MOST_BYTES:
            raise ActRefusedError(
                f"{self._agent} is granted {len(granted):,} files of {total >> 20:,} MB, and "
                f"a container is given at most {MOST_FILES:,} of {MOST_BYTES >> 20} MB; narrow its "
                "paths"
            )
        left_out: dict[str, str] = {}
        strangers, bases = 0, dict[VaultPath, bytes]()
        with (
            storage_errors("the agent's copy of the notes could not be made"),
            contextlib.closing(ArchiveWriter(self._folder.notes, self._owner)) as copy,
        ):
            for path, content in self._store.root.read_each(granted, LARGEST_FILE):
                if isinstance(content, EditRefusedError):
                    left_out[path] = f"it is larger than {LARGEST_FILE >> 20} MB"
                elif isinstance(content, ParachuteError):
                    if not isinstance(content, NotFoundError):
                        left_out[path] = content.message
                elif without_private(content.data) is not content.data:
                    left_out[path] = "it has a private part; read_note reads the rest of it"
                elif self._files.user.strangers.is_text(path, content.data):
                    strangers += 1
                else:
                    copy.add(path, content.data)
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

    def _granted(self) -> Iterator[tuple[VaultPath, int]]:
        bounds = self._files.bounds
        for folder in filter(bounds.may_enter, self._index.below("")):
            for name, entry in tuple(self._index.entries(folder).items()):
                path = VaultPath(f"{folder}/{name}" if folder else name)
                if bounds.may_read(path):
                    yield path, entry.size

    def _left_out(self, found: dict[str, str], strangers: int) -> Iterator[tuple[str, str]]:
        """The names that strangers gave are texts of theirs, which a run is not told unasked."""
        for path, why in found.items():
            if self._guard.taint or not self._files.user.strangers.is_place(path):
                yield printable(path), why
        if strangers:
            why = "text of strangers, which list_notes names when asked, and read_note alone reads"
            yield f"({strangers} files)", why

    def _look(self, returned: ArchiveReader, result: CheckinResult) -> list[CheckinAction]:
        left_out = LeftOut()
        files = returned.files(left_out, most=MOST_FILES * 2, largest=LARGEST_FILE)
        found = {path: digest_of(data) for path, data in files}
        result.refused += [(shown(path) or "(the rest)", why) for path, why in left_out.why.items()]
        if left_out.hidden:
            reason = "what begins with a dot stays in the container, and goes with it"
            result.refused.append((f"({left_out.hidden} hidden)", reason))
        acts = acts_of(self._copied, found, left_out.is_known)
        for kind, reason in too_many(acts, len(self._copied)).items():
            result.refused.append((f"({kind})", reason))
            acts = [act for act in acts if act.kind != kind]
        return acts

    async def _do(self, act: CheckinAction, returned: ArchiveReader, result: CheckinResult) -> None:
        try:
            await run_uninterrupted(self._check, act)
            parts = [act]
            if act.source is not None and self._guard.taint:
                # a move that the run may not make itself is proposed as two changes
                new = replace(act, base=None, source=None)
                parts = [new, CheckinAction(act.source, act.base, None)]
            for part in parts:
                await self._write(part, returned, result)
        except StorageFailedError:
            raise
        except (ParachuteError, OSError) as error:
            if isinstance(error, HookRefusedError):
                self._hook_refused(error.message)
            result.refused.append((shown(act.path), str(error)))

    def _check(self, act: CheckinAction) -> None:
        """Raises what says why the act is not for this agent at all, whatever it has read."""
        for path in filter(None, (act.source, act.path)):
            self._files.check_write(path, is_named=True)
        if act.base is None and any("\ud800" <= letter <= "\udfff" for letter in act.path):
            raise PathRefusedError("its name is not UTF-8 text")

    async def _write(
        self, act: CheckinAction, returned: ArchiveReader, result: CheckinResult
    ) -> None:
        data = b""
        if act.digest is not None:
            data = await run_uninterrupted(partial(returned.read, act.path, _LARGEST_WRITE))
        try:
            written = await run_uninterrupted(self._made, act, data)
        except (ConflictError, NotFoundError) as error:
            change, why = self._beside(act, data, error)
        else:
            if isinstance(written, WriteResult):
                if written.changed:
                    result.written.append(written)
                if written.after not in (None, act.digest):
                    result.merged.append(printable(act.path))
                return
            change, why = written.change, written.why
        if change is None or self._guard.put_forward is None:
            result.refused.append((shown(act.path), why))
            return
        try:
            result.suggested.append(await self._guard.put_forward(change, why))
        except (ParachuteError, OSError) as error:
            result.refused.append((shown(act.path), f"{why}; {error}"))

    def _made(self, act: CheckinAction, data: bytes) -> WriteResult | Objection:
        """Raises ConflictError where others wrote in the same place, NotFoundError."""
        if self._files.place(act.path) != act.path:
            raise PathRefusedError(f"{printable(act.path)} is a link now")
        edit = None if act.digest is None else ReplaceAll(data=data)
        is_new = act.kind == "create"
        return self._files.write(
            FileChange(path=act.path, edit=edit, base=act.base, is_new=is_new, source=act.source)
        )

    def _beside(
        self, act: CheckinAction, data: bytes, error: ConflictError | NotFoundError
    ) -> tuple[ProposedChange | None, str]:
        """What is proposed, and why, where others changed the same. Theirs is not quoted."""
        before = self._store.objects.get(act.base) if act.base is not None else None
        why = (
            "others changed it in the same place meanwhile, and theirs stands. This would have "
            f"changed:\n{diff_of(before or b'', data, act.path)[:_MOST_SHOWN]}"
        )
        if act.digest is None:
            return None, why
        base = None
        if isinstance(error, ConflictError) and error.is_known:
            base = act.base if act.kind == "update" else digest_of(error.theirs)
        kind: Literal["create", "update"] = "create" if base is None else "update"
        return ProposedChange(path=act.path, action=kind, base=base, data=data), why


def acts_of(
    copied: Mapping[str, str], found: Mapping[str, str], is_gone: Callable[[str], bool]
) -> list[CheckinAction]:
    """What was done, from digests by path, in an order in which it can be done again.

    `is_gone`: a path that was not found is known to be gone. One that came with the only content
    that went has moved.
    """
    gone = [path for path in copied if path not in found and is_gone(path)]
    came = [path for path in found if path not in copied]
    went, arrived = Counter(map(copied.get, gone)), Counter(map(found.get, came))
    only = {copied[path]: path for path in gone if went[copied[path]] == 1}
    source_of = {path: only.get(found[path]) for path in came if arrived[found[path]] == 1}
    moved = set(source_of.values())
    acts = [
        CheckinAction(VaultPath(path), copied[path], None) for path in gone if path not in moved
    ]
    for path, digest in found.items():
        source = source_of.get(path)
        if source is not None:
            acts.append(CheckinAction(VaultPath(path), copied[source], digest, VaultPath(source)))
        elif copied.get(path) != digest:
            acts.append(CheckinAction(VaultPath(path), copied.get(path), digest))
    return sorted(acts, key=lambda act: (_ORDER.index(act.kind), act.path))


def too_many(acts: Sequence[CheckinAction], copied: int) -> dict[ActKind, str]:
    """Kinds of acts that are too many to be meant: a tree unpacked, or swept away."""
    found: dict[ActKind, str] = {}
    kinds = Counter(act.kind for act in acts)
    deleted, created = kinds["delete"], kinds["create"]
    if deleted > _MOST_DELETED or (deleted > _MOST_TOLD and deleted * 2 > copied):
        found["delete"] = (
            f"{deleted} of {copied} files would go at once, so none does; delete fewer in one call "
            "if that is meant"
        )
    if created > _MOST_CREATED:
        found["create"] = (
            f"{created} new files at once do not become notes; work in /tmp, or make at most "
            f"{_MOST_CREATED} in one call"
        )
    return found


def shown(path: str) -> str:
    """A path that an agent chose, as messages may show it."""
    text = printable(path)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
