"""Conversations: the options, attachments and questions of a run that a person talks with."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

from parachuted.agents import ConversationInput, PromptFile, QuestionStep, Step, Tool, ToolResult
from parachuted.errors import ActRefusedError
from parachuted.vault import printable

_MEDIA_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}
_MOST_FILES = 20
_LARGEST_FILE, _LARGEST_ALL = 5 << 20, 16 << 20  # as the Messages API takes them
_LONGEST_TEXT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachments:
    """Texts as words before the prompt; pictures and documents as they are."""

    words: str = ""
    files: tuple[PromptFile, ...] = ()


async def load_attachments(
    paths: Sequence[str], read: Callable[[str], Awaitable[bytes]]
) -> Attachments:
    """The files at these paths. Raises ActRefusedError for what no model takes, and what `read`
    raises.
    """
    if len(paths) > _MOST_FILES:
        raise ActRefusedError(f"at most {_MOST_FILES} files go with a message")
    words, files, size = [], [], 0
    for path in paths:
        data = await read(path)
        size += len(data)
        media_type = _MEDIA_TYPES.get(PurePosixPath(path).suffix.lower())
        if len(data) > _LARGEST_FILE or size > _LARGEST_ALL:
            raise ActRefusedError(
                f"{printable(path)} is too large: a file that goes with a message has at most "
                f"{_LARGEST_FILE >> 20} MB, and all together {_LARGEST_ALL >> 20}"
            )
        if media_type is not None:
            files.append(PromptFile(path=path, media_type=media_type, data=data))
            continue
        words.append(_words(path, data))
    return Attachments(words="".join(words), files=tuple(files))


def _words(path: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ActRefusedError(
            f"{printable(path)} is neither text nor a picture (png, jpeg, gif, webp) nor a PDF, "
            "and no model reads it"
        ) from error
    cut = "\n(it goes on; read_note reads all of it)" if len(text) > _LONGEST_TEXT else ""
    return f"The file {printable(path)}:\n\n{text[:_LONGEST_TEXT]}{cut}\n\n"


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
        questions = tuple(map(_question, cast("list[Any]", arguments["questions"])))
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


def _question(asked: Mapping[str, Any]) -> dict[str, object]:
    """A question as apps read it; that it fits the schema was checked before the call."""
    return {
        "question": asked["question"],
        "header": asked.get("header", ""),
        "options": [
            {"label": option["label"], "description": option.get("description", "")}
            for option in asked.get("options", ())
        ],
        "multiSelect": asked.get("multiSelect", False),
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
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return ", ".join(value)
    raise ActRefusedError("an answer should be a text, or a list of texts")
