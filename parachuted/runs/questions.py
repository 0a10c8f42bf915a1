"""The tool by which a conversation's agent asks the person, and waits for the answer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping

from parachuted.agents import ConversationInput, QuestionStep, Step, Tool, ToolResult
from parachuted.errors import ActRefusedError

QUESTION_TOOL = "AskUserQuestion"
_UNANSWERED = "The person has not answered. Go on without the answer, or say what you need."
_LONGEST_ANSWER = 32_000
_QUESTIONS = {
    "type": "object",
    "properties": {
        "questions": {
            "type": "array",
            "minItems": 1,
            "maxItems": 4,
            "items": {
                "type": "object",
                "properties": {
                    "question": {"type": "string", "description": "The whole question."},
                    "header": {"type": "string", "description": "One or two words for it."},
                    "options": {
                        "type": "array",
                        "maxItems": 4,
                        "items": {
                            "type": "object",
                            "properties": {
                                "label": {"type": "string"},
                                "description": {"type": "string"},
                            },
                            "required": ["label"],
                        },
                    },
                    "multiSelect": {"type": "boolean"},
                },
                "required": ["question"],
            },
        }
    },
    "required": ["questions"],
}


def question_tool(said: ConversationInput, tell: Callable[[Step], None], wait_s: float) -> Tool:
    """The tool by which the agent asks the person, and waits so many seconds for the answer."""

    async def ask(arguments: Mapping[str, object]) -> ToolResult:
        listed = arguments.get("questions")
        questions = tuple(map(_question, listed if isinstance(listed, list) else ()))
        name = f"q-{secrets.token_hex(4)}"
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def take(value: object) -> bool:
            if answer.done():
                return False
            answer.set_result(_answers(value))
            return True

        said.expect(name, take)
        tell(QuestionStep(id=name, questions=questions))
        try:
            async with asyncio.timeout(wait_s):
                return ToolResult(text=await answer)
        except TimeoutError:
            return ToolResult(text=_UNANSWERED, is_error=True)
        finally:
            said.forget(name)

    return Tool(
        name=QUESTION_TOOL,
        description="Ask the person up to four questions, each with options to choose from, and "
        "wait for the answers.",
        schema=_QUESTIONS,
        call=ask,
    )


def _question(asked: object) -> dict[str, object]:
    """With all that apps read of one, in the types that they expect."""
    found = asked if isinstance(asked, Mapping) else {}
    options = found.get("options")
    return {
        "question": str(found.get("question") or ""),
        "header": str(found.get("header") or ""),
        "options": [
            {
                "label": str(one.get("label") or ""),
                "description": str(one.get("description") or ""),
            }
            for one in (options if isinstance(options, list) else ())
            if isinstance(one, Mapping)
        ],
        "multiSelect": found.get("multiSelect") is True,
    }


def _answers(value: object) -> str:
    """The answers as the model reads them: a text, or by question a text or a list of texts.

    Raises ActRefusedError for anything else.
    """
    if isinstance(value, str):
        text = value
    elif isinstance(value, Mapping) and value:
        text = "\n".join(f"{question}: {_answer(one)}" for question, one in value.items())
    else:
        raise ActRefusedError("an answer should be a text, or a mapping of question to answer")
    if len(text) > _LONGEST_ANSWER:
        raise ActRefusedError(f"an answer is of at most {_LONGEST_ANSWER:,} characters")
    return text


def _answer(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    raise ActRefusedError("an answer should be a text, or a list of texts")
