"""Text watch: whose texts are read and written through a bounded vault, by an agent's run or by a
module's own code. Reading a stranger's text taints the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from parachuted.access.authority import Authority
from parachuted.access.origin import UNTRUSTED, Origin
from parachuted.access.origins import Origins
from parachuted.access.run_watch import RunWatch
from parachuted.vault import FileContent, VaultPath


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
        self._run, self._authority, self._origins = run, authority, origins
        self._own, self._load = own, load

    def read(self, path: str, content: FileContent) -> None:
        """Record a text, before it is handed out."""
        self.shown(path, content.data, content.digest)

    def shown(self, path: str, data: bytes, digest: str) -> None:
        """The same for the text of a file in an error."""
        if self._run is not None:
            self._run.has_read(path, digest, data)
        elif self._origins is not None:
            origin = self._origins.of_text(path, data, digest)
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
        if self._origins is None or (taint := self._authority().taint):
            return
        if (found := self._origins.first_stranger(paths)) is not None:
            taint.read(*found)

    def hits(self, paths: Sequence[str]) -> set[str]:
        """The notes whose words a search may show: all to a module's code, which that taints; to a
        run trusted ones, or all once it is tainted.
        """
        run = self._run
        if run is not None:
            return {path for path in paths if run.is_tainted or self._is_trusted(run, path)}
        for path in paths:
            if self._origins is None or self._authority().taint:
                break
            if (content := self._load(path)) is not None:
                self.read(path, content)
        return set(paths)

    def writing(self, path: VaultPath) -> AbstractContextManager[Callable[[str | None], None]]:
        """Around a write: the origin of what is written is recorded."""
        if self._run is not None:
            return self._run.writing(path)
        if self._origins is None:
            return nullcontext(lambda _digest: None)
        taint = self._authority().taint
        return self._origins.writing(path, taint.origin if taint else self._own)

    def moved(self, source: str, target: str, digest: str) -> None:
        """Record a move that a module made: the file's origin moves along."""
        if self._origins is not None:
            self._origins.moved(source, target, digest)

    def _is_trusted(self, run: RunWatch, path: str) -> bool:
        content = self._load(path)
        return content is not None and not run.is_stranger(path, content.digest, content.data)
