"""A hook that cannot be started says what to do about it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from parachuted.hooks.runner import HookRunner

CASES = {
    "missing": (None, 0o755, "there is no "),
    "interpreter": (
        b"#!/no/such/python3\nprint(1)\n",
        0o755,
        "names /no/such/python3, which is not on this machine",
    ),
    "crlf": (b"#!/bin/sh\r\necho hi\r\n", 0o755, "save it with Unix line ends"),
    "crlf-env": (b"#!/usr/bin/env python3\r\nprint(1)\r\n", 0o755, "save it with Unix line ends"),
    "forbidden": (b"#!/bin/sh\n", 0o644, "may not be run; `chmod +x "),
    "no-first-line": (b"echo hi\n", 0o755, "it has no first line such as #!/bin/sh"),
    "empty": (b"", 0o755, "it has no first line such as #!/bin/sh"),
    "not-a-program": (b"\x7fELF but not really", 0o755, "could not be started"),
    "interpreter-may-not-be-run": (b"#!/etc/passwd\n", 0o755, "/etc/passwd may not be run"),
}


async def run(path, cwd):
    runner = HookRunner()
    try:
        env = {"PATH": os.environ["PATH"]}
        return await runner.run(
            argv=[str(path)], command=None, stdin=b"", env=env, cwd=cwd, timeout_s=10
        )
    finally:
        await runner.close()


@pytest.mark.parametrize("name", CASES)
async def test_what_cannot_be_started_says_why(name, tmp_path):
    content, mode, words = CASES[name]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)

    ran = await run(path, tmp_path)

    assert words in (ran.problem or ""), ran


async def test_a_folder_is_not_a_program(tmp_path):
    ran = await run(tmp_path, tmp_path)

    assert ran.problem == f"{tmp_path} is a folder, not a program"


async def test_a_folder_that_is_gone_is_named(tmp_path):
    ran = await run(Path("/bin/true"), tmp_path / "gone")

    assert (
        ran.problem
        == f"the folder {tmp_path / 'gone'} could not be entered: No such file or directory"
    )


async def test_an_interpreter_that_is_not_a_program_is_named(tmp_path):
    interpreter, path = tmp_path / "interpreter", tmp_path / "script"
    interpreter.write_bytes(b"neither")
    path.write_text(f"#!{interpreter}\n")
    for one in (interpreter, path):
        one.chmod(0o755)

    ran = await run(path, tmp_path)

    assert ran.problem == f"the first line of script names {interpreter}, which is not a program"


async def test_a_script_that_is_being_written_says_so(tmp_path):
    path = tmp_path / "busy"
    shutil.copyfile("/bin/true", path)
    path.chmod(0o755)
    with path.open("ab"):
        ran = await run(path, tmp_path)

    assert "it is being written at this moment" in (ran.problem or "")


async def test_one_that_says_127_for_a_reason_of_its_own_is_not_explained(tmp_path):
    path = tmp_path / "own"
    path.write_bytes(b"#!/bin/sh\nexit 127\n")
    path.chmod(0o755)

    ran = await run(path, tmp_path)

    assert (ran.exit_code, ran.problem) == (127, None)
