"""Rename: two names swapped at once, and a name taken only when it is free."""

from __future__ import annotations

import os

import pytest

from parachuted.vault import swap
from parachuted.vault.swap import exchange, move_to_free_name


@pytest.fixture(params=["the kernel's rename", "a second name", "looking first"])
def way(request, monkeypatch):
    """Each way by which a free name is taken: file systems have all, the first two, or the last
    alone.
    """
    if request.param != "the kernel's rename":
        monkeypatch.setattr(swap, "_renameat2", None)
    if request.param == "looking first":
        monkeypatch.setattr(os, "link", _no_links)


def _no_links(*_paths: str, **_options: object) -> None:
    raise PermissionError(1, "no links here")


def test_an_exchange_swaps_two_files_and_loses_neither(vault, folder):
    (vault / "a").write_text("one")
    (vault / "ü").write_text("other")
    inodes = (vault / "a").stat().st_ino, (vault / "ü").stat().st_ino
    exchange(folder, "a", "ü")
    assert ((vault / "a").read_text(), (vault / "ü").read_text()) == ("other", "one")
    assert ((vault / "ü").stat().st_ino, (vault / "a").stat().st_ino) == inodes


def test_an_exchange_with_nothing_fails_and_changes_nothing(vault, folder):
    (vault / "a").write_text("one")
    with pytest.raises(FileNotFoundError) as failed:
        exchange(folder, "a", "none")
    assert failed.value.filename == "none"
    assert (vault / "a").read_text() == "one"


def test_an_exchange_that_the_system_lacks_says_so(vault, folder, monkeypatch):
    monkeypatch.setattr(swap, "_renameat2", None)
    with pytest.raises(NotImplementedError):
        exchange(folder, "a", "b")


@pytest.mark.usefixtures("way")
def test_a_file_moves_to_a_free_name_in_another_folder(vault, folder):
    (vault / "a").write_text("one")
    (vault / "below").mkdir()
    below = os.open(vault / "below", os.O_RDONLY | os.O_DIRECTORY)
    try:
        move_to_free_name((folder, "a"), (below, "b"))
    finally:
        os.close(below)
    assert (vault / "below/b").read_text() == "one"
    assert not (vault / "a").exists()


@pytest.mark.usefixtures("way")
def test_a_name_that_is_taken_is_left_alone(vault, folder):
    (vault / "a").write_text("one")
    (vault / "b").write_text("other")
    (vault / "dangling").symlink_to("nowhere")
    for name in ("b", "dangling"):
        with pytest.raises(FileExistsError):
            move_to_free_name((folder, "a"), (folder, name))
    assert ((vault / "a").read_text(), (vault / "b").read_text()) == ("one", "other")
    assert (vault / "dangling").readlink().name == "nowhere"


@pytest.mark.usefixtures("way")
def test_a_missing_file_cannot_be_moved(folder):
    with pytest.raises(FileNotFoundError):
        move_to_free_name((folder, "none"), (folder, "b"))
