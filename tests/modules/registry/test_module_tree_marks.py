"""A stat a file tells whether a folder may have changed."""

from __future__ import annotations

import os

from parachuted.modules.registry.module_tree import folder_mark


def test_whatever_changes_in_the_folder_changes_its_mark(tmp_path):
    folder = tmp_path / "mod"
    assert folder_mark(folder) == 0
    (folder / "inner").mkdir(parents=True)
    marks = [folder_mark(folder)]
    for act in (
        lambda: (folder / "inner" / "a").write_text("1"),
        lambda: (folder / "inner" / "a").write_text("22"),
        lambda: os.utime(folder / "inner" / "a", ns=(1, 1)),
        lambda: (folder / "inner" / "a").chmod(0o700),
        lambda: (folder / "inner" / "a").rename(folder / "inner" / "b"),
        lambda: (folder / "link").symlink_to("/"),
        (folder / "inner" / "b").unlink,
    ):
        act()
        marks.append(folder_mark(folder))

    assert len(set(marks)) == len(marks)
    assert folder_mark(folder) == folder_mark(folder)


def test_ignored_names_do_not_count(tmp_path):
    before = folder_mark(tmp_path, {".git"})
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x").write_text("")
    assert folder_mark(tmp_path, {".git"}) == before
