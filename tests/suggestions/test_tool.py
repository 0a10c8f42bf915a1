"""The tool by which an agent suggests: bad arguments change nothing, and what it may not see does
not exist.
"""

from __future__ import annotations

import pytest

from parachuted.access.strangers import Taint
from parachuted.agents.calling import call_tool
from parachuted.suggestions import SuggestingRun, suggestion_tool
from tests.suggestions.suggestion_rig import SuggestionRig


def tool(rig: SuggestionRig, **more):
    run = SuggestingRun(
        agent="brain.indexer",
        sees=lambda path: not path.startswith("Private/"),
        session="0b8e",
        run="r-1",
        causes=("c-1",),
        **more,
    )
    return suggestion_tool(rig.suggestions, run)


def asked(
    path: str = "a.md",
    action: str = "update",
    payload: object = None,
    reasoning: object = "it follows",
):
    return {
        "path": path,
        "action": action,
        "payload": {"text": "two\n"} if payload is None else payload,
        "reasoning": reasoning,
    }


async def test_what_an_agent_suggests_says_who_in_which_run_and_what_it_had_read(rig):
    digest = rig.write("a.md", "one\n")
    taint = Taint()
    made = tool(rig, is_tainted=lambda: bool(taint), read={"a.md": digest})
    taint.read("Inbox/x.md")
    rig.store.bases.keep("a.md", b"one\n")
    rig.write("a.md", "another\n")
    answer = await call_tool((made,), "suggest_change", asked())
    (found,) = rig.suggestions.all()
    assert answer.text == f"Suggested as {found.id}. Nothing has changed; a person decides on it."
    assert (
        found.source_agent,
        found.source_session,
        found.run,
        found.causes,
        found.origin,
        found.base,
    ) == (*("brain.indexer", "0b8e", "r-1", ("c-1",), "stranger"), digest)


async def test_what_the_agent_may_not_see_is_answered_as_what_is_not_there(rig):
    rig.write("Private/a.md", "secret\n")
    there, not_there = [await tool(rig).call(asked(f"Private/{name}.md")) for name in "ab"]
    assert there.is_error
    assert there.text.replace("/a.md", "") == not_there.text.replace("/b.md", "")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        asked(action="destroy"),
        asked(path=3),
        asked(payload=[]),
        asked(payload={"rm": "x"}),
        asked(reasoning=""),
        asked(reasoning=None),
        asked(reasoning="x" * 5_000),
        asked(path="none.md"),
        asked(path="a\ud800.md"),
    ],
)
async def test_what_makes_no_sense_is_answered_and_files_nothing(rig, arguments):
    rig.write("a.md", "one\n")
    assert (await call_tool((tool(rig),), "suggest_change", arguments)).is_error
    assert rig.suggestions.all() == []
