"""The bridge to Brain in whole turns: what a prompt has of it, what an exchange leaves there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from parachuted.errors import (
    AgentFailedError,
    ModuleFailedError,
)
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import session
from tests.chat.scripted_runs import ask, scripted_chat, words
from tests.chat.talks import eventually, fact, judging, stored, talk

KIM = "Brain/entities/people/kim-lee.md"
TEXT = "---\ntype: person\n---\n# Kim Lee\n\nGrows beans.\n\n## Facts\n- Lives in Bern\n"


class Brain:
    """Another module's Brain, which knows one person."""

    def __init__(self, vault: Path) -> None:
        self.vault = vault
        self.asked: list[str] = []
        self.written: list[tuple[str, Mapping[str, Any]]] = []
        (vault / KIM).parent.mkdir(parents=True)
        (vault / KIM).write_text(TEXT)

    def _row(self) -> dict[str, Any]:
        return {"para_id": "p1", "type": "person", "name": "Kim Lee", "path": KIM, "snippet": "x"}

    async def search(self, _query: str, limit: int = 5) -> list[dict[str, Any]]:
        return [self._row()][:limit]

    async def recall(self, query: str, num_results: int = 5, **_more: object) -> dict[str, Any]:
        self.asked.append(query)
        row = {**self._row(), "title": "Kim Lee", "text": "Grows beans.", "score": 0.9}
        is_match = "kim" in query.casefold()
        return {"results": [{**row, "is_match": is_match}][:num_results], "count": 1}

    async def suggest(self, text: str, **_more: object) -> list[dict[str, Any]]:
        return [{**self._row(), "confidence": 0.4}] if "Kim" in text else []

    async def resolve(self, text: str) -> dict[str, Any]:
        return {"match": self._row() if text == "Kim Lee" else None}

    async def types(self) -> list[dict[str, Any]]:
        return [{"name": "person", "folder": "people"}, {"name": "topic", "folder": "topics"}]

    async def upsert_entity(self, entity_type: str, data: Mapping[str, Any]) -> dict[str, Any]:
        self.written.append((entity_type, data))
        path = f"Brain/{data['name']}.md"
        (self.vault / path).write_text(f"# {data['name']}\n\n{data['description']}\n")
        return {"entity_id": "p2", "path": path, "created": True}


def with_brain(vault: Path, brain: object, judge: Any = None, **options: Any) -> Any:
    given = {"BrainInterface": brain}
    return scripted_chat(vault, words("I see."), judge, interfaces=given, **options)


async def test_what_brain_knows_goes_into_the_prompt_with_its_query_and_path(vault: Path):
    brain = Brain(vault)
    async with with_brain(vault, brain, judging(["Kim beans"], [])) as (module, runs):
        events = await ask(module, "Does my neighbour still grow those?")
        prompt = runs.started[0].options["context"]

        assert brain.asked == ["Kim beans"]
        assert '### From query: "Kim beans"' in prompt
        assert f"- **Kim Lee** (person): Grows beans. [{KIM}]" in prompt
        (reported,) = [event for event in events if event["type"] == "prompt_metadata"]
        assert reported["brain_context_loaded"] is True
        assert reported["brain_context_count"] == 1
        found = await eventually(lambda: logged(module, events[-1]["sessionId"]))
        assert found == [
            {"query": "Kim beans", "type": "enrich", "turn_number": 1, "loaded": [KIM]}
        ]
        shown: Any = await module.request("GET", f"/{events[-1]['sessionId']}")
        assert json.loads(shown["bridgeContextLog"]) == found


async def logged(module: ModuleHarness, session_id: str) -> object:
    found: Any = await module.request("GET", f"/{session_id}/bridge")
    return found["log"] or None


async def test_a_short_message_and_one_to_brain_itself_load_nothing(vault: Path):
    def fails(_prompt: str, _system: str | None) -> str:
        raise AgentFailedError("no")

    brain = Brain(vault)
    async with with_brain(vault, brain, fails) as (module, runs):
        for message in ("Thanks, all clear", "Search my brain for all of my neighbours"):
            events = await ask(module, message)
            prompt = runs.started[-1].options["system_prompt"]

            assert brain.asked == []
            assert ("stepping back" in prompt) is ("brain" in message)
            (reported,) = [event for event in events if event["type"] == "prompt_metadata"]
            assert reported["brain_context_loaded"] is False


async def test_without_a_model_in_time_the_words_decide(vault: Path):
    async with with_brain(vault, Brain(vault)) as (module, runs):
        await ask(module, "what does kim lee like to grow?")
        await ask(module, "what is the weather like on monday?")

        assert "Grows beans." in runs.started[0].options["context"]
        assert "Grows beans." not in runs.started[1].options["context"]


