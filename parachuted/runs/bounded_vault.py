"""The vault as a module sees it, limited by its permissions at every call.

Where a path leads is resolved first, and both ends are checked. Then the file is opened by
descriptor without following links, so the kernel refuses a link swapped in meanwhile. Over HTTP the
caller's key decides whether a route is reached; what the handler then does is limited by the
module's permissions and by the caller's authority, including the key's paths. Reading untrusted
text taints that authority, and what is written afterwards is recorded as untrusted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from parachuted.access.authority import Authority, current
from parachuted.access.hit import Hit, Hits, Paths
from parachuted.access.origin import UNTRUSTED, Origin
from parachuted.access.origins import Origins
from parachuted.access.paths import is_code, is_control, is_hidden
from parachuted.access.run_watch import ProposedChange, RunWatch
from parachuted.audit.events import CALLER, AuditCaller, AuditRecorder, NullAuditRecorder
from parachuted.bubbling import watched_beyond
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.keys import PathGlob
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.bounds import ModuleBounds
from parachuted.search import QueryError, Search, parse_query
from parachuted.vault import (
    AppendToSection,
    Author,
    DeleteKey,
    Edit,
    FileContent,
    ReplaceAll,
    ReplaceSection,
    SetKey,
    Store,
    VaultIndex,
    VaultPath,
    VaultRoot,
    WriteResult,
    apply_edit,
    printable,
)

_LARGEST_READ = 64 << 20
_LARGEST_WRITE = 16 << 20
_MOST_FOUND = 100
_REMEMBERED = 10_000
_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultParts:
    """What the vault is read, written and searched with."""

    root: VaultRoot
    store: Store
    index: VaultIndex
    search: Search
    notice: Callable[[Iterable[str]], Awaitable[None]]
    audit: AuditRecorder = field(default_factory=NullAuditRecorder)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Objected:
    """A change that the run may not make now."""

    run: RunWatch
    change: ProposedChange
    why: str


class BoundedVault:
    """`VaultAccess` for one module, or for one run of its agent.

    `author` returns the present author and causes.
    """

    def __init__(  # noqa: PLR0913  the parts of a part
        self,
        parts: VaultParts,
        bounds: ModuleBounds,
        author: Callable[[], Author],
        caller: AuditCaller,
        *,
        wrote: Callable[[WriteResult], None] = lambda _written: None,
        run: RunWatch | None = None,
        authority: Callable[[], Authority] = current,
        origins: Origins | None = None,
        own: Origin = "agent",
    ) -> None:
        """`wrote` is told of each write that was made; `caller` is whom the audit tells of; `run`
        watches over a run of an agent.

        `authority` finds on whose behalf it acts now. For a module, `origins` says whose texts are
        a stranger's, and `own` what those count as that it writes itself.
        """
        self._parts, self._own, self._author, self._caller, self._wrote = (
            parts,
            bounds,
            author,
            caller,
            wrote,
        )
        self._run, self._authority, self._origins, self._own_origin = run, authority, origins, own
        self.strangers_left_out = 0
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()

    @property
    def _bounds(self) -> ModuleBounds:
        authority = self._authority()
        authority.check()
        return self._own.limited(authority.reads, authority.writes)

    async def read(self, path: str) -> str:
        """The text of a note."""
        data = await self.read_bytes(path)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise EditRefusedError(
                f"{printable(path)} is not UTF-8 text; read_bytes reads it"
            ) from error

    async def read_bytes(self, path: str) -> bytes:
        """What is in a file."""
        return (await self._content(path)).data

    async def exists(self, path: str) -> bool:
        """Whether there is such a file, and they may read it."""
        try:
            await run_uninterrupted(self._size, VaultPath.parse(path))
        except (NotFoundError, ActRefusedError, PathRefusedError):
            return False
        return True

    async def digest(self, path: str) -> str:
        """What names the content now; it is kept, as the base of a later write."""
        return (await self._content(path, keep=True)).digest

    async def read_with_digest(self, path: str) -> tuple[bytes, str]:
        """Both, of the same moment."""
        content = await self._content(path, keep=True)
        return content.data, content.digest

    async def list(self, pattern: str = "**") -> Paths:
        """The paths of all matching readable files, from the index; links are not included.

        An agent's run sees names that untrusted sources gave only if the pattern begins with a
        folder, like `Inbox/**`, and that taints it; otherwise they are left out and counted in
        `strangers_left_out`.
        """
        wanted, bounds = _glob(pattern), self._bounds
        found: list[str] = []
        index, looked, named = self._parts.index, 0, bool(_beginning(wanted))
        self.strangers_left_out = 0
        for folder in index.below(_beginning(wanted)):
            if not (wanted.enters(folder) and bounds.may_enter(folder)):
                continue
            for name in tuple(index.files(folder)):
                path = f"{folder}/{name}" if folder else name
                if (
                    wanted.matches(path)
                    and bounds.may_read(path)
                    and self._may_be_named(path, by_name=named)
                ):
                    found.append(path)
                looked += 1
                if looked % _AT_ONCE == 0:
                    await asyncio.sleep(0)  # the loop is everybody's
        if self._run is None:
            self._mark_names(found)
        return sorted(map(printable, found))

    async def search(self, query: str, limit: int = 20) -> Hits:
        """The best matches for these words among readable notes.

        For an agent's run, untrusted notes are left out and counted in `strangers_left_out`, unless
        it has read some already.
        """
        try:
            parsed = parse_query(query)
        except QueryError as error:
            raise ActRefusedError(str(error)) from error
        most, sees = max(1, min(limit, _MOST_FOUND)), self._bounds.may_read
        found = await asyncio.to_thread(self._parts.search.find, parsed, most, sees)
        hits = [hit for hit in found.hits if sees(hit.path)]
        if self._run is None:
            await run_uninterrupted(self._mark_hits, [hit.path for hit in hits])
        else:
            kept = await run_uninterrupted(self._not_strangers, [hit.path for hit in hits])
            self.strangers_left_out = len(hits) - len(kept)
            hits = [hit for hit in hits if hit.path in kept]
        return [Hit(path=printable(hit.path), title=hit.title, snippet=hit.snippet) for hit in hits]

    async def write(self, path: str, text: str, *, base: str | None = None) -> str:
        """Make the note this text, and return its digest.

        What others wrote since `base` is merged, or it is a conflict.
        """
        return await self.write_bytes(path, _encoded(text), base=base)

    async def write_bytes(self, path: str, data: bytes, *, base: str | None = None) -> str:
        """Write these bytes and return their digest.

        A change by others since `base` is a conflict unless both are text.
        """
        _check_size(data)
        return await self._written(
            path,
            lambda real: self._put(real, data, base),
            lambda real: self._planned(real, ReplaceAll(data=data), base),
        )

    async def create(self, path: str, text: str) -> str:
        """Make a new note; ConflictError when there is one."""
        data = _encoded(text)
        plan = ProposedChange(path="", action="create", base=None, data=data)
        return await self._written(
            path, lambda real: self._create(real, data), lambda real: replace(plan, path=str(real))
        )

    async def append(self, path: str, section: str, text: str) -> str:
        """Put text at the end of a section's own text; the section is made where it is missing."""
        return await self.edit(path, AppendToSection(section=section, content=text, create=True))

    async def replace_section(
        self, path: str, section: str, text: str, *, base: str | None = None
    ) -> str:
        """Give a section another text; it is made where it is missing."""
        return await self.edit(
            path,
            ReplaceSection(section=section, content=text, create=True, is_only=True),
            base=base,
        )

    async def set_key(self, path: str, key: str, value: object) -> str:
        """Set one key of the frontmatter; None takes it out."""
        return await self.edit(
            path, DeleteKey(key=key) if value is None else SetKey(key=key, value=_value(value))
        )

    async def edit(self, path: str, edit: Edit, *, base: str | None = None) -> str:
        """Change one part of a note."""
        return await self._written(
            path,
            lambda real: self._edited(real, edit, base),
            lambda real: self._planned(real, edit, base),
        )

    async def delete(self, path: str) -> None:
        """Remove a file; its content is kept. A link is not removed, nor what it leads to."""
        await self._written(
            path,
            lambda real: self._parts.store.delete(real, self._author()),
            self._gone,
            is_gone=True,
        )

    async def _content(self, path: str, *, keep: bool = False) -> FileContent:
        target = VaultPath.parse(path)
        beyond = await self._beyond("read", target)
        return await run_uninterrupted(lambda: self._read(target, keep=keep, beyond=beyond))

    async def _written(
        self,
        path: str,
        act: Callable[[VaultPath], WriteResult],
        plan: Callable[[VaultPath], ProposedChange],
        *,
        is_gone: bool = False,
    ) -> str:
        """`plan` describes the change, for a run that may not make it now."""
        target = VaultPath.parse(path)
        beyond = await self._beyond("write", target, is_named=is_gone)
        written = await run_uninterrupted(
            self._write, target, act, plan, beyond=beyond, is_gone=is_gone
        )
        if isinstance(written, _Objected):
            raise ActRefusedError(await written.run.instead(written.change, written.why))
        if written.changed:
            self._wrote(written)
            await self._parts.notice([written.path])
        return written.after or ""

    def _write(
        self,
        path: VaultPath,
        act: Callable[[VaultPath], WriteResult],
        plan: Callable[[VaultPath], ProposedChange],
        *,
        beyond: Sequence[str],
        is_gone: bool,
    ) -> WriteResult | _Objected:
        """`is_gone`: the file is to be removed: the name itself is meant, so a link that has it is
        not followed.
        """
        if self._parts.audit.refusal is not None:
            raise StorageFailedError(self._parts.audit.refusal)
        root, run = self._parts.root, self._run
        self._authority().check_circle(f"writing {printable(path)}")
        real = self._real(path, is_named=is_gone)
        self._bounds.with_files("write", beyond).check_write(path, real)
        if run is not None and (why := run.objection(real)) is not None:
            with root.straight():
                return _Objected(run=run, change=plan(real), why=why)
        with root.straight(), self._as_caller():
            try:
                written = act(real) if is_gone else self._recorded(real, act)
            except ConflictError as error:
                raise self._as_seen(real, error) from None
        if written.after is not None:
            self._remember(written.path, written.after)
        return written

    def _recorded(self, real: VaultPath, act: Callable[[VaultPath], WriteResult]) -> WriteResult:
        """Record who wrote the text: untrusted, if the writer has read untrusted text or is not
        trusted.
        """
        with self._writing(real) as wrote:
            written = act(real)
            wrote(written.after if written.changed else None)
        return written

    def _writing(self, real: VaultPath) -> AbstractContextManager[Callable[[str | None], None]]:
        if self._run is not None:
            return self._run.writing(real)
        if self._origins is None:
            return nullcontext(lambda _digest: None)
        taint = self._authority().taint
        return self._origins.writing(real, taint.origin if taint else self._own_origin)

    def _planned(self, real: VaultPath, edit: Edit, base: str | None) -> ProposedChange:
        """What an edit would do.

        A whole text was decided on its base; a part of one is put where it belongs now.
        """
        try:
            before = self._parts.store.read(real, keep=True)
        except NotFoundError:
            if base is not None or not isinstance(edit, ReplaceAll):
                raise
            return ProposedChange(path=str(real), action="create", base=None, data=edit.data)
        if base is not None and base != before.digest and (real, base) not in self._told:
            raise NotFoundError(
                f"the text this was decided on ({base[:12]}) is not one that was read here; read "
                f"{printable(real)} again"
            )
        told = base if base is not None and isinstance(edit, ReplaceAll) else before.digest
        return ProposedChange(
            path=str(real), action="update", base=told, data=apply_edit(edit, before.data)
        )

    def _gone(self, real: VaultPath) -> ProposedChange:
        return ProposedChange(
            path=str(real),
            action="delete",
            base=self._parts.store.read(real, keep=True).digest,
            data=None,
        )

    async def _beyond(
        self, what: Literal["read", "write"], path: VaultPath, *, is_named: bool = False
    ) -> Sequence[str]:
        """Ask a person about the files that this action needs outside the bounds.

        Never for programs' files, nor for what the caller's key does not reach.
        """
        if self._run is None:
            return ()
        real = await run_uninterrupted(lambda: self._real(path, is_named=is_named))
        may = self._bounds.may_read if what == "read" else self._bounds.may_write
        files = [one for one in dict.fromkeys((path, real)) if not may(one)]
        never = is_control if what == "write" else (lambda one: is_hidden(one) or is_code(one))
        limit = self._authority().reads if what == "read" else self._authority().writes
        if any(never(one) or not limit.sees(one) for one in files):
            return ()
        for one in files:
            if not await self._run.beyond(what, one):
                return ()
        return files

    def _real(self, path: VaultPath, *, is_named: bool = False) -> VaultPath:
        root = self._parts.root
        return (
            (root.resolve(path.folder) / path.name if path.folder else path)
            if is_named
            else root.resolve(path)
        )

    def _may_be_named(self, path: str, *, by_name: bool) -> bool:
        """Whether a run may learn that the file exists; an untrusted name taints it."""
        run = self._run
        if run is None:
            return True
        if not run.is_stranger(path, None, None):
            return True
        if not (by_name or run.is_tainted):
            self.strangers_left_out += 1
            return False
        run.has_read(path, None, None)
        return True

    def _not_strangers(self, paths: Sequence[str]) -> set[str]:
        """The notes that a run may see: trusted ones, or any once it is tainted."""
        kept, run = set(), self._run
        for path in paths:
            if run is None or run.is_tainted:
                kept.add(path)
                continue
            with (
                suppress(ParachuteError),
                self._parts.root.straight(),
            ):  # it is gone, or a link by now: not shown
                self._refuse_large(VaultPath(path), VaultPath(path))
                content = self._parts.store.read(VaultPath(path))
                if not run.is_stranger(path, content.digest, content.data):
                    kept.add(path)
        return kept

    def _mark(self, path: str, digest: str, data: bytes) -> None:
        """Taint the authority, before the module gets that text."""
        if self._origins is None:
            return
        origin = self._origins.of_text(path, data, digest)
        if origin in UNTRUSTED:
            self._authority().taint.read(path, origin)

    def _mark_names(self, paths: Iterable[str]) -> None:
        """Taint the authority, before the module gets these names, which may be untrusted
        text too.
        """
        taint = self._authority().taint
        if (
            self._origins is not None
            and not taint
            and (found := self._origins.first_stranger(paths)) is not None
        ):
            taint.read(*found)

    def _mark_hits(self, paths: Sequence[str]) -> None:
        """A search shows words of each note that it finds."""
        for path in paths if self._origins is not None and not self._authority().taint else ():
            with suppress(ParachuteError), self._parts.root.straight():  # it is gone by now
                self._refuse_large(VaultPath(path), VaultPath(path))
                content = self._parts.store.read(VaultPath(path))
                self._mark(path, content.digest, content.data)

    def _put(self, real: VaultPath, data: bytes, base: str | None) -> WriteResult:
        try:
            return self._edited(real, ReplaceAll(data=data), base)
        except NotFoundError:
            if base is not None:
                raise
        return self._create(real, data)

    def _create(self, real: VaultPath, data: bytes) -> WriteResult:
        self._refuse_watching(real, b"", data)
        return self._parts.store.create(real, data, self._author())

    def _edited(self, real: VaultPath, edit: Edit, base: str | None) -> WriteResult:
        self._refuse_large(real, real)
        before = self._parts.store.read(real)
        if base is not None and base != before.digest and (real, base) not in self._told:
            # Any text that is kept can be named by its digest, and what comes of merging with it
            # tells of it.
            raise NotFoundError(
                f"the text this was decided on ({base[:12]}) is not one that was read here; read "
                f"{printable(real)} again"
            )
        with suppress(
            NotFoundError, EditRefusedError
        ):  # what cannot be applied to this text may be to its base; the store says
            self._refuse_watching(real, before.data, apply_edit(edit, before.data))
        return self._parts.store.edit(real, edit, self._author(), base=base)

    def _refuse_watching(self, path: VaultPath, before: bytes, after: bytes) -> None:
        """What a note watches, a curator reads and writes down in it."""
        beyond = watched_beyond(self._bounds.reads, path, before, after)
        if beyond is not None:
            raise ActRefusedError(
                f"{printable(path)} may not watch {printable(beyond)}: {self._bounds.who} may not "
                "read all of that"
            )

    def _read(
        self, path: VaultPath, *, keep: bool = False, beyond: Sequence[str] = ()
    ) -> FileContent:
        real = self._found(path, beyond)
        with self._parts.root.straight():
            self._refuse_large(path, real)
            content = self._parts.store.read(real, keep=keep)
        if keep:
            self._remember(real, content.digest)
        if self._run is not None:
            self._run.has_read(real, content.digest, content.data)
        else:
            self._mark(real, content.digest, content.data)
        return content

    def _refuse_large(self, path: VaultPath, real: VaultPath) -> None:
        if self._parts.root.size(real) > _LARGEST_READ:
            raise EditRefusedError(
                f"{printable(path)} is larger than {_LARGEST_READ >> 20} MB, which is not read at "
                "once"
            )

    def _size(self, path: VaultPath) -> int:
        real = self._found(path)
        with self._parts.root.straight():
            return self._parts.root.size(real)

    def _found(self, path: VaultPath, beyond: Sequence[str] = ()) -> VaultPath:
        real = self._parts.root.resolve(path)
        self._bounds.with_files("read", beyond).check_read(path, real)
        return real

    def _remember(self, path: VaultPath, digest: str) -> None:
        self._told[path, digest] = None
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)

    def _as_seen(self, path: VaultPath, error: ConflictError) -> ConflictError:
        """The conflict with their own text, and the other one if they may read it."""
        is_known = error.is_known and self._bounds.may_read(path)
        return ConflictError(
            error.message,
            base=b"",
            ours=error.ours,
            theirs=error.theirs if is_known else b"",
            is_known=is_known,
        )

    @contextmanager
    def _as_caller(self) -> Iterator[None]:
        """The audit tells of the module, for the request that it answers."""
        token = CALLER.set(self._caller._replace(request_id=self._authority().request_id))
        try:
            yield
        finally:
            CALLER.reset(token)


def _glob(pattern: str) -> PathGlob:
    try:
        return PathGlob(f"{pattern}**" if pattern.endswith("/") else pattern)
    except ValueError as error:
        raise PathRefusedError(str(error)) from error


def _beginning(glob: PathGlob) -> str:
    """The folder in which all lies that the pattern can mean."""
    names = glob.text.split("/")[:-1]
    stars = next(
        (number for number, name in enumerate(names) if "*" in name or "?" in name), len(names)
    )
    return "/".join(names[:stars])


def _check_size(data: bytes) -> None:
    if len(data) > _LARGEST_WRITE:
        raise EditRefusedError(f"it is larger than {_LARGEST_WRITE >> 20} MB; nothing was written")


def _encoded(text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(
            f"a note is written as text, not as {type(text).__name__}; write_bytes writes bytes"
        )
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EditRefusedError("the text holds characters that are no text") from error
    _check_size(data)
    return data


def _value(value: object) -> str | float | bool | list[str]:
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return list(value)
    raise EditRefusedError("a key takes a text, a number, true or false, or a list of texts")
