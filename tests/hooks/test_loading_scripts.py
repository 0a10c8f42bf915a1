"""Scripts: a program dropped into the folder is a hook with no settings at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from parachuted.hooks.hook import Hook
from parachuted.hooks.loading import read_script

NO_VAULT = Path("/elsewhere")


def drop(folder: Path, name: str, text: str = "", *, mode: int = 0o644) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def hook_of(path: Path) -> Hook:
    found = read_script(path, NO_VAULT)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "text", "mode", "interpreter"),
    [
        ("on-session-start.py", "print(1)\n", 0o644, (sys.executable,)),
        ("on-session-end.sh", "echo\n", 0o644, ("/bin/sh",)),
        ("on-file-modified.py", "#!/usr/bin/env python3\n", 0o755, ()),
        ("on-file-modified.py", "print(1)\n", 0o755, (sys.executable,)),
    ],
    ids=["python", "shell", "by its first line", "executable without a first line"],
)
def test_a_script_runs_by_its_first_line_or_else_its_suffix(
    tmp_path: Path, name: str, text: str, mode: int, interpreter: tuple[str, ...]
):
    path = drop(tmp_path, name, text, mode=mode)

    assert hook_of(path).argv == (*interpreter, str(path))


@pytest.mark.parametrize("name", ["on-file-modified", "on-file-modified.rb", "on-file-modified.js"])
def test_any_other_program_runs_when_it_is_executable(tmp_path: Path, name: str):
    path = drop(tmp_path, name, "#!/usr/bin/env x\n", mode=0o755)
    assert hook_of(path).argv == (str(path),)

    path.chmod(0o644)
    with pytest.raises(ValueError, match="it is not executable; `chmod"):
        read_script(path, NO_VAULT)


def test_a_script_is_a_hook_by_its_name_and_pinned_by_its_content(tmp_path: Path):
    path = drop(tmp_path, "on-daily-entry.py")
    hook = hook_of(path)

    assert (hook.id, hook.event, hook.source, hook.files) == (
        "on-daily-entry.py",
        "daily.entry.created",
        "script",
        (path,),
    )
    assert (hook.timeout_s, hook.matcher, hook.is_async) == (30, None, False)


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ("#!/bin/sh\n# Copies the vault.\n# More.\n", "Copies the vault."),
        (
            '#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n"""Links mentions."""\n',
            "Links mentions.",
        ),
        ('"""Links mentions.\n\nMore."""\n', "Links mentions."),
        ("// Says hello\n", "Says hello"),
        ("-- Says hello\n", "Says hello"),
        ("\n\n## Says hello\n", "Says hello"),
        ("import os\n# Not this.\n", None),
        ("", None),
    ],
)
def test_its_first_comment_describes_it(tmp_path: Path, text: str, described: str | None):
    assert hook_of(drop(tmp_path, "on-file-modified.sh", text)).description == described


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path):
    path = tmp_path / "on-file-modified"
    path.write_bytes(b"\x7fELF\xff\x00\xfe")
    path.chmod(0o755)

    assert hook_of(path).description is None


@pytest.mark.parametrize(
    "name",
    [
        "helpers.py",
        "online.py",
        "session-start.py",
        "README.md",
        ".on-session-start.py",
        "on-session-end.py~",
        "on-session-end.py.bak",
        "on-session-start.md",
    ],
)
def test_what_lies_beside_the_hooks_is_left_alone(tmp_path: Path, name: str):
    assert read_script(drop(tmp_path, name, mode=0o755), NO_VAULT) is None


def test_a_folder_or_a_pipe_of_that_name_is_not_a_hook(tmp_path: Path):
    (tmp_path / "on-session-start.py").mkdir()
    os.mkfifo(tmp_path / "on-session-end.py")

    assert read_script(tmp_path / "on-session-start.py", NO_VAULT) is None
    assert read_script(tmp_path / "on-session-end.py", NO_VAULT) is None


def test_a_link_to_nowhere_is_reported(tmp_path: Path):
    (tmp_path / "on-session-start.py").symlink_to(tmp_path / "gone")

    with pytest.raises(ValueError, match="cannot be read"):
        read_script(tmp_path / "on-session-start.py", NO_VAULT)
