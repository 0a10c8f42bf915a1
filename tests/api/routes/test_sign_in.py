"""Signing in: who the caller is, and codes that make a key once."""

from __future__ import annotations

from datetime import timedelta

from parachuted.events.watched_vault import utc_now
from parachuted.keys import KeyFile
from tests.api.calls import ELSEWHERE, expect, get, key_of, post
from tests.stories.daemon_rig import DaemonRig, Live


async def redeemed(daemon_rig: DaemonRig, status: int, code: str, **more: str) -> dict:
    body = {"code": code, **more}
    return await expect(daemon_rig, status, "POST", "/api/auth/codes/redeem", json=body)


async def test_a_caller_learns_who_they_are(daemon_rig: DaemonRig):
    key = key_of(daemon_rig, "vault:read", paths=["Kitchen/**"])
    scope = {"module": "vault", "capabilities": ["read"], "paths": ["Kitchen/**"]}
    assert (await get(daemon_rig, "/api/auth/me"))["kind"] == "loopback"
    for headers, kind, name, scopes in (
        (key, "key", "a test's", [scope]),
        (ELSEWHERE, "nobody", "nobody", []),
    ):
        me = await expect(daemon_rig, 200, "GET", "/api/auth/me", headers=headers)
        assert me == {"kind": kind, "name": name, "scopes": scopes}


async def test_a_code_makes_one_key_which_is_revoked_with_its_makers(live: Live):
    async with live(auth_mode="always") as daemon_rig:
        admin = key_of(daemon_rig, "*:read,write,admin", local=True)
        key_of(daemon_rig, "*:read", local=True)

        async def made(by: dict[str, str]) -> str:
            return (await expect(daemon_rig, 201, "POST", "/api/auth/codes", headers=by))["code"]

        code = await made(admin)
        browser = await redeemed(daemon_rig, 201, code, label="browser")
        await redeemed(daemon_rig, 404, code, label="browser")
        shown = {"Authorization": f"Bearer {browser['key']}"}
        assert browser["label"].startswith("browser ")
        await expect(daemon_rig, 200, "GET", "/api/auth/keys", headers=shown)
        kept = (path.read_text("utf-8", "replace") for path in daemon_rig.vault.rglob("*.jsonl"))
        assert code not in "".join(kept)

        second = await redeemed(daemon_rig, 201, await made(shown))
        keys = (await expect(daemon_rig, 200, "GET", "/api/auth/keys", headers=admin))["keys"]
        assert second["id"] in {one["id"] for one in keys}
        first = next(one["id"] for one in keys if one["name"] == "a test's")
        await expect(daemon_rig, 200, "DELETE", f"/api/auth/keys/{first}", headers=admin)
        await expect(daemon_rig, 401, "GET", "/api/auth/keys", headers=shown)
        left = KeyFile(daemon_rig.daemon.watched.home).load().keys
        assert [key.name for key in left] == ["a test's 1"]


async def test_a_code_ends_after_five_minutes_and_with_the_key_that_made_it(live: Live):
    now = [utc_now()]
    async with live(clock=lambda: now[0]) as daemon_rig:
        file = KeyFile(daemon_rig.daemon.watched.home)
        late = await post(daemon_rig, "/api/auth/codes")
        admin = key_of(daemon_rig, "*:read,write,admin")
        revoked = await expect(daemon_rig, 201, "POST", "/api/auth/codes", headers=admin)
        file.remove(file.load().keys[0].id)
        now[0] += timedelta(minutes=1)
        daemon_rig.daemon.authenticator.look()
        await redeemed(daemon_rig, 404, revoked["code"])
        now[0] += timedelta(minutes=5)
        await redeemed(daemon_rig, 404, late["code"])
        assert file.load().keys == ()
