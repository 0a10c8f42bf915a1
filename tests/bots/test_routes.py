"""The routes of bots, as the app calls them: rows 61 to 64 of its list, and who may not."""

from __future__ import annotations

from tests.api.calls import call, key_of
from tests.bots.conftest import Bots


async def test_the_rows_of_the_app(bots: Bots):
    name = bots.platform.platform
    status = (await bots.api("GET", "bots/status"))["connectors"]
    assert {one: status[one]["running"] for one in status} == {
        one: one == name for one in ("matrix", "telegram", "discord")
    }
    config = await bots.api("GET", "bots/config")
    assert config[name]["has_token"] is True
    assert {"enabled", "dm_trust_level", "group_trust_level", "allowed_users"} <= config[
        name
    ].keys()
    person, chat = await bots.paired()
    said = {name: {"dm_trust_level": "sandboxed", "dmTrustLevel": "direct"}}
    config = await bots.api("PUT", "bots/config", json=said)
    assert config[name]["allowed_users"] == [person]
    for act in ("stop", "start", "test"):
        done = await bots.api("POST", f"bots/{name}/{act}", json={})
        assert (done["success"], done["error"]) == (True, None)
    assert (await bots.api("GET", "bots/pairing/count")) == {"pending": 0}
    await bots.platform.say(person, chat, "Beans")
    await bots.answer(chat, "You said: Beans")
    assert (await bots.sessions())[0]["mode"] == "sandboxed"
    await bots.api("PUT", "bots/config", json={name: {"allowed_users": []}})
    await bots.platform.say(person, chat, "Peas")
    await bots.until(chat, lambda shown: len([one for one in shown if "code is" in one.text]) > 1)


ADMINISTERING = [
    ("GET", "config", None),
    ("PUT", "config", {}),
    ("GET", "pairing", None),
    ("POST", "pairing/x/approve", {}),
    ("POST", "pairing/x/deny", {}),
    ("POST", "matrix/start", {}),
    ("POST", "matrix/stop", {}),
    ("POST", "matrix/test", {}),
    ("DELETE", "matrix", None),
    ("DELETE", "matrix/users/x", None),
]


async def test_a_key_that_may_not_administer_lets_no_one_in(bots: Bots):
    headers = key_of(bots.daemon, "bots:read,write", "chat:read,write", "vault:read,write")
    for method, path, body in ADMINISTERING:
        options = {"headers": headers} if body is None else {"headers": headers, "json": body}
        status, _ = await call(bots.daemon, method, f"/api/bots/{path}", **options)
        assert status == 403, path
    status, _ = await call(bots.daemon, "GET", "/api/bots/status", headers=headers)
    assert status == 200
