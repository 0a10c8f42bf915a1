"""Before the CLI sums up the older part of a session, the run is asked."""

from __future__ import annotations

import pytest

from parachuted.agents.job import CompactionAnswer, ConversationInput
from parachuted.testing import ApiRefusal, say

TOO_LONG = ApiRefusal(
    status=400,
    kind="invalid_request_error",
    message="prompt is too long: 210000 tokens > 200000 maximum",
)
SUMMARY = "<summary>They spoke of beans.</summary>"


@pytest.fixture
def second_turn(claude, job, run):
    """A turn whose conversation no longer fits into the model's window."""

    async def second(answer: CompactionAnswer):
        asked = []

        async def compacting(trigger: str, instructions: str | None) -> CompactionAnswer:
            asked.append((trigger, instructions))
            return answer

        claude.api.add([say("Beans.")], TOO_LONG, [say(SUMMARY)], [say("And peas.")])
        first = await run(claude.backend, job(conversation=ConversationInput()))
        outcome = await run(
            claude.backend,
            job(
                conversation=ConversationInput(),
                session_id=first.account.session_id,
                prompt="And then?",
                compacting=compacting,
            ),
        )
        assert asked[0] == ("auto", None)
        return outcome, [str(one.body["messages"]) for one in claude.api.asked]

    return second


async def test_what_is_to_be_kept_is_said_to_the_model_that_sums_it_up(second_turn):
    outcome, asked = await second_turn(CompactionAnswer(instructions="Keep the names of beds."))

    assert outcome.error is None
    assert "Please provide your summary" in asked[2]
    assert "Keep the names of beds." in asked[2]
    assert "They spoke of beans." in asked[3]


async def test_an_objection_leaves_the_conversation_as_it_was(second_turn):
    _outcome, asked = await second_turn(CompactionAnswer(objection="not yet"))

    assert not any("Please provide your summary" in one for one in asked)
    assert not any("They spoke of beans." in one for one in asked)
