"""Who asks: this machine, the command, the holder of a key, or no one."""

from __future__ import annotations

import json
import logging
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from parachuted.api.http.authenticator import FailedAttempts, KeyAuthenticator, is_from_here
from parachuted.keys import KeyFile, KeyRing
from tests.api.calls import ELSEWHERE, call, code, expect, get, key_of, refused, spoken
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
    await expect(daemon_rig, 200, "GET", "/api/doctor")
    status, answer = await call(daemon_rig, "GET", "/api/doctor", headers=ELSEWHERE)

    assert status == 401
    assert (answer["error"], answer["message"]) == ("Unauthorized", "Valid API key required")


async def test_without_a_file_of_keys_no_one_from_elsewhere_gets_in(daemon_rig: DaemonRig):
    assert not KeyFile(daemon_rig.daemon.watched.home).path.exists()
    for headers in (
        ELSEWHERE,
        {**ELSEWHERE, **wrong()},
        {**ELSEWHERE, "Authorization": "Bearer x"},
    ):
        await expect(daemon_rig, 401, "GET", WATCHES, headers=headers)


async def test_a_key_limits_this_machine_too_when_it_is_shown(daemon_rig: DaemonRig):
    await expect(
        daemon_rig,
        403,
        "POST",
        "/api/pause",
        headers=key_of(daemon_rig, "curator:read", local=True),
    )


async def test_either_header_shows_the_key_and_both_must_agree(daemon_rig: DaemonRig):
    key = await key_for_all(daemon_rig)
    for headers in (
        {"X-API-Key": key},
        {"Authorization": f"bearer {key}"},
        {"Authorization": f"Bearer {key}", "X-API-Key": key},
        {"Authorization": f"Bearer {key}", "X-API-Key": ""},
    ):
        await expect(daemon_rig, 200, "GET", "/api/doctor", headers=ELSEWHERE | headers)
    two = {"Authorization": f"Bearer {key}", **wrong()}
    assert await refused(daemon_rig, "GET", "/api/doctor", headers=two) == (
        400,
        "two different keys were given",
    )


async def test_a_wrong_key_is_refused_though_none_is_needed(daemon_rig: DaemonRig):
    all_headers = [
        wrong(),
        {"Authorization": "Bearer x"},
        {"Authorization": "Basic eDp5"},
        {"Authorization": "x"},
        {"X-API-Key": "x" * 4000},
        {"X-API-Key": "é"},
    ]
    for headers in all_headers:
        assert await refused(daemon_rig, "GET", "/api/health", headers=headers) == (
            401,
            "Valid API key required",
        )


async def test_a_key_in_the_address_opens_nothing(daemon_rig: DaemonRig):
    key = await key_for_all(daemon_rig)
    for name in ("key", "api_key", "token", "access_token", "X-API-Key"):
        await expect(daemon_rig, 401, "GET", f"/api/watches?{name}={key}", headers=ELSEWHERE)


async def test_a_key_opens_nothing_once_it_is_over(live: Live):
    times = [NOW]
    async with live(clock=lambda: times[0]) as daemon_rig:
        key = key_of(daemon_rig, "curator:read", expires=NOW + timedelta(hours=1))
        await expect(daemon_rig, 200, "GET", WATCHES, headers=key)
        times[0] = NOW + timedelta(hours=1)
        status, message = await refused(daemon_rig, "GET", WATCHES, headers=key)

    assert (status, "has expired" in message) == (401, True)


async def test_a_file_of_keys_that_others_may_read_opens_nothing_and_the_daemon_says_so(
    daemon_rig: DaemonRig,
):
    key, file = key_of(daemon_rig, "*:read"), KeyFile(daemon_rig.daemon.watched.home).path
    file.chmod(0o644)
    await expect(daemon_rig, 401, "GET", WATCHES, headers=key)
    await daemon_rig.until(lambda: "keys" in daemon_rig.daemon.watched.problems.open)
    assert "others may read" in (await get(daemon_rig, "/api/doctor"))["problems"]["keys"]
    assert (
        str(daemon_rig.daemon.watched.home)
        not in (await get(daemon_rig, "/api/doctor"))["problems"]["keys"]
    )
    file.chmod(0o600)
    await expect(daemon_rig, 200, "GET", WATCHES, headers=key)
    await daemon_rig.until(lambda: "keys" not in daemon_rig.daemon.watched.problems.open)


async def test_a_file_of_keys_that_is_broken_opens_nothing_and_the_daemon_stays(
    daemon_rig: DaemonRig,
):
    key, file = key_of(daemon_rig, "*:read"), KeyFile(daemon_rig.daemon.watched.home).path
    for text in ("", "---\napi_keys:\n- id: x\n", "garbage\n", "\x00"):
        file.write_text(text)
        await expect(daemon_rig, 401, "GET", WATCHES, headers=key)
        await expect(daemon_rig, 200, "GET", WATCHES)
    await daemon_rig.until(lambda: "keys" in daemon_rig.daemon.watched.problems.open)


