"""Vault reading: what a module, or a run of an agent, may see of the vault, checked at
every call.

Where a path leads is resolved first, and both ends are checked. Then the file is opened by
descriptor without following links, so the kernel refuses a link swapped in meanwhile. Reading
untrusted text taints the authority that the reader acts with.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import Literal

from parachuted.access.authority import Authority
from parachuted.access.notes import Hit, Hits, Paths, Writer
from parachuted.access.origin import UNTRUSTED, Origin
from parachuted.access.origins import Origins
from parachuted.access.paths import is_code, is_control, is_hidden
from parachuted.access.private_text import without_private
from parachuted.access.run_records import RunWatch
from parachuted.errors import (
    ActRefusedError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
)
from parachuted.keys import PathGlob
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.runs.bounds import ModuleBounds
from parachuted.search import QueryError, Search, parse_query
from parachuted.vault import BRINGS_BACK, FileContent, Store, VaultIndex, VaultPath, printable


class TextWatch:
    """For a run, the run decides; for a module, `origins` says whose a text is, and the taint is
    its authority's.
    """

    def __init__(
        self,
        run: RunWatch | None,
        authority: Callable[[], Authority],
        origins: Origins | None,
        own: Origin,
        load: Callable[[str], FileContent | None],
    ) -> None:
        """`own` is what a module's own texts count as; `load` reads a note that a search found."""
        self._run, self._authority, self.origins = run, authority, origins
        self._own, self._load = own, load

    def read(self, path: str, content: FileContent) -> None:
        """Record a text, before it is handed out."""
        self.shown(path, content.data, content.digest)

    def shown(self, path: str, data: bytes, digest: str) -> None:
        if self._run is not None:
            self._run.has_read(path, digest, data)
        elif self.origins is not None:
            origin = self.origins.of_text(path, data, digest)
            if origin in UNTRUSTED:
                self._authority().taint.read(path, origin)

    def may_be_named(self, path: str, *, by_name: bool) -> bool:
        """Whether a run may learn that the file exists; an untrusted name taints it."""
        run = self._run
        if run is None or not run.is_stranger(path, None, None):
            return True
        if not (by_name or run.is_tainted):
            return False
        run.has_read(path, None, None)
        return True

    def names(self, paths: Sequence[str]) -> None:
        """Record names, before a module's code gets them: they may be untrusted text too."""
        if self.origins is None or (taint := self._authority().taint):
            return
        if (found := self.origins.first_stranger(paths)) is not None:
            taint.read(*found)

    def hits(self, paths: Sequence[str]) -> set[str]:
        """The notes whose words a search may show: all to a module's code, which that taints; to a
        run trusted ones, or all once it is tainted.
        """
        run = self._run
        if run is not None:
            return {path for path in paths if run.is_tainted or self._is_trusted(run, path)}
        for path in paths:
            if self.origins is None or self._authority().taint:
                break
            if (content := self._load(path)) is not None:
                self.read(path, content)
        return set(paths)

    @property
    def origin(self) -> Origin:
        """What is written now counts as."""
        if self._run is not None:
            return self._run.origin
        taint = self._authority().taint
        return taint.origin if taint else self._own

    def writing(
        self, path: VaultPath, origin: Origin | None = None
    ) -> AbstractContextManager[Callable[[str | None], None]]:
        """Around a write: whose text it leaves; without an `origin`, that of what was read."""
        if self._run is not None:
            return self._run.writing(path)
        if self.origins is None:
            return nullcontext(lambda _digest: None)
        return self.origins.writing(path, origin or self.origin)

    def origin_of_import(self, *, is_own: bool) -> Origin:
        """What an import counts as. The person's own words can be claimed by the person alone, at
        whose request nothing but a module of theirs works.
        """
        asked = self._authority()
        is_persons = asked.asked_by == "person" and asked.within is None and not asked.runs
        is_claimed = is_own and is_persons and self._run is None and self._own not in UNTRUSTED
        return "you" if is_claimed else "imported"

    def moved(self, source: str, target: str, digest: str) -> None:
        """Record a move that a module made: the file's origin moves along."""
        if self.origins is not None:
            self.origins.moved(source, target, digest)

    def _is_trusted(self, run: RunWatch, path: str) -> bool:
        content = self._load(path)
        return content is not None and not run.is_stranger(path, content.digest, content.data)


_LARGEST_READ = 64 << 20
_MOST_FOUND = 100
_REMEMBERED = 10_000
_AT_ONCE = 2_000


