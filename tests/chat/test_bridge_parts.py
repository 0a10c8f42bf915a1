"""The bridge's parts alone: who judges what, what becomes of answers, and how much is told."""

from __future__ import annotations

import pytest

from parachuted.errors import AgentFailedError
from tests.module_files import chat_file

access = bridge = chat_file("brain")
facts_file = chat_file("write_back")

KIM = {"name": "Kim Lee", "type": "person", "snippet": "Grows beans.", "path": "Brain/kim.md"}


class SearchOnly:
    """A provider of BrainInterface that has what the specification names, and no more."""

    async def search(self, query: str) -> list[dict[str, str]]:
        return [KIM] if not query or "kim" in query.casefold() else []


@pytest.mark.parametrize("message", ["", "thanks, that is all", "wer ist das?", "...", "何?"])
def test_a_message_of_under_five_words_is_not_judged(message: str):
    assert access.is_short(message)
    assert not access.is_short(f"{message} what did Kim say yesterday")
    assert not access.is_short(f"{message}キムさんは昨日何と言いましたか")


@pytest.mark.parametrize(
    ("answer", "judgment", "queries"),
    [
        ({"judgment": "enrich", "queries": [" letter  Flock ", "Kim"]}, "enrich", 2),
        ({"judgment": "enrich", "queries": ["a", "b", "c", "d", "a"]}, "enrich", 3),
        ({"judgment": "step_back", "queries": ["a"]}, "step_back", 0),
        ({"judgment": "pass_through"}, "pass_through", 0),
    ],
)
def test_a_models_judgment_has_three_forms_and_at_most_three_queries(answer, judgment, queries):
    verdict = access.read_verdict(answer)

    assert (verdict.judgment, len(verdict.queries), verdict.by) == (judgment, queries, "model")


@pytest.mark.parametrize(
    "answer", [None, "enrich", {"judgment": "enrich", "queries": [1, " "]}, {"judgment": "other"}]
)
def test_a_judgment_that_makes_no_sense_is_none(answer):
    assert access.read_verdict(answer) is None


async def test_a_model_that_fails_leaves_the_judgment_to_the_words():
    async def fails(*_said, **_more):
        raise AgentFailedError("no")

    assert await access.judge_by_model(fails, "m", summary="", loaded=(), timeout_s=30) is None


@pytest.mark.parametrize(
    "message",
    [
        "Find people in my graph who work on regenerative tech",
        "search my brain for the beans",
        "use brain-search to look for all projects",
    ],
)
async def test_who_wants_to_work_with_brain_itself_is_not_helped_beforehand(message: str):
    verdict = await access.judge_by_words(access.BrainAccess(SearchOnly()), message)

    assert verdict.judgment == "step_back"


async def test_a_provider_that_can_only_search_is_enough():
    brain = access.BrainAccess(SearchOnly())

    (found,) = await brain.find("kim")
    assert (found.name, found.path, found.description) == ("Kim Lee", KIM["path"], "Grows beans.")
    assert await brain.meant_by("Jo") is None
    assert await brain.named_in("Kim", 0.0) == []
    assert await brain.types() == {}
    assert not await brain.is_empty()
    verdict = await access.judge_by_words(brain, "Nothing of this is known there")
    assert verdict.judgment == "pass_through"


def found(number: int, text: str = "x") -> object:
    name = f"E{number}"
    return access.FoundEntity(name=name, type="topic", description=text, path=f"{number}.md")


def test_each_entity_is_reported_once_with_its_query_and_path():
    text, shown = bridge.as_context(
        [("beans", [found(1), found(2)]), ("kim", [found(2), found(3)])]
    )

    assert [one.name for one in shown] == ["E1", "E2", "E3"]
    assert '### From query: "beans"\n- **E1** (topic): x [1.md]\n- **E2**' in text
    assert '### From query: "kim"\n- **E3**' in text
    assert text.endswith("_Context loaded: 3 results from 2 queries._\n")


def test_passages_are_told_as_text_and_notes_stand_below_the_entities():
    kim = access.FoundEntity(
        name="Kim Lee",
        type="person",
        description="",
        path="Brain/kim.md",
        passage="# Kim Lee\n\nGrows **beans** with [[bo|Bo]].\n\n## Facts",
    )
    entry = access.FoundEntity(
        name="para:daily:ehoi8ek5uzst 14:08",
        type="",
        description="",
        path="Daily/journals/2026-02-24.md",
        passage="# para:daily:ehoi8ek5uzst 14:08\n\nSowed *black* beans.",
    )

    text, shown = bridge.as_context([("beans", [entry, kim])])

    assert (
        '### From query: "beans"\n- **Kim Lee** (person): Grows beans with Bo. [Brain/kim.md]\n\n'
        "### Journal entries and other notes, from the same queries\n"
        "- **14:08**: Sowed black beans. [Daily/journals/2026-02-24.md]\n"
    ) in text
    assert [one.is_entity for one in shown] == [True, False]


def test_what_was_found_fills_no_more_than_1500_tokens():
    many = [found(number, "beans and more beans " * 100) for number in range(60)]
    text, shown = bridge.as_context([("beans", many)])

    assert len(text.encode()) <= 1_500 * 4
    assert 5 < len(shown) < 60
    assert "### From query" in text


def test_nothing_found_is_not_text():
    assert bridge.as_context([("beans", [])]) == ("", [])


def test_facts_are_of_known_types_short_single_lines_and_each_once():
    fact = {"entity_type": "person", "name": "Kim", "fact": "# Moved to\nBern <!-- x -->"}
    answer = {
        "facts": [
            fact,
            {**fact, "fact": "moved to bern, x"},
            {**fact, "entity_type": "spaceship"},
            {**fact, "name": ""},
            "no",
            *({**fact, "fact": f"Fact {number}"} for number in range(9)),
        ]
    }
    facts = facts_file.read_facts(answer, {"person": "people"})

    assert facts[0].text == "Moved to Bern x"
    assert len(facts) == 5
    assert len({one.key for one in facts}) == 5
    assert facts_file.read_facts("no", {}) == []


class Named(SearchOnly):
    async def suggest(self, text: str, **_more: object) -> list[dict[str, object]]:
        names = [one for one in ("Kim Lee", "Jo") if one in text]
        return [{**KIM, "name": name, "confidence": 0.9} for name in names]


@pytest.mark.parametrize(
    ("message", "facts"),
    [
        ("Remember that Kim Lee moved to Bern.", ["Kim Lee moved to Bern."]),
        ("Please remember: Kim Lee likes tea", ["Kim Lee likes tea"]),
        ("Remember that Kim Lee met Jo", []),
        ("Do you remember Kim Lee?", []),
        ("Kim Lee moved to Bern.", []),
    ],
)
async def test_without_a_model_only_what_is_to_be_remembered_is_kept(message, facts):
    found = await facts_file.facts_by_words(access.BrainAccess(Named()), message)

    assert [one.text for one in found] == facts
