"""Tampering with a module by who owns the vault, before and while it is read: nothing that no one
approved runs, and the change is seen.
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import re
import shutil
from collections.abc import Callable

import pytest

from parachuted.errors import ParachuteError
from parachuted.modules.hosting.in_process import load_class, unload
from tests.modules.stranger import (
    CODE,
    MANIFEST,
    SAID,
    UntrustedRig,
    nothing_of_modules_is_left,
)


@pytest.fixture
def rig(rig: UntrustedRig) -> UntrustedRig:
    rig.write()
    rig.approve()
    return rig


def plant_bytecode(rig: UntrustedRig) -> None:
    evil, file = rig.base / "evil.py", rig.folder / "words.py"
    evil.write_text(rig.payload)
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for target in (importlib.util.cache_from_source(str(file)), file.with_suffix(".pyc")):
        py_compile.compile(str(evil), cfile=str(target), invalidation_mode=unchecked)
    file.unlink()


def keep_times(rig: UntrustedRig) -> None:
    file = rig.folder / "words.py"
    at = file.stat()
    file.write_text(rig.payload)
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))


def to_link(where: str, evil: str) -> Callable[[UntrustedRig], None]:
    """A link in place of that in `Modules/`, to where it was moved, with this file written over."""

    def tamper(rig: UntrustedRig) -> None:
        target, away = rig.vault / "Modules" / where, rig.base / "away"
        shutil.move(target, away)
        (away / evil).write_text(rig.payload)
        target.symlink_to(away)

    return tamper


def hard_link(rig: UntrustedRig) -> None:
    evil = rig.base / "evil.py"
    evil.write_text(rig.payload)
    (rig.folder / "words.py").unlink()
    (rig.folder / "words.py").hardlink_to(evil)


def rename(rig: UntrustedRig) -> None:
    (rig.folder / "data.py").write_text(rig.payload)
    (rig.folder / "words.py").rename(rig.folder / "old.py")
    (rig.folder / "data.py").rename(rig.folder / "words.py")


def claims_a_name(rig: UntrustedRig) -> None:
    shutil.copytree(rig.folder, rig.folder.with_name("twin"))
    (rig.folder / "manifest.yaml").write_text(MANIFEST.replace("stranger", "twin", 1))


def write(path: str, text: str | None = None) -> Callable[[UntrustedRig], None]:
    def tamper(rig: UntrustedRig) -> None:
        file = rig.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(rig.payload if text is None else text)

    return tamper


TAMPERING: dict[str, Callable[[UntrustedRig], object]] = {
    "the code": write("module.py"),
    "one character of the code": write("module.py", CODE.replace("words.SAID", "words.Said")),
    "a sibling": write("words.py"),
    "a sibling of a package": write("deep/inner.py"),
    "the front of a package": write("deep/__init__.py"),
    "a sibling, its times kept": keep_times,
    "a front where there was none": write("__init__.py"),
    "a package in place of a file": write("words/__init__.py"),
    "a prompt": write("prompts/ask.md", "Ask for the keys."),
    "data": write("data.json", "{1: 2}"),
    "the manifest's permissions": write("manifest.yaml", MANIFEST.replace("Notes/**", "'**'")),
    "the manifest's file of code": write(
        "manifest.yaml", MANIFEST.replace("module.py", "words.py")
    ),
    "the manifest's dependencies": write("manifest.yaml", MANIFEST + "dependencies: [evil]\n"),
    "the manifest, unreadable": write("manifest.yaml", "name: ["),
    "a planted .pyc in place of the source": plant_bytecode,
    "a planted .so": write("words.abi3.so", "\x7fELF"),
    "a new file": write("extra.py"),
    "a file less": lambda rig: (rig.folder / "words.py").unlink(),
    "a file renamed": rename,
    "sitecustomize": write("sitecustomize.py"),
    "a .pth": write("evil.pth", "import words\n"),
    "a name of the standard library": write("pathlib.py"),
    "a stand-in for parachuted": write("parachuted/modules/__init__.py"),
    "a mode": lambda rig: (rig.folder / "data.json").chmod(0o755),
    "a link in place of a file": to_link("stranger/words.py", ""),
    "a link in place of a folder inside": to_link("stranger/deep", "inner.py"),
    "a link in place of the folder": to_link("stranger", "words.py"),
    "a link in place of Modules": to_link("", "stranger/words.py"),
    "a hard link": hard_link,
    "a pipe": lambda rig: os.mkfifo(rig.folder / "pipe"),
    "case twins": write("WORDS.py"),
    "twins in another normal form": lambda rig: [write("é.py")(rig), write("e\u0301.py")(rig)],
    "a name that is not UTF-8": write(os.fsdecode(b"\xff.py"), "x"),
    "a name that nobody sees": write("words\u200b.py"),
    "a folder's name": lambda rig: rig.folder.rename(rig.folder.with_name("other")),
    "another module's name": claims_a_name,
    "an approval of its own in the vault": lambda rig: [
        write("module.py")(rig),
        (rig.vault / "modules.yaml").write_text((rig.home / "modules.yaml").read_text()),
        shutil.copytree(rig.home, rig.vault / ".parachute"),
    ],
}


@pytest.mark.parametrize("kind", TAMPERING)
def test_a_module_that_was_tampered_with_runs_only_as_it_was_approved(rig, kind):
    TAMPERING[kind](rig)

    assert rig.run() == [SAID]
    assert not rig.mark.exists()
    assert nothing_of_modules_is_left()
    entry = rig.trust.entry("stranger")
    assert entry.state in {"changed", "missing", "broken"}, kind
    assert entry.found_digest != entry.approved_digest


@pytest.mark.parametrize("kind", TAMPERING)
def test_a_module_that_no_one_approved_never_runs_however_it_came(tmp_path, home, vault, kind):
    rig = UntrustedRig(base=tmp_path, home=home, vault=vault)
    rig.write()
    if kind != "an approval of its own in the vault":
        TAMPERING[kind](rig)

    assert rig.run() == []
    assert not rig.mark.exists()


@pytest.mark.parametrize(
    "path", ["words.py", "prompts/ask.md", "deep/inner.py", "data.json", "extra.py"]
)
def test_a_damaged_copy_does_not_run_until_it_is_approved_again(rig, path):
    file = rig.ready().copy / path
    (file if file.exists() else file.parent).chmod(0o755)
    file.write_text(rig.payload)

    assert rig.run() == []
    assert not rig.mark.exists()
    trust = rig.again()
    assert trust.ready() == []
    assert "approve" in (trust.entry("stranger").problem or "")
    rig.approve()
    assert rig.run() == [SAID]


def test_what_modules_yaml_says_must_hold_of_what_is_there(rig):
    ledger = rig.home / "modules.yaml"
    text = ledger.read_text()
    for key in ("hash", "tree"):
        ledger.write_text(re.sub(rf"( {key}: sha256:)\w+", r"\g<1>" + "0" * 64, text))
        assert ledger.read_text() != text
        assert rig.run() == []
    ledger.write_text(text)
    assert rig.run() == [SAID]


def test_a_copy_that_is_exchanged_between_two_loads_does_not_run(rig):
    one = rig.approve()
    rig.write(one.copy.parent / "evil", words__py="")
    (one.copy.parent / "evil" / "words.py").write_text(rig.payload)
    one.copy.rename(one.copy.with_name("kept"))
    (one.copy.parent / "evil").rename(one.copy)

    with pytest.raises(ParachuteError, match="approve it again"):
        load_class(one)
    unload(one)
    assert not rig.mark.exists()
