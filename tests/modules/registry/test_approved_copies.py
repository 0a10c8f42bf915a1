"""The approved bytes: made while they are read, read-only, read again before they run."""

from __future__ import annotations

import pytest

from parachuted.modules.registry.approved_copies import (
    ApprovedCopies,
    WritingSink,
    opened_folder,
    remove_tree,
)
from parachuted.modules.registry.module_tree import TreeRefusedError, read_tree


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "mod"
    (made / "inner").mkdir(parents=True)
    (made / "a.py").write_text("a")
    (made / "inner" / "run").write_text("b")
    (made / "inner" / "run").chmod(0o755)
    return made


@pytest.fixture
def copies(home) -> ApprovedCopies:
    return ApprovedCopies(home)


def take(copies, folder):
    with copies.taking("mod", folder, root=folder.parent) as taken:
        return taken.keep(), taken.tree.digest


def test_a_copy_is_the_same_tree_that_no_one_may_write(copies, folder, home):
    place, digest = take(copies, folder)

    assert place == home / "modules" / "mod" / digest.removeprefix("sha256:")[:12]
    assert read_tree(place).digest == digest == read_tree(folder).digest
    assert [
        oct(path.stat().st_mode & 0o777)
        for path in (place, place / "inner", place / "a.py", place / "inner/run")
    ] == [*("0o555", "0o555", "0o444", "0o555")]
    assert copies.read("mod", digest).digest == digest


def test_what_was_read_and_not_kept_leaves_nothing(copies, folder, home):
    with copies.taking("mod", folder, root=folder.parent):
        pass
    (folder / "link").symlink_to("a.py")
    with pytest.raises(TreeRefusedError), copies.taking("mod", folder, root=folder.parent):
        pass

    assert list((home / "modules" / "mod").iterdir()) == []


def test_keeping_what_is_there_keeps_it_and_mends_what_is_damaged(copies, folder):
    place, digest = take(copies, folder)
    before = place.stat().st_ino
    take(copies, folder)
    assert place.stat().st_ino == before

    (place / "a.py").chmod(0o644)
    (place / "a.py").write_text("evil")
    with pytest.raises(TreeRefusedError, match="approve the module again"):
        copies.read("mod", digest)
    take(copies, folder)
    assert (place / "a.py").read_text() == "a"


def test_only_what_is_named_is_left(copies, folder):
    first, _digest = take(copies, folder)
    (folder / "a.py").write_text("b")
    second, _digest = take(copies, folder)
    copies.prune("mod", [second.name])
    assert not first.exists()
    assert second.exists()
    copies.prune("mod", [])
    assert not copies.folder("mod").exists()
    copies.prune("mod", [])


def test_removing_follows_no_link(tmp_path, folder):
    holder = tmp_path / "holder"
    holder.mkdir()
    (holder / "link").symlink_to(folder)
    remove_tree(holder)
    assert not holder.exists()
    (tmp_path / "top").symlink_to(folder)
    remove_tree(tmp_path / "top")
    assert (folder / "a.py").exists()
    remove_tree(tmp_path / "nowhere")


def test_writing_follows_no_link_that_is_put_in_its_way(tmp_path, folder):
    target = tmp_path / "target"
    target.mkdir()
    (target / "inner").symlink_to(folder)
    (target / "f").symlink_to(folder / "a.py")
    with opened_folder(target) as descriptor:
        sink = WritingSink(descriptor)
        for path in ("inner/evil", "f"):
            with pytest.raises(OSError, match=r"."), sink.file(path, 0o644) as write:
                write(b"x")

    assert sorted(path.name for path in folder.iterdir()) == ["a.py", "inner"]
    assert (folder / "a.py").read_text() == "a"


def test_a_module_folder_of_the_home_that_is_a_link_takes_no_copy(copies, folder, home, tmp_path):
    (home / "modules").mkdir()
    (home / "modules" / "mod").symlink_to(tmp_path)
    with pytest.raises(TreeRefusedError, match="nothing was approved"):
        take(copies, folder)
