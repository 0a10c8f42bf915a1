"""A connector that listens alone, without a daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

from modules.bots.connector import Connector, ConnectorError, Incoming


class KeptCursor:
    def __init__(self) -> None:
        self.text = ""

    async def get(self) -> str:
        return self.text

    async def put(self, text: str) -> None:
        self.text = text


class Listening:
    """What the connector brings is in `found`, and what ends it is `error`."""

    def __init__(self, connector: Connector, is_ready: Callable[[], object]) -> None:
        self.connector, self._is_ready = connector, is_ready
        self.found: list[Incoming] = []
        self.error: BaseException | None = None

    async def listen(self) -> None:
        try:
            async for incoming in self.connector.listen():
                self.found.append(incoming)
                if incoming.kind == "added":
                    await self.connector.join(incoming.chat_id)
        except ConnectorError as error:
            self.error = error

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.02)

    async def message(self, text: str) -> Incoming:
        await self.until(lambda: text in self.texts)
        return next(one for one in self.found if one.text == text)

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.found if one.kind == "message"]

    async def __aenter__(self) -> Self:
        await self.connector.connect()
        self._task = asyncio.get_running_loop().create_task(self.listen(), name="listening")
        await self.until(lambda: self._is_ready() or self.error)
        return self

    async def __aexit__(self, *_raised: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self.connector.close()
        assert not [task for task in asyncio.all_tasks() if "(shard" in task.get_name()]
