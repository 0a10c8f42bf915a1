"""Texts: what was only seen is kept cheaply, and no fault of its file is a fault of the daemon."""

from __future__ import annotations

import os
import threading
from contextlib import closing

import pytest

from parachuted.vault.objects import TextStore


@pytest.fixture
def path(home):
    return home / "seen.db"


@pytest.fixture
def texts(path):
    texts = TextStore(path)
    yield texts
    texts.close()


def test_what_was_put_is_had_back_byte_for_byte_also_after_a_restart(texts, path):
    texts.put([("one", b"\xff\x00\r\n"), ("empty", b"")])
    texts.close()
    with closing(TextStore(path)) as again:
        assert (again.get("one"), again.get("empty"), again.get("none")) == (
            b"\xff\x00\r\n",
            b"",
            None,
        )
        assert "one" in again
        assert "none" not in again


def test_a_text_is_put_once_and_making_the_texts_may_ask_what_is_kept(texts):
    texts.put([("one", b"1")])
    texts.put([("one", b"1"), ("two", b"2")])
    texts.put((name, b"x") for name in ("one", "two", "three") if name not in texts)
    assert [texts.get(name) for name in ("one", "two", "three")] == [b"1", b"2", b"x"]


def test_all_but_the_wanted_are_forgotten_each_time(texts):
    texts.put([("one", b"1"), ("two", b"2"), ("three", b"3")])
    texts.keep_only(["one", "two", "two", "never seen"])
    assert [name in texts for name in ("one", "two", "three")] == [True, True, False]
    texts.keep_only([])
    assert "one" not in texts


def test_a_garbled_file_takes_its_journal_along(path):
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"{path.name}{suffix}").write_bytes(b"\xff" * 8192)
    with closing(TextStore(path)) as texts:
        texts.put([("two", b"2")])
        assert texts.get("two") == b"2"
        assert b"\xff" * 100 not in path.with_name(f"{path.name}-wal").read_bytes()


def test_a_file_garbled_while_in_use_reads_as_nothing_kept(texts, path):
    texts.put((str(number), b"x" * 5000) for number in range(200))
    texts.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    with closing(TextStore(path)) as again:
        assert again.get("7") is None
        assert "7" not in again
        again.keep_only(["7"])
        again.put([("new", b"x")])
        assert (again.get("new"), again.get("7")) == (b"x", None)


def test_threads_share_one_file(texts):
    def work(name: str) -> None:
        for number in range(50):
            texts.put([(f"{name}{number}", name.encode())])

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(
        texts.get(f"{name}{number}") == name.encode() for name in "abc" for number in range(50)
    )
