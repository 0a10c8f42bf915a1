"""Where a login is looked for, and that its secret is nowhere to be seen."""

from __future__ import annotations

import json
import os
import time

import pytest

from parachuted.agents.credentials import (
    describe_credentials,
    find_credential,
    find_login_environment,
)

SECRET = "sk-ant-secret-canary"  # noqa: S105
FILE = ".claude/.credentials.json"
LATER, EARLIER = (time.time() + 3600) * 1000, (time.time() - 3600) * 1000
LOGIN = {"claudeAiOauth": {"accessToken": SECRET, "refreshToken": SECRET, "expiresAt": LATER}}


def put(home, login):
    (home / FILE).write_text(login if isinstance(login, str) else json.dumps(login))


@pytest.mark.parametrize(
    ("login", "says"),
    [
        ("", "not JSON"),
        (f'{{"claudeAiOauth": {{"accessToken": "{SECRET}"', "not JSON"),
        ("[" * 60_000, "not JSON"),
        ("\ufeff\x00", "not JSON"),
        ([LOGIN], "holds no login"),
        ({"claudeAiOauth": SECRET}, "holds no login"),
        ({"claudeAiOauth": {"accessToken": "  "}}, "holds no login"),
        ({"claudeAiOauth": {"accessToken": 7}}, "holds no login"),
        ({"claudeAiOauth": {"accessToken": SECRET, "expiresAt": EARLIER}}, "expired"),
        ({**LOGIN, "more": "x" * 100_000}, "larger than 64 KB"),
    ],
)
def test_a_login_file_that_cannot_be_used_is_a_finding(homes, login, says):
    put(homes[1], login)
    finding = describe_credentials({}, *homes)[4]

    assert (finding.found, says in finding.why) == (False, True), finding.why
    assert find_credential({}, *homes) is None


@pytest.mark.parametrize(
    "oauth", [{"refreshToken": SECRET, "expiresAt": EARLIER}, {}, {"expiresAt": "soon"}]
)
def test_a_login_that_is_old_but_can_be_renewed_or_names_no_end_is_used(homes, oauth):
    put(homes[1], {"claudeAiOauth": {"accessToken": SECRET, **oauth}})

    assert find_credential({}, *homes).file == homes[1] / FILE


def test_a_pipe_or_a_folder_in_the_files_place_does_not_hold_us(homes):
    os.mkfifo(homes[0] / FILE)
    (homes[1] / FILE).mkdir()

    whys = [finding.why for finding in describe_credentials({}, *homes)]
    assert ["cannot be read" in why for why in whys] == [False] * 3 + [True] * 2


def test_every_place_is_reported_and_no_secret(homes):
    vault, user = homes
    nothing = [finding.why for finding in describe_credentials({}, *homes)]
    assert nothing == ["not set"] * 3 + ["there is none"] * 2
    put(vault, LOGIN)
    put(user, f"{SECRET} is no JSON")
    findings = describe_credentials(
        {"ANTHROPIC_API_KEY": SECRET, "CLAUDE_CODE_OAUTH_TOKEN": " "}, vault, user
    )

    assert [(finding.found, finding.why) for finding in findings] == [
        (False, "not set"),
        (True, "set"),
        (False, "not set"),
        (True, "it holds a login"),
        (False, "it cannot be read: it is not JSON"),
    ]
    assert SECRET not in repr(findings)
    assert findings[1].kind == "api_key"
    assert (findings[3].kind, findings[3].file) == ("login_file", vault / FILE)


def test_what_systemd_hands_a_service_comes_after_the_environment(tmp_path):
    handed, home = tmp_path / "handed", tmp_path / "home"
    kept = "ANTHROPIC_API_KEY=kept\nCLAUDE_CODE_OAUTH_TOKEN='kept'\n"
    for file, text in ((handed / "ANTHROPIC_API_KEY", "handed\n"), (home / "logins.env", kept)):
        file.parent.mkdir()
        file.write_text(text)
        file.chmod(0o400)
    found = find_login_environment({"CREDENTIALS_DIRECTORY": str(handed), "PATH": "/bin"}, home)

    names = ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "PATH")
    assert [found[name] for name in names] == ["handed", "kept", "/bin"]
    mine = find_login_environment({"ANTHROPIC_API_KEY": "mine"}, home)
    assert mine["ANTHROPIC_API_KEY"] == "mine"
    assert find_login_environment({}, tmp_path) == {}
