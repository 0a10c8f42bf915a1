"""Validates what a suggestion would put into a file, and computes the resulting text. Pure.

- `update`: `{"text"}` the whole text, `{"section", "content"}` the text of a section, with
  `"append": true` added at its end, `{"key", "value"}` a frontmatter key, or `{"base64"}` for a
  binary file.
- `create`: `{"text"}` or `{"base64"}`; with `"over"`, the text that it adds to, what it adds is
  added to a file that is there by then.
- `link`: `{"to"}` the note to link to, with `"section"` (else Links) and `"label"`.
- `delete`: nothing.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from parachuted.access.origin import UNTRUSTED, Origin
from parachuted.access.paths import is_control
from parachuted.access.private_text import edit_with_private
from parachuted.agents import Tool, ToolResult
from parachuted.errors import EditRefusedError, NotFoundError, ParachuteError, PathRefusedError
from parachuted.suggestions.suggestion import (
    ACTIONS,
    Proposal,
    Suggestion,
    SuggestionAction,
    stands_for,
)
from parachuted.vault import (
    AppendToSection,
    Edit,
    ReplaceAll,
    ReplaceSection,
    SetFrontmatterKey,
    VaultPath,
    apply_edit,
    declared_watch,
    fold_name,
    printable,
)

LARGEST = 1 << 20
LINKS = "Links"
_WAYS: Mapping[SuggestionAction, tuple[frozenset[str], ...]] = {
    "update": (
        frozenset({"text"}),
        frozenset({"base64"}),
        frozenset({"section", "content"}),
        frozenset({"section", "content", "append"}),
        frozenset({"key", "value"}),
    ),
    "create": (frozenset({"text"}), frozenset({"text", "over"}), frozenset({"base64"})),
    "link": (
        frozenset({"to"}),
        frozenset({"to", "section"}),
        frozenset({"to", "label"}),
        frozenset({"to", "section", "label"}),
    ),
    "delete": (frozenset(),),
}
_LONGEST_NAME = 500
_FEWEST, _MOST_AT_ONCE = 2, 50
_LONGEST_WORD, _LONGEST_REASONING = 200, 4_000
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MODULES = {"daily": "daily", "chat": "chat", "brain": "brain"}


def check_payload(action: SuggestionAction, payload: Mapping[str, object]) -> dict[str, object]:
    """The payload, if it is one of that action. Raises EditRefusedError, with what it should be."""
    if frozenset(payload) not in _WAYS[action]:
        ways = " or ".join("{" + ", ".join(sorted(way)) + "}" for way in _WAYS[action])
        raise EditRefusedError(f"the payload of a suggestion to {action} should be {ways}")
    for name, value in payload.items():
        if name == "append" and not isinstance(value, bool):
            raise EditRefusedError("append should be true or false")
        if name == "value" and not _is_value(value):
            raise EditRefusedError(
                "value should be a text, a number, true or false, or a list of texts"
            )
        if name not in {"append", "value"} and not isinstance(value, str):
            raise EditRefusedError(f"{name} should be a text")
        if (
            name in {"section", "to", "label", "key"}
            and not 0 < len(str(value).strip()) <= _LONGEST_NAME
        ):
            raise EditRefusedError(f"{name} should be a text of 1 to {_LONGEST_NAME} characters")
    try:
        size = len(json.dumps(payload, ensure_ascii=False, allow_nan=False).encode())
    except ValueError as error:  # a lone surrogate is one, too
        raise EditRefusedError("the payload holds something other than text and numbers") from error
    if size > LARGEST:
        raise EditRefusedError(
            f"a suggestion takes at most {LARGEST >> 10} KB; suggest a part of it, such as one "
            "section"
        )
    if "\0" in str(payload.get("text", "")):
        raise EditRefusedError("the text holds NUL")
    return dict(payload)


def text_after(
    action: SuggestionAction, payload: Mapping[str, object], before: bytes | None
) -> bytes | None:
    """What the file holds when that is done to a file that holds `before`; None: no file.

    A text that was proposed by who was not shown what is private gets that back.

    Raises EditRefusedError and NotFoundError as edits do.
    """
    if action == "delete":
        return None
    return apply_edit(edit_of(action, payload, before or b""), before or b"")


def edit_of(action: SuggestionAction, payload: Mapping[str, object], before: bytes) -> Edit:
    """The edit of a text that is to be `before`, or to be rebased."""
    edit = (
        ReplaceAll(data=_binary(payload) if "base64" in payload else str(payload["text"]).encode())
        if payload.keys() & {"text", "base64"}
        else _edit(action, payload)
    )
    return edit if "base64" in payload else edit_with_private(edit, before)


def _binary(payload: Mapping[str, object]) -> bytes:
    try:
        return base64.b64decode(str(payload["base64"]), validate=True)
    except binascii.Error as error:
        raise EditRefusedError("base64 is not valid") from error


def changes_watch(before: bytes | None, after: bytes | None) -> bool:
    """Whether it would change what a note watches: an agent would read, and be woken by, notes that
    were never approved.
    """
    return _watched(before) != _watched(after)


def _watched(data: bytes | None) -> object:
    return declared_watch(data)[0] if data is not None else ()


def _edit(
    action: SuggestionAction, payload: Mapping[str, object]
) -> AppendToSection | ReplaceSection | SetFrontmatterKey:
    if action == "link":
        to, label = str(payload["to"]).strip(), str(payload.get("label", "")).strip()
        if any(mark in to + label for mark in ("[[", "]]", "|", "\n", "\r")):
            raise EditRefusedError(
                "to and label should be plain names, without [[, ]], | or line ends"
            )
        link = f"- [[{to}|{label}]]" if label else f"- [[{to}]]"
        return AppendToSection(
            section=str(payload.get("section", LINKS)), content=link, create=True
        )
    if "key" in payload:
        return SetFrontmatterKey(key=str(payload["key"]), value=payload["value"])  # type: ignore[arg-type]  # checked above
    section, content = str(payload["section"]), str(payload["content"])
    if payload.get("append"):
        return AppendToSection(section=section, content=content, create=True)
    return ReplaceSection(section=section, content=content, create=True, is_only=True)


def _is_value(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str) for one in value)
    return isinstance(value, str | int | float | bool)


def check_target(path: str) -> VaultPath:
    """The path, if something may be suggested for it. Raises PathRefusedError."""
    target = VaultPath.parse(path)
    if is_control(target):
        raise PathRefusedError(
            f"{printable(target)} belongs to a program, so nothing is suggested for it"
        )
    try:
        target.encode()
    except UnicodeEncodeError as error:
        raise EditRefusedError(
            f"the name of {printable(target)} is not UTF-8, so nothing can be suggested for it"
        ) from error
    return target


def module_of(path: str) -> str:
    return _MODULES.get(fold_name(path.partition("/")[0]), "vault")


def batch_of(several: Sequence[Suggestion], proposal: Proposal, at: datetime) -> Suggestion:
    """One that stands for several. Of the proposal, agent, reasoning, run and causes count.

    Raises EditRefusedError.
    """
    if not _FEWEST <= len(several) <= _MOST_AT_ONCE or any(
        not one.is_pending or stands_for(one) is not None for one in several
    ):
        raise EditRefusedError(
            f"a batch is of {_FEWEST} to {_MOST_AT_ONCE} pending suggestions, none of them a batch"
        )
    modules = {one.target_module for one in several}
    return Suggestion(
        id=_new_id(),
        source_agent=proposal.source_agent,
        source_session=proposal.source_session,
        timestamp=at,
        action="update",
        target_module=modules.pop() if len(modules) == 1 else "vault",
        target_id=None,
        payload={"suggestions": [one.id for one in several]},
        reasoning=proposal.reasoning[:_LONGEST_REASONING],
        path="",
        base=None,
        run=proposal.run,
        causes=proposal.causes,
        origin=next((one.origin for one in several if one.origin in UNTRUSTED), proposal.origin),
    )


def suggestion_of(proposal: Proposal, at: datetime) -> Suggestion:
    """The proposal with an id. Raises EditRefusedError and PathRefusedError."""
    path = check_target(proposal.path)
    payload = check_payload(proposal.action, proposal.payload)
    if (
        not 0 < len(proposal.source_agent) <= _LONGEST_WORD
        or len(proposal.source_session) > _LONGEST_WORD
    ):
        raise EditRefusedError(
            f"source_agent should be a text of 1 to {_LONGEST_WORD} characters, "
            "source_session one of at most that"
        )
    if proposal.base is not None and _DIGEST.fullmatch(proposal.base) is None:
        raise EditRefusedError(
            "base should be the digest of a text, 64 hexadecimal digits, as reading it returns"
        )
    words = (
        proposal.reasoning
        + proposal.source_agent
        + proposal.source_session
        + (proposal.target_id or "")
    )
    if len(proposal.reasoning) > _LONGEST_REASONING or any(
        "\ud800" <= one <= "\udfff" for one in words
    ):
        raise EditRefusedError(
            f"reasoning should be a text of at most {_LONGEST_REASONING} characters"
        )
    return Suggestion(
        id=_new_id(),
        source_agent=proposal.source_agent,
        source_session=proposal.source_session,
        timestamp=at,
        action=proposal.action,
        target_module=proposal.target_module or module_of(path),
        target_id=proposal.target_id,
        payload=payload,
        reasoning=proposal.reasoning,
        path=path,
        base=proposal.base,
        run=proposal.run,
        causes=proposal.causes,
        origin=proposal.origin,
    )


def _new_id() -> str:
    return f"s{secrets.token_hex(5)}"


SUGGEST = (
    "Suggest a change that you may not make yourself, or that a person should decide on. Nothing "
    "changes before a person approves it. "
    "action: create (payload {text}), update (payload {text}, or {section, content} with append: "
    "true to add to it, or {key, value} for "
    "the frontmatter), delete (payload {}), link (payload {to} with section and label if you like)."
)


class ProposalSink(Protocol):
    async def propose(self, proposal: Proposal) -> Suggestion:
        """File one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestingRun:
    """Who suggests.

    `sees` are the files that exist for the agent; `origin` is asked at each call, since it changes
    with what was read; `read` holds the digests of what it read, by path.
    """

    agent: str
    sees: Callable[[str], bool]
    session: str = ""
    run: str | None = None
    causes: tuple[str, ...] = ()
    origin: Callable[[], Origin] = lambda: "agent"
    read: Mapping[str, str] = field(default_factory=dict)


