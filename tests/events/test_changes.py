"""Changes: what was seen, paired and told apart."""

from __future__ import annotations

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


def test_new_changed_missing_and_touched_files_are_distinguished():
    found = sort_seen(
        [
            seen("new.md", None, entry(1, "new")),
            seen("changed.md", entry(2, "old"), entry(2, "other")),
            seen("missing.md", entry(3, "gone"), None),
            seen("touched.md", entry(4), entry(4, at=2)),
        ]
    )

    assert reported(found) == ({"new.md": None, "changed.md": None}, ["missing.md"], ["touched.md"])


def test_a_file_that_keeps_its_inode_has_moved_even_when_it_was_edited():
    found = sort_seen([seen("a.md", entry(1, "old"), None), seen("b.md", None, entry(1, "edited"))])

    assert reported(found) == ({"b.md": "a.md"}, [], [])


def test_another_file_with_an_old_ones_inode_has_not_moved():
    found = sort_seen(
        [seen("a.md", entry(1, "old"), None), seen("b.md", None, entry(1, "new"))],
        lambda _came, _left: False,
    )

    assert reported(found) == ({"b.md": None}, ["a.md"], [])


def test_no_one_is_asked_about_a_file_that_keeps_both():
    found = sort_seen(
        [seen("a.md", entry(1), None), seen("b.md", None, entry(1))], lambda _came, _left: 1 / 0
    )

    assert reported(found) == ({"b.md": "a.md"}, [], [])


def test_a_file_that_keeps_its_content_alone_has_moved():
    found = sort_seen(
        [seen("a.md", entry(1, "the only one"), None), seen("b.md", None, entry(2, "the only one"))]
    )

    assert reported(found) == ({"b.md": "a.md"}, [], [])


def test_the_inode_says_more_than_the_content():
    found = sort_seen(
        [
            seen("a.md", entry(1, "x"), None),
            seen("b.md", entry(2, "x"), None),
            seen("c.md", None, entry(2, "x")),
        ]
    )

    assert reported(found) == ({"c.md": "b.md"}, ["a.md"], [])


def test_contents_that_are_there_twice_pair_nothing():
    found = sort_seen(
        [
            seen("a.md", entry(1, "x"), None),
            seen("b.md", entry(2, "x"), None),
            seen("c.md", None, entry(3, "x")),
        ]
    )

    assert reported(found) == ({"c.md": None}, ["a.md", "b.md"], [])


def test_empty_files_are_not_paired_by_content():
    found = sort_seen([seen("a.md", entry(1, ""), None), seen("b.md", None, entry(2, ""))])

    assert reported(found) == ({"b.md": None}, ["a.md"], [])


def test_a_file_that_was_overwritten_by_another_has_not_moved():
    found = sort_seen(
        [seen("a.md", entry(1, "a"), None), seen("b.md", entry(2, "b"), entry(1, "a"))]
    )

    assert reported(found) == ({"b.md": None}, ["a.md"], [])


def test_hard_links_are_not_distinguished_by_inode():
    found = sort_seen(
        [
            seen("a.md", entry(1, ""), None),
            seen("b.md", entry(1, ""), None),
            seen("c.md", None, entry(1, "")),
        ]
    )

    assert reported(found) == ({"c.md": None}, ["a.md", "b.md"], [])


def test_thousands_of_moves_are_paired_at_once():
    went = [seen(f"a/{number}.md", entry(number, str(number)), None) for number in range(5_000)]
    came = [seen(f"b/{number}.md", None, entry(number, str(number))) for number in range(5_000)]

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
def test_each_path_is_accounted_for_once_and_each_lost_file_moves_to_one_place(items):
    found = sort_seen(items)
    came = [item for item, _left in found.came]
    moved = [left for _item, left in found.came if left is not None]

    assert sorted(item.path for item in [*came, *found.went, *found.same, *moved]) == sorted(
        item.path for item in items
    )
    assert all(item.old is None for item, left in found.came if left is not None)
    assert all(left.new is None for left in moved)
