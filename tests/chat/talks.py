"""Conversations that tests need: what was said, without an agent that says it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from parachuted.errors import (
    NotFoundError,
)
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import conversations

_PATIENCE_S = 120


async def talk(chat: ModuleHarness, vault: Path, said: Sequence[str], **fields: str) -> str:
    """A session in which a person and an assistant said this in turn; returns its id."""
    made = await conversations(chat).create()
    (file,) = [
        path
        for path in (vault / "Chat/sessions").glob("*.md")
        if made["id"] in path.read_text("utf-8")
    ]
    text = file.read_text("utf-8")
    for key, value in fields.items():
        text = text.replace("---\n", f"---\n{key}: {value}\n", 1)
    for number, words in enumerate(said):
        role = ("user", "assistant")[number % 2]
        text += f'\n<!-- message {{"id": "m{number}", "role": "{role}"}} -->\n{words}\n'
    file.write_text(text, "utf-8")
    await chat.event("file.modified", path=f"Chat/sessions/{file.name}")
    return str(made["id"])


async def eventually(ask: Callable[[], Awaitable[Any]]) -> Any:
    """What is there once it is, instead of a NotFoundError or None."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            found = await ask()
            if found is not None:
                return found
        except NotFoundError:
            pass
        assert time.monotonic() < deadline, "it did not come"
        await asyncio.sleep(0.01)


def judging(queries: list[str], facts: list[dict[str, str]]):
    """What a model would answer: to the bridge's questions, before a turn and after it."""

    def judge(prompt: str, system: str | None) -> str:
        assert "\n" in prompt
        if system is not None and "judgment" in system:
            return json.dumps(
                {"judgment": "enrich" if queries else "pass_through"}
                | ({"queries": queries} if queries else {})
            )
        return json.dumps({"facts": facts})

    return judge


def fact(name: str, text: str, kind: str = "person") -> dict[str, str]:
    return {"entity_type": kind, "name": name, "fact": text}


async def stored(module: ModuleHarness, session_id: str, count: int) -> list[dict[str, Any]]:
    """What a conversation left in Brain, once that is so much and is logged."""

    async def look() -> list[dict[str, Any]] | None:
        found: Any = await module.request("GET", f"/{session_id}/bridge")
        logged = [one for one in found["log"] if one["type"] in {"store", "suggest"}]
        return found["stored"] if len(found["stored"]) == len(logged) >= count else None

    return await eventually(look)
