"""Who asks: this machine, the command, the holder of a key, or no one."""

from __future__ import annotations

import json
import logging
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from parachuted.api.http.authenticator import KeyAuthenticator, is_from_here
from parachuted.keys import KeyFile, KeyRing
from tests.api.calls import ELSEWHERE, expect, get, key_of, refused, spoken
from tests.stories.daemon_rig import DaemonRig, Live

WATCHES = "/api/watches"

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PASSED_ON = [
    *("X-Forwarded-For", "X-Forwarded-Host", "x-forwarded-proto", "X-Forwarded-Anything"),
    *("Forwarded", "Via", "X-Real-IP", "CF-Connecting-IP"),
]


class Transport:
    """As much of a connection as aiohttp asks for."""

    def __init__(self, peer: str | None) -> None:
        self._peer = peer

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self._peer, 4242) if name == "peername" and self._peer is not None else default


def asked(headers: dict[str, str] | None = None, peer: str | None = "127.0.0.1") -> web.Request:
    return make_mocked_request("GET", "/", headers=headers, transport=Transport(peer))


def wrong(number: int = 0) -> dict[str, str]:
    return {"X-API-Key": f"para_{number:032}"}


async def key_for_all(daemon_rig: DaemonRig) -> str:
    return key_of(daemon_rig, "*:read,write,admin")["Authorization"].removeprefix("Bearer ")


ELSEWHERES = ("192.0.2.7", "10.0.0.1", "::", "::ffff:127.0.0.1", "::ffff:7f00:1", "fe80::1", "unix")


@pytest.mark.parametrize(
    ("peer", "is_here"),
    [
        *((peer, True) for peer in ("127.0.0.1", "127.9.9.9", "::1")),
        *((peer, False) for peer in (*ELSEWHERES, "", None)),
    ],
)
def test_this_machine_is_known_by_its_address(peer, is_here):
    assert is_from_here(asked(peer=peer)) is is_here


@pytest.mark.parametrize("header", PASSED_ON)
def test_what_a_proxy_passes_on_comes_from_elsewhere(header):
    assert not is_from_here(asked({header: "127.0.0.1"}))
    assert not is_from_here(asked({header: ""}))


async def test_this_machine_needs_no_key_and_anyone_else_does(daemon_rig: DaemonRig):
    assert not KeyFile(daemon_rig.daemon.watched.home).path.exists()
    await expect(daemon_rig, 200, "GET", "/api/doctor")
    answer = await expect(daemon_rig, 401, "GET", "/api/doctor", headers=ELSEWHERE)
    says = {"error": "Unauthorized", "message": "Valid API key required"}
    assert answer == answer | says
    for shown in (wrong(), {"Authorization": "Bearer x"}):
        await expect(daemon_rig, 401, "GET", WATCHES, headers={**ELSEWHERE, **shown})
    key = key_of(daemon_rig, "curator:read", local=True)  # limits this machine when it is shown
    await expect(daemon_rig, 403, "POST", "/api/pause", headers=key)


async def test_either_header_shows_the_key_and_both_must_agree(daemon_rig: DaemonRig):
    key = await key_for_all(daemon_rig)
    bearer = {"Authorization": f"Bearer {key}"}
    for headers in (
        {"X-API-Key": key},
        {"Authorization": f"bearer {key}"},
        {**bearer, "X-API-Key": key},
        {**bearer, "X-API-Key": ""},
    ):
        await expect(daemon_rig, 200, "GET", "/api/doctor", headers=ELSEWHERE | headers)
    two = await refused(daemon_rig, "GET", "/api/doctor", headers={**bearer, **wrong()})
    assert two == (400, "two different keys were given")
    for name in ("key", "api_key", "token", "access_token", "X-API-Key"):  # none in the address
        await expect(daemon_rig, 401, "GET", f"{WATCHES}?{name}={key}", headers=ELSEWHERE)


async def test_a_wrong_key_is_refused_though_none_is_needed(daemon_rig: DaemonRig):
    for headers in (
        wrong(),
        {"Authorization": "Bearer x"},
        {"Authorization": "Basic eDp5"},
        {"Authorization": "x"},
        {"X-API-Key": "x" * 4000},
        {"X-API-Key": "é"},
    ):
        answer = await refused(daemon_rig, "GET", "/api/health", headers=headers)
        assert answer == (401, "Valid API key required")


async def test_a_key_opens_nothing_once_it_is_over(live: Live):
    times, end = [NOW], NOW + timedelta(hours=1)
    async with live(clock=lambda: times[0]) as daemon_rig:
        key = key_of(daemon_rig, "curator:read", expires=end)
        await expect(daemon_rig, 200, "GET", WATCHES, headers=key)
        times[0] = end
        await expect(daemon_rig, 401, "GET", WATCHES, headers=key, says="has expired")