async def test_where_everyone_needs_a_key_the_command_has_its_own(live: Live, home: Path):
    async with live(auth_mode="always") as daemon_rig:
        record = home / "run" / "daemon.json"
        token = json.loads(record.read_text())["token"]
        assert stat.S_IMODE(record.stat().st_mode) == 0o600
        await expect(daemon_rig, 401, "GET", WATCHES)
        await expect(daemon_rig, 200, "GET", "/api/health")
        await expect(
            daemon_rig, 200, "POST", "/api/pause", headers={"Authorization": f"Bearer {token}"}
        )
        await expect(
            daemon_rig, 200, "POST", "/api/resume", headers=key_of(daemon_rig, "curator:admin")
        )
    assert token not in record.parent.joinpath("daemon.lock").read_text()


async def test_where_no_one_needs_a_key_none_is_asked_for_and_a_wrong_one_is_wrong(live: Live):
    async with live(auth_mode="disabled") as daemon_rig:
        await expect(daemon_rig, 200, "GET", WATCHES, headers=ELSEWHERE)
        await expect(daemon_rig, 401, "GET", WATCHES, headers=wrong())


async def test_after_many_wrong_keys_a_peer_waits_while_a_right_one_is_let_in(
    daemon_rig: DaemonRig,
):
    key = key_of(daemon_rig, "curator:read")
    reported = [
        await code(daemon_rig, "GET", WATCHES, headers=wrong(number)) for number in range(15)
    ]
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{daemon_rig.url}/api/watches", headers=wrong()) as answer,
    ):
        waits = int(answer.headers["Retry-After"])
    await expect(daemon_rig, 200, "GET", WATCHES, headers=key)
    await expect(daemon_rig, 200, "GET", WATCHES)

    assert reported == [401] * 10 + [429] * 5
    assert 1 <= waits <= 6


def test_failures_are_forgotten_with_time_and_counted_for_each_peer():
    failures = FailedAttempts(most=3, every_s=10)

    assert [failures.count("a", 0) for _ in range(4)] == [0, 0, 0, 10]
    assert failures.count("b", 0) == 0
    assert failures.count("a", 5) == 5
    assert failures.count("a", 10) == 0
    assert [failures.count("a", 1000) for _ in range(4)] == [0, 0, 0, 10]


def test_what_is_remembered_of_peers_is_bounded():
    failures = FailedAttempts()
    for number in range(100_000):
        failures.count(str(number), 0)

    assert len(failures) == 2_000


def test_one_household_counts_as_one_peer(home):
    door = KeyAuthenticator(KeyRing(KeyFile(home), lambda: NOW), "remote", "t", lambda: NOW)
    for number in range(10):
        with pytest.raises(web.HTTPUnauthorized):
            door.identify(asked(wrong(), peer=f"2001:db8::{number:x}"))
    with pytest.raises(web.HTTPTooManyRequests):
        door.identify(asked(wrong(), peer="2001:db8::ffff:1"))
    with pytest.raises(web.HTTPUnauthorized):
        door.identify(asked(wrong(), peer="2001:db8:0:1::1"))
    assert door.identify(asked(peer="::1")).kind == "loopback"


@pytest.mark.parametrize(
    "value", [b"\xff\xfe", b"\xed\xb3\xbf", b"a\x0bb", b"\xe2\x80\xa8", b"para_\xc3\xa9"]
)
async def test_odd_bytes_where_a_key_should_be_are_a_wrong_key(value, daemon_rig: DaemonRig):
    for name in (b"X-API-Key: ", b"Authorization: Bearer "):
        request = (
            b"GET /api/watches HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            + name
            + value
            + b"\r\n\r\n"
        )
        answer = await spoken(daemon_rig, request)
        assert answer.split(b" ")[1] in {b"401", b"400"}
        assert answer.count(b"HTTP/1.") == 1


async def test_a_key_is_nowhere_but_with_its_holder(live: Live, home: Path, vault: Path, caplog):
    caplog.set_level(logging.DEBUG)
    async with live() as daemon_rig:
        key = await key_for_all(daemon_rig)
        status, made = await call(
            daemon_rig,
            "POST",
            "/api/auth/keys",
            json={"label": "phone"},
            headers={"X-API-Key": key},
        )
        assert status == 200
        for each in (key, made["key"]):
            await expect(daemon_rig, 200, "GET", WATCHES, headers={"X-API-Key": each})
            await expect(daemon_rig, 404, "GET", "/api/nowhere", headers={"X-API-Key": each})
            await expect(daemon_rig, 401, "GET", WATCHES, headers={"X-API-Key": f"{each}x"})

    written = b"".join(
        path.read_bytes() for root in (home, vault) for path in root.rglob("*") if path.is_file()
    )
    for each in (key, made["key"]):
        assert each not in caplog.text
        assert each.encode() not in written
        assert each[5:].encode() not in written


async def test_when_a_key_was_last_used_is_written_at_the_end_and_not_each_time(
    live: Live, home: Path
):
    async with live() as daemon_rig:
        key = key_of(daemon_rig, "curator:read")
        before = KeyFile(home).path.read_bytes()
        for _ in range(20):
            await call(daemon_rig, "GET", WATCHES, headers=key)
        assert KeyFile(home).path.read_bytes() == before

    (kept,) = KeyFile(home).load().keys
    assert kept.last_used is not None


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
