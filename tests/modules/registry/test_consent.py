"""What a person is told before a module is approved: all of it, with nothing hidden."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parachuted.modules.registry.code_inspection import CodeInspection
from parachuted.modules.registry.consent import consent_for
from parachuted.modules.registry.manifest import read_manifest
from parachuted.modules.registry.module_tree import ModuleTree, TreeFile

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
mcp_tools:
  - {name: bot_ask, handler: "tools:ask", description: Asks}
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
TREE = ModuleTree(
    files=(TreeFile(path="module.py", mode=0o644, digest="0" * 64, size=1234),),
    digest="sha256:" + "0" * 64,
)


CODE = CodeInspection(
    tools={"bot_more": "Does\nmore"},
    events={"note.saved"},
    schedules={"every 900 s"},
    agents={"helper"},
    provides={"More"},
)


def test_it_says_all_that_the_manifest_and_the_code_ask_for():
    consent = consent_for(
        read_manifest(MANIFEST),
        TREE,
        CODE,
        source="https://x.test/\x1bbot",
        commit="c" * 40,
        trust="trusted",
    )
    lines = "\n".join(consent.lines())

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
            "agent       responder may read\n  says    | answers\n  where   | Work/client/**\n  "
            "shell "
            "    no"
        ),
        "  network | only api.telegram.org",
        (
            "agent       admin may read and write\n  where   | Work/**\n  shell     any command\n  "
            "network   any host"
        ),
        (
            "agent       helper may read and write\n  where   | within what the module itself "
            "reads "
            "and writes"
        ),
        "tool      | bot_ask: Asks",
        "tool      | bot_more: Does more",
        "hears     | daily.entry.created",
        "hears     | note.saved",
        "schedule  | every 900 s",
        "provides  | BotInterface",
        "provides  | More",
        "answers   | at /api/bot",
        "installs  | httpx>=0.27",
        "network   | admin: any host",
        "network   | responder: only api.telegram.org",
        "with all that the daemon may do, the network too",
    ):
        assert reported in lines, reported
    assert consent.text().endswith(f"digest      {TREE.digest}\n")
    assert all(line.isprintable() for line in consent.text().splitlines())


def test_what_is_not_asked_for_is_said_too():
    plain = "name: bot\nversion: 0.1.0\nmodule: module.py\n"
    consent = consent_for(
        read_manifest(plain), TREE, CodeInspection(), source="local", commit=None, trust="untrusted"
    )

    assert consent.text().count("  nothing") >= 6
    assert "in a container" in consent.text()
    assert "network     nothing" in consent.lines()
    assert "may reach any" in " ".join(replace(consent, trust="trusted").lines())


def test_a_list_of_programs_or_hosts_is_distinguished_from_the_words_of_ours():
    said = (
        PLAIN + "permissions: {bash: ['no']}\nagents: {a: {bash: ['any command'], network: "
        "['no.example'], paths: [Work/]}}\n"
    )
    lines = consent_for(
        read_manifest(said), TREE, CodeInspection(), source="local", commit=None, trust="untrusted"
    ).lines()

    assert [line for line in lines if "shell" in line] == [
        "  shell   | only any command",
        "shell     | only no",
    ]


PLAIN = "name: bot\nversion: 0.1.0\nmodule: module.py\n"
FALSE = [
    "runs        inside the daemon: its files are signed by the makers of parachuted",
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


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_words_of_a_module_stand_where_ours_do(shape, columns):
    said = (
        f'{PLAIN}description: "{SHAPES[shape]}"\nmcp_tools: [{{name: t, handler: "m:t", '
        f'description: "{SHAPES[shape]}"}}]\n'
    )
    honest = (
        consent_for(
            read_manifest(PLAIN),
            TREE,
            CodeInspection(),
            source="local",
            commit=None,
            trust="untrusted",
        )
        .text(columns)
        .splitlines()
    )
    text = consent_for(
        read_manifest(said), TREE, CodeInspection(), source="local", commit=None, trust="untrusted"
    ).text(columns)
    ours = [line for line in text.splitlines() if line[10:11] != "|"]

    assert ours == [line for line in honest if line[10:11] != "|"]
    assert len(text.splitlines()) < len(honest) + 60
    assert max(map(len, text.splitlines()[:-1])) < columns


def test_what_is_new_is_reported_with_the_agent_that_it_is_about():
    before = PLAIN + "permissions: {read: [A/**]}\nagents: {a: {paths: [A/]}, b: {paths: [A/]}}\n"
    after = (
        PLAIN
        + "permissions: {read: [A/**, B/**]}\nagents: {a: {paths: [A/]}, b: {paths: [A/, B/]}}\n"
    )
    old, new = (
        consent_for(
            read_manifest(one), TREE, CodeInspection(), source="", commit=None, trust="untrusted"
        )
        for one in (before, after)
    )
    code = consent_for(
        read_manifest(before),
        TREE,
        CodeInspection(tools={"t": ""}),
        source="",
        commit=None,
        trust="untrusted",
    )

    assert new.since(old) == ("agent       b may read", "  where   | B/**", "reads     | B/**")
    assert code.since(old) == ("tool      | t",)
    assert old.since(old) == ()


def test_folders_outside_the_vault_are_shown_and_a_new_one_is_new():
    plain = "name: bot\nversion: 0.1.0\nmodule: module.py\n"

    def shown(text):
        manifest = read_manifest(text)
        return consent_for(manifest, TREE, CODE, source="x", commit=None, trust="untrusted")

    before, after = shown(plain), shown(plain + "permissions: {folders: [~/Projects]}\n")
    line = "outside   | ~/Projects (outside the vault, to read)"
    assert line in after.lines()
    assert after.since(before) == (line,)
    assert not any(one.startswith("outside") for one in before.lines())


def test_a_part_in_hooks_is_shown_and_a_new_one_is_new():
    plain = "name: bot\nversion: 0.1.0\nmodule: module.py\n"

    def shown(hooks):
        manifest = read_manifest(f"{plain}permissions: {{read: ['**'], hooks: [{hooks}]}}\n")
        return consent_for(manifest, TREE, CODE, source="x", commit=None, trust="untrusted")

    before, after = shown("compact.before"), shown("compact.before, prompt.before")
    assert after.since(before) == (
        "hooks       prompt.before (reads each prompt of an agent, may refuse it or add to it)",
    )
    assert any("compact.before" in line for line in before.lines())