class VaultReading:
    """Reads for one module, or for one run of its agent, on behalf of the present authority."""

    def __init__(
        self,
        store: Store,
        index: VaultIndex,
        search: Search,
        bounds: ModuleBounds,
        *,
        authority: Callable[[], Authority],
        run: RunWatch | None = None,
        origins: Origins | None = None,
        own: Origin = "agent",
    ) -> None:
        """`run` watches over a run of an agent; `authority` finds on whose behalf it acts now.

        For a module, `origins` says whose texts are a stranger's, and `own` what those count as
        that it writes itself.
        """
        self._store, self._index, self._search = store, index, search
        self._own, self._authority, self._run = bounds, authority, run
        self._watch = TextWatch(run, authority, origins if run is None else None, own, self._hit)
        self.strangers_left_out = 0
        self._bases: OrderedDict[tuple[str, str], None] = OrderedDict()

    @property
    def _bounds(self) -> ModuleBounds:
        authority = self._authority()
        authority.check()
        bounds = self._own.limited(authority.reads, authority.writes)
        is_for_agents = self._run is not None or authority.within is not None
        if is_for_agents or authority.is_limited:
            bounds = replace(bounds, hides=self._store.root.ignore.hides)
        return bounds

    async def read(self, path: str) -> str:
        data = await self.read_bytes(path)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise EditRefusedError(
                f"{printable(path)} is not UTF-8 text; read_bytes reads it"
            ) from error

    async def read_bytes(self, path: str) -> bytes:
        return (await self._content(path)).data

    async def exists(self, path: str) -> bool:
        try:
            await run_uninterrupted(self._size, VaultPath.parse(path))
        except (NotFoundError, ActRefusedError, PathRefusedError):
            return False
        return True

    async def digest(self, path: str) -> str:
        """What names the content now; it is kept, as the base of a later write."""
        return (await self._content(path, keep=True)).digest

    async def written_by(self, path: str) -> Writer:
        """Who wrote the present content: `person`, `key` (one that may not read and write
        everything), `agent` or `module`.
        """
        content = await self._content(path)
        real = await run_uninterrupted(self._found, VaultPath.parse(path))
        return await run_uninterrupted(self._writer, real, content.digest)

    def _writer(self, real: VaultPath, digest: str) -> Writer:
        writes = self._store.history.writes_of(real)[::-1]
        if not writes or writes[0].after != digest:
            return "person"
        author = writes[0].author
        if author.by in BRINGS_BACK and not author.key:  # the text is whose it was before
            wrote = (one.author for one in writes if one.after == digest)
            author = next((one for one in wrote if one.by not in BRINGS_BACK), author)
        by = author.by
        if author.key:
            return "key"
        if by == "person" or by in BRINGS_BACK:
            return "person"
        return "module" if by.startswith("module:") and "/" not in by else "agent"

    async def read_with_digest(self, path: str) -> tuple[bytes, str]:
        content = await self._content(path, keep=True)
        return content.data, content.digest

    async def list(self, pattern: str = "**", *, looks: bool = False) -> Paths:
        """The paths of all matching readable files, from the index; links are not included.
        `looks`: the index follows the folder that the pattern begins with first.

        An agent's run sees names that untrusted sources gave only if the pattern begins with a
        folder, like `Inbox/**`, and that taints it; otherwise they are left out and counted in
        `strangers_left_out`.
        """
        folder = _glob(pattern).folder
        if looks and folder:
            await self._store.notice([f"{VaultPath.parse(folder)}/"])
        return [printable(path) for path in await self._listed(pattern)]

    async def scope(self) -> str:
        """A word for what the caller may read: "" for all that the module or run may."""
        authority = self._authority()
        authority.check()
        return authority.reads.word

    async def readable(self, paths: Sequence[str]) -> Paths:
        """Those that the caller may read, whether or not there are such files."""
        bounds, found = self._bounds, list[str]()
        for first in range(0, len(paths), _AT_ONCE):
            found += filter(bounds.may_read, paths[first : first + _AT_ONCE])
            await asyncio.sleep(0)  # the loop is everybody's
        return found

    async def _listed(self, pattern: str) -> Paths:
        wanted, bounds = _glob(pattern), self._bounds
        named = bool(wanted.folder)
        self.strangers_left_out = 0

        def may(path: str) -> bool:
            if not (wanted.matches(path) and bounds.may_read(path)):
                return False
            may_be_named = self._watch.may_be_named(path, by_name=named)
            self.strangers_left_out += not may_be_named
            return may_be_named

        found = await self._files(
            wanted.folder, lambda folder: wanted.enters(folder) and bounds.may_enter(folder), may
        )
        self._watch.names(found)
        return sorted(found, key=printable)

    async def _files(
        self, top: str, enters: Callable[[str], bool], may: Callable[[str], bool]
    ) -> Paths:
        """The files below that folder, from the index, which belongs to the loop's thread."""
        found: list[str] = []
        looked = 0
        for folder in self._index.below(top):
            if not enters(folder):
                continue
            for name in tuple(self._index.files(folder)):
                path = f"{folder}/{name}" if folder else name
                if may(path):
                    found.append(path)
                looked += 1
                if looked % _AT_ONCE == 0:
                    await asyncio.sleep(0)  # the loop is everybody's
        return found

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
        found = await asyncio.to_thread(self._search.find, parsed, most, sees)
        hits = [hit for hit in found.hits if sees(hit.path)]
        kept = await run_uninterrupted(self._watch.hits, [hit.path for hit in hits])
        self.strangers_left_out = len(hits) - len(kept)
        hits = [hit for hit in hits if hit.path in kept]
        return [Hit(path=printable(hit.path), title=hit.title, snippet=hit.snippet) for hit in hits]

    async def _content(self, path: str, *, keep: bool = False) -> FileContent:
        target = VaultPath.parse(path)
        beyond = await self._beyond("read", target)
        return await run_uninterrupted(lambda: self._read(target, keep=keep, beyond=beyond))

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
        never_for = self._bounds.hides
        if any(never(one) or never_for(one) or not limit.sees(one) for one in files):
            return ()
        for one in files:
            if not await self._run.beyond(what, one):
                return ()
        return files

    def _real(self, path: VaultPath, *, is_named: bool = False) -> VaultPath:
        root = self._store.root
        return (
            (root.resolve(path.folder) / path.name if path.folder else path)
            if is_named
            else root.resolve(path)
        )

    def _read(
        self, path: VaultPath, *, keep: bool = False, see: bool = False, beyond: Sequence[str] = ()
    ) -> FileContent:
        """`keep`, or `see` while the machine goes on: the text may be the base of a later write."""
        real = self._found(path, beyond)
        with self._store.root.straight():
            self._refuse_large(path, real)
            content = self._store.read(real, keep=keep)
        if see:
            with suppress(OSError):
                self._store.bases.see([(real, content.data)])
        if keep or see:
            self._remember(real, content.digest)
        self._watch.read(real, content)
        return self._shown(real, content)

    def _sees_private(self, real: VaultPath) -> bool:
        """Whether its private parts are for this reader: a module's own code that may write it,
        outside an agent's run.
        """
        within = self._authority().within
        return self._run is None and within is None and self._own.may_write(real)

    def _shown(self, real: VaultPath, content: FileContent) -> FileContent:
        """What of a note is for this reader; the digest stays that of the whole."""
        if self._sees_private(real):
            return content
        data = without_private(content.data)
        return content if data is content.data else replace(content, data=data)

    def _hit(self, path: str) -> FileContent | None:
        """The note that a search found; None: it is gone, too large, or a link by now."""
        with suppress(ParachuteError), self._store.root.straight():
            self._refuse_large(VaultPath(path), VaultPath(path))
            return self._store.read(VaultPath(path))
        return None

    def _refuse_large(self, path: VaultPath, real: VaultPath) -> None:
        if self._store.root.size(real) > _LARGEST_READ:
            raise EditRefusedError(
                f"{printable(path)} is larger than {_LARGEST_READ >> 20} MB, which is not read at "
                "once"
            )

    def _size(self, path: VaultPath) -> int:
        real = self._found(path)
        with self._store.root.straight():
            return self._store.root.size(real)

    def _found(self, path: VaultPath, beyond: Sequence[str] = ()) -> VaultPath:
        real = self._store.root.resolve(path)
        self._bounds.with_files("read", beyond).check_read(path, real)
        return real

    def _remember(self, path: VaultPath, digest: str) -> None:
        self._bases[path, digest] = None
        while len(self._bases) > _REMEMBERED:
            self._bases.popitem(last=False)


def _glob(pattern: str) -> PathGlob:
    try:
        return PathGlob(f"{pattern}**" if pattern.endswith("/") else pattern)
    except ValueError as error:
        raise PathRefusedError(str(error)) from error
