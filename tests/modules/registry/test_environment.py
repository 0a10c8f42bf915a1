"""A module's packages: in an environment of its own, locked to the byte, and nothing of them runs
on the way.
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from parachuted.errors import UnfitError
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.install import build, lock_of, site_packages
from tests.modules.stranger import MANIFEST, loaded


def make_wheel(
    folder: Path, name: str = "tiny_m2", version: str = "1.0", said: str = "tiny", **more: str
) -> None:
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"SAID = {said!r}\n",
        **more,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: "
        "py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(
            f"{info}/RECORD", "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
        )


@pytest.fixture
def env(tmp_path) -> dict[str, str]:
    return {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
        "PIP_NO_CACHE_DIR": "1",
    }


def test_what_is_asked_for_is_installed_and_locked_and_nothing_of_it_runs(tmp_path, env):
    mark = tmp_path / "it ran"
    run = f"import pathlib; pathlib.Path({str(mark)!r}).touch()\n"
    evil = {
        "evil.pth": run,
        "sitecustomize.py": run,
        "usercustomize.py": run,
        "pip.py": run,
        "__pycache__/x.pyc": run,
    }
    make_wheel(tmp_path / "wheels", **evil)
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(run)
    name, lock = build(tmp_path, ["tiny-m2>=1.0"], {**env, "PYTHONPATH": str(tmp_path / "path")})
    site = site_packages(tmp_path / name)

    assert not mark.exists()
    assert (site / "tiny_m2.py").exists()
    assert not (site / "__pycache__").exists()
    assert lock[0].startswith("tiny_m2==1.0 sha256:")
    assert [line.partition(" ")[0] for line in lock[1:]] == ["site-packages"]
    assert lock_of(tmp_path / name) == lock
    (site / "__pycache__").mkdir()
    assert lock_of(tmp_path / name) == lock
    (site / "tiny_m2.py").write_text("evil")
    assert lock_of(tmp_path / name) != lock


def test_a_package_that_has_to_be_built_does_not_run_nor_does_the_module(rig, env):
    rig.trust = ModuleApprovals(rig.home, rig.vault, env=env)
    wheels, setup = rig.base / "wheels", rig.base / "setup.py"
    wheels.mkdir()
    setup.write_text(rig.payload)
    with zipfile.ZipFile(wheels / "evil_m2-1.0.zip", "w") as made:
        made.write(setup, "evil_m2-1.0/setup.py")
    rig.write(**{"manifest.yaml": MANIFEST + "dependencies: [evil-m2]\n"})
    with pytest.raises(UnfitError, match="evil-m2"):
        rig.approve()

    assert not rig.mark.exists()
    entry = rig.trust.entry("stranger")
    assert (entry.record.enabled, entry.approved_digest, entry.state) == (False, None, "new")
    assert rig.trust.ready() == []
    assert list((rig.home / "modules").iterdir()) == []


def test_an_approved_module_finds_its_packages_until_they_change(rig, env):
    make_wheel(rig.base / "wheels")
    rig.trust = ModuleApprovals(rig.home, rig.vault, env=env)
    code = (
        "import tiny_m2\nfrom parachuted.modules import Module\nclass Stranger(Module):\n    "
        "said = tiny_m2.SAID\n"
    )

    def write(package: str, code: str) -> None:
        needs = MANIFEST + f"dependencies: [{package}]\n"
        rig.write(**{"manifest.yaml": needs, "module.py": code})

    write("tiny-m2", code)
    first = rig.approve()
    with loaded(first) as cls:
        assert cls.said == "tiny"
    sys.modules.pop("tiny_m2")

    write("tiny-m2", code + "# more\n")
    second = rig.approve()
    assert second.import_paths == first.import_paths, "the same packages are not installed again"
    write("no-such-thing-m2", code)
    with pytest.raises(UnfitError, match="no-such-thing-m2"):
        rig.approve()
    assert rig.ready() == second  # the approved version goes on

    (second.import_paths[0] / "tiny_m2.py").write_text("SAID = 'evil'\n")
    assert rig.trust.ready() == []
    assert "packages" in (rig.trust.entry("stranger").problem or "")
