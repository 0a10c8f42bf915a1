"""Telegram's webhook: a route without a key, for who shows its secret."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from tests.api.calls import call
from tests.bots.conftest import Bots, Starting, eventually
from tests.bots.telegram_rig import TelegramRig

HEADER = "X-Telegram-Bot-Api-Secret-Token"
PATH = "/api/bots/telegram/webhook"

pytestmark = pytest.mark.parametrize("platform", ["telegram"], indirect=True)


async def webhook_set(bots: Bots, url: str | None = None) -> dict[str, Any]:
    """Set it, and return what Telegram was asked for."""
    said = {"webhook_url": bots.daemon.url if url is None else url}
    await bots.api("PUT", "bots/config", json={"telegram": said})
    await bots.connected()
    rig = bots.platform
    assert isinstance(rig, TelegramRig)
    return rig.api.webhook


async def test_what_telegram_posts_is_answered_once_while_there_is_a_webhook(
    starting: Starting, platform: TelegramRig
):
    api = platform.api
    async with starting() as bots:
        person, chat = await bots.paired()
        asked = await webhook_set(bots)
        assert asked["url"] == f"{bots.daemon.url}{PATH}"
        assert asked["max_connections"] == "1"
        assert platform.settings()["token"] not in json.dumps(asked)
        polls = sum(1 for one, _ in api.asked if one == "getUpdates")
        await bots.exchange(person, chat, "Beans")
        body = {"update_id": 9_000, "message": api.message(int(chat), platform.people[person])}
        body["message"] |= {"text": "Peas"}
        headers = {HEADER: asked["secret_token"]}
        async with aiohttp.ClientSession(headers=headers) as client:
            for _ in range(3):  # Telegram posts it again where the answer was lost
                async with client.post(bots.daemon.url + PATH, json=body) as answer:
                    assert answer.status == 200, await answer.text()
            for odd in (b"{", b"[]", b'{"update_id": 1}', b'{"message": 5}', b"\xff", b"[" * 9_999):
                async with client.post(bots.daemon.url + PATH, data=odd) as answer:
                    assert answer.status in {200, 422}, odd
        await bots.answer(chat, "You said: Peas")
        assert bots.model.prompts == ["Beans", "Peas"]
        assert sum(1 for one, _ in api.asked if one == "getUpdates") == polls
        await bots.api("POST", "bots/telegram/stop")
        await platform.say(person, chat, "Corn")

        async def refused() -> bool | None:
            return (set(api.posted) - {200}) or None

        await eventually(refused, bots.sessions)
        await bots.api("POST", "bots/telegram/start")
        await bots.answer(chat, "You said: Corn")
        assert await webhook_set(bots, "") == {}
        await bots.exchange(person, chat, "Leeks")
        async with (
            aiohttp.ClientSession(headers=headers) as client,
            client.post(bots.daemon.url + PATH, json=body) as answer,
        ):
            assert answer.status == 401
        assert await webhook_set(bots) == api.webhook != {}
        await bots.api("DELETE", "bots/telegram")
        assert api.webhook == {}


async def test_without_the_secret_a_post_is_refused_unread_and_audited(bots: Bots):
    path = bots.daemon.url + PATH
    wrong: list[dict[str, str]] = [{}, {HEADER: ""}, {HEADER: "wrong"}]
    async with aiohttp.ClientSession() as client:
        for is_set in (False, True):
            if is_set:
                secret = (await webhook_set(bots))["secret_token"]
                wrong += [{HEADER: secret[:-1]}, {HEADER: secret.upper()}]
                wrong += [{"Authorization": f"Bearer {secret}"}, {"X-Other": secret}]
            for headers in wrong:
                async with client.post(path, data=b"{" * 100, headers=headers) as answer:
                    assert answer.status == 401, headers
                    assert "secret" in (said := await answer.text()) or "key" in said
        async with client.post(path, json={"update_id": 1}, headers={HEADER: secret}) as answer:
            assert answer.status == 200
    events = (await bots.api("GET", "audit?limit=1000"))["events"]
    refused = [event for event in events if event["target_endpoint"] == f"POST {PATH}"]
    assert {one["status"] for one in refused} == {200, 401}
    found = await call(bots.daemon, "GET", "/api/openapi.json")
    said = found[1]["paths"][PATH]["post"]
    assert (said["security"], said["x-secret-header"]) == ([], HEADER)
    assert secret not in json.dumps(events) + await bots.written()
