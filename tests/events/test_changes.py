"""Changes: what was seen, paired and told apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.events.changes import sort_seen
from parachuted.vault import IndexEntry, PathDifference, VaultPath


def entry(inode, text="text", *, at=1):
    return IndexEntry(mtime_ns=at, ctime_ns=at, size=len(text), inode=inode, digest=text)


def seen(path, old, new):
    return PathDifference(path=VaultPath(path), old=old, new=new)


def reported(found):
    return (
        {item.path: left.path if left else None for item, left in found.came},
        [item.path for item in found.went],
        [item.path for item in found.same],
    )


def gone(path, *what):
    return seen(path, entry(*what), None)


def new(path, *what):
    return seen(path, None, entry(*what))


def test_new_changed_missing_and_touched_files_are_distinguished():
    found = sort_seen(
        [
            new("new.md", 1, "new"),
            seen("changed.md", entry(2, "old"), entry(2, "other")),
            gone("missing.md", 3, "gone"),
            seen("touched.md", entry(4), entry(4, at=2)),
        ]
    )

    assert reported(found) == ({"new.md": None, "changed.md": None}, ["missing.md"], ["touched.md"])


@pytest.mark.parametrize(
    ("items", "came", "went"),
    [
        ([gone("a.md", 1, "old"), new("b.md", 1, "edited")], {"b.md": "a.md"}, []),
        ([gone("a.md", 1, "only one"), new("b.md", 2, "only one")], {"b.md": "a.md"}, []),
        (
            [gone("a.md", 1, "x"), gone("b.md", 2, "x"), new("c.md", 2, "x")],
            {"c.md": "b.md"},
            ["a.md"],
        ),
        (
            [gone("a.md", 1, "x"), gone("b.md", 2, "x"), new("c.md", 3, "x")],
            {"c.md": None},
            ["a.md", "b.md"],
        ),
        ([gone("a.md", 1, ""), new("b.md", 2, "")], {"b.md": None}, ["a.md"]),
        (
            [gone("a.md", 1, "a"), seen("b.md", entry(2, "b"), entry(1, "a"))],
            {"b.md": None},
            ["a.md"],
        ),
        (
            [gone("a.md", 1, ""), gone("b.md", 1, ""), new("c.md", 1, "")],
            {"c.md": None},
            ["a.md", "b.md"],
        ),
    ],
    ids=[
        "a file that keeps its inode has moved, even when it was edited",
        "a file that keeps its content alone has moved",
        "the inode says more than the content",
        "contents that are there twice pair nothing",
        "empty files are not paired by content",
        "a file that was overwritten by another has not moved",
        "hard links are not distinguished by inode",
    ],
)
def test_what_came_is_paired_with_what_went(items, came, went):
    assert reported(sort_seen(items)) == (came, went, [])


def test_another_file_with_an_old_ones_inode_has_not_moved():
    items = [gone("a.md", 1, "old"), new("b.md", 1, "new")]

    assert reported(sort_seen(items, lambda _came, _left: False)) == ({"b.md": None}, ["a.md"], [])


def test_no_one_is_asked_about_a_file_that_keeps_both():
    found = sort_seen([gone("a.md", 1), new("b.md", 1)], lambda _came, _left: 1 / 0)

    assert reported(found) == ({"b.md": "a.md"}, [], [])


def test_thousands_of_moves_are_paired_at_once():
    went = [gone(f"a/{number}.md", number, str(number)) for number in range(5_000)]
    came = [new(f"b/{number}.md", number, str(number)) for number in range(5_000)]

    assert all(
        left is not None and left.path == item.path.replace("b/", "a/")
        for item, left in sort_seen(went + came).came
    )


ENTRIES = st.builds(entry, st.integers(1, 4), st.sampled_from(["", "x", "y"]), at=st.integers(1, 2))
SEEN = st.lists(
    st.tuples(
        st.integers(0, 9), st.one_of(st.none(), ENTRIES), st.one_of(st.none(), ENTRIES)
    ).filter(lambda item: item[1] or item[2]),
    unique_by=lambda item: item[0],
).map(lambda items: [seen(f"{number}.md", old, new) for number, old, new in items])


@given(SEEN)
def test_each_path_counts_once_and_each_lost_file_moves_to_one_place(items):
    found = sort_seen(items)
    came = [item for item, _left in found.came]
    moved = [left for _item, left in found.came if left is not None]

    assert sorted(item.path for item in [*came, *found.went, *found.same, *moved]) == sorted(
        item.path for item in items
    )
    assert all(item.old is None for item, left in found.came if left is not None)
    assert all(left.new is None for left in moved)
