"""Chat with the real Daily and Brain: its prompts, and its answers without a model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import ModuleHarness, running_module
from tests.chat.scripted_runs import ask, only, scripted_chat, words
from tests.chat.talks import eventually, fact, judging, stored, talk

KIM = "Brain/entities/people/kim-lee.md"
DAY = "Daily/journals/2026-02-24.md"


@asynccontextmanager
async def with_modules(
    vault: Path, *names: str, **options: Any
) -> AsyncIterator[tuple[ModuleHarness, Any]]:
    given = {}
    async with AsyncExitStack() as stack:
        for name in names:
            module = await stack.enter_async_context(
                running_module(bundled_folder("modules") / name, vault=vault)
            )
            interface = {"daily": "JournalInterface", "brain": "BrainInterface"}[name]
            given[interface] = module.interface(interface)
        yield await stack.enter_async_context(
            scripted_chat(vault, words("Yes."), interfaces=given, **options)
        )


def save(vault: Path, path: str, text: str) -> None:
    (vault / path).parent.mkdir(parents=True, exist_ok=True)
    (vault / path).write_text(text)


async def test_the_newest_entries_of_the_journal_are_in_the_prompt(vault: Path):
    save(vault, DAY, "# Walk\n\nIt rained on the beans.\n\n# Knee #private\n\nIt hurts.\n")
    async with with_modules(vault, "daily") as (module, runs):
        events = await ask(module, "What was the weather like?")
        prompt = runs.started[0].options["system_prompt"]
        assert "It rained on the beans." in prompt
        assert "hurts" not in prompt
        (part,) = [
            one for one in only(events, "prompt_metadata")["parts"] if one["kind"] == "journal"
        ]
        assert part["path"] == DAY
        assert part["title"].endswith(" Walk")


async def test_a_preview_leaves_nothing_in_the_next_turns_log(vault: Path):
    save(vault, KIM, "---\ntype: person\n---\n# Kim Lee\n\nGrows beans in Bern.\n")
    asked: list[str] = []
    answer = judging([], [fact("Kim Lee", "Moved to Basel in May.")])

    def judge(prompt: str, system: str | None) -> str:
        asked.append(prompt)
        return answer(prompt, system)

    async with with_modules(vault, "brain", judge=judge) as (module, _):
        session = await talk(module, vault, [])
        previewed: Any = await module.request(
            "GET", f"/{session}/prompt", query={"message": "What does Kim Lee grow in Bern?"}
        )
        assert "Grows beans in Bern." in previewed["prompt"]
        assert asked == []
        await ask(module, "Kim Lee has moved to Basel, in May it was", session)
        await stored(module, session, 1)
        found: Any = await module.request("GET", f"/{session}/bridge")
        assert [one["type"] for one in found["log"]] == ["store"]


async def test_what_is_to_be_remembered_is_acknowledged_and_is_of_the_session(vault: Path):
    save(vault, KIM, "---\ntype: person\n---\n# Kim Lee\n\n## Facts\n- Grows beans\n")
    async with with_modules(vault, "brain", has_model=False) as (module, _):
        events = await ask(module, "Remember that Kim Lee moved to Basel in May")
        session = events[-1]["sessionId"]
        (kept,) = await stored(module, session, 1)
        said = only(events, "done")["response"]
        assert f"Remembered in {KIM}: Kim Lee moved to Basel in May" in said
        assert f"parachute undo {kept['run']}" in said
        assert (vault / KIM).read_text().count("moved to Basel") == 1

        runs: Any = await module.request("GET", f"/{session}/runs")
        assert runs["runs"] == [kept["run"]]


async def test_answers_without_a_model_are_clean_words_with_facts(
    vault: Path,
):
    kim = "# Kim Lee\n\nGrows beans.\n\n- - A neighbour\n\n---\n\n## Facts\n- Lives in Bern\n"
    save(
        vault, KIM, f"---\ntype: person\npara_id: para:brain:abcdefabcdef\n---\n{kim}- Has a dog\n"
    )
    save(vault, DAY, "# para:daily:abcdefabcdeg 10:30\n\nKim Lee sells cabbages.\n")
    async with with_modules(vault, "brain", has_model=False) as (module, _):
        events = await ask(module, "Where does Kim Lee live now?")
        session = events[-1]["sessionId"]
        for _again in range(2):
            events = await ask(module, "Who of Kim Lee and others sells cabbages?", session)
        said = only(events, "done")["response"]
        lines = [line for line in said.splitlines() if line.startswith("- ")]
        quoted = "\n".join(lines)
        assert all(fact in quoted for fact in ("Lives in Bern", "Has a dog"))
        assert f"Kim Lee sells cabbages. ([[{DAY.removesuffix('.md')}|" in quoted
        for mark in ("Chat/sessions", "para:", "#", "- - ", "---"):
            assert mark not in quoted

        async def summary() -> Any:
            return (await module.request("GET", f"/{session}"))["summary"]

        assert "No model can be asked" not in await eventually(summary)
