"""Actions: what a person does about modules is told the same with and without a daemon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError, OutdatedError
from parachuted.home_files.vault_state import state_folder
from parachuted.modules.actions import (
    RemovedModule,
    as_document,
    delete_data,
    install_module,
    remove_module,
    review_module,
)
from parachuted.modules.module_state import MODULE_DATA, make_data_folder
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.skeleton import new_module


@pytest.fixture
def approvals(home: Path, vault: Path) -> ModuleApprovals:
    return ModuleApprovals(home, vault, env=os.environ)


def test_a_module_goes_from_new_to_approved_disabled_enabled_and_gone(
    approvals: ModuleApprovals, tmp_path: Path, vault: Path
):
    new_module(tmp_path / "garden", "garden")

    installed = install_module(approvals, str(tmp_path / "garden"), dev=False, path=None)
    assert (installed.module.status, installed.module.state) == ("unapproved", "new")
    assert "Garden/" in installed.consent.text
    assert as_document(installed)["module"]["trust_level"] == "untrusted"
    assert approvals.approve("garden", installed.hash).state == "approved"
    assert not approvals.disable("garden").record.enabled
    assert [one.name for one in approvals.entries()] == ["garden"]
    approvals.enable("garden")
    assert remove_module(approvals, "garden") == RemovedModule(
        name="garden", folder_removed=True, has_data=False
    )
    assert (approvals.entries(), (vault / "Modules/garden").exists()) == ([], False)


def test_a_module_that_is_not_there_or_whose_folder_is_gone_is_said_to_be(
    approvals: ModuleApprovals, vault: Path
):
    with pytest.raises(NotFoundError, match="there is no module"):
        review_module(approvals, "garden")
    new_module(vault / "Modules/garden", "garden")
    approvals.approve("garden", review_module(approvals, "garden").hash)
    (vault / "Modules/garden").rename(vault / "elsewhere")
    with pytest.raises(NotFoundError, match="folder of garden is gone"):
        review_module(approvals, "garden")


def test_what_a_module_kept_outside_the_vault_goes_only_when_asked_for(
    approvals: ModuleApprovals, tmp_path: Path, home: Path, vault: Path
):
    data = make_data_folder(state_folder(home, vault) / MODULE_DATA, "garden")
    (data / "index.db").write_text("x")
    new_module(tmp_path / "garden", "garden")
    installed = install_module(approvals, str(tmp_path / "garden"), dev=False, path=None)
    approvals.approve("garden", installed.hash)

    with pytest.raises(OutdatedError, match="still approved"):
        delete_data(approvals, "garden")
    assert remove_module(approvals, "garden").has_data is True
    assert (data / "index.db").exists()
    assert remove_module(approvals, "garden").has_data is True
    assert delete_data(approvals, "garden") is True
    assert not data.exists()
    with pytest.raises(NotFoundError):
        remove_module(approvals, "garden")
