"""Keys over HTTP: made, listed and revoked by this machine, and by keys that may do no less."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta

from parachuted.config import load_settings
from parachuted.keys import KeyFile
from tests.api.calls import ELSEWHERE, call, code, expect, get, key_of
from tests.stories.daemon_rig import DaemonRig, Live

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEYS = "/api/auth/keys"
READ = {"module": "vault", "capabilities": ["read"]}


async def made(
    daemon_rig: DaemonRig, status: int = 200, *, by: dict[str, str] | None = None, **body: object
) -> dict:
    body = {"label": "phone", **body}
    return await expect(daemon_rig, status, "POST", KEYS, json=body, headers=by)


def shown(answer: dict) -> dict[str, str]:
    return {"X-API-Key": answer["key"], **ELSEWHERE}


async def test_a_key_is_made_shown_once_and_works_at_once(daemon_rig: DaemonRig):
    phone = await made(daemon_rig)
    assert re.fullmatch(r"para_[A-Za-z0-9]{32}", phone["key"])
    usual = [{"module": "*", "capabilities": ["read", "write"]}]
    fields = {"label": "phone", "name": "phone", "last_used_at": None, "expires_at": None}
    assert phone == phone | fields | {"scopes": usual}
    assert phone["link"] is None, "no other machine reaches this one"
    assert phone["qr"]
    await expect(daemon_rig, 200, "GET", "/api/watches", headers=shown(phone))
    await expect(daemon_rig, 403, "GET", KEYS, headers=shown(phone))
    listed = await get(daemon_rig, KEYS)

    assert set(listed) == {"keys", "auth_mode", "problem"}
    assert (listed["auth_mode"], listed["problem"]) == ("remote", None)
    (one,) = listed["keys"]
    assert "key" not in one
    assert "key_hash" not in one
    assert one == one | {"id": phone["id"], "label": "phone", "created_at": phone["created_at"]}
    assert datetime.fromisoformat(one["last_used_at"]).tzinfo is not None


async def test_a_new_key_comes_with_a_link_to_the_page_and_its_qr_code(live: Live):
    async with live(api__hosts="notes.example") as daemon_rig:
        phone = await made(daemon_rig)

    assert phone["link"] == f"https://notes.example/#key={phone['key']}"
    assert len({len(row) for row in phone["qr"]} | {len(phone["qr"])}) == 1, "it is a square"
    assert set("".join(phone["qr"])) == {"0", "1"}
    assert phone["qr"][0].startswith("11111110")


async def test_what_makes_no_sense_makes_no_key(daemon_rig: DaemonRig):
    bodies = [
        {},
        {"label": ""},
        {"label": "x" * 101},
        {"label": "a\nb"},
        {"label": "\ud800"},
        {"label": 5},
        {"label": "a", "scopes": [{"module": "vault"}]},
        {"label": "a", "scopes": [{"module": "vault", "capabilities": ["all"]}]},
        {"label": "a", "scopes": [{"module": "Vault!", "capabilities": ["read"]}]},
        {"label": "a", "scopes": [READ, {"module": "vualt", "capabilities": ["read"]}]},
        {"label": "a", "scopes": [{**READ, "paths": ["../x"]}]},
        {"label": "a", "scopes": [{**READ, "path": ["x"]}]},
        {"label": "a", "scopes": "all"},
        {"label": "a", "expires": "soon"},
        {"label": "a", "expires": "2020-01-01"},
    ]
    for body in bodies:
        await expect(daemon_rig, 400, "POST", KEYS, json=body)
    assert not KeyFile(daemon_rig.daemon.watched.home).path.exists()


async def test_a_revoked_key_opens_nothing_any_more(daemon_rig: DaemonRig):
    phone, tablet = await made(daemon_rig), await made(daemon_rig, label="tablet")
    revoked = await expect(daemon_rig, 200, "DELETE", f"{KEYS}/{phone['id']}")
    assert revoked == {"status": "revoked", "id": phone["id"]}
    await expect(daemon_rig, 401, "GET", "/api/watches", headers=shown(phone))
    await expect(daemon_rig, 200, "GET", "/api/watches", headers=shown(tablet))
    for name in (phone["id"], "phone", "tablet", "%2e%2e", "x" * 3000):
        assert await code(daemon_rig, "DELETE", f"{KEYS}/{name}") in {403, 404}
    assert [one["id"] for one in (await get(daemon_rig, KEYS))["keys"]] == [tablet["id"]]


async def test_a_key_makes_no_key_that_may_do_more(daemon_rig: DaemonRig):
    admin = key_of(daemon_rig, "vault:read", "system:admin")
    for scope in (
        {**READ, "module": "*"},
        {"module": "vault", "capabilities": ["write"], "paths": ["Projects/a/**"]},
        {**READ, "module": "daily"},
    ):
        answer = await made(daemon_rig, 403, by=admin, scopes=[scope])
        assert "no more than itself" in answer["message"]


async def test_a_key_makes_keys_that_may_do_less_and_are_over_no_later(live: Live):
    async with live(clock=lambda: NOW) as daemon_rig:
        till = NOW + timedelta(days=10)
        admin = key_of(daemon_rig, "vault:read,write", "system:admin", expires=till)
        narrow = {**READ, "paths": ["Projects/garden/**"]}
        less = await made(daemon_rig, by=admin, label="x", scopes=[narrow])
        usual = await made(daemon_rig, by=admin, label="y", expires="2d")
        await made(daemon_rig, 403, by=admin, label="z", expires="11d")
        scopes = [{**narrow, "module": "daily", "paths": ["Daily/**"]}, narrow]
        whole = await made(daemon_rig, scopes=scopes, expires="90d", color="red")

    assert (whole["scopes"], whole["expires_at"]) == (scopes, "2026-05-30T12:00:00Z")
    assert (less["scopes"], less["expires_at"]) == ([narrow], "2026-03-11T12:00:00Z")
    assert usual["scopes"] == [{"module": "vault", "capabilities": ["read", "write"]}]
    assert usual["expires_at"] == "2026-03-03T12:00:00Z"


async def test_a_key_neither_sees_nor_revokes_keys_that_may_do_more(daemon_rig: DaemonRig):
    secret = await made(daemon_rig, label="other", scopes=[{**READ, "module": "curator"}])
    admin = key_of(daemon_rig, "vault:read", "system:admin")
    less = await made(daemon_rig, by=admin, label="less")
    listed = (await call(daemon_rig, "GET", KEYS, headers=admin))[1]
    assert [one["label"] for one in listed["keys"]] == ["a test's 1", "less"]
    await expect(daemon_rig, 404, "DELETE", f"{KEYS}/{secret['id']}", headers=admin)
    await expect(daemon_rig, 200, "DELETE", f"{KEYS}/{less['id']}", headers=admin)
    await expect(daemon_rig, 200, "DELETE", f"{KEYS}/{listed['keys'][0]['id']}", headers=admin)
    await expect(daemon_rig, 401, "GET", KEYS, headers=admin)


async def test_a_name_that_is_taken_is_refused_also_when_two_come_at_once(daemon_rig: DaemonRig):
    await made(daemon_rig)
    again = await made(daemon_rig, 409)
    asked = (call(daemon_rig, "POST", KEYS, json={"label": "tablet"}) for _ in range(5))
    statuses = [status for status, _answer in await asyncio.gather(*asked)]
    listed = (await get(daemon_rig, KEYS))["keys"]

    assert again["message"] == "there is a key 'phone' already; revoke that one first"
    assert sorted(statuses) == [200, 409, 409, 409, 409]
    assert [one["label"] for one in listed] == ["phone", "tablet"]


async def test_a_file_of_keys_that_is_broken_is_reported_and_not_written_over(
    daemon_rig: DaemonRig,
):
    file = KeyFile(daemon_rig.daemon.watched.home).path
    file.write_text("mine\n")
    file.chmod(0o600)
    assert "keys.yaml should hold" in (await get(daemon_rig, KEYS))["problem"]
    answer = await made(daemon_rig, 503)
    assert str(daemon_rig.daemon.watched.home) not in answer["message"]
    assert file.read_text() == "mine\n"


async def test_who_needs_a_key_gets_both_words(daemon_rig: DaemonRig):
    said = {"require_auth": "remote", "auth_mode": "remote"}
    assert await get(daemon_rig, "/api/auth/settings") == {**said, "key_count": 0}
    await made(daemon_rig)
    assert await get(daemon_rig, "/api/auth/settings") == {**said, "key_count": 1}


async def mode(daemon_rig: DaemonRig, status: int, by: dict | None = None, **body: object) -> dict:
    return await expect(daemon_rig, status, "PUT", "/api/auth/settings", json=body, headers=by)


async def test_who_needs_a_key_changes_at_once_and_is_kept(home, daemon_rig: DaemonRig):
    admin = key_of(daemon_rig, "*:read,write,admin")
    assert (await mode(daemon_rig, 200, admin, auth_mode="always"))["require_auth"] == "always"
    await expect(daemon_rig, 401, "GET", "/api/watches")
    assert load_settings(home, {}, {}).auth_mode == "always"
    await mode(daemon_rig, 200, admin, requireAuth="remote")
    await expect(daemon_rig, 200, "GET", "/api/watches")


async def test_who_needs_a_key_is_nothing_else_and_said_by_who_may_do_everything(
    home, daemon_rig: DaemonRig
):
    for body in (
        {},
        {"auth_mode": "never"},
        {"auth_mode": None},
        {"auth_mode": "always", "require_auth": "remote"},
        {"x": 1},
    ):
        await mode(daemon_rig, 400, **body)
    for admin in (
        key_of(daemon_rig, "system:admin"),
        key_of(daemon_rig, "*:read,write,admin", paths=["**"]),
    ):
        await mode(daemon_rig, 403, admin, auth_mode="disabled")
    assert not (home / "config.yaml").exists()


async def test_where_others_may_connect_keys_are_not_given_up(live: Live, home):
    async with live(host="0.0.0.0") as daemon_rig:  # noqa: S104  the point of it
        answer = await mode(daemon_rig, 409, auth_mode="disabled")
        assert "may not be disabled" in answer["message"]
        assert (await get(daemon_rig, "/api/auth/settings"))["auth_mode"] == "remote"
        assert not (home / "config.yaml").exists()
