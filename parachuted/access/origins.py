"""Origins: where each text of the vault came from, as far as that decides what who has read it may do.

A text is as little trusted as the least of these says: the folders that a setting names, its own frontmatter's `origin`, and the record of
what a run that had read strangers' texts wrote. So trust is only ever lost along the way, as in Denning's lattice (1976). A text that was
recorded is known again by its digest, so that a copy, or a file that moved while nobody looked, is not trusted either. An edit by a
person does not clear the record, since most of the text may still be a stranger's; `trust` does, which is a person's own act.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import cast

from parachuted.access.origin import UNTRUSTED, Origin
from parachuted.keys import Glob
from parachuted.state import State
from parachuted.vault import digest_of, parse_note

DEFAULT_UNTRUSTED = ("Inbox/**", "Clippings/**", "Imports/**")
_MOST_DIGESTS = 50
_TRUSTED = "trusted"
_EMPTY = digest_of(b"")


class Origins:
    """Answers where texts came from. Threads may share it; changes are durable when they return, or raise StorageFailedError."""

    def __init__(self, state: State, untrusted: Iterable[str] = DEFAULT_UNTRUSTED) -> None:
        """`untrusted` are patterns of paths, as the setting `agent.untrusted` names them. Raises ValueError for what is no pattern."""
        self._globs = tuple(map(Glob, untrusted))
        self._table = state.table("origins")
        self._lock = threading.Lock()
        self._by_digest: dict[str, Origin] = {}
        state.on_undone(self._learn)
        self._learn()

    def of(self, path: str, digest: str | None = None, frontmatter_origin: object = None) -> Origin:
        """Where the text of that digest at that path came from: `you` where nothing says otherwise."""
        row = self._table.take(path)
        if row is not None and digest is not None and row.get(_TRUSTED) == digest:
            return "you"
        declared = _declared(frontmatter_origin)
        if declared is not None:
            return declared
        if row is not None and row["origin"] in UNTRUSTED:
            return cast("Origin", row["origin"])
        with self._lock:
            known = self._by_digest.get(digest) if digest not in {None, _EMPTY} else None  # nothing is nobody's text
        return known or ("imported" if any(glob.matches(path) for glob in self._globs) else "you")

    def of_text(self, path: str, data: bytes, digest: str | None = None) -> Origin:
        """The same for a text that is at hand."""
        values: Mapping[str, object] = parse_note(data).values if data.startswith((b"---", b"\xef\xbb\xbf---")) else {}
        return self.of(path, digest or digest_of(data), values.get("origin"))

    def wrote(self, path: str, digest: str | None, origin: Origin) -> None:
        """A text was written there by a run, or a module, of that origin; a trusted one leaves what is recorded of the path."""
        if origin not in UNTRUSTED or digest is None:
            return
        row = self._table.take(path)
        before = [] if row is None else [one for one in _digests(row) if one != digest]
        first = _first(row, origin)
        self._table.put(path, {"origin": first, "digests": [*before, digest][-_MOST_DIGESTS:]})
        with self._lock:
            self._by_digest.setdefault(digest, first)

    @contextmanager
    def writing(self, path: str, origin: Origin) -> Iterator[Callable[[str | None], None]]:
        """Around a write: what was written is told to what this answers. The record is there before it, so that no kill in between leaves a
        stranger's text for a trusted one; a write that raises leaves what was recorded before.
        """
        if origin not in UNTRUSTED:
            yield lambda _digest: None
            return
        before = self._table.take(path)
        self._table.put(path, {"origin": _first(before, origin), "digests": [] if before is None else list(_digests(before))})
        try:
            yield lambda digest: self.wrote(path, digest, origin)
        except BaseException:
            if before is None:
                self._table.drop(path)
            else:
                self._table.put(path, before)
            raise

    def moved(self, source: str, target: str) -> None:
        """A file has another path: what is recorded of it goes along."""
        row = self._table.take(source)
        if row is not None and row["origin"] in UNTRUSTED:
            there = self._table.take(target)
            digests = [*(_digests(there) if there is not None else ()), *_digests(row)][-_MOST_DIGESTS:]
            self._table.put(target, {"origin": row["origin"], "digests": digests})

    def trust(self, path: str, digest: str) -> Origin:
        """A person has read the text of that digest there and trusts it, whatever says otherwise, until it is another. What it was before.

        What was recorded of the path is dropped with it, so that their own later edits there are theirs.
        """
        before = self.of(path, digest)
        self._table.put(path, {"origin": "you", "digests": [], _TRUSTED: digest})
        self._learn()
        return before

    def recorded(self) -> dict[str, Origin]:
        """The paths that runs of untrusted origin wrote, and what they count as."""
        return {key: cast("Origin", row["origin"]) for key, row in self._table.items() if row["origin"] in UNTRUSTED}

    def _learn(self) -> None:
        found = {
            digest: cast("Origin", row["origin"])
            for _, row in self._table.items()
            if row["origin"] in UNTRUSTED
            for digest in _digests(row)
        }
        with self._lock:
            self._by_digest = found


def _first(row: Mapping[str, object] | None, origin: Origin) -> Origin:
    """What a path counts as that was written before, and is now written by a run of that origin."""
    before = row["origin"] if row is not None else None
    return before if before in UNTRUSTED else origin


def _digests(row: Mapping[str, object]) -> Sequence[str]:
    return cast("Sequence[str]", row.get("digests", ()))


def _declared(value: object) -> Origin | None:
    """What a frontmatter says, where that is less than trusted: it can take trust away, and never give it."""
    words = [value] if isinstance(value, str) else value if isinstance(value, Sequence) else ()
    said = {word.strip().casefold() for word in words if isinstance(word, str)}
    return next((origin for origin in sorted(UNTRUSTED) if origin in said), None)
