"""Text watch: whose text a reader is shown, and whose text a writer leaves.

Strangers' text taints who reads it: a run by its guard, a module's code by its caller's authority.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from parachuted.access.authority import Authority
from parachuted.access.origin import UNTRUSTED, Origin
from parachuted.access.origins import Origins
from parachuted.access.run_records import RunWatch
from parachuted.vault import FileContent, VaultPath


class TextWatch:
    def __init__(
        self,
        run: RunWatch | None,
        authority: Callable[[], Authority],
        origins: Origins | None,
        own: Origin,
        load: Callable[[str], FileContent | None],
    ) -> None:
        """`run` is the guard of a run; for a module it is None, and `origins` says whose a text is.
        `own` is what a module's own texts count as; `load` reads a note that a search found.
        """
        self._run, self._authority = run, authority
        self.origins = origins if run is None else None
        self._own, self._load = own, load

    def read(self, path: str, data: bytes, digest: str) -> None:
        """Record a text, before it is handed out."""
        if self._run is not None:
            self._run.has_read(path, digest, data)
        elif self.origins is not None:
            self._authority().taint.read(path, self.origins.of_text(path, data, digest))

    def may_be_named(self, path: str, *, by_name: bool) -> bool:
        """Whether a run may learn that the file exists; an untrusted name taints it."""
        run = self._run
        if run is None or not run.is_stranger(path, None, None):
            return True
        if not (by_name or run.is_tainted):
            return False
        run.has_read(path, None, None)
        return True

    def read_names(self, paths: Sequence[str]) -> None:
        """Record names, before a module's code gets them: they may be untrusted text too."""
        if self.origins is None or (taint := self._authority().taint):
            return
        if (found := self.origins.first_stranger(paths)) is not None:
            taint.read(*found)

    def visible(self, paths: Sequence[str], *, is_asked: bool = False) -> set[str]:
        """The notes whose words a search or a list may show: all to a module's code, which that
        taints; to a run trusted ones, or all once it is tainted. `is_asked`: a run asks for
        strangers' too.
        """
        run = self._run
        if run is not None and is_asked:
            self._read_all(paths, lambda: run.is_tainted)
        elif run is not None:
            return {path for path in paths if run.is_tainted or self._is_trusted(run, path)}
        elif self.origins is not None:
            self._read_all(paths, lambda: bool(self._authority().taint))
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
        caller = self._authority()
        is_persons = caller.asked_by == "person" and caller.within is None and not caller.runs
        is_claimed = is_own and is_persons and self._run is None and self._own not in UNTRUSTED
        return "you" if is_claimed else "imported"

    def moved(self, source: str, target: str, digest: str) -> None:
        """Record a move that a module made: the file's origin moves along."""
        if self.origins is not None:
            self.origins.moved(source, target, digest)

    def _read_all(self, paths: Sequence[str], is_tainted: Callable[[], bool]) -> None:
        for path in paths:
            if is_tainted():
                return
            if (content := self._load(path)) is not None:
                self.read(path, content.data, content.digest)

    def _is_trusted(self, run: RunWatch, path: str) -> bool:
        content = self._load(path)
        return content is not None and not run.is_stranger(path, content.digest, content.data)
