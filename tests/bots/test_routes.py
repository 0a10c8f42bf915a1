"""The routes of bots, as the app calls them: rows 61 to 64 of its list, and who may not."""

from __future__ import annotations

import pytest

from tests.api.calls import call, key_of
from tests.bots.conftest import Bots, Starting


@pytest.mark.shared
async def test_the_rows_of_the_app(bots: Bots):
    name = bots.platform.platform
    status = (await bots.api("GET", "bots/status"))["connectors"]
    assert {one: status[one]["running"] for one in status} == {
        one: one == name for one in ("matrix", "telegram", "discord")
    }
    assert (await bots.api("GET", "health?detailed=true"))["bots"] == status
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
    await bots.exchange(person, chat, "Beans")
    assert (await bots.sessions())[0]["mode"] == "sandboxed"
    await bots.api("PUT", "bots/config", json={name: {"allowed_users": []}})
    await bots.platform.say(person, chat, "Peas")
    await bots.until(chat, lambda shown: len([one for one in shown if "code is" in one.text]) > 1)


async def test_a_token_is_kept_once_the_platform_takes_it_and_goes_nowhere(bots: Bots):
    name, given = bots.platform.platform, bots.platform.settings()
    token = given.pop("access_token", None) or given.pop("token")
    wrong = await bots.api("POST", f"bots/{name}", json={**given, "token": f"{token}x"})
    assert not wrong["success"]
    where = {one: given[one] for one in ("homeserver_url", "user_id") if one in given}
    for words, why in ((f"{token}x", "nothing was kept"), ("\n", "the token is empty")):
        body = {"platform": name, **where, "token": words}
        _, said = await call(bots.daemon, "POST", "/api/modules/bots/commands/add", json=body)
        assert why in str(said), said
    right = await bots.api("POST", f"bots/{name}", json={**given, "token": token})
    assert (right["success"], right["error"]) == (True, None)
    config = await bots.api("GET", "bots/config")
    assert token not in f"{wrong} {right} {config}"
    assert config[name]["problem"] == ""
    if name == "matrix":  # an address that is changed without the token is not sent it
        said = {"enabled": False, "homeserver_url": "http://127.0.0.1:1"}
        config = await bots.api("PUT", "bots/config", json={name: said})
        assert not config[name]["has_token"]


NONSENSE = [
    ("telegram", {"base_url": "nonsense"}, "telegram.base_url: should be an address"),
    ("telegram", {"tokn": "x"}, "telegram.tokn: "),
    ("telegram", {"enabled": True, "token": "nonsense"}, "nothing was changed: telegram: "),
    ("matrix", {"enabled": True}, "homeserver_url and user_id and access_token is missing"),
    ("signal", {"enabled": True}, "signal: Extra inputs are not permitted"),
    ("defaults", {"dm": {"mode": "chaos"}}, "defaults.dm.mode: Input should be 'default'"),
    ("defaults", {"dm": {"capabilities": ["Fly"]}}, "capabilities.0: Input should be 'Read'"),
    ("defaults", {"cat": {}}, "defaults.cat: Input should be 'dm' or 'group'"),
]
OF_EACH_PLATFORM = [
    ({"response_mode": "everything"}, "response_mode: Input should be 'mention"),
    ({"dm_trust_level": 5}, "dm_trust_level: "),
    ({"group_trust_level": None}, "group_trust_level: "),
    ({"enabled": "maybe"}, "enabled: Input should be a valid boolean"),
    ({"allowed_users": "5"}, "allowed_users: "),
    ({"allowed_users": None}, "allowed_users: "),
]


@pytest.mark.parametrize("platform", ["telegram"], indirect=True)
async def test_settings_that_make_no_sense_change_nothing_and_it_starts_again(
    starting: Starting,
):
    of_platforms = [
        (name, value, f"{name}.{says}")
        for name in ("matrix", "telegram", "discord")
        for value, says in OF_EACH_PLATFORM
    ]
    async with starting() as bots:
        person, chat = await bots.paired()
        before = await bots.api("GET", "bots/config")
        for name, value, says in (*NONSENSE, *of_platforms):
            body = {"defaults": {"group": {"mode": "trusted"}}, name: value}
            status, answer = await call(bots.daemon, "PUT", "/api/bots/config", json=body)
            assert (400 <= status < 500, says in answer["message"]) == (True, True), answer
            assert await bots.api("GET", "bots/config") == before
        left = {**before, "defaults": {**before["defaults"], "dm": {**before["defaults"]["dm"]}}}
        del left["defaults"]["dm"]["allowed_folders"]  # what is left out stays
        after = await bots.api("PUT", "bots/config", json=left)
        assert after["telegram"] == before["telegram"]
    async with starting() as bots:
        await bots.exchange(person, chat, "Beans")


@pytest.mark.shared
async def test_a_conversation_is_linked_to_a_chat_on_the_page_and_let_go(bots: Bots):
    person, chat = await bots.paired()
    platform, other = bots.platform.platform, await bots.platform.person("Bo")
    group = await bots.platform.group(person, other)
    await bots.exchange(person, chat, "Beans")
    (session,) = await bots.sessions()
    path = f"chat/{session['id']}"
    await bots.api("PATCH", path, json={"permissions": {"capabilities": ["Read", "Write"]}})
    await bots.exchange(person, group, "Peas", "Peas", to_bot=True)
    chats = (await bots.api("GET", "bots/chats"))["chats"]
    assert {one["chat_id"]: one["chat_type"] for one in chats} == {chat: "dm", group: "group"}
    assert session["id"] in {one["session_id"] for one in chats}

    link = {"platform": platform, "chat_id": group}
    await bots.api("PUT", f"bots/links/{session['id']}", json=link)
    linked = await bots.api("GET", path)
    assert (linked["linkedBotChatId"], linked["linkedBotChatType"]) == (group, "group")
    assert linked["metadata"]["permissions"]["capabilities"] == ["Read"]
    assert (linked["mode"], len(linked["messages"])) == ("sandboxed", 2)
    await bots.exchange(person, group, "Corn", "Corn", to_bot=True)
    await bots.quiet()
    assert len((await bots.api("GET", path))["messages"]) == 4

    await bots.api("DELETE", f"bots/links/{session['id']}")
    assert (await bots.api("GET", path))["linkedBotChatId"] is None
    link["chat_id"] = "of somebody else"
    status, answer = await call(bots.daemon, "PUT", f"/api/bots/links/{session['id']}", json=link)
    assert (status, "no person whom you paired" in answer["message"]) == (404, True)


ADMINISTERING = [
    ("POST", "matrix", {"token": "x"}),
    ("GET", "chats", None),
    ("PUT", "links/x", {"platform": "matrix", "chat_id": "x"}),
    ("DELETE", "links/x", None),
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


@pytest.mark.parametrize("platform", ["telegram"], indirect=True)
async def test_a_key_that_may_not_administer_lets_no_one_in(bots: Bots):
    headers = key_of(bots.daemon, "bots:read,write", "chat:read,write", "vault:read,write")
    for method, path, body in ADMINISTERING:
        options = {"headers": headers} if body is None else {"headers": headers, "json": body}
        status, _ = await call(bots.daemon, method, f"/api/bots/{path}", **options)
        assert status == 403, path
    status, _ = await call(bots.daemon, "GET", "/api/bots/status", headers=headers)
    assert status == 200
