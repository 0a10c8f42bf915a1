"""A conversation about the journal: from entries, with links to them, and from nothing private."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.errors import AgentFailedError, AgentUnavailableError, NotFoundError
from parachuted.testing import ModuleHarness
from tests.daily.journal_of import NOON, daily, write

KIM, RAIN = "Kim spoke of the garden.", "Rain all day."


async def ask(module: ModuleHarness, message: str, **more: object) -> dict[str, dict[str, object]]:
    pieces = await module.request("POST", "/query", body={"message": message, **more})
    assert isinstance(pieces, list)
    return {piece["type"]: piece for piece in pieces}


async def test_an_answer_names_the_entries_that_it_is_from_and_goes_on(tmp_path: Path):
    async with daily(tmp_path, answers=lambda _agent, _prompt: "The garden [e1][e9].") as module:
        entry_id = await write(module, KIM)
        await write(module, RAIN)
        first = await ask(module, "What did Kim speak of?")
        await ask(module, "And when?", sessionId=first["done"]["sessionId"])

        assert [one["id"] for one in first["entries"]["entries"]] == [entry_id]
        assert first["text"]["content"] == (
            f"The garden [[Daily/journals/2026-02-24#{entry_id} 12:00|12:00]]."
        )
        prompts = [prompt for _, prompt in module.asked]
        assert "[e1] 2026-02-24 12:00\nKim spoke of the garden." in prompts[0]
        assert RAIN not in prompts[0]
        assert "Question: What did Kim speak of?\nAnswer: The garden" in prompts[1]


async def test_a_conversation_goes_on_for_the_key_that_began_it_and_no_other(tmp_path: Path):
    async with daily(tmp_path, answers=lambda _agent, _prompt: "Beans.") as module:
        phone = module.with_key("k_phone")
        session = (await ask(phone, "What did I sow in secret?"))["done"]["sessionId"]
        for stranger in (module, module.with_key("k_other")):
            with pytest.raises(NotFoundError, match="leave session_id out"):
                await ask(stranger, "And then?", session_id=session)
        await ask(phone, "And then?", session_id=session)

    assert len(module.asked) == 2
    assert "sow in secret" in module.asked[1][1]


async def test_what_is_private_answers_nothing(tmp_path: Path):
    async with daily(tmp_path, answers=lambda _agent, _prompt: "?") as module:
        body = {"content": KIM, "created_at": NOON, "metadata": {"private": True}}
        await module.request("POST", "/entries", body=body)
        found = await ask(module, "Kim and the garden")

        assert found["entries"]["entries"] == []
        assert KIM not in module.asked[0][1]


async def test_without_a_model_the_entries_are_named_and_a_failure_is_said(tmp_path: Path):
    errors = [AgentUnavailableError("no model"), AgentFailedError("too slow")]

    def answer(_agent: str, _prompt: str) -> str:
        raise errors.pop(0)

    async with daily(tmp_path, answers=answer) as module:
        await write(module, KIM)
        found = await ask(module, "Kim")
        assert "No model can be asked." in str(found["text"]["content"])
        assert f"- 2026-02-24: {KIM} [[Daily/journals/" in str(found["text"]["content"])
        found = await ask(module, "Kim")
        assert found["error"]["error"] == "too slow"
        assert "done" not in found
