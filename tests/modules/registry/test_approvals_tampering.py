"""Thirty kinds of tampering with an approved module by who owns the vault: nothing that nobody
approved runs, and the change is seen.
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.modules.stranger import CODE, MANIFEST, SAID, Yard, nothing_of_modules_is_left


@pytest.fixture
def yard(tmp_path, home, vault) -> Yard:
    made = Yard(base=tmp_path, home=home, vault=vault)
    made.write()
    made.approve()
    return made


def plant_bytecode(yard: Yard, source: str, *, cached: bool) -> None:
    evil = yard.base / "evil.py"
    evil.write_text(yard.payload)
    file = yard.folder / source
    target = (
        Path(importlib.util.cache_from_source(str(file))) if cached else file.with_suffix(".pyc")
    )
    target.parent.mkdir(exist_ok=True)
    py_compile.compile(
        str(evil),
        cfile=str(target),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    if not cached:
        file.unlink()


def keep_times(yard: Yard) -> None:
    file = yard.folder / "words.py"
    at = file.stat()
    file.write_text(yard.payload)
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))


def to_link(yard: Yard, path: str) -> None:
    away = yard.base / "away"
    target = yard.folder / path
    if target.is_dir():
        shutil.move(target, away)
        (away / "inner.py").write_text(yard.payload)
    else:
        away.write_text(yard.payload)
        target.unlink()
    target.symlink_to(away)


def folder_to_link(yard: Yard) -> None:
    away = yard.base / "away"
    shutil.move(yard.folder, away)
    (away / "words.py").write_text(yard.payload)
    yard.folder.symlink_to(away)


def modules_to_link(yard: Yard) -> None:
    away = yard.base / "away"
    shutil.move(yard.vault / "Modules", away)
    (away / "stranger" / "words.py").write_text(yard.payload)
    (yard.vault / "Modules").symlink_to(away)


def hard_link(yard: Yard) -> None:
    evil = yard.base / "evil.py"
    evil.write_text(yard.payload)
    (yard.folder / "words.py").unlink()
    (yard.folder / "words.py").hardlink_to(evil)


def rename(yard: Yard) -> None:
    (yard.folder / "data.py").write_text(yard.payload)
    (yard.folder / "words.py").rename(yard.folder / "old.py")
    (yard.folder / "data.py").rename(yard.folder / "words.py")


def another_name(yard: Yard) -> None:
    yard.folder.rename(yard.folder.with_name("other"))


def claims_a_name(yard: Yard) -> None:
    shutil.copytree(yard.folder, yard.folder.with_name("twin"))
    (yard.folder / "manifest.yaml").write_text(MANIFEST.replace("stranger", "twin", 1))


def write(path: str, text: str | None = None) -> Callable[[Yard], None]:
    def tamper(yard: Yard) -> None:
        file = yard.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yard.payload if text is None else text)

    return tamper


def bytes_of(path: bytes, content: bytes = b"x") -> Callable[[Yard], None]:
    def tamper(yard: Yard) -> None:
        with open(os.fsencode(yard.folder) + b"/" + path, "wb") as file:  # noqa: PTH123  a Path cannot spell this name
            file.write(content)

    return tamper


TAMPERING: dict[str, Callable[[Yard], object]] = {
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
    "a planted .pyc in __pycache__": lambda yard: plant_bytecode(yard, "words.py", cached=True),
    "a planted .pyc in place of the source": lambda yard: plant_bytecode(
        yard, "words.py", cached=False
    ),
    "a planted .so": bytes_of(b"words.abi3.so", b"\x7fELF"),
    "a new file": write("extra.py"),
    "a file less": lambda yard: (yard.folder / "words.py").unlink(),
    "a file renamed": rename,
    "sitecustomize": write("sitecustomize.py"),
    "a .pth": write("evil.pth", "import words\n"),
    "a name of the standard library": write("pathlib.py"),
    "a stand-in for parachuted": write("parachuted/modules/__init__.py"),
    "a mode": lambda yard: (yard.folder / "data.json").chmod(0o755),
    "a link in place of a file": lambda yard: to_link(yard, "words.py"),
    "a link in place of a folder inside": lambda yard: to_link(yard, "deep"),
    "a link in place of the folder": folder_to_link,
    "a link in place of Modules": modules_to_link,
    "a hard link": hard_link,
    "a pipe": lambda yard: os.mkfifo(yard.folder / "pipe"),
    "case twins": write("WORDS.py"),
    "twins in another normal form": lambda yard: [write("é.py")(yard), write("e\u0301.py")(yard)],
    "a name that is not UTF-8": bytes_of(b"\xff.py"),
    "a name that nobody sees": write("words\u200b.py"),
    "a folder's name": another_name,
    "another module's name": claims_a_name,
    "a signature that is none": lambda yard: [
        write("module.py")(yard),
        write("SIGNATURE", "A" * 88)(yard),
    ],
    "an approval of its own in the vault": lambda yard: [
        write("module.py")(yard),
        (yard.vault / "modules.yaml").write_text((yard.home / "modules.yaml").read_text()),
        shutil.copytree(yard.home, yard.vault / ".parachute"),
    ],
}


@pytest.mark.parametrize("kind", TAMPERING)
def test_a_module_that_was_tampered_with_runs_as_it_was_approved_and_in_no_other_way(yard, kind):
    TAMPERING[kind](yard)

    assert yard.run() == [SAID]
    assert not yard.mark.exists()
    assert nothing_of_modules_is_left()
    entry = yard.trust.entry("stranger")
    assert entry.state in {"changed", "missing", "broken"}, kind
    assert entry.found_digest != entry.approved_digest


def test_there_are_thirty_kinds():
    assert len(TAMPERING) >= 30


@pytest.mark.parametrize("kind", TAMPERING)
def test_a_module_that_nobody_approved_never_runs_however_it_came(tmp_path, home, vault, kind):
    yard = Yard(base=tmp_path, home=home, vault=vault)
    yard.write()
    if kind != "an approval of its own in the vault":
        TAMPERING[kind](yard)

    assert yard.run() == []
    assert not yard.mark.exists()


@pytest.mark.parametrize("path", ["words.py", "prompts/ask.md", "deep/inner.py", "data.json"])
def test_a_damaged_copy_does_not_run_though_only_the_home_can_damage_it(yard, path):
    one = yard.ready()
    file = one.copy / path
    file.chmod(0o644)
    file.write_text(yard.payload)

    assert yard.run() == []
    assert not yard.mark.exists()
    trust = yard.again()
    assert trust.ready() == []
    assert "approve" in (trust.entry("stranger").problem or "")


def test_a_file_that_is_added_to_the_copy_stops_it(yard):
    one = yard.ready()
    one.copy.chmod(0o755)
    (one.copy / "extra.py").write_text("")

    assert yard.run() == []


def test_what_modules_yaml_says_must_hold_of_what_is_there(yard):
    text = (yard.home / "modules.yaml").read_text()
    for old, new in (("hash", "sha256:" + "0" * 64), ("tree", "sha256:" + "1" * 64)):
        lines = [
            f"    {old}: {new}\n" if line.strip().startswith(f"{old}:") else line
            for line in text.splitlines(keepends=True)
        ]
        (yard.home / "modules.yaml").write_text("".join(lines))
        assert yard.run() == []
    (yard.home / "modules.yaml").write_text(text)
    assert yard.run() == [SAID]
