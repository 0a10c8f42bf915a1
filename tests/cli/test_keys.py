"""`parachute keys`: with a daemon and without."""

from __future__ import annotations

import json
import os
import pty
import re
import stat
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.cli.command_line import PARACHUTE, CommandLine

KEY = re.compile(r"para_[A-Za-z0-9]{32}")


def asked(command_line: CommandLine, path: str, key: str | None) -> int:
    """The status of a call from elsewhere."""
    record = json.loads((command_line.home / "run" / "daemon.json").read_bytes())
    headers = {"X-Forwarded-For": "192.0.2.7", **({"X-API-Key": key} if key else {})}
    request = urllib.request.Request(f"http://127.0.0.1:{record['port']}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  our own daemon
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_key_is_made_listed_and_revoked_with_no_daemon(command_line: CommandLine):
    keys, create = command_line.home / "keys.yaml", ["keys", "create"]
    assert command_line.does("keys", "list") == "No keys; `parachute keys create NAME` makes one.\n"
    narrow = ["--scope", "daily:read,write", "--path", "Daily/**", "--expires", "90d"]
    said = command_line.does(*create, "my phone", *narrow)
    (key,) = KEY.findall(said)

    assert said.startswith("my phone (k_")
    assert "may read and write daily in Daily/**; it ends 20" in said
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert key not in keys.read_text()
    listed = command_line.does("keys", "list")
    assert "my phone  read and write daily in Daily/**  never" in listed
    assert key not in listed
    assert "sha256" not in listed + json.dumps(command_line.json("keys", "list"))
    taken = "there is a key 'my phone' already; revoke that one first"
    assert taken in command_line.fails(1, *create, "my phone")
    assert command_line.does("keys", "revoke", "my phone").startswith("Revoked k_")
    assert command_line.json("keys", "list") == {"keys": [], "faults": []}


def test_scopes_are_as_typed_and_without_them_all_is_read_and_written(command_line: CommandLine):
    made = command_line.json("keys", "create", "phone")
    assert made["scopes"] == [{"module": "*", "capabilities": ["read", "write"]}]
    assert KEY.fullmatch(made["key"])
    words = ["--scope", "vault:read", "--scope", "curator:read,admin"]
    words += ["--path", "a/**", "--path", "b/*"]
    assert command_line.json("keys", "create", "x", *words)["scopes"] == [
        {"module": "vault", "capabilities": ["read"], "paths": ["a/**", "b/*"]},
        {"module": "curator", "capabilities": ["read", "admin"], "paths": ["a/**", "b/*"]},
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["x", "--scope", "dailly:read"], "unknown module dailly; a scope may name vault, curator"),
        (["x", "--scope", "daily"], "should be a module and what may be done"),
        (["x", "--scope", "daily:all"], "capabilities.0: Input should be 'read', "),
        (["x", "--path", "/etc/**"], "not a pattern of paths"),
        (["x", "--expires", "soon"], "should be a span such as 90d"),
        (["x", "--expires", "2020-01-01"], "over before it is used"),
        ([""], "the name of a key"),
    ],
)
def test_what_makes_no_sense_makes_no_key(command_line: CommandLine, words, why):
    assert why in command_line.fails(1, "keys", "create", *words)
    assert not (command_line.home / "keys.yaml").exists()


def test_a_file_that_is_not_to_be_trusted_is_left_alone_and_named(
    command_line: CommandLine,
):
    command_line.does("keys", "create", "x")
    file = command_line.home / "keys.yaml"
    file.chmod(0o644)
    for words in (["list"], ["create", "y"], ["revoke", "x"]):
        assert "`chmod 600 " in command_line.fails(1, "keys", *words)
    file.chmod(0o600)
    assert "there is no key 'y'" in command_line.fails(1, "keys", "revoke", "y")
    file.write_text(file.read_text().replace("- write", "- wrote"))
    problem = "problem  key 1 ('x') opens nothing: scopes.0.capabilities.1: Input should be"
    assert problem in command_line.does("keys", "list")


def test_a_terminal_shows_the_key_as_a_code_too(command_line: CommandLine):
    reader, writer = pty.openpty()
    subprocess.run(
        [*PARACHUTE, "keys", "create", "phone"],
        env=command_line.env(PYTHONIOENCODING="utf-8"),
        stdout=writer,
        timeout=30,
        check=True,
    )
    os.close(writer)
    shown = b""
    try:
        while part := os.read(reader, 65536):
            shown += part
    except OSError:
        pass  # all is read
    os.close(reader)

    assert len(KEY.findall(shown.decode())) == 1
    assert shown.decode().count("█") > 100


def test_while_a_daemon_runs_keys_count_at_once_and_their_use_is_listed(command_line: CommandLine):
    start = ["start", "--vault", str(command_line.vault), "--port", "0"]
    command_line.does(*start, PARACHUTE_AUTH_MODE="always")
    assert "is ok" in command_line.does("status")
    made = command_line.json("keys", "create", "phone", "--scope", "curator:read")
    other = command_line.json("keys", "create", "tablet")
    statuses = [asked(command_line, "/api/watches", key) for key in (made["key"], None, "x")]
    assert statuses == [200, 401, 401]

    assert (command_line.home / "keys.yaml").read_text().count("last_used:\n") == 2
    uses = {key["id"]: key.get("last_used") for key in command_line.json("keys", "list")["keys"]}
    lines = command_line.does("keys", "list").splitlines()
    assert uses[made["id"]].startswith("20")
    assert uses[other["id"]] is None
    assert [line.count("never") for line in lines[1:]] == [1, 2]
    command_line.does("keys", "revoke", "tablet")
    assert asked(command_line, "/api/watches", other["key"]) == 401
    command_line.does("stop")
    assert command_line.json("keys", "list")["keys"][0]["last_used"].startswith("20")


def test_a_key_for_a_module_is_said_to_reach_what_the_module_reads(command_line: CommandLine):
    create, lent = ["keys", "create"], "it reaches every note that the module may read"
    said = command_line.does(*create, "talk", "--scope", "chat:read", "--scope", "brain:read")
    assert f"Through chat and brain {lent}" in said
    said = command_line.does(*create, "x", "--scope", "chat:read", "--path", "Chat/**")
    assert lent not in said
    assert lent not in command_line.does(*create, "y", "--scope", "vault:read")
