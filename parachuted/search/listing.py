"""Listing: a query of notes as SQL; every value is a parameter."""

from __future__ import annotations

from dataclasses import dataclass, field

from parachuted.search.index_tables import key_of, read_cursor
from parachuted.search.indexed_note import (
    IndexedField,
    IndexedNote,
    KeyFilter,
    NoteQuery,
    make_indexed_note,
)
from parachuted.search.query import measure
from parachuted.search.words import plain, storable

_BUILT_IN = {"title": "text", "modified": "number", "size": "number"}
_MOST_VALUES = 200


@dataclass(slots=True, kw_only=True)
class NoteListing:
    """The last three columns of the answer are what the order goes by."""

    order: tuple[str, str, str]
    descending: bool
    join: str = ""
    conditions: list[str] = field(default_factory=list)
    values: list[object] = field(default_factory=list)

    def sql(self, columns: str) -> str:
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        down = " DESC" if self.descending else ""
        rank, number, text = self.order
        return (
            f"SELECT {columns}, {rank} AS rank, {number} AS number, {text} AS text FROM "  # noqa: S608  none of it comes from outside
            f"notes{self.join}{where} "
            # by name: a plain 0 would be taken for a column's number
            f"ORDER BY rank, number{down}, text{down}, notes.path{down}"
        )

    def add(self, condition: str, *values: object) -> None:
        self.conditions.append(condition)
        self.values += values


def make_listing(query: NoteQuery) -> NoteListing:
    """Raises ValueError for an invalid cursor."""
    listing = _ordered(query.sort.removeprefix("-"), descending=query.sort.startswith("-"))
    if query.folder:
        prefix = key_of(query.folder.rstrip("/") + "/")
        listing.add("notes.path >= ? AND notes.path < ?", prefix, prefix[:-1] + b"0")
    if query.tag:
        tag = plain(storable(query.tag)).strip("#/")
        listing.add(
            "notes.id IN (SELECT note FROM tags WHERE tag = ? OR (tag >= ? AND tag < ?))",
            tag,
            f"{tag}/",
            f"{tag}0",
        )
    for key_filter in query.filters:
        _narrow(listing, key_filter)
    if query.after is not None:
        _go_on(listing, query)
    return listing


def _ordered(key: str, *, descending: bool) -> NoteListing:
    if key == "path":
        return NoteListing(order=("0", "0", "''"), descending=descending)
    if key == "title":
        return NoteListing(order=("0", "0", "lower(notes.title)"), descending=descending)
    if key in {"modified", "size"}:
        return NoteListing(order=("0", f"notes.{key}", "''"), descending=descending)
    listing = NoteListing(
        order=(
            "CASE WHEN sorted.kind IS NULL THEN 2 WHEN sorted.kind = 'text' THEN 1 ELSE 0 END",
            "coalesce(sorted.number, 0.0)",
            "CASE WHEN sorted.kind = 'text' THEN sorted.folded ELSE '' END",
        ),
        descending=descending,
        join=" LEFT JOIN fields AS sorted ON sorted.note = notes.id AND sorted.key = ? AND "
        "sorted.at = 0",
    )
    listing.values.append(plain(storable(key)))
    return listing


def _go_on(listing: NoteListing, query: NoteQuery) -> None:
    rank, number, text, path = read_cursor(
        query.after or "", query.sort, (int, (int, float), str, str)
    )
    sign = "<" if listing.descending else ">"
    listing.add(
        f"({listing.order[0]} > ? OR ({listing.order[0]} = ? AND ({listing.order[1]}, "
        f"{listing.order[2]}, notes.path) {sign} (?, ?, ?)))",
        *(rank, rank, number, text, bytes.fromhex(str(path))),
    )


def _narrow(listing: NoteListing, one: KeyFilter) -> None:
    if one.op == "exists":
        wanted = _is_wanted(one)
        if one.key in _BUILT_IN:
            listing.add("1" if wanted else "0")
        else:
            listing.add(f"{'' if wanted else 'NOT '}EXISTS ({_FIELD})", plain(storable(one.key)))
    elif one.op == "ne":
        condition, values = _matching(one.key, "eq", [str(one.value)])
        listing.add(f"NOT {condition}", *values)
    else:
        condition, values = _matching(
            one.key, "eq" if one.op == "in" else one.op, _texts(one)[:_MOST_VALUES]
        )
        listing.add(condition, *values)


def _is_wanted(key_filter: KeyFilter) -> bool:
    return key_filter.value not in (False, "false", "0", "no")


def _texts(key_filter: KeyFilter) -> list[str]:
    if isinstance(key_filter.value, tuple):
        return list(key_filter.value)
    return str(key_filter.value).split(",") if key_filter.op == "in" else [str(key_filter.value)]


_FIELD = "SELECT 1 FROM fields WHERE fields.note = notes.id AND fields.key = ?"


def _matching(key: str, op: str, texts: list[str]) -> tuple[str, list[object]]:
    """Whether one of the texts is fulfilled, by one value of that key."""
    values: list[object] = []
    if key in _BUILT_IN:
        tests = [_built_in(key, op, text.strip(), values) for text in texts]
        return f"({' OR '.join(tests) or '0'})", values
    values.append(plain(storable(key)))
    tests = [_of_field(op, text.strip(), values) for text in texts]
    return f"EXISTS ({_FIELD} AND ({' OR '.join(tests) or '0'}))", values


_SIGNS = {"eq": "=", "gt": ">", "lt": "<"}


def _of_field(op: str, text: str, values: list[object]) -> str:
    kind, number = measure(text)
    if kind == "text":
        values.append(plain(storable(text)))
        return (
            f"(fields.kind = 'text' AND fields.folded {_SIGNS[op]} ?)"
            if op != "eq"
            else "fields.folded = ?"
        )
    values += [kind, number]
    if op == "eq":
        values.append(plain(text))
        return "((fields.kind = ? AND fields.number = ?) OR fields.folded = ?)"
    return f"(fields.kind = ? AND fields.number {_SIGNS[op]} ?)"


def _built_in(key: str, op: str, text: str, values: list[object]) -> str:
    if key == "title":
        values.append(plain(storable(text)))
        return f"lower(notes.title) {_SIGNS[op]} ?"
    kind, number = measure(text)
    if kind == "text":
        return "0"
    values.append(number)
    return f"notes.{key} {_SIGNS[op]} ?"


def matching(queries: list[NoteQuery], path: str, data: bytes, modified: float) -> list[bool]:
    """Which queries the note fulfils; `modified` in seconds since 1970. Never raises on content."""
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
    return all(_fulfils(key_filter, indexed_note) for key_filter in query.filters)


def _fulfils(key_filter: KeyFilter, indexed_note: IndexedNote) -> bool:
    fields = _fields(indexed_note, key_filter.key)
    if key_filter.op == "exists":
        return bool(fields) is _is_wanted(key_filter)
    found = any(
        _compares("eq" if key_filter.op in {"in", "ne"} else key_filter.op, text.strip(), field)
        for text in _texts(key_filter)
        for field in fields
    )
    return not found if key_filter.op == "ne" else found


def _fields(indexed_note: IndexedNote, key: str) -> list[IndexedField]:
    """Title, size and modified are the note's own."""
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
