"""Vendored libraries are those that the script wrote down, with their licences."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.web.vendor import BUNDLES, FOLDER, FOR_TESTS, ONLY_FOR_TESTS, PACKAGES


@pytest.mark.parametrize("folder", [FOLDER, FOR_TESTS], ids=["page", "tests"])
def test_each_file_has_the_checksum_that_was_written_down(folder: Path):
    reported = json.loads((folder / "vendor.json").read_text())
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "vendor.json"
    }

    assert found == reported["sha256"]


def test_the_script_names_the_versions_and_each_has_its_licence():
    reported = json.loads((FOLDER / "vendor.json").read_text())
    licences = (FOLDER / "LICENSES.txt").read_text()

    assert {*BUNDLES} == {*reported["bundles"]}
    assert {name: reported["packages"][name]["version"] for name in PACKAGES} == PACKAGES
    assert (FOR_TESTS / "axe-core-LICENSE.txt").is_file()
    assert (
        json.loads((FOR_TESTS / "vendor.json").read_text())["packages"]["axe-core"]["version"]
        == ONLY_FOR_TESTS["axe-core"]
    )
    for name, package in reported["packages"].items():
        assert f"{name} {package['version']} ({package['licence']})" in licences
        assert package["integrity"].startswith("sha512-")