async def test_a_file_of_keys_that_is_not_to_be_trusted_opens_nothing(
    home: Path, daemon_rig: DaemonRig
):
    key, file = key_of(daemon_rig, "*:read"), KeyFile(home).path
    problems, text = daemon_rig.daemon.watched.problems, file.read_text()
    file.chmod(0o644)
    await expect(daemon_rig, 401, "GET", WATCHES, headers=key)
    await daemon_rig.until(lambda: "keys" in problems.open)
    (reported,) = (await get(daemon_rig, "/api/doctor"))["findings"]
    assert (reported["about"], "others may read" in reported["problem"]) == ("keys", True)
    assert str(home) not in str(reported)
    file.chmod(0o600)
    await expect(daemon_rig, 200, "GET", WATCHES, headers=key)
    await daemon_rig.until(lambda: "keys" not in problems.open)
    for broken in ("", "---\napi_keys:\n- id: x\n", "garbage\n", "\x00"):
        file.write_text(broken)
        await expect(daemon_rig, 401, "GET", WATCHES, headers=key)
        await expect(daemon_rig, 200, "GET", WATCHES)
    await daemon_rig.until(lambda: "keys" in problems.open)
    file.write_text(text)
    await expect(daemon_rig, 200, "GET", WATCHES, headers=key)


async def test_where_everyone_needs_a_key_the_command_has_its_own(live: Live, home: Path):
    async with live(auth_mode="always") as daemon_rig:
        record = home / "run" / "daemon.json"
        token = json.loads(record.read_text())["token"]
        assert stat.S_IMODE(record.stat().st_mode) == 0o600
        await expect(daemon_rig, 401, "GET", WATCHES)
        await expect(daemon_rig, 200, "GET", "/api/health")
        command = {"Authorization": f"Bearer {token}"}
        for act, headers in (("pause", command), ("resume", key_of(daemon_rig, "curator:admin"))):
            await expect(daemon_rig, 200, "POST", f"/api/{act}", headers=headers)
    assert token not in record.parent.joinpath("daemon.lock").read_text()


async def test_where_no_one_needs_a_key_a_wrong_key_is_still_refused(live: Live):
    async with live(auth_mode="disabled") as daemon_rig:
        await expect(daemon_rig, 200, "GET", WATCHES, headers=ELSEWHERE)
        await expect(daemon_rig, 401, "GET", WATCHES, headers=wrong())


async def test_odd_bytes_where_a_key_should_be_are_a_wrong_key(daemon_rig: DaemonRig):
    head = b"GET /api/watches HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    for value in (b"\xff\xfe", b"\xed\xb3\xbf", b"a\x0bb", b"\xe2\x80\xa8", b"para_\xc3\xa9"):
        for name in (b"X-API-Key: ", b"Authorization: Bearer "):
            answer = await spoken(daemon_rig, head + name + value + b"\r\n\r\n")
            assert answer.split(b" ")[1] in {b"401", b"400"}
            assert answer.count(b"HTTP/1.") == 1


async def test_a_key_is_nowhere_but_with_its_holder(live: Live, home: Path, vault: Path, caplog):
    caplog.set_level(logging.DEBUG)
    async with live() as daemon_rig:
        key = await key_for_all(daemon_rig)
        sent = {"json": {"label": "phone"}, "headers": {"X-API-Key": key}}
        made = await expect(daemon_rig, 200, "POST", "/api/auth/keys", **sent)
        before = KeyFile(home).path.read_bytes()
        for each in (key, made["key"]):
            for shown, path, status in (
                (each, WATCHES, 200),
                (each, "/api/nowhere", 404),
                (f"{each}x", WATCHES, 401),
            ):
                await expect(daemon_rig, status, "GET", path, headers={"X-API-Key": shown})
        assert KeyFile(home).path.read_bytes() == before, "a use is not written each time"

    assert None not in {one.last_used for one in KeyFile(home).load().keys}
    files = (path for root in (home, vault) for path in root.rglob("*") if path.is_file())
    written = b"".join(path.read_bytes() for path in files)
    for each in (key, made["key"]):
        assert each not in caplog.text
        assert each.encode() not in written
        assert each[5:].encode() not in written


def test_who_was_let_in_without_a_key_is_so_only_while_none_is_needed(home):
    door = KeyAuthenticator(KeyRing(KeyFile(home), lambda: NOW), "remote", "t", lambda: NOW)
    here, command = door.identify(asked()), door.identify(asked({"Authorization": "Bearer t"}))
    assert (door.holds(here), door.holds(command)) == (True, True)
    door.mode = "always"
    assert (door.holds(here), door.holds(command)) == (False, True)
    door.mode = "disabled"
    anyone = door.identify(asked(peer="192.0.2.7"))
    assert door.holds(anyone)
    door.mode = "remote"
    assert not door.holds(anyone)
