"""Matching: whether a query lists a note, decided from the note's text alone and as the database
would.
"""

from __future__ import annotations

from parachuted.search.indexed_note import IndexedField, IndexedNote, make_indexed_note
from parachuted.search.rows import KeyFilter, NoteQuery
from parachuted.search.values import measure
from parachuted.search.words import plain, storable


def matching(queries: list[NoteQuery], path: str, data: bytes, modified: float) -> list[bool]:
    """For each query whether the note fulfils it.

    `modified` in seconds since 1970. Never raises on content.
    """
    indexed_note = make_indexed_note(path, data, modified)
    return [_matches(query, indexed_note) for query in queries]


def _matches(query: NoteQuery, indexed_note: IndexedNote) -> bool:
    if query.folder and not indexed_note.path.startswith(query.folder.rstrip("/") + "/"):
        return False
    if query.tag:
        tag = plain(storable(query.tag)).strip("#/")
        if not any(
            one == tag or one.startswith(f"{tag}/") for one in map(plain, indexed_note.tags)
        ):
            return False
    return all(_fulfils(one, indexed_note) for one in query.filters)


def _fulfils(one: KeyFilter, indexed_note: IndexedNote) -> bool:
    fields = _fields(indexed_note, one.key)
    if one.op == "exists":
        return bool(fields) is (one.value not in (False, "false", "0", "no"))
    texts = (
        list(one.value)
        if isinstance(one.value, tuple)
        else str(one.value).split(",")
        if one.op == "in"
        else [str(one.value)]
    )
    found = any(
        _compares("eq" if one.op in {"in", "ne"} else one.op, text.strip(), field)
        for text in texts
        for field in fields
    )
    return not found if one.op == "ne" else found


def _fields(indexed_note: IndexedNote, key: str) -> list[IndexedField]:
    """The values of that key; title, size and modified are the note's own."""
    if key == "title":
        return [IndexedField(key, 0, indexed_note.title, "text", 0.0)]
    if key in {"modified", "size"}:
        return [
            IndexedField(key, 0, "", kind, float(getattr(indexed_note, key)))
            for kind in ("number", "moment")
        ]
    return [
        field._replace(key="") for field in indexed_note.fields if field.key == plain(storable(key))
    ]


def _compares(op: str, text: str, field: IndexedField) -> bool:
    kind, number = ("text", 0.0) if field.key == "title" else measure(text)
    folded, wanted = plain(field.text), plain(storable(text))
    if op == "eq" and folded == wanted and field.text:
        return True
    if kind != field.kind:
        return False
    here, there = (folded, wanted) if kind == "text" else (field.number, number)
    return here == there if op == "eq" else here < there if op == "lt" else here > there  # type: ignore[operator]