async def test_a_fact_is_added_to_its_entity_and_not_again_once_undone(vault: Path):
    judge = judging(
        [], [fact("Kim Lee", "Moves to Basel in May."), fact("Kim Lee", "lives in bern")]
    )
    async with with_brain(vault, Brain(vault), judge) as (module, _):
        events = await ask(module, "By the way: Kim moves to Basel in May.")
        (kept,) = await stored(module, events[-1]["sessionId"], 1)

        assert (vault / KIM).read_text() == TEXT + "- Moves to Basel in May.\n"
        assert (kept["status"], kept["name"], kept["path"]) == ("kept", "Kim Lee", KIM)
        assert kept["run"]
        (vault / KIM).write_text(TEXT)
        await module.event("run.undone", run=kept["run"], paths=[KIM])
        found: Any = await module.request("GET", f"/{events[-1]['sessionId']}/bridge")
        assert [one["status"] for one in found["stored"]] == ["undone"]
        again = (await ask(module, "As I said: Kim moves to Basel in May."))[-1]["sessionId"]
        await eventually(lambda: exchange_logged(vault, again))
        assert (vault / KIM).read_text() == TEXT, "it is not written a second time"


async def exchange_logged(vault: Path, session_id: str) -> bool | None:
    days = (vault / ".parachute/activity").glob("*.jsonl")
    return any(session_id in day.read_text() for day in days) or None


async def test_an_entity_that_brain_does_not_know_is_made(vault: Path):
    brain = Brain(vault)
    judge = judging([], [fact("Basel garden", "Has four beds.", "topic"), fact("X", "y", "ship")])
    async with with_brain(vault, brain, judge) as (module, _):
        events = await ask(module, "The garden in Basel has four beds.")
        talk_id = events[-1]["sessionId"]
        (kept,) = await stored(module, talk_id, 1)

        assert brain.written == [
            ("topic", {"name": "Basel garden", "description": "Has four beds."})
        ]
        assert "Has four beds." in (vault / kept["path"]).read_text()


@pytest.mark.parametrize("is_silent", [False, True], ids=["fails", "is silent"])
async def test_a_brain_that_fails_or_is_silent_adds_nothing_and_fails_no_turn(
    vault: Path, *, is_silent: bool
):
    class Broken:
        def __getattr__(self, name: str) -> Any:
            async def asked(*_given: object, **_more: object) -> None:
                if not is_silent:
                    raise ModuleFailedError(name)
                await asyncio.Event().wait()

            return asked

    judge = judging(["x"], [fact("Kim Lee", "Moves to Basel in May.")])
    async with with_brain(vault, Broken(), judge) as (module, runs):
        inside = module.instance
        for one in (inside.bridge, inside.write_back, inside.turns.work.parts) * is_silent:
            one.limit_s = 0.01
        for message in ("What does Kim Lee like to grow?", "By the way: Kim moves in May."):
            events = await ask(module, message)
            assert events[-1]["type"] == "done"
        assert "Kim" not in runs.started[0].options["context"]
        assert module.problem is None


async def test_what_a_bots_conversation_says_is_suggested_and_a_no_is_remembered(vault: Path):
    judge = judging([], [fact("Kim Lee", "Moves to Basel in May."), fact("Jo", "Is tall.")])
    async with with_brain(vault, Brain(vault), judge) as (module, _):
        bot = {"linked_bot_platform": "telegram", "linked_bot_chat_id": "1"}
        talk_id = await talk(module, vault, ["Hello", "Hello"], **bot)
        await ask(module, "By the way: Kim moves to Basel in May.", talk_id)
        found = await stored(module, talk_id, 2)

        assert [one["status"] for one in found] == ["waiting", "waiting"]
        assert (vault / KIM).read_text() == TEXT
        assert [(action, path) for action, path, _ in module.suggested] == [
            ("update", KIM),
            ("create", "Brain/entities/people/jo.md"),
        ]
        talks = module.interface("ConversationInterface")
        assert await talks.session_of_suggestion(found[0]["suggestion"], None) == talk_id
        assert await talks.session_of_suggestion("s0000000000", None) is None
        decided = {"path": KIM, "status": "rejected", "action": "update"}
        await module.event("suggestion.resolved", id=found[0]["suggestion"], **decided)
        await ask(module, "As I said: Kim moves to Basel in May.", talk_id)
        found = await stored(module, talk_id, 3)
        assert [one["status"] for one in found] == ["rejected", "waiting", "waiting"]
        assert [one["name"] for one in found] == ["Kim Lee", "Jo", "Jo"]


async def test_a_person_can_switch_all_of_it_off(vault: Path):
    judge = judging(["Kim"], [fact("Kim Lee", "Moves to Basel in May.")])
    off = {"curator": False, "brain_context": False, "write_back": False}
    async with with_brain(vault, Brain(vault), judge, config=off) as (module, runs):
        events = await ask(module, "By the way: Kim moves to Basel in May.")
        talk_id = events[-1]["sessionId"]
        await eventually(lambda: exchange_logged(vault, talk_id))

        assert "Brain Context" not in runs.started[0].options["context"]
        assert (vault / KIM).read_text() == TEXT
        assert (await session(module, talk_id))["curatorLastRun"] is None
