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

from tests.cli.typed import PARACHUTE, Typed

KEY = re.compile(r"para_[A-Za-z0-9]{32}")


def asked(typed: Typed, path: str, key: str | None) -> int:
    """The status of a call from elsewhere."""
    record = json.loads((typed.home / "run" / "daemon.json").read_bytes())
    headers = {"X-Forwarded-For": "192.0.2.7", **({"X-API-Key": key} if key else {})}
    request = urllib.request.Request(f"http://127.0.0.1:{record['port']}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  our own daemon
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_key_is_made_listed_and_revoked_with_no_daemon(typed: Typed):
    assert typed.does("keys", "list") == "No keys; `parachute keys create NAME` makes one.\n"
    said = typed.does(
        "keys",
        "create",
        "my phone",
        "--scope",
        "daily:read,write",
        "--path",
        "Daily/**",
        "--expires",
        "90d",
    )
    (key,) = KEY.findall(said)

    assert said.startswith("my phone (k_")
    assert "may read and write daily in Daily/**; it ends 20" in said
    assert stat.S_IMODE((typed.home / "keys.yaml").stat().st_mode) == 0o600
    assert key not in (typed.home / "keys.yaml").read_text()
    listed = typed.does("keys", "list")
    assert "my phone  read and write daily in Daily/**  never" in listed
    assert key not in listed
    assert "sha256" not in listed + json.dumps(typed.json("keys", "list"))
    assert typed.does("keys", "revoke", "my phone").startswith("Revoked k_")
    assert typed.json("keys", "list") == {"keys": [], "faults": []}


def test_without_a_scope_a_key_reads_and_writes_all_and_administers_nothing(typed: Typed):
    made = typed.json("keys", "create", "phone")

    assert made["scopes"] == [{"module": "*", "capabilities": ["read", "write"]}]
    assert KEY.fullmatch(made["key"])
    assert "administer nothing" in typed.does("keys", "create", "--help").replace(
        "\n", " "
    ).replace("  ", " ")


def test_a_scope_on_a_module_that_no_one_knows_is_refused_with_those_that_are_known(typed: Typed):
    said = typed.fails(1, "keys", "create", "phone", "--scope", "dailly:read")

    assert "unknown module dailly; a scope may name vault, curator, system, daily" in said
    assert typed.json("keys", "list")["keys"] == []


def test_several_scopes_and_paths_may_be_given(typed: Typed):
    made = typed.json(
        "keys",
        "create",
        "x",
        "--scope",
        "vault:read",
        "--scope",
        "curator:read,admin",
        "--path",
        "a/**",
        "--path",
        "b/*",
    )

    assert made["scopes"] == [
        {"module": "vault", "capabilities": ["read"], "paths": ["a/**", "b/*"]},
        {"module": "curator", "capabilities": ["read", "admin"], "paths": ["a/**", "b/*"]},
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["x", "--scope", "daily"], "should be a module and what may be done"),
        (["x", "--scope", "daily:all"], "capabilities of daily"),
        (["x", "--path", "/etc/**"], "not a pattern of paths"),
        (["x", "--expires", "soon"], "should be a span such as 90d"),
        (["x", "--expires", "2020-01-01"], "over before it is used"),
        ([""], "the name of a key"),
    ],
)
def test_what_makes_no_sense_makes_no_key(typed: Typed, words, why):
    assert why in typed.fails(1, "keys", "create", *words)
    assert not (typed.home / "keys.yaml").exists()


def test_a_file_that_is_not_to_be_trusted_is_left_alone(typed: Typed):
    typed.does("keys", "create", "x")
    (typed.home / "keys.yaml").chmod(0o644)

    for words in (["list"], ["create", "y"], ["revoke", "x"]):
        assert "`chmod 600` on it mends that" in typed.fails(1, "keys", *words)
    assert "there is no key 'y'" in mended(typed).fails(1, "keys", "revoke", "y")


def mended(typed: Typed) -> Typed:
    (typed.home / "keys.yaml").chmod(0o600)
    return typed


def test_an_entry_that_is_not_understood_is_reported(typed: Typed):
    typed.does("keys", "create", "x")
    file = typed.home / "keys.yaml"
    file.write_text(file.read_text().replace("- write", "- wrote"))

    assert "problem  key 1 ('x') opens nothing: capabilities of *" in typed.does("keys", "list")


def test_a_terminal_shows_the_key_as_a_code_too(typed: Typed):
    reader, writer = pty.openpty()
    subprocess.run(
        [*PARACHUTE, "keys", "create", "phone"],
        env=typed.env(PYTHONIOENCODING="utf-8"),
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


def test_a_name_that_another_key_has_is_refused(typed: Typed):
    typed.does("keys", "create", "phone")

    assert (
        "there is a key 'phone' already; revoke that one first, or take another name"
        in typed.fails(1, "keys", "create", "phone")
    )
    assert len(typed.json("keys", "list")["keys"]) == 1
    typed.does("keys", "revoke", "phone")
    typed.does("keys", "create", "phone")


def test_a_key_that_was_just_used_is_listed_so_while_a_daemon_runs(typed: Typed):
    made, other = typed.json("keys", "create", "phone"), typed.json("keys", "create", "tablet")
    typed.does("start", "--vault", str(typed.vault), "--port", "0")
    assert asked(typed, "/api/health", made["key"]) == 200

    assert (typed.home / "keys.yaml").read_text().count("last_used: null") == 2
    uses = {key["id"]: key.get("last_used") for key in typed.json("keys", "list")["keys"]}
    lines = typed.does("keys", "list").splitlines()
    assert uses[made["id"]].startswith("20")
    assert uses[other["id"]] is None
    assert [line.count("never") for line in lines[1:]] == [1, 2]
    typed.does("stop")
    assert typed.json("keys", "list")["keys"][0]["last_used"].startswith("20")


def test_where_everyone_needs_a_key_the_command_works_and_keys_count_at_once(typed: Typed):
    typed.does("start", "--vault", str(typed.vault), "--port", "0", PARACHUTE_AUTH_MODE="always")
    assert typed.json("status")["status"] == "ok"
    assert "is ok" in typed.does("status")
    assert typed.json("watches")["count"] == 0
    made = typed.json("keys", "create", "phone", "--scope", "curator:read")
    assert [asked(typed, "/api/watches", key) for key in (made["key"], None, "x")] == [
        200,
        401,
        401,
    ]
    typed.does("keys", "revoke", "phone")
    assert asked(typed, "/api/watches", made["key"]) == 401
    typed.does("stop")


def test_a_key_for_a_module_is_said_to_reach_what_the_module_reads(typed: Typed):
    lent = "it reaches every note that the module may read"
    said = typed.does("keys", "create", "talk", "--scope", "chat:read", "--scope", "brain:read")
    assert f"Through chat and brain {lent}" in said
    kept = typed.does("keys", "create", "x", "--scope", "chat:read", "--path", "Chat/**")
    assert lent not in kept
    assert lent not in typed.does("keys", "create", "y", "--scope", "vault:read")
