"""Actions: what a person does about modules is told the same with and without a daemon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError, OutdatedError
from parachuted.home_files.vault_state import state_folder
from parachuted.modules.actions import ModuleActions, RemovedModule, as_document
from parachuted.modules.hosting.module_state import MODULE_DATA, make_data_folder
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.skeleton import new_module


@pytest.fixture
def actions(home: Path, vault: Path) -> ModuleActions:
    return ModuleActions(ModuleApprovals(home, vault, env=os.environ))


def test_a_module_goes_from_new_to_approved_disabled_enabled_and_gone(
    actions: ModuleActions, tmp_path: Path, vault: Path
):
    new_module(tmp_path / "garden", "garden")

    installed = actions.install(str(tmp_path / "garden"), dev=False, path=None)
    assert (installed.module.status, installed.module.state) == ("unapproved", "new")
    assert "Garden/" in installed.consent.text
    assert as_document(installed)["module"]["trust_level"] == "untrusted"
    assert actions.approve("garden", installed.hash, None).state == "approved"
    assert actions.disable("garden").status == "disabled"
    assert [one.name for one in actions.listing()] == ["garden"]
    actions.enable("garden")
    assert actions.remove("garden") == RemovedModule(
        name="garden", folder_removed=True, has_data=False
    )
    assert (actions.listing(), (vault / "Modules/garden").exists()) == ([], False)


def test_a_module_that_is_not_there_or_whose_folder_is_gone_is_said_to_be(
    actions: ModuleActions, vault: Path
):
    with pytest.raises(NotFoundError, match="there is no module"):
        actions.consent("garden")
    new_module(vault / "Modules/garden", "garden")
    actions.approve("garden", actions.consent("garden").hash, None)
    (vault / "Modules/garden").rename(vault / "elsewhere")
    with pytest.raises(NotFoundError, match="folder of garden is gone"):
        actions.consent("garden")


def test_what_a_module_kept_outside_the_vault_goes_only_when_asked_for(
    actions: ModuleActions, tmp_path: Path, home: Path, vault: Path
):
    data = make_data_folder(state_folder(home, vault) / MODULE_DATA, "garden")
    (data / "index.db").write_text("x")
    new_module(tmp_path / "garden", "garden")
    installed = actions.install(str(tmp_path / "garden"), dev=False, path=None)
    actions.approve("garden", installed.hash, None)

    with pytest.raises(OutdatedError, match="still approved"):
        actions.delete_data("garden")
    assert actions.remove("garden").has_data is True
    assert (data / "index.db").exists()
    assert actions.remove("garden").has_data is True
    assert actions.delete_data("garden") is True
    assert not data.exists()
    with pytest.raises(NotFoundError):
        actions.remove("garden")
