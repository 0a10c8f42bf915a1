"""Bundled folders are found in a checkout and in a wheel, and a missing one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.errors import NotFoundError
from parachuted.home_files.bundled import bundled_folder

pytestmark = pytest.mark.usefixtures("each_disk")


def test_a_checkout_has_the_folders_beside_the_package():
    assert bundled_folder("vault-template").samefile(Path(__file__).parents[2] / "vault-template")


def test_an_installed_package_has_them_inside(tmp_path: Path):
    package = tmp_path / "parachuted"
    (package / "bundle/hooks").mkdir(parents=True)
    (tmp_path / "hooks").mkdir()

    assert bundled_folder("hooks", package) == package / "bundle/hooks"


def test_an_installed_package_never_takes_a_stranger_s_folder_beside_it(tmp_path: Path):
    package = tmp_path / "parachuted"
    (package / "bundle").mkdir(parents=True)
    (tmp_path / "modules").mkdir()

    with pytest.raises(NotFoundError, match="lacks its folder modules"):
        bundled_folder("modules", package)
