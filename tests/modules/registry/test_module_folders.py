"""The folders in which modules lie, and what may lie where."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.modules.registry.approved import ApprovalRefusedError
from parachuted.modules.registry.module_folders import ModuleFolders, trust_level
from parachuted.modules.registry.module_registry import ModuleRecord, record_of
from parachuted.modules.registry.module_tree import TreeRefusedError

pytestmark = pytest.mark.usefixtures("each_disk")


@pytest.fixture
def folders(tmp_path: Path) -> ModuleFolders:
    (tmp_path / "vault" / "Modules").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return ModuleFolders(tmp_path / "home", tmp_path / "vault")


def write(folder: Path, text: str = "x = 1\n") -> Path:
    folder.mkdir(parents=True, mode=0o755)
    (folder / "module.py").write_text(text)
    return folder


def developed(folder: Path) -> ModuleRecord:
    return ModuleRecord(name="mine", path=str(folder), is_dev=True)


def test_a_module_is_a_folder_or_a_link_with_the_name_of_one(folders, tmp_path):
    modules = tmp_path / "vault" / "Modules"
    write(modules / "daily")
    write(modules / "Not a name")
    (modules / "file").write_text("")
    (modules / "link").symlink_to(modules / "daily")

    assert folders.names() == {"daily", "link"}


def test_modules_that_are_behind_a_link_are_none(folders, tmp_path):
    modules = tmp_path / "vault" / "Modules"
    modules.rename(tmp_path / "elsewhere")
    write(tmp_path / "elsewhere" / "daily")
    modules.symlink_to(tmp_path / "elsewhere")

    assert folders.names() == set()


def test_the_digest_follows_the_folder_and_a_missing_one_has_a_reason(folders, tmp_path):
    record = record_of("daily")
    assert folders.digest(record)[0] is None
    file = write(tmp_path / "vault" / "Modules" / "daily") / "module.py"
    first, problem = folders.digest(record)
    file.write_text("x = 2 + 2\n")

    assert (problem, len(first or "")) == (None, len("sha256:") + 64)
    assert folders.digest(record)[0] not in {None, first}


def test_what_tools_leave_is_not_a_part_of_a_module_under_development(folders, tmp_path):
    folder = write(tmp_path / "work" / "mine")
    before = folders.digest(developed(folder))
    write(folder / "__pycache__")

    assert folders.digest(developed(folder)) == before


def test_a_module_under_development_lies_outside_vault_and_home_and_is_no_one_elses(
    folders, tmp_path
):
    for inside in ("vault", "home"):
        with pytest.raises(ApprovalRefusedError, match="cannot be in the vault"):
            folders.check_dev(write(tmp_path / inside / "mine"), "mine", None)
    folder = write(tmp_path / "work" / "mine")
    folders.check_dev(folder, "mine", None)
    with pytest.raises(ApprovalRefusedError, match="already"):
        folders.check_dev(folder, "mine", record_of("mine"))
    folder.chmod(0o777)
    with pytest.raises(ApprovalRefusedError, match="others may write"):
        folders.check_dev(folder, "mine", None)
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(TreeRefusedError, match="is a link"):
        folders.read(developed(tmp_path / "link"))


def test_only_a_signature_makes_a_module_verified():
    record = ModuleRecord(name="mine", path="Modules/mine", trust="verified")

    assert trust_level((), record, "sha256:0", None, None) == "untrusted"
    assert trust_level((), record, "sha256:0", None, "trusted") == "trusted"
    with pytest.raises(ApprovalRefusedError, match="not signed"):
        trust_level((), record, "sha256:0", None, "verified")
