"""Matching: a note held against a query by itself is answered as the index answers."""

from __future__ import annotations

import itertools

import pytest

from parachuted.search import KeyFilter, NoteQuery, Search
from parachuted.search.listing import matching
from parachuted.vault import IndexEntry, VaultIndex, VaultPath, VaultRoot, digest_of

NOTES = {
    "Books/Dune.md": "---\nstatus: Reading\ndue: 2026-03-01\nrating: 5\ntags: [Book/Novel, "
    "sf]\nempty:\n---\n# Dune\n",
    "Books/Old/Emma.md": "---\nstatus: [done, shelved]\nrating: 4.5\n---\n# Emma\n#book\n",
    "Films/Alien.md": "# Alien\n\nno #bookish tag\n",
    "Bücher.md": "---\nstatus: Élan\nrating: low\n---\n",
}
KEYS, OPS = ("status", "due", "rating", "empty", "title", "size"), ("eq", "ne", "gt", "lt", "in")
VALUES = (
    "reading",
    "done",
    "elan",
    "2026-03-01",
    "2026-03-01T00:00:00Z",
    "5",
    "4.5",
    "dune",
    "",
    "a,done",
    "10",
)
QUERIES = [
    *(NoteQuery(tag=tag) for tag in ("book", "book/novel", "SF", "#book/")),
    *(NoteQuery(folder=folder) for folder in ("Books", "Books/", "Books/Old", "Boo")),
    *(
        NoteQuery(filters=(KeyFilter(key=key, op="exists", value=value),))
        for key in KEYS
        for value in (True, False)
    ),
    *(
        NoteQuery(filters=(KeyFilter(key=key, op=op, value=value),))
        for key, op, value in itertools.product(KEYS, OPS, VALUES)
    ),
]


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("vault")
    index = VaultIndex()
    for path, text in NOTES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
        index.set(path, IndexEntry.of((folder / path).stat(), digest_of(text.encode())))
    search = Search(
        tmp_path_factory.mktemp("index") / "search.db",
        VaultRoot(folder),
        index,
        lambda *_said: None,
    )
    search.indexer.start()
    assert search.settle(20)
    yield search
    search.close()


def test_each_query_is_answered_as_by_the_index(search: Search):
    rows = {row.path: row for row in search.catalogue.notes(NoteQuery(), lambda _path: True).rows}
    alone: list[set[str]] = [set() for _ in QUERIES]
    for path, text in NOTES.items():
        answers = matching(QUERIES, VaultPath(path), text.encode(), rows[path].modified)
        for found, is_match in zip(alone, answers, strict=True):
            if is_match:
                found.add(path)
    differing = [
        (query, found, by_index)
        for query, found in zip(QUERIES, alone, strict=True)
        if found != set(by_index := search.catalogue.paths(query))
    ]

    assert not differing, differing[:5]
