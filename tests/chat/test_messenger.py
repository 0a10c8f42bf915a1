"""Messages from one conversation's agent to another conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

from parachuted.access.caller import Caller, WorkRequest, acting
from tests.chat.chat_of import conversations, sessions_of, texts
from tests.chat.scripted_runs import ask, scripted_chat, words
from tests.chat.talks import eventually


async def test_a_message_to_an_agent_at_work_is_answered_after_its_turn(vault: Path):
    held = asyncio.Event()

    def script(prompt, _options):
        return [held, *words("Late.")] if "Slowly" in prompt else words("Heard.")

    async def deaf(_run: str, _text: str) -> bool:
        return False

    async with scripted_chat(vault, script, config={"curator": False}) as (module, runs):
        runs.inject = deaf
        source, target = [
            (await conversations(module).create(title))["id"] for title in ("One", "Two")
        ]
        inside, sessions = module.instance, sessions_of(module)
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(module, "Slowly please", target))
            await eventually(lambda: _started(runs))
            with acting(Caller(request=WorkRequest(by="person"))):
                one, two = await sessions.get(source), await sessions.get(target)
                inside.messenger.send_from(one, two, "What about peas?")
                await inside.messenger.turn_ended(one.id)
            held.set()

        async def answered():
            said = await texts(module, target)
            return said if len(said) == 4 else None

        found = await eventually(answered)
        assert found == ["Slowly please", "Late.", "What about peas?", "Heard."]


async def _started(runs) -> bool | None:
    return bool(runs.started) or None
