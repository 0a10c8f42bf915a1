"""Birth: a file's own age, whatever happened to its number, its times and its name."""

from __future__ import annotations

import os
import time

import pytest

from parachuted.vault.swap import born_ns

SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def file(vault, folder):
    (vault / "a").write_text("a")
    if born_ns(folder, "a") is None:
        pytest.skip("this file system does not keep the time of birth")


def test_a_file_is_born_when_it_is_made_whatever_is_done_to_it(folder, vault):
    born = born_ns(folder, "a")
    assert abs(born - time.time_ns()) < 10 * SECOND
    (vault / "a").write_text("other")
    os.utime(vault / "a", (1, 1))
    (vault / "a").rename(vault / "b")
    (vault / "link").symlink_to("nowhere")

    assert born_ns(folder, "b") == born
    assert born_ns(folder, "link") is not None
    assert born_ns(folder, "missing") is None


def test_another_file_in_its_place_was_born_later(folder, vault):
    last_changed = (vault / "a").stat().st_ctime_ns
    (vault / "a").unlink()
    while time.time_ns() < last_changed + SECOND // 50:
        pass
    (vault / "b").write_text("b")

    assert born_ns(folder, "b") > last_changed
