"""A module's data folder: private, of its name alone, bounded, deleted without following links."""

from __future__ import annotations

import asyncio

import pytest

from parachuted.errors import StorageFailedError
from parachuted.modules.hosting import module_state
from parachuted.modules.hosting.module_state import (
    MODULE_DATA,
    MODULE_STATE,
    delete_module_data,
    folder_size,
    has_module_data,
    make_data_folder,
    watch_size,
)


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