_PROPERTIES: dict[str, object] = {
    "action": {"type": "string", "enum": list(ACTIONS)},
    "path": {"type": "string", "description": "The note's path in the vault."},
    "payload": {
        "type": "object",
        "description": "What is to stand there, as the description says.",
    },
    "reasoning": {
        "type": "string",
        "description": "Why you think that this is good, for the person who decides.",
    },
}
_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": _PROPERTIES,
    "required": list(_PROPERTIES),
    "additionalProperties": False,
}


def suggestion_tool(suggestions: ProposalSink, run: SuggestingRun) -> Tool:
    """The tool `suggest_change` for one run.

    What is wrong with its arguments is answered as text.
    """

    async def call(arguments: Mapping[str, object]) -> ToolResult:
        action, path, payload, reasoning = (
            arguments.get(name) for name in ("action", "path", "payload", "reasoning")
        )
        if action not in ACTIONS or not isinstance(path, str) or not isinstance(reasoning, str):
            return _refused(
                f"action should be one of {', '.join(ACTIONS)}, path and reasoning texts"
            )
        if not isinstance(payload, dict):
            return _refused("payload should be an object")
        if not 0 < len(reasoning.strip()) <= _LONGEST_REASONING:
            return _refused(f"reasoning should be a text of 1 to {_LONGEST_REASONING} characters")
        try:
            target = VaultPath.parse(path)
            if not run.sees(target):
                raise NotFoundError(
                    f"{printable(target)} is not among the files that you were given"
                )
            suggestion = await suggestions.propose(
                Proposal(
                    source_agent=run.agent,
                    source_session=run.session,
                    action=action,
                    path=target,
                    payload=payload,
                    reasoning=reasoning,
                    base=None if action == "create" else run.read.get(target),
                    run=run.run,
                    causes=run.causes,
                    origin=run.origin(),
                )
            )
        except ParachuteError as error:
            return _refused(error.message)
        return ToolResult(
            text=f"Suggested as {suggestion.id}. Nothing has changed; a person decides on it."
        )

    return Tool(name="suggest_change", description=SUGGEST, schema=_SCHEMA, call=call)


def _refused(text: str) -> ToolResult:
    return ToolResult(text=text, is_error=True)
