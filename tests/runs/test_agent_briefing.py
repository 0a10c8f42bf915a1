"""Agent briefing: what goes with a prompt, and the questions of a conversation's agent."""

from __future__ import annotations

import asyncio

import pytest

from parachuted.agents.calling import call_tool
from parachuted.agents.job import ConversationInput, QuestionStep
from parachuted.errors import ActRefusedError
from parachuted.runs.agent_briefing import load_attachments, question_tool

ASKED = {
    "questions": [
        {
            "question": "Which bed?",
            "header": "Bed",
            "options": [{"label": "left"}, {"label": "right", "description": "in the sun"}],
            "multiSelect": True,
        },
        {"question": "Why?"},
    ]
}


class QuestionRig:
    def __init__(self, wait_s: float = 60) -> None:
        self.said, self.steps = ConversationInput(), list[QuestionStep]()
        tool = question_tool(self.said, self.steps.append, wait_s)
        self.task = asyncio.ensure_future(call_tool([tool], tool.name, ASKED))  # noqa: TID251

    async def asked(self) -> QuestionStep:
        async with asyncio.timeout(30):
            while not self.steps:
                await asyncio.sleep(0)
        return self.steps[0]


async def test_a_question_in_the_shape_of_apps_waits_for_an_answer_that_fits():
    asking = QuestionRig()
    step = await asking.asked()
    first, second = ASKED["questions"]
    left, right = first["options"]

    assert step.questions == (
        {**first, "options": [{**left, "description": ""}, right]},
        {**second, "header": "", "options": [], "multiSelect": False},
    )
    for answer in (None, {}, 7, {"Which bed?": 7}, {"a": ["b", 7]}, "x" * 40_000):
        with pytest.raises(ActRefusedError, match="an answer"):
            asking.said.answer(step.id, answer)
    assert asking.said.answer(step.id, "right")
    assert (await asking.task).text == "right"


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("left", "left"),
        ({"Which bed?": "left"}, "Which bed?: left"),
        ({"Which bed?": ["left", "right"], "Why?": "sun"}, "Which bed?: left, right\nWhy?: sun"),
    ],
)
async def test_the_agent_reads_the_answer_as_text(answer, read):
    asking = QuestionRig()
    step = await asking.asked()

    assert asking.said.answer(step.id, answer)
    assert (await asking.task).text == read
    assert not asking.said.answer(step.id, answer), "it waits no longer"


@pytest.mark.parametrize(
    "arguments", [{}, {"questions": ["x"]}, {"questions": [{"question": 7}]}, {"questions": [{}]}]
)
async def test_what_is_no_question_is_asked_of_no_person(arguments):
    steps = list[QuestionStep]()
    tool = question_tool(ConversationInput(), steps.append, 60)

    assert (await call_tool([tool], tool.name, arguments)).is_error
    assert steps == []


async def test_without_an_answer_the_agent_goes_on():
    result = await QuestionRig(wait_s=0.01).task

    assert (result.is_error, "has not answered" in result.text) == (True, True)


FILES = {
    "a.md": b"# Beans\n",
    "long.txt": b"x" * 100_001,
    "bed.PNG": b"\x89PNG",
    "song.ogg": b"\xff\xfe\x00",
    "huge.pdf": bytes((5 << 20) + 1),
    "large.pdf": bytes(5 << 20),
}


async def read(path: str) -> bytes:
    return FILES[path]


async def test_texts_go_as_words_cut_where_long_and_pictures_as_they_are():
    words, (picture,) = await load_attachments(["a.md", "bed.PNG"], read)
    long, _files = await load_attachments(["long.txt"], read)

    assert words == "The file a.md:\n\n# Beans\n\n\n"
    assert (picture.path, picture.media_type, picture.data) == ("bed.PNG", "image/png", b"\x89PNG")
    assert ("x" * 100_000 in long, "x" * 100_001 in long) == (True, False)
    assert "read_note reads all of it" in long


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        (["song.ogg"], "neither text nor a picture"),
        (["huge.pdf"], "huge.pdf is too large"),
        (["large.pdf"] * 4, "large.pdf is too large"),
        (["a.md"] * 21, "at most 20 files"),
    ],
)
async def test_what_no_model_takes_is_refused(paths, says):
    with pytest.raises(ActRefusedError, match=says):
        await load_attachments(paths, read)
