from __future__ import annotations

import pytest

from parachuted.search import KeyFilter, NoteQuery
from parachuted.search.listing import make_listing
from tests.search.search_rig import SearchRig


@pytest.fixture
def tables(rig: SearchRig) -> SearchRig:
    rig.save(
        "a.md", "---\nrating: 10\ndue: 2026-03-01\nstatus: Done\npeople: [Ann, Bo]\n---\n# Zebra\n"
    )
    rig.save("b.md", "---\nrating: 9.5\ndue: 2026-02-28T12:00:00Z\nstatus: open\n---\n# apple\n")
    rig.save("sub/c.md", "---\nrating: n/a\ntags: [home/garden]\n---\n# Mango\n")
    rig.save("sub/d.md", "no frontmatter #home")
    return rig


@pytest.mark.parametrize(
    ("one", "found"),
    [
        (("rating", "gt", "9.6"), ["a.md"]),
        (("rating", "lt", "10"), ["b.md"]),
        (("rating", "eq", "10.0"), ["a.md"]),
        (("rating", "eq", "N/A"), ["sub/c.md"]),
        (("rating", "ne", "10"), ["b.md", "sub/c.md", "sub/d.md"]),
        (("rating", "exists", True), ["a.md", "b.md", "sub/c.md"]),
        (("rating", "exists", False), ["sub/d.md"]),
        (("due", "lt", "2026-03-01"), ["b.md"]),
        (("due", "gt", "2026-02-28"), ["a.md", "b.md"]),
        (("status", "in", ("done", "later")), ["a.md"]),
        (("status", "in", "done,open"), ["a.md", "b.md"]),
        (("people", "eq", "bo"), ["a.md"]),
        (("People", "eq", "BO"), ["a.md"]),
        (("title", "eq", "zebra"), ["a.md"]),
        (("size", "gt", "1000"), []),
        (("modified", "gt", "2020-01-01"), ["a.md", "b.md", "sub/c.md", "sub/d.md"]),
        (("x' OR 1=1 --", "eq", "x' OR 1=1 --"), []),
        (("rating", "in", ()), []),
    ],
)
def test_a_filter_takes_those_that_fulfil_it(tables: SearchRig, one, found):
    key, op, value = one

    assert tables.notes(filters=(KeyFilter(key=key, op=op, value=value),)) == found


def test_folders_and_tags_narrow(tables: SearchRig):
    assert tables.notes(folder="sub") == ["sub/c.md", "sub/d.md"]
    assert tables.notes(tag="home") == ["sub/c.md", "sub/d.md"]
    assert tables.notes(tag="#home/garden") == ["sub/c.md"]


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("path", ["a.md", "b.md", "sub/c.md", "sub/d.md"]),
        ("-path", ["sub/d.md", "sub/c.md", "b.md", "a.md"]),
        ("title", ["b.md", "sub/d.md", "sub/c.md", "a.md"]),
        ("rating", ["b.md", "a.md", "sub/c.md", "sub/d.md"]),
        ("-rating", ["a.md", "b.md", "sub/c.md", "sub/d.md"]),
    ],
)
def test_notes_come_in_the_order_that_is_asked_for(tables: SearchRig, sort, order):
    assert tables.notes(sort=sort) == order
    pages, after = [], None
    for _ in order:
        page = tables.search.catalogue.notes(
            NoteQuery(sort=sort, limit=1, after=after), lambda _path: True
        )
        pages += [row.path for row in page.rows]
        after = page.next
    assert pages == order


def test_no_value_stands_in_the_statement():
    listing = make_listing(
        NoteQuery(
            sort="x'y",
            folder="a'b",
            tag="c'd",
            filters=(KeyFilter(key="e'f", op="eq", value="g'h"),),
        )
    )

    assert not {"x'y", "a'b", "c'd", "e'f", "g'h"} & set(listing.sql("1").split())
    assert "'y" not in listing.sql("1")
