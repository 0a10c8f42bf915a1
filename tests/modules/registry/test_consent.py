"""What a person sees before a module is approved: all that its manifest asks for, and all that
changed, with nothing hidden.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parachuted.modules.registry.approved import ModuleRecord, TrustLevel
from parachuted.modules.registry.consent import Consent, consent_for, tree_difference
from parachuted.modules.registry.copies import ModuleTree
from parachuted.modules.registry.manifest import read_manifest
from parachuted.texts.visible import USUAL_COLUMNS

PLAIN = "name: bot\nversion: 0.1.0\nmodule: module.py\n"
MANIFEST = """\
name: bot
version: 0.1.0
description: "Nice \\e[2K\\u202ebot"
module: module.py
dependencies: [httpx>=0.27]
provides: [BotInterface]
optional_requires: [BrainInterface]
hooks:
  - {event: daily.entry.created, handler: "hooks:on_entry"}
  - file.created
mcp_tools:
  - {name: bot_ask, handler: "tools:ask", description: Asks}
  - bot_more
schedules: [{every: 15m}, {at: "03:00"}]
permissions:
  read: [Work/**]
  write: [Work/bot/**]
  bash: [git]
  mcp: [brain_search]
agents:
  responder:
    description: answers
    paths: [Work/client/]
    capabilities: [read]
    network: [api.telegram.org]
  admin:
    sandbox: {workspace_access: rw, allowed_paths: [Work/], network: bridge}
    bash: true
"""
RECORD = ModuleRecord(name="bot")
TREE = ModuleTree(folder=Path(), files={"module.py": 0o644}, size=1234, digest="sha256:" + "0" * 64)


def shown(text: str, trust: TrustLevel = "untrusted", record: ModuleRecord = RECORD) -> Consent:
    return consent_for(read_manifest(text), TREE, record, trust)


def test_it_says_all_that_the_manifest_asks_for():
    record = ModuleRecord(name="bot", source="https://x.test/\x1bbot", commit="c" * 40)
    consent = shown(MANIFEST, "trusted", record)
    lines = "\n".join(consent.lines)

    for reported in (
        "module      bot 0.1.0",
        "says      | Nice \\x1b[2K\\u202ebot",
        f"from      | https://x.test/\\x1bbot at {'c' * 40}",
        "holds       1 files, 1,234 bytes",
        "reads     | Work/**",
        "writes    | Work/bot/**",
        "shell     | only git",
        "calls     | BrainInterface",
        "uses      | brain_search",
        (
            "agent       responder may read\n  says    | answers\n  where   | Work/client/**\n"
            "  shell     no"
        ),
        "  network | only api.telegram.org",
        (
            "agent       admin may read and write\n  where   | Work/**\n  shell     any command\n"
            "  network   any host"
        ),
        "tool      | bot_ask: Asks",
        "tool      | bot_more",
        "hears     | daily.entry.created",
        "hears     | file.created",
        "schedule  | every 900 s",
        "schedule  | each day at 03:00",
        "provides  | BotInterface",
        "answers   | at /api/bot",
        "installs  | httpx>=0.27",
        "with all that the daemon may do, the network too",
    ):
        assert reported in lines, reported
    assert consent.text.endswith(f"digest      {TREE.digest}\n")
    assert all(line.isprintable() for line in consent.text.splitlines())


def test_what_is_not_asked_for_is_said_and_no_list_looks_like_our_words():
    consent = shown(PLAIN)

    assert consent.text.count("  nothing") >= 6
    assert "in a container, held to its permissions, with no network" in consent.text
    said = (
        PLAIN + "permissions: {bash: ['no']}\nagents: {a: {bash: ['any command'], network: "
        "['no.example'], paths: [Work/]}}\n"
    )
    assert [line for line in shown(said).lines if "shell" in line] == [
        "  shell   | only any command",
        "shell     | only no",
    ]


FALSE = [
    "runs        inside the daemon: it is part of this version of parachuted",
    "digest      sha256:" + "0" * 64,
    "reads       nothing",
]
SHAPES = {
    "blanks": (" " * 80).join(["", *FALSE]),
    "lines": "\\n".join(["", *FALSE]),
    "many lines": "\\n" * 100 + FALSE[0],
    "80 columns": "".join(line.ljust(80) for line in ["x" * 68, *FALSE]),
    "unseen": "\\u2800" * 400 + FALSE[0],
    "wide": "\\u3000" * 200 + FALSE[0],
    "carriage returns": "\\r".join(["", *FALSE]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_words_of_a_module_stand_where_ours_do(shape):
    said = (
        f'{PLAIN}description: "{SHAPES[shape]}"\nmcp_tools: [{{name: t, description: '
        f'"{SHAPES[shape]}"}}]\n'
    )
    honest, text = (shown(text).text.splitlines() for text in (PLAIN, said))

    ours = [line for line in text if line[10:11] != "|"]
    assert ours == [line for line in honest if line[10:11] != "|"]
    assert len(text) < len(honest) + 60
    assert max(map(len, text[:-1])) < USUAL_COLUMNS


def difference(tmp_path, old: dict[str, bytes] | None, new: dict[str, bytes], **env: str) -> str:
    folders = []
    for name, files in (("old", old), ("new", new)):
        for path, data in (files or {}).items():
            (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / path).write_bytes(data)
        folders.append(tmp_path / name)
    return tree_difference(
        folders[0] if old is not None else None, folders[1], {**os.environ, **env}
    )


def test_what_changed_is_shown_as_git_has_it_by_the_modules_own_names(tmp_path):
    old = {"same": b"", "a": b"1\n2\n", "gone": b"g\n", "b.so": b"\0a"}
    new = {"same": b"", "a": b"1\n3\n", "inner/new": b"n", "b.so": b"\0b"}
    lines = difference(tmp_path, old, new).splitlines()

    for expected in (
        ["--- a", "+++ a", "@@ -1,2 +1,2 @@", " 1", "-2", "+3"],
        ["--- gone", "+++ /dev/null", "@@ -1 +0,0 @@", "-g"],
        ["--- /dev/null", "+++ inner/new", "@@ -0,0 +1 @@", "+n", "\\ No newline at end of file"],
        ["Binary files b.so and b.so differ"],
    ):
        assert "\n".join(expected) in "\n".join(lines)
    assert not any("same" in line or str(tmp_path) in line for line in lines)
    assert difference(tmp_path / "alike", old, old) == ""


def test_what_hides_is_spelled_out_and_without_git_nothing_can_be_shown(tmp_path):
    files = {"a.py": "x = 1\r\x1b[1A# \u202eevil\n".encode(), ".gitattributes": b"*.py -diff\n"}
    lines = difference(tmp_path, None, files).splitlines()

    assert "+x = 1\\x0d\\x1b[1A# \\u202eevil" in lines
    said = difference(tmp_path, {"a": b"1"}, {"a": b"2"}, PATH=str(tmp_path))
    assert said == "git is not installed, so what changed in its files cannot be shown\n"
