"""Whatever is in a file of settings: the daemon starts, goes on, and says so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.api.calls import call
from tests.stories.daemon_rig import Live

HOME_FILES = ("hooks.yaml", "keys.yaml", "modules.yaml")
VAULT_FILES = (".parachuteignore", ".mcp.json")
RULES = """\
hooks:
  PreToolUse:
    - matcher: '{0}'
      hooks: [{{type: command, command: x, if: '{0}'}}]
"""
TEXTS = {
    **{
        f"a hook for {matcher[:12]}": RULES.format(matcher).encode()
        for matcher in ("[[:upper:]]", "[z-a]", "((", "^" + "(?!a)" * 3000, "Edit(//)", "a" * 5000)
    },
    "lines of a gitignore": b"[[:upper:]].md\n[z-a]\n[[:vowel:]]\n!\n\\\n" + b"*a" * 3000 + b"\n",
    "no UTF-8": b"\xff\xfe: \x80\n",
    "zero bytes": b"\0" * 100,
    "deep JSON": b"[" * 900 + b"]" * 900,
    "deep YAML": b"a: " + b"[" * 200 + b"]" * 200,
    "an alias": b"a: &a [*a]\n",
    "a number": b"7\n",
    "lists for maps": b"hooks: [[]]\nkeys: [[], {}]\nmodules: [1]\nmcpServers: []\n",
    "maps of nothing": b"hooks: {a: {b: }}\nkeys: {a: }\nmodules: {a: , b: [], c: {config: 1}}\n",
    "long numbers": b"hooks: {Stop: [{command: x, timeout: 9" + b"9" * 5000 + b"}]}\n",
    "half a surrogate": b'{"mcpServers": {"a": {"command": "\\ud800", "env": {"A": "\\udfff"}}}}',
    "much": b"# " + b"x" * 2_000_000,
}
KINDS: dict[str, Callable[[Path], None]] = {
    "a folder": Path.mkdir,
    "a pipe": lambda path: os.mkfifo(path, 0o600),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
}


def put(path: Path, content: str) -> None:
    remove(path)
    if content in KINDS:
        KINDS[content](path)
    else:
        path.write_bytes(TEXTS[content])
        path.chmod(0o600)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("content", [*TEXTS, *KINDS])
async def test_the_daemon_starts_and_goes_on_beside_files_that_hold(
    live: Live, vault: Path, home: Path, content: str
):
    files = [*(home / name for name in HOME_FILES), *(vault / name for name in VAULT_FILES)]
    for file in files:
        put(file, content)
    async with live() as daemon_rig:
        for file in files:
            remove(file)
        (home / "hooks.yaml").write_text("hooks: {Stop: []}\n")
        await daemon_rig.until(lambda: not daemon_rig.daemon.watched.problems.open)
        for file in (*files, home / "config.yaml"):
            put(file, content)
        (vault / "note.md").write_text("seen\n")
        await daemon_rig.until(lambda: daemon_rig.daemon.watched.index.get("note.md") is not None)
        remove(home / "keys.yaml")
        (home / "keys.yaml").write_text("7\n")
        await daemon_rig.until(lambda: "keys" in daemon_rig.daemon.watched.problems.open)
        remove(home / "keys.yaml")
        await daemon_rig.until(lambda: "keys" not in daemon_rig.daemon.watched.problems.open)
        assert (await call(daemon_rig, "GET", "/api/doctor"))[0] == 200
        assert (await call(daemon_rig, "GET", "/api/settings"))[0] in {200, 400, 409, 422}
