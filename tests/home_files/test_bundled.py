"""Bundled folders are found in a checkout and in a wheel, and a missing one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.errors import NotFoundError
from parachuted.home_files.bundled import bundled_folder

pytestmark = pytest.mark.usefixtures("each_disk")


def test_a_checkout_has_the_folders_beside_the_package():
    assert bundled_folder("vault-template").samefile(Path(__file__).parents[2] / "vault-template")


def test_an_installed_package_takes_those_inside_and_no_stranger_s(tmp_path: Path):
    package = tmp_path / "parachuted"
    (package / "bundle/hooks").mkdir(parents=True)
    for name in ("hooks", "modules"):
        (tmp_path / name).mkdir()

    assert bundled_folder("hooks", package) == package / "bundle/hooks"
    with pytest.raises(NotFoundError, match="lacks its folder modules"):
        bundled_folder("modules", package)
