"""Scripts: a program dropped into the folder is a hook with no settings at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError
from parachuted.hooks.hook import Hook
from parachuted.hooks.loading import read_script


def drop(folder: Path, name: str, text: str = "", *, mode: int = 0o644) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def hook_of(path: Path) -> Hook:
    found = read_script(path)
    assert found is not None
    return found


def test_a_python_script_runs_with_our_python_and_needs_no_first_line(tmp_path: Path):
    path = drop(tmp_path, "on-session-start.py", "print(1)\n")

    assert hook_of(path).argv == (sys.executable, str(path))


def test_a_shell_script_runs_with_the_shell(tmp_path: Path):
    path = drop(tmp_path, "on-session-end.sh", "echo\n")

    assert hook_of(path).argv == ("/bin/sh", str(path))


def test_an_executable_script_runs_as_its_first_line_says(tmp_path: Path):
    path = drop(tmp_path, "on-file-modified.py", "#!/usr/bin/env python3\n", mode=0o755)

    assert hook_of(path).argv == (str(path),)


def test_an_executable_python_script_without_a_first_line_still_runs_with_python(tmp_path: Path):
    path = drop(tmp_path, "on-file-modified.py", "print(1)\n", mode=0o755)

    assert hook_of(path).argv == (sys.executable, str(path))


@pytest.mark.parametrize("name", ["on-file-modified", "on-file-modified.rb", "on-file-modified.js"])
def test_any_other_program_runs_when_it_is_executable(tmp_path: Path, name: str):
    path = drop(tmp_path, name, "#!/usr/bin/env x\n", mode=0o755)
    assert hook_of(path).argv == (str(path),)

    path.chmod(0o644)
    with pytest.raises(ValueError, match="it is not executable; `chmod"):
        read_script(path)


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
        "README.md",
        ".on-session-start.py",
        "on-session-end.py~",
        "on-session-end.py.bak",
        "on-session-start.md",
    ],
)
def test_what_lies_beside_the_hooks_is_left_alone(tmp_path: Path, name: str):
    assert read_script(drop(tmp_path, name, mode=0o755)) is None


def test_a_folder_or_a_pipe_of_that_name_is_not_a_hook(tmp_path: Path):
    (tmp_path / "on-session-start.py").mkdir()
    os.mkfifo(tmp_path / "on-session-end.py")

    assert read_script(tmp_path / "on-session-start.py") is None
    assert read_script(tmp_path / "on-session-end.py") is None


def test_a_name_that_means_no_event_is_reported(tmp_path: Path):
    with pytest.raises(NotFoundError, match="there is no event 'nonsense'"):
        read_script(drop(tmp_path, "on-nonsense.py"))
    with pytest.raises(NotFoundError, match=r"TeammateIdle has no counterpart"):
        read_script(drop(tmp_path, "on-TeammateIdle.py"))


def test_a_link_to_nowhere_is_reported(tmp_path: Path):
    (tmp_path / "on-session-start.py").symlink_to(tmp_path / "gone")

    with pytest.raises(ValueError, match="cannot be read"):
        read_script(tmp_path / "on-session-start.py")
