"""Vault state: a vault keeps its past wherever it goes, and no two vaults share one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from parachuted.errors import DaemonError, ParachuteError
from parachuted.home_files.vault_state import (
    VaultUnclearError,
    adopt,
    known_state_folder,
    separate,
    state_folder,
    was_vault,
)

pytestmark = pytest.mark.usefixtures("each_disk")


def refuse(*_args: object, **_more: object) -> None:
    raise PermissionError(13, "Permission denied")


def id_of(vault: Path) -> str:
    return (vault / ".parachute/vault-id").read_text().splitlines()[0]


def test_a_new_vault_gets_an_id_and_a_gitignore_and_keeps_both(home, vault):
    assert known_state_folder(home, vault) is None  # a look writes nothing
    assert list(vault.iterdir()) == list(home.iterdir()) == []
    folder = state_folder(home, vault)
    identity, gitignore = id_of(vault), vault / ".parachute/.gitignore"
    lines = gitignore.read_text().splitlines()
    assert "/audit/" in lines
    assert not any("vault-id" in line for line in lines)
    gitignore.write_text("mine")

    assert state_folder(home, vault) == folder == known_state_folder(home, vault)
    assert folder.is_dir()
    assert (id_of(vault), gitignore.read_text()) == (identity, "mine")
    (folder / "vault.json").write_text("{")  # a garbled record is none
    assert state_folder(home, vault) == folder


@pytest.mark.parametrize("what", ["vault", "home", "both"])
def test_what_was_moved_keeps_its_past(home, vault, tmp_path, what):
    name = state_folder(home, vault).name
    if what in {"vault", "both"}:
        vault = vault.rename(tmp_path / "renamed vault")
    if what in {"home", "both"}:
        home = home.rename(tmp_path / "renamed home")

    assert state_folder(home, vault) == home / "state" / name
    assert not was_vault(home, tmp_path / "vault") or what == "home"


@pytest.mark.on_disk
def test_a_vault_restored_from_a_backup_keeps_its_past(home, vault, tmp_path):
    folder = state_folder(home, vault)
    shutil.copytree(vault, tmp_path / "backup")
    shutil.rmtree(vault)
    shutil.copytree(tmp_path / "backup", vault)
    assert state_folder(home, vault) == folder
    shutil.rmtree(vault)
    assert state_folder(home, tmp_path / "backup") == folder


@pytest.mark.on_disk
def test_a_copy_beside_the_original_is_asked_about_and_shares_nothing(home, vault, tmp_path):
    folder, copy = state_folder(home, vault), tmp_path / "a copy"
    shutil.copytree(vault, copy)
    for _ in range(2):
        with pytest.raises(
            VaultUnclearError,
            match=r"Is it a copy.*`parachute vault separate '.*a copy'`.*`parachute vault adopt",
        ):
            state_folder(home, copy)
        assert known_state_folder(home, copy) is None

    separate(home, copy)
    assert state_folder(home, copy) != folder
    assert id_of(copy) != id_of(vault)
    assert state_folder(home, vault) == folder


@pytest.mark.on_disk
def test_a_copy_may_take_the_place_of_the_original(home, vault, tmp_path):
    folder, copy = state_folder(home, vault), tmp_path / "copy"
    shutil.copytree(vault, copy)
    adopt(home, copy)
    assert state_folder(home, copy) == folder
    with pytest.raises(VaultUnclearError, match="Is it a copy"):
        state_folder(home, vault)
    separate(home, vault)
    assert state_folder(home, vault) != folder


def test_nothing_is_decided_that_was_not_asked_and_a_link_is_no_copy(home, vault, tmp_path):
    folder = state_folder(home, vault)
    for answer in (separate, adopt):
        with pytest.raises(ParachuteError, match="nothing is unclear"):
            answer(home, vault)
    (tmp_path / "link").symlink_to(vault)
    assert state_folder(home, tmp_path / "link") == state_folder(home, vault) == folder


def test_an_id_that_was_deleted_or_replaced_by_a_sync_loses_nothing(home, vault):
    folder, identity = state_folder(home, vault), id_of(vault)
    shutil.rmtree(vault / ".parachute")
    assert state_folder(home, vault) == folder
    assert id_of(vault) == identity

    (vault / ".parachute/vault-id").write_text("0123456789abcdef" * 2 + "\n")
    assert state_folder(home, vault) == folder
    assert id_of(vault) == "0123456789abcdef" * 2
    assert state_folder(home, vault.rename(vault.with_name("moved"))) == folder


def test_conflict_markers_in_the_id_are_not_repaired(home, vault, tmp_path):
    folder, file = state_folder(home, vault), vault / ".parachute/vault-id"
    conflict = f"<<<<<<< HEAD\n{id_of(vault)}\n=======\n{'0' * 32}\n>>>>>>> other\n"
    file.write_text(conflict)
    assert state_folder(home, vault) == folder
    assert file.read_text() == conflict
    with pytest.raises(VaultUnclearError, match="conflict markers"):
        state_folder(home, vault.rename(tmp_path / "moved"))


def test_an_empty_mount_point_is_not_taken_for_the_vault(home, vault, tmp_path):
    folder = state_folder(home, vault)
    vault.rename(tmp_path / "elsewhere")
    vault.mkdir()
    with pytest.raises(VaultUnclearError, match="mount it"):
        state_folder(home, vault)
    assert list(vault.iterdir()) == []

    separate(home, vault)
    assert state_folder(home, vault) != folder


def test_a_vault_restored_without_its_id_gets_its_past_back(home, vault, tmp_path):
    folder = state_folder(home, vault)
    vault.rename(tmp_path / "elsewhere")
    vault.mkdir()
    (vault / "note.md").write_text("# N\n")
    with pytest.raises(VaultUnclearError, match="restored"):
        state_folder(home, vault)
    adopt(home, vault)
    assert state_folder(home, vault) == folder


def test_another_vault_in_the_place_of_one_has_its_own_state(home, vault, tmp_path):
    folder = state_folder(home, vault)
    moved = vault.rename(tmp_path / "moved")
    another = tmp_path / "another"
    another.mkdir()
    own = state_folder(home, another)
    vault = another.rename(vault)

    assert state_folder(home, vault) == own != folder
    assert state_folder(home, moved) == folder


@pytest.mark.on_disk
def test_links_in_the_vault_lead_the_id_nowhere(home, vault, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (vault / ".parachute").symlink_to(outside)
    assert state_folder(home, vault) == state_folder(home, vault)
    assert list(outside.iterdir()) == []

    (vault / ".parachute").unlink()
    (vault / ".parachute").mkdir()
    (outside / "id").write_text("0" * 32)
    (vault / ".parachute/vault-id").symlink_to(outside / "id")
    state_folder(home, vault)
    assert (outside / "id").read_text() == "0" * 32


def test_a_vault_that_cannot_be_written_is_found_by_its_path(home, vault, monkeypatch):
    monkeypatch.setattr("parachuted.home_files.vault_state._fill_control_folder", refuse)
    assert state_folder(home, vault) == state_folder(home, vault)
    assert list(vault.iterdir()) == []


@pytest.mark.on_disk
def test_an_answer_that_could_not_be_written_is_not_an_answer(home, vault, tmp_path, monkeypatch):
    state_folder(home, vault)
    shutil.copytree(vault, tmp_path / "copy")
    monkeypatch.setattr("parachuted.home_files.vault_state._write_file", refuse)
    with pytest.raises(ParachuteError, match="cannot be written: Permission denied"):
        separate(home, tmp_path / "copy")
    with pytest.raises(VaultUnclearError):
        state_folder(home, tmp_path / "copy")


def test_a_home_that_refuses_is_reported_in_a_sentence(home, vault):
    (home / "state").write_text("no folder")
    with pytest.raises(DaemonError, match="cannot be used"):
        state_folder(home, vault)


def test_a_vault_with_the_id_of_another_does_not_get_its_past(home, vault, tmp_path):
    another = tmp_path / "another"
    another.mkdir()
    folder, own = state_folder(home, vault), state_folder(home, another)
    (another / ".parachute/vault-id").write_text(id_of(vault) + "\n")
    vault.rename(tmp_path / "not mounted")
    with pytest.raises(VaultUnclearError, match="Is it a copy"):
        state_folder(home, another)
    separate(home, another)
    assert state_folder(home, another) == own != folder
