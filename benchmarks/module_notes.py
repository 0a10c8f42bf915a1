"""Module notes: the processor's time of a module's bulk reading, against a bare loop over the
same files.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import yaml

from benchmarks.report import Figure
from parachuted.access.caller import Caller
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.granted_vault import GrantedVault, GrantedVaults
from parachuted.search import Search
from parachuted.vault import (
    IgnoreRules,
    ObjectStore,
    Scanner,
    Store,
    VaultIndex,
    VaultRoot,
    WriteJournal,
)

_NOTES = 10_000
_FOLDERS = 20
_ROUNDS = 5
_SETTLED_S = 120
_PAGE = 1_000


def module_notes(folder: Path) -> Iterator[Figure]:
    """Entities of some 1 KB, each with frontmatter, sections and three links."""
    vault = _make_vault(folder / "notes")
    root, index = VaultRoot(vault), VaultIndex()
    scan = Scanner(root, index, IgnoreRules()).walk(finished=True)
    for name in scan.new_folders:
        index.add_folder(name)
    for seen in scan.seen:
        index.set(seen.path, seen.new)
    search = Search(folder / "search.db", root, index, lambda *_said: None)
    objects, history = ObjectStore(folder / "objects"), WriteJournal(folder / "history.db")
    store = Store(root, objects, history, lambda: datetime.now(UTC))
    search.indexer.start()
    search.settle(_SETTLED_S)
    bounds = ModuleBounds.of_module("bench", read=["Brain/**"], write=[])
    own = Caller()
    bounded = GrantedVaults(store, index, search).of_module("bench", bounds, caller=lambda: own)
    try:
        yield from asyncio.run(_measured(sorted(vault.rglob("*.md")), bounded))
    finally:
        for part in (search, store, history, objects):
            part.close()


async def _measured(paths: list[Path], bounded: GrantedVault) -> list[Figure]:
    bare, ours, whole, pages = [], [], [], []
    for _ in range(_ROUNDS):
        bare.append(_bare_s(paths))
        ours.append(await _read_s(bounded, with_links=False))
        whole.append(await _read_s(bounded, with_links=True))
        began = time.process_time()
        await bounded.notes("Brain", where={"type": "person"}, order="-founded", limit=_PAGE)
        pages.append((time.process_time() - began) * 1e3)
    reference = statistics.median(bare)
    return [
        Figure(
            name="10,000 notes read by a module with their frontmatter, against a bare loop",
            value=statistics.median(ours),
            unit="s",
            reference=reference,
            bound=1.25,
        ),
        Figure(
            name="10,000 notes read with sections and resolved links, against the same loop",
            value=statistics.median(whole),
            unit="s",
            reference=reference,
            bound=3.5,
        ),
        Figure(
            name="a page of 1,000 of 10,000 notes, by key and order",
            value=statistics.median(pages),
            unit="ms",
            bound=100,
        ),
    ]


def _bare_s(paths: list[Path]) -> float:
    """Read each file, and parse its frontmatter with libyaml."""
    began = time.process_time()
    for path in paths:
        text = path.read_text("utf-8")
        _, matter, _body = text.split("---\n", 2)
        yaml.load(matter, Loader=yaml.CSafeLoader)
    return time.process_time() - began


async def _read_s(bounded: GrantedVault, *, with_links: bool) -> float:
    began = time.process_time()
    count = 0
    async for note in bounded.read_notes("Brain/**"):
        count += 1
        if with_links and not (note.sections and note.links[0].path):
            raise RuntimeError(f"{note.path} has no sections, or its link leads nowhere")
    if count != _NOTES:
        raise RuntimeError(f"{count} of {_NOTES} notes were read")
    return time.process_time() - began


def _make_vault(folder: Path) -> Path:
    for number in range(_NOTES):
        place = folder / f"Brain/entities/kind{number % _FOLDERS:02d}"
        place.mkdir(parents=True, exist_ok=True)
        others = [(number + step) % _NOTES for step in (1, 17, 400)]
        lines = [
            "---",
            f"para_id: para:brain:{number:012d}",
            f"type: {'person' if number % 2 else 'project'}",
            f"aliases: [Entity {number}, E{number}]",
            "tags: [one, two]",
            f"founded: {1900 + number % 120}",
            "status: active",
            "---",
            f"# Entity {number}",
            "",
            *(["Some words about what it is and what it does, and of whom it is known."] * 6),
            "",
            "## Facts",
            "",
            "- lives by the river",
            "",
            "## Relationships",
            "",
            *(f"- [[entity-{other:05d}]] - knows" for other in others),
            "",
        ]
        (place / f"entity-{number:05d}.md").write_text("\n".join(lines), "utf-8")
    return folder
