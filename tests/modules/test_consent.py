"""What a person is told before a module is approved: all of it, with nothing hidden."""

from __future__ import annotations

from parachuted.modules.consent import consent_for
from parachuted.modules.manifest import read_manifest
from parachuted.modules.tree import Tree, TreeFile

MANIFEST = """\
name: bot
version: 0.1.0
description: "Nice \\e[2K\\u202ebot"
module: module.py
dependencies: [httpx>=0.27]
provides: [BotInterface]
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
TREE = Tree(files=(TreeFile(path="module.py", mode=0o644, digest="0" * 64, size=1234),), digest="sha256:" + "0" * 64)


def test_it_says_all_that_the_manifest_asks_for():
    consent = consent_for(read_manifest(MANIFEST), TREE, source="https://x.test/\x1bbot", commit="c" * 40, trust="trusted")
    text = consent.text()

    for told in (
        "reads     Work/**",
        "writes    Work/bot/**",
        "shell     git",
        "brain_search of other modules' tools",
        "agent     responder (answers): may read: Work/client/**; shell: no; network: api.telegram.org",
        "agent     admin: may read and write: Work/**; shell: any command; network: any host",
        "tool      bot_ask: Asks",
        "hears     daily.entry.created",
        "provides  BotInterface",
        "answers   at /api/bot",
        "installs  httpx>=0.27",
        "network   admin: any host, responder: api.telegram.org",
        "1 files, 1,234 bytes",
        "with all that the daemon may do",
        "c" * 40,
        TREE.digest,
    ):
        assert told in text
    assert "Nice \\x1b[2K\\u202ebot" in text
    assert "https://x.test/\\x1bbot" in text
    assert all(line.isprintable() for line in text.splitlines())


def test_what_is_not_asked_for_is_said_too():
    plain = "name: bot\nversion: 0.1.0\nmodule: module.py\n"
    consent = consent_for(read_manifest(plain), TREE, source="local", commit=None, trust="untrusted")

    assert consent.text().count("nothing") >= 6
    assert "in a process of its own" in consent.text()
    assert "hears     nothing that the manifest names" in consent.text()  # its class may hear more, and has not run yet
