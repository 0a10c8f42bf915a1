"""Reads every note and reports what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from parachuted.errors import ParachuteError
from parachuted.vault import NOTE_SUFFIXES, Store, VaultIndex, VaultPath, parse_note, printable
from parachuted.vault.conflicts import conflict_line


@dataclass(frozen=True, slots=True, kw_only=True)
class LintWarning:
    """One thing about one note; `code` is a short name for it."""

    path: str
    code: str
    message: str


class VaultDoctor:
    """Looks at the notes when asked: nothing about them is kept."""

    def __init__(self, store: Store, index: VaultIndex) -> None:
        self._store, self._index = store, index

    async def check_notes(self) -> list[LintWarning]:
        """Every oddity of every note, by path."""
        return await asyncio.to_thread(
            self._check,
            sorted(path for path in self._index.paths() if path.endswith(NOTE_SUFFIXES)),
        )

    def _check(self, paths: Iterable[VaultPath]) -> list[LintWarning]:
        return [oddity for path in paths for oddity in self._oddities(path)]

    def _oddities(self, path: VaultPath) -> list[LintWarning]:
        try:
            data = self._store.read(path).data
            problems = [(problem.code, problem.message) for problem in parse_note(data).problems]
            if (line := conflict_line(data)) is not None:
                problems.insert(
                    0,
                    (
                        "conflict-markers",
                        (
                            f"line {line} is a conflict marker; no agent is shown the note until "
                            "it "
                            "is resolved"
                        ),
                    ),
                )
        except ParachuteError as error:
            problems = [("unreadable", error.message)]
        return [
            LintWarning(path=printable(path), code=code, message=message)
            for code, message in problems
        ]
