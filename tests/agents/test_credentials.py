"""Where a login is looked for, that its secret is nowhere to be seen, and what a request carries:
renewed when it has ended, sent to Anthropic alone, kept as the CLI keeps it.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parachuted.agents.credentials import (
    TOKEN_URL,
    Login,
    describe_credentials,
    find_credential,
    find_login_environment,
)
from parachuted.errors import AgentUnavailableError

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


NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
OLD, RENEW = "sk-ant-oat01-old-canary", "sk-ant-ort01-renew-canary"
FRESH, NEXT = "sk-ant-oat01-fresh-canary", "sk-ant-ort01-next-canary"
ANSWER = {
    "access_token": FRESH,
    "refresh_token": NEXT,
    "expires_in": 28_800,
    "scope": "user:inference user:profile",
}


class Server:
    def __init__(self, *answers: tuple[int, object]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, Mapping[str, object]]] = []
        self.before: Callable[[], None] = lambda: None

    async def post(self, url: str, document: Mapping[str, object]) -> tuple[int, object]:
        self.asked.append((url, document))
        await asyncio.sleep(0)
        self.before()
        return self.answers.pop(0) if self.answers else (0, None)


def file_of(home: Path) -> Path:
    return home / ".claude" / ".credentials.json"


def kept_in(home: Path) -> dict[str, object]:
    return json.loads(file_of(home).read_text())["claudeAiOauth"]


def put_login(
    home: Path, *, ends: timedelta = timedelta(hours=1), token: str = OLD, **more: object
) -> None:
    oauth = {
        "accessToken": token,
        "refreshToken": RENEW,
        "expiresAt": (NOW + ends).timestamp() * 1000,
        "scopes": ["a", "b"],
        **more,
    }
    file_of(home).write_text(json.dumps({"claudeAiOauth": oauth, "mcpOAuth": {"kept": 1}}))


ENDED = timedelta(minutes=-1)


def login(
    homes: tuple[Path, Path],
    server: Server | None = None,
    *,
    env: Mapping[str, str] | None = None,
    is_anthropic: bool = True,
) -> Login:
    return Login(
        env or {},
        *homes,
        is_anthropic=is_anthropic,
        clock=lambda: NOW,
        post=(server or Server()).post,
    )


async def test_the_places_are_tried_in_the_order_of_auth_status(homes):
    put_login(homes[0], token="sk-ant-vault")  # noqa: S106
    put_login(homes[1], token="sk-ant-user")  # noqa: S106
    env = {
        "ANTHROPIC_AUTH_TOKEN": "sk-bearer",
        "ANTHROPIC_API_KEY": "sk-ant-key",
        "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-token",
    }
    found = []
    for gone in (
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_OAUTH_TOKEN",
        homes[0],
        homes[1],
    ):
        secret = await login(homes, env=env).credential()
        found.append((dict(secret.headers), secret.beta))
        env.pop(gone, None) if isinstance(gone, str) else file_of(gone).unlink()

    oauth = "oauth-2025-04-20"
    assert found == [
        ({"authorization": "Bearer sk-bearer"}, ""),
        ({"x-api-key": "sk-ant-key"}, ""),
        ({"authorization": "Bearer sk-ant-token"}, oauth),
        ({"authorization": "Bearer sk-ant-vault"}, oauth),
        ({"authorization": "Bearer sk-ant-user"}, oauth),
    ]
    with pytest.raises(AgentUnavailableError, match="auth status"):
        await login(homes, env=env).credential()


async def test_a_login_goes_to_anthropic_alone_and_a_key_wherever_it_is_set_for(homes):
    put_login(homes[0])
    for more, headers in (
        ({}, {"x-api-key": "no-key-needed"}),
        ({"ANTHROPIC_API_KEY": "mine"}, {"x-api-key": "mine"}),
        ({"ANTHROPIC_AUTH_TOKEN": "sk-of-a-gateway"}, {"authorization": "Bearer sk-of-a-gateway"}),
    ):
        env = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-token", **more}
        found = await login(homes, env=env, is_anthropic=False).credential()
        assert found.headers == headers


async def test_a_login_that_has_ended_is_renewed_and_kept_as_the_cli_keeps_it(homes):
    put_login(homes[1], ends=ENDED, subscriptionType="max")
    server = Server((200, ANSWER))
    mine = login(homes, server)
    secret = await mine.credential()

    assert secret.headers == {"authorization": f"Bearer {FRESH}"}
    ((url, asked),) = server.asked
    assert url == TOKEN_URL
    assert asked == {
        "grant_type": "refresh_token",
        "refresh_token": RENEW,
        "client_id": "9d1c250a-e61b-44d9-88ed-5944d1962f5e",
        "scope": "a b",
    }
    assert json.loads(file_of(homes[1]).read_text())["mcpOAuth"] == {"kept": 1}
    assert kept_in(homes[1]) == {
        "accessToken": FRESH,
        "refreshToken": NEXT,
        "expiresAt": int((NOW + timedelta(hours=8)).timestamp() * 1000),
        "scopes": ["user:inference", "user:profile"],
        "subscriptionType": "max",
    }
    assert stat.S_IMODE(file_of(homes[1]).stat().st_mode) == 0o600
    assert (await login(homes, server).credential()).secret == FRESH
    assert len(server.asked) == 1
    # no secret is shown, and all are known, to be taken out of texts
    assert "canary" not in repr(secret)
    assert {RENEW, FRESH, NEXT} <= mine.secrets
    assert os.listdir(homes[1] / ".claude") == [".credentials.json"]  # noqa: PTH208


async def test_ten_requests_at_once_renew_it_once(homes):
    put_login(homes[1], ends=timedelta(seconds=30))
    server = Server((200, ANSWER))
    mine = login(homes, server)
    found = await asyncio.gather(*(mine.credential() for _ in range(10)))
    assert {secret.secret for secret in found} == {FRESH}
    assert len(server.asked) == 1


async def test_one_that_was_refused_is_renewed_though_it_has_not_ended(homes):
    put_login(homes[1])
    mine = login(homes, Server((200, ANSWER)))
    refused = await mine.credential()
    assert (await mine.credential(refused=refused)).secret == FRESH


@pytest.mark.parametrize(
    ("answer", "token"), [((400, {"error": "invalid_grant"}), FRESH), ((200, ANSWER), "sk-other")]
)
async def test_what_another_put_there_while_we_renewed_is_kept(homes, answer, token):
    put_login(homes[1], ends=ENDED)
    server = Server(answer)
    server.before = lambda: put_login(homes[1], token=token, refreshToken="sk-others")
    assert (await login(homes, server).credential()).secret == FRESH
    kept = kept_in(homes[1])
    assert (kept["accessToken"], kept["refreshToken"]) == (token, "sk-others")


@pytest.mark.parametrize(
    "answer",
    [
        (400, {"error": RENEW}),
        (0, None),
        (200, "x"),
        (200, {}),
        (200, {"access_token": 7}),
        (500, None),
    ],
)
async def test_a_login_that_cannot_be_renewed_stays_and_its_secret_is_not_said(homes, answer):
    put_login(homes[1], ends=ENDED)
    before = file_of(homes[1]).read_bytes()
    with pytest.raises(AgentUnavailableError, match="log in again") as refused:
        await login(homes, Server(answer)).credential()
    assert "canary" not in str(refused.value)
    assert file_of(homes[1]).read_bytes() == before


async def test_a_disk_that_refuses_keeps_no_request_from_its_login(homes):
    put_login(homes[1], ends=ENDED)
    server = Server((200, ANSWER))
    real = file_of(homes[1])
    server.before = lambda: (real.unlink(), real.symlink_to("/proc/self/none"))
    assert (await login(homes, server).credential()).secret == FRESH


async def test_a_link_in_the_file_s_place_stays_one(homes):
    put_login(homes[1], ends=ENDED)
    real = homes[1] / "dotfiles.json"
    file_of(homes[1]).rename(real)
    file_of(homes[1]).symlink_to(real)
    await login(homes, Server((200, ANSWER))).credential()
    assert file_of(homes[1]).is_symlink()
    assert json.loads(real.read_text())["claudeAiOauth"]["accessToken"] == FRESH
