"""Files of the home are replaced whole or not at all, and are their owner's alone."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from parachuted.home_files.private import (
    UntrustedFileError,
    locked,
    mark_at,
    read_private,
    replace_private,
)


def test_a_file_is_replaced_whole_and_becomes_its_owner_s_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "keys.yaml"
    file.write_text("old")
    file.chmod(0o644)

    def refuse(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="No space"):
            replace_private(file, b"new")
    assert (file.read_text(), list(tmp_path.iterdir())) == ("old", [file])

    replace_private(file, b"new")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o600)
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_planted_at_the_temporary_name_leads_nowhere(tmp_path: Path):
    victim, file = tmp_path / "victim", tmp_path / "keys.yaml"
    victim.write_text("untouched")
    (tmp_path / f".keys.yaml.{os.getpid()}-{threading.get_ident()}.tmp").symlink_to(victim)

    replace_private(file, b"new")

    assert (victim.read_text(), file.read_text()) == ("untouched", "new")


def test_two_threads_that_replace_one_file_leave_one_of_the_two_whole(tmp_path: Path):
    file, texts = tmp_path / "prompt.md", [letter * 1_000_000 for letter in (b"a", b"b")]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda text: [replace_private(file, text) for _ in range(10)], texts))

    assert file.read_bytes() in texts
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("mode", "is_secret"), [(0o620, False), (0o602, False), (0o640, True), (0o604, True)]
)
def test_what_others_may_have_written_is_not_believed(
    tmp_path: Path, mode: int, *, is_secret: bool
):
    file = tmp_path / "modules.yaml"
    assert read_private(file, 10) is None
    assert mark_at(file) is None
    file.write_text("a: 1")
    file.chmod(mode)
    before = mark_at(file)

    with pytest.raises(UntrustedFileError, match=r"others may .*change .*modules\.yaml; `chmod"):
        read_private(file, 10, is_secret=is_secret)
    file.chmod(0o600)
    assert read_private(file, 10, is_secret=is_secret) == "a: 1"
    assert mark_at(file) != before


def test_what_is_not_a_file_or_too_much_or_no_text_is_not_believed(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    replace_private(tmp_path / "long", b"x" * 2049)
    replace_private(tmp_path / "bytes", b"\xff")

    for name, why in (
        ("pipe", "is not a file"),
        ("long", "is larger than 2 KB"),
        ("bytes", "is not UTF-8 text"),
    ):
        with pytest.raises(UntrustedFileError, match=f"{name} {why}"):
            read_private(tmp_path / name, 2048)


def test_one_at_a_time_holds_the_lock(tmp_path: Path):
    home, order = tmp_path / "home", list[str]()

    def second() -> None:
        with locked(home, "x.lock"):
            order.append("second")

    with ThreadPoolExecutor() as pool:
        with locked(home, "x.lock"):
            waiting = pool.submit(second)
            with pytest.raises(TimeoutError):
                waiting.result(0.1)
            order.append("first")
        waiting.result()

    assert order == ["first", "second"]
    assert home.stat().st_mode & 0o777 == 0o700
