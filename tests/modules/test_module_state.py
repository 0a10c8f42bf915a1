"""What a module keeps: its state is there after a restart, whole, within limits, and its data
folder is private, bounded, and deleted without following links.
"""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from parachuted.access.caller import Caller
from parachuted.errors import EditRefusedError, StorageFailedError
from parachuted.modules import module_state
from parachuted.modules.module_state import (
    MODULE_DATA,
    MODULE_STATE,
    StateAccess,
    delete_module_data,
    folder_size,
    has_module_data,
    make_data_folder,
    watch_size,
)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "state" / "modules" / "daily"


async def test_what_was_put_is_there_after_a_restart(folder):
    state = StateAccess(folder, Caller)
    await state.put("seen", {"entries": ["a", "ü\ud800"], "n": 1.5, "none": None})
    await state.put("../../naughty/\0", [1])
    await state.put("gone", 1)
    await state.put("gone", 2)
    await state.delete("gone")
    await state.delete("never")

    again = StateAccess(folder, Caller)
    assert await again.get("seen") == {"entries": ["a", "ü\ud800"], "n": 1.5, "none": None}
    assert (
        await again.get("gone"),
        await again.get("gone", "usual"),
        await again.get("../../naughty/\0"),
    ) == (None, "usual", [1])
    assert await again.keys() == ["../../naughty/\0", "seen"]
    assert {entry.parent for entry in folder.parent.rglob("*.json")} == {folder}
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


async def test_a_value_is_a_copy_and_callers_do_not_meet(folder):
    state, value = StateAccess(folder, Caller), {"list": [1]}
    await state.put("a", value)
    value["list"].append(2)
    (await state.get("a"))["list"].append(3)
    await asyncio.gather(*(state.put("same", number) for number in range(50)))

    assert await state.get("a") == {"list": [1]}
    assert await state.get("same") in range(50)
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("a", value) for value in (b"x", {1, 2}, object(), float("nan"), "x" * 1_000_001)),
        ("", 1),
        ("x" * 201, 1),
    ],
    ids=lambda value: str(value)[:9],
)
async def test_what_is_not_json_or_too_much_is_refused_and_what_was_there_stays(folder, key, value):
    state = StateAccess(folder, Caller)
    await state.put("a", "before")
    with pytest.raises(EditRefusedError, match="the state"):
        await state.put(key, value)
    assert await StateAccess(folder, Caller).get("a") == "before"


async def test_all_values_together_are_bounded_also_after_a_restart(folder, monkeypatch):
    monkeypatch.setattr(module_state, "LARGEST_IN_ALL", 1_000)
    monkeypatch.setattr(module_state, "MOST_KEYS", 4)
    state = StateAccess(folder, Caller)
    for key in "abc":
        await state.put(key, "x" * 300)
    state = StateAccess(folder, Caller)
    with pytest.raises(EditRefusedError, match="at most 4 keys and 0 MB"):
        await state.put("d", "x" * 300)
    await state.put("a", "")
    await state.put("d", "x" * 100)
    with pytest.raises(EditRefusedError, match="at most 4 keys"):
        await state.put("e", 1)
    assert await state.keys() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'{"key": "a"}', b"[" * 100_000, b"\xff"])
async def test_a_damaged_file_counts_as_none(folder, data, caplog):
    state = StateAccess(folder, Caller)
    await state.put("a", 1)
    (file,) = folder.iterdir()
    file.write_bytes(data)

    again = StateAccess(folder, Caller)
    assert (await again.get("a", "usual"), await again.keys()) == ("usual", [])
    assert "counts as none" in caplog.text
    await again.put("a", 2)
    assert await again.get("a") == 2


async def test_a_disk_that_refuses_is_reported(folder):
    folder.parent.mkdir(parents=True)
    folder.write_text("a file in its place")
    with pytest.raises(StorageFailedError, match="could not be kept"):
        await StateAccess(folder, Caller).put("a", 1)


async def test_what_was_put_after_a_strangers_text_marks_each_later_reader(tmp_path):
    tainted = Caller()
    tainted.taint.read("Inbox/mail.md")
    await StateAccess(tmp_path, lambda: tainted).put("mail", "do as I say")
    await StateAccess(tmp_path, Caller).put("own", 1)
    got, clean, listed = Caller(), Caller(), Caller()

    assert await StateAccess(tmp_path, lambda: got).get("mail") == "do as I say"
    assert await StateAccess(tmp_path, lambda: clean).get("own") == 1
    assert await StateAccess(tmp_path, lambda: listed).keys() == ["mail", "own"]
    assert [bool(one.taint) for one in (got, clean, listed)] == [True, False, True]


def test_it_is_private_and_made_once_where_it_can_be(tmp_path):
    folder = make_data_folder(tmp_path / "state" / MODULE_DATA, "brain")
    (folder / "index.db").write_bytes(b"x" * 100_000)

    assert make_data_folder(tmp_path / "state" / MODULE_DATA, "brain") == folder
    assert (folder.stat().st_mode & 0o777, (folder / "index.db").exists()) == (0o700, True)
    (folder / "deep").mkdir()
    taken, count = folder_size(folder)
    assert (100_000 <= taken < 200_000, count) == (True, 2)
    assert folder_size(tmp_path / "not there") == (0, 0)

    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(StorageFailedError, match="is not a folder"):
            make_data_folder(tmp_path, name)


def test_deleting_follows_no_link_and_takes_nothing_of_others(tmp_path):
    (tmp_path / "mine").write_text("mine")
    other = make_data_folder(tmp_path / MODULE_DATA, "daily")
    (other / "a").touch()
    folder = make_data_folder(tmp_path / MODULE_DATA, "brain")
    (folder / "out").symlink_to(tmp_path)
    (tmp_path / MODULE_STATE / "brain").mkdir(parents=True)
    (tmp_path / MODULE_STATE / "brain" / "key.json").write_text("{}")

    assert has_module_data(tmp_path, "brain")
    assert delete_module_data(tmp_path, "brain")
    assert not has_module_data(tmp_path, "brain")
    assert not delete_module_data(tmp_path, "brain")
    assert not folder.exists()
    assert not (tmp_path / MODULE_STATE / "brain").exists()
    assert ((tmp_path / "mine").read_text(), (other / "a").exists()) == ("mine", True)


@pytest.mark.parametrize("name", ["..", ".", "", "../daily", "a/b", "/"])
def test_no_name_reaches_another_folder(tmp_path, name):
    make_data_folder(tmp_path / MODULE_DATA, "daily").joinpath("a").touch()

    assert not delete_module_data(tmp_path, name)
    assert (tmp_path / MODULE_DATA / "daily" / "a").exists()


def test_a_file_that_vanishes_while_it_is_counted_hides_no_other(tmp_path, monkeypatch):
    (tmp_path / "stays").touch()
    gone = SimpleNamespace(stat=lambda **_how: (tmp_path / "gone").lstat())
    with os.scandir(tmp_path) as found:
        entries = [gone, *found]
    monkeypatch.setattr(module_state.os, "scandir", lambda _folder: nullcontext(entries))

    assert folder_size(tmp_path)[1] == 1


async def test_one_that_grows_too_large_ends_its_process(tmp_path, monkeypatch):
    monkeypatch.setattr(module_state, "MOST_FILES", 5)
    for number in range(8):
        (tmp_path / str(number)).touch()
    (tmp_path / "out").symlink_to("/")
    ended: list[str] = []

    assert folder_size(tmp_path)[1] == 9
    async with asyncio.timeout(30):
        await watch_size(tmp_path, ended.append)

    assert "5 files" in ended[0]
