"""Library: a vault and its index as tests use them, without a daemon."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from parachuted.search import (
    IndexUpdate,
    NoteCatalogue,
    NoteQuery,
    Search,
    SearchResults,
    parse_query,
)
from parachuted.vault import IndexEntry, VaultIndex, VaultRoot, digest_of


class SearchRig:
    """A folder of notes, what the daemon would know of it, and the index."""

    def __init__(self, vault: Path, database: Path) -> None:
        self.vault, self.database = vault, database
        self.index = VaultIndex()
        self.problems: dict[str, str] = {}
        self.said: list[str] = []
        self.search = self.make()

    def make(self) -> Search:
        return Search(self.database, VaultRoot(self.vault), self.index, self._report)

    def write(self, path: str, text: str | bytes) -> None:
        """Put a note on the disk, and into the index of the vault, as a scan would."""
        file = self.vault / path
        file.parent.mkdir(parents=True, exist_ok=True)
        data = text if isinstance(text, bytes) else text.encode()
        file.write_bytes(data)
        self.index.set(
            path, IndexEntry.of(file.stat(), digest_of(data) if path.endswith(".md") else None)
        )

    def save(self, path: str, text: str | bytes) -> None:
        """The same, and the index hears of it."""
        self.write(path, text)
        self.search.indexer.follow([(path, IndexUpdate(self.index.get(path)))])

    def delete(self, path: str) -> None:
        (self.vault / path).unlink()
        self.index.set(path, None)
        self.search.indexer.follow([(path, IndexUpdate(None))])

    def start(self) -> None:
        self.search.indexer.start()
        self.settled()

    def restart(self) -> None:
        self.search.close()
        self.search = self.make()
        self.start()

    def settled(self) -> None:
        assert self.search.settle(20), self.problems

    def until(self, condition: Callable[[], object], seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.problems
            time.sleep(0.002)

    def ask(
        self,
        text: str,
        *,
        limit: int = 20,
        sees: Callable[[str], bool] | None = None,
        explain: bool = False,
        **more: object,
    ) -> SearchResults:
        self.settled()
        return self.search.engine.find(parse_query(text, **more), limit, sees, explain=explain)

    def find(self, text: str, **more: object) -> list[str]:
        return [hit.path for hit in self.ask(text, **more).hits]

    @property
    def catalogue(self) -> NoteCatalogue:
        """What is known of the notes once all that was said is indexed."""
        self.settled()
        return self.search.catalogue

    def notes(self, **query: object) -> list[str]:
        found = self.catalogue.notes(NoteQuery(**query), lambda _path: True)
        return [row.path for row in found.rows]

    def linking(self, path: str) -> list[str]:
        return [link.source for link in self.catalogue.links_to(path)]

    def _report(self, subject: str, problem: str | None) -> None:
        if problem is None:
            self.problems.pop(subject, None)
        else:
            self.problems[subject] = problem
            self.said.append(problem)
