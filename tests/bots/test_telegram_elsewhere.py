"""The Telegram connector against a server that this project did not write."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import aiohttp
import pytest

from modules.bots.telegram import TelegramConnector
from tests.bots.listening import KeptCursor
from tests.bots.test_telegram import next_of

_SERVER = """
const {TelegramServer} = require("telegram-test-api/lib/telegramServer");
const probe = require("net").createServer().listen(0, "127.0.0.1", () => {
  const {port} = probe.address();
  probe.close(async () => {
    const server = new TelegramServer({port, host: "127.0.0.1"});
    await server.start();
    console.log(port);
  });
});
"""


async def test_a_message_that_another_server_passes_on(tmp_path: Path, torture):
    if not torture:
        pytest.skip("it installs from npm; `make torture` runs it")
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("there is no npm")
    install = await asyncio.create_subprocess_exec(
        *(npm, "install", "--silent", "--no-audit", "--ignore-scripts", "telegram-test-api@4"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    if await install.wait():
        pytest.skip("npm cannot install telegram-test-api here")
    me = tmp_path / "node_modules/telegram-test-api/lib/routes/bot/getMe.js"
    me.write_text(me.read_text().replace("id: 666", "id: 666, is_bot: true"))  # it leaves that out
    server = await asyncio.create_subprocess_exec(
        *(node, "-e", _SERVER), cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    url = f"http://127.0.0.1:{int(await server.stdout.readline())}"
    bot = TelegramConnector({"token": "27:test", "base_url": f"{url}/bot"}, KeptCursor())
    try:
        assert (await bot.connect()).startswith("@")
        person = {"id": 5, "is_bot": False, "first_name": "Ana"}
        chat = {"id": 5, "type": "private", "first_name": "Ana"}
        said = {"botToken": "27:test", "from": person, "chat": chat, "date": 1, "text": "hi"}
        async with aiohttp.ClientSession() as client:
            await client.post(f"{url}/sendMessage", json=said)
            found = await next_of(bot)
            assert (found.text, found.chat_id, found.sender_id) == ("hi", "5", "5")
    finally:
        await bot.close()
        server.kill()
        await server.wait()
