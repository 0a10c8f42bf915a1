"""Birth: a file's own age, whatever happened to its number, its times and its name."""

from __future__ import annotations

import os
import time

import pytest

from parachuted.vault.swap import born_ns

SECOND = 1_000_000_000


@pytest.fixture
def folder(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    (tmp_path / "a").write_text("a")
    if born_ns(descriptor, "a") is None:
        pytest.skip("this file system does not keep the time of birth")
    yield descriptor
    os.close(descriptor)


def test_a_file_is_born_when_it_is_made(folder, tmp_path):
    (tmp_path / "new").write_text("new")

    assert abs(born_ns(folder, "new") - time.time_ns()) < 10 * SECOND


def test_what_is_done_to_a_file_does_not_change_its_birth(folder, tmp_path):
    born = born_ns(folder, "a")
    (tmp_path / "a").write_text("other")
    os.utime(tmp_path / "a", (1, 1))
    (tmp_path / "a").rename(tmp_path / "b")

    assert born_ns(folder, "b") == born


def test_another_file_in_its_place_was_born_later(folder, tmp_path):
    last_changed = (tmp_path / "a").stat().st_ctime_ns
    (tmp_path / "a").unlink()
    while time.time_ns() < last_changed + SECOND // 50:
        pass
    (tmp_path / "b").write_text("b")

    assert born_ns(folder, "b") > last_changed


def test_a_link_has_a_birth_of_its_own(folder, tmp_path):
    (tmp_path / "link").symlink_to("nowhere")

    assert born_ns(folder, "link") is not None


def test_of_what_is_not_there_nothing_is_known(folder):
    assert born_ns(folder, "missing") is None
