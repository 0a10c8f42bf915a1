"""Link moves: what the move of a file means for the links of each note."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from parachuted.vault.links import (
    Link,
    leads_straight,
    links_in,
    name_key,
    resolve,
    rewrite_links,
    spelled,
)
from parachuted.vault.note import ParsedNote


class FileNames:
    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._by_name: dict[str, list[str]] = {}
        for path in self._paths:
            self._by_name.setdefault(name_key(path.rpartition("/")[2]), []).append(path)

    def by_name(self, key: str) -> Iterable[str]:
        return self._by_name.get(key, ())

    def exists(self, path: str) -> bool:
        return path in self._paths

    def moved(self, source: str, target: str) -> FileNames:
        return FileNames((self._paths - {source}) | {target})


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRewrites:
    """`are_all`: whether `before` and `after` are all files of the vault."""

    source: str
    target: str
    before: FileNames
    after: FileNames
    are_all: bool = True

    @classmethod
    def of_move(
        cls, source: str, target: str, files: Iterable[str], *, are_all: bool = True
    ) -> LinkRewrites:
        before = FileNames({source, *files})
        after = before.moved(source, target)
        return cls(source=source, target=target, before=before, after=after, are_all=are_all)

    def rewritten(self, note: ParsedNote, path: str) -> tuple[bytes, int]:
        """The note that was at `path` with links meaning what they did, and how many could not."""
        left = 0

        def replaced(link: Link) -> str | None:
            nonlocal left
            want = self._wanted(link, path)
            if want is None:
                return None
            was, now = (path, self._was(want)), (self._now(path), want)
            text = spelled(
                link, was=was, now=now, names=self.after, data=note.data, whole=not self.are_all
            )
            left += text is None
            return text

        return rewrite_links(note, replaced), left

    def count(self, note: ParsedNote, path: str) -> int:
        return sum(self._wanted(link, path) is not None for link in links_in(note))

    def sources(self, linking: Callable[[str], Iterable[str]]) -> set[str]:
        """Notes with links to the note, or to a file whose name it takes from now on."""
        name = name_key(self.target.rpartition("/")[2])
        rivals = {
            rival for key in (name, name.rpartition(".")[0]) for rival in self.before.by_name(key)
        }
        return {note for file in {self.source, *rivals} for note in linking(file)} | {self.source}

    def _wanted(self, link: Link, path: str) -> str | None:
        """The file to name from now on, where the link does not do so as it stands."""
        was = resolve(link, path, self.before)
        if was is None:
            return None
        want = self._now(was)
        is_straight = leads_straight(link, path, was)
        stays = resolve(link, self._now(path), self.after) == want and (
            not is_straight or leads_straight(link, self._now(path), want)
        )
        return None if stays else want

    def _now(self, path: str) -> str:
        return self.target if path == self.source else path

    def _was(self, path: str) -> str:
        return self.source if path == self.target else path
