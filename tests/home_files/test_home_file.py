"""Home file: a change is whole or none, for its owner alone, and one at a time."""

from __future__ import annotations

import threading

import pytest

from parachuted.errors import StorageFailedError
from parachuted.home_files import HomeFile
from parachuted.home_files.private import UntrustedFileError


@pytest.fixture
def file(home) -> HomeFile:
    return HomeFile(home, "some.yaml", limit=100)


def test_a_file_that_is_missing_is_none(file):
    assert (file.read(), file.mark()) == (None, None)


def test_a_change_is_for_the_owner_alone_and_without_effect_writes_nothing(file):
    file.change(lambda before: "a: 1\n" if before is None else "")
    mark = file.mark()
    file.change(lambda before: before)

    assert file.read() == "a: 1\n"
    assert file.mark() == mark
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_a_change_that_fails_or_is_too_large_leaves_the_file_as_it_was(file):
    file.change(lambda _before: "a: 1\n")
    with pytest.raises(UntrustedFileError, match="larger than"):
        file.change(lambda _before: "x" * 101)
    with pytest.raises(KeyError):
        file.change(lambda _before: {}["x"])

    assert file.read() == "a: 1\n"


def test_a_home_that_is_not_a_folder_is_reported(tmp_path):
    (tmp_path / "home").write_text("")

    with pytest.raises(StorageFailedError, match=r"some\.yaml could not be written"):
        HomeFile(tmp_path / "home", "some.yaml", limit=100).change(lambda _before: "")


def test_what_others_may_touch_is_neither_read_nor_changed(home):
    file = HomeFile(home, "some.yaml", limit=100, is_secret=True)
    file.change(lambda _before: "a: 1\n")
    file.path.chmod(0o640)

    with pytest.raises(UntrustedFileError, match="others may"):
        file.read()
    with pytest.raises(UntrustedFileError):
        file.change(lambda _before: "b: 2\n")
    assert file.path.read_text() == "a: 1\n"


def test_changes_at_once_lose_nothing(home):
    def count() -> None:
        for _ in range(20):
            HomeFile(home, "some.yaml", limit=100).change(
                lambda before: str(int(before or "0") + 1)
            )

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert HomeFile(home, "some.yaml", limit=100).read() == "80"
