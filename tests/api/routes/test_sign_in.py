"""Signing in: who the caller is, and codes that make a key once."""

from __future__ import annotations

from datetime import datetime, timedelta

from parachuted.events.watched_vault import utc_now
from parachuted.keys import KeyFile
from tests.api.calls import ELSEWHERE, call, expect, get, key_of, post
from tests.stories.daemon_rig import DaemonRig, Live


async def test_a_caller_learns_who_they_are(daemon_rig: DaemonRig):
    key = key_of(daemon_rig, "vault:read", paths=["Kitchen/**"])

    assert (await get(daemon_rig, "/api/auth/me"))["kind"] == "loopback"
    assert await call(daemon_rig, "GET", "/api/auth/me", headers=key) == (
        200,
        {
            "kind": "key",
            "name": "a test's",
            "scopes": [{"module": "vault", "capabilities": ["read"], "paths": ["Kitchen/**"]}],
        },
    )
    assert await call(daemon_rig, "GET", "/api/auth/me", headers=ELSEWHERE) == (
        200,
        {"kind": "nobody", "name": "nobody", "scopes": []},
    )


async def test_a_code_makes_one_key_of_its_makers_rights(live: Live):
    async with live(auth_mode="always") as daemon_rig:
        admin = key_of(daemon_rig, "*:read,write,admin", local=True)
        _, made = await call(daemon_rig, "POST", "/api/auth/codes", headers=admin)
        wanted = {"code": made["code"], "label": "browser"}
        status, key = await call(daemon_rig, "POST", "/api/auth/codes/redeem", json=wanted)
        again, _ = await call(daemon_rig, "POST", "/api/auth/codes/redeem", json=wanted)
        shown = {"Authorization": f"Bearer {key['key']}"}

        assert (status, again) == (201, 404)
        assert key["label"].startswith("browser ")
        await expect(daemon_rig, 200, "GET", "/api/auth/keys", headers=shown)
        assert made["code"] not in "".join(
            path.read_text("utf-8", "replace") for path in daemon_rig.vault.rglob("*.jsonl")
        )


async def test_revoking_a_key_revokes_those_of_the_browsers_that_it_signed_in(live: Live):
    async with live(auth_mode="always") as daemon_rig:
        admin = key_of(daemon_rig, "*:read,write,admin", local=True)
        key_of(daemon_rig, "*:read", local=True)
        _, made = await call(daemon_rig, "POST", "/api/auth/codes", headers=admin)
        _, browser = await call(
            daemon_rig, "POST", "/api/auth/codes/redeem", json={"code": made["code"]}
        )
        shown = {"Authorization": f"Bearer {browser['key']}"}
        _, again = await call(daemon_rig, "POST", "/api/auth/codes", headers=shown)
        _, second = await call(
            daemon_rig, "POST", "/api/auth/codes/redeem", json={"code": again["code"]}
        )
        _, listed = await call(daemon_rig, "GET", "/api/auth/keys", headers=admin)
        first = next(one["id"] for one in listed["keys"] if one["name"] == "a test's")
        await call(daemon_rig, "DELETE", f"/api/auth/keys/{first}", headers=admin)
        status, _ = await call(daemon_rig, "GET", "/api/auth/keys", headers=shown)

        assert second["id"] in {one["id"] for one in listed["keys"]}
        assert status == 401
        assert [key.name for key in KeyFile(daemon_rig.daemon.watched.home).load().keys] == [
            "a test's 1"
        ]


async def test_a_code_ends_after_five_minutes_and_with_the_key_that_made_it(live: Live):
    begun, passed = utc_now(), timedelta()

    def clock() -> datetime:
        return begun + passed

    async with live(clock=clock) as daemon_rig:
        late = await post(daemon_rig, "/api/auth/codes")
        admin = key_of(daemon_rig, "*:read,write,admin")
        _, revoked = await call(daemon_rig, "POST", "/api/auth/codes", headers=admin)
        KeyFile(daemon_rig.daemon.watched.home).remove(
            KeyFile(daemon_rig.daemon.watched.home).load().keys[0].id
        )
        passed = timedelta(minutes=1)
        daemon_rig.daemon.authenticator.look()
        status, _ = await call(
            daemon_rig, "POST", "/api/auth/codes/redeem", json={"code": revoked["code"]}
        )
        passed = timedelta(minutes=6)
        over, _ = await call(
            daemon_rig, "POST", "/api/auth/codes/redeem", json={"code": late["code"]}
        )

        assert (status, over) == (404, 404)
        assert KeyFile(daemon_rig.daemon.watched.home).load().keys == ()
