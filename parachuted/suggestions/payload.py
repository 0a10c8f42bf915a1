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
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from parachuted.access.paths import is_control
from parachuted.access.private_text import is_shortened
from parachuted.agents.job import Tool, ToolResult
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
_WAYS: Mapping[SuggestionAction, tuple[str, ...]] = {
    "update": ("text", "base64", "section content", "section content append", "key value"),
    "create": ("text", "text over", "base64"),
    "link": ("to", "to section", "to label", "to section label"),
    "delete": ("",),
}
_LONGEST_NAME = 500
_FEWEST, _MOST_AT_ONCE = 2, 50
LONGEST_REASONING = 4_000
_DIGEST, _SURROGATE = re.compile(r"[0-9a-f]{64}"), re.compile("[\ud800-\udfff]")
_MODULES = {"daily": "daily", "chat": "chat", "brain": "brain"}


def check_payload(action: SuggestionAction, payload: Mapping[str, object]) -> dict[str, object]:
    """The payload, if it is one of that action. Raises EditRefusedError, with what it should be."""
    ways = [way.split() for way in _WAYS[action]]
    if sorted(payload) not in map(sorted, ways):
        shapes = " or ".join("{" + ", ".join(way) + "}" for way in ways)
        raise EditRefusedError(f"the payload of a suggestion to {action} should be {shapes}")
    for name, value in payload.items():
        is_right, should_be = _RULES.get(name, _TEXT_RULE)
        if not is_right(value):
            raise EditRefusedError(f"{name} should be {should_be}")
    try:
        size = len(json.dumps(payload, ensure_ascii=False, allow_nan=False).encode())
    except ValueError as error:  # a lone surrogate is one, too
        raise EditRefusedError("the payload holds something other than text and numbers") from error
    if size > LARGEST:
        raise EditRefusedError(f"it has over {LARGEST >> 10} KB; suggest a part, such as a section")
    if "\0" in str(payload.get("text", "")):
        raise EditRefusedError("the text holds NUL")
    return dict(payload)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.strip()) <= _LONGEST_NAME


def _is_value(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(text, str) for text in value)
    return isinstance(value, str | int | float | bool)


_NAME_RULE = (_is_name, f"a text of 1 to {_LONGEST_NAME} characters")
_TEXT_RULE = (lambda value: isinstance(value, str), "a text")
_RULES: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "append": (lambda value: isinstance(value, bool), "true or false"),
    "value": (_is_value, "a text, a number, true or false, or a list of texts"),
    **dict.fromkeys(("section", "to", "label", "key"), _NAME_RULE),
}


def text_after(
    action: SuggestionAction, payload: Mapping[str, object], before: bytes | None
) -> bytes | None:
    """What a file that holds `before` holds afterwards; None: no file. Raises EditRefusedError and
    NotFoundError as edits do.
    """
    if action == "delete":
        return None
    return apply_edit(edit_of(payload), before or b"")


def edit_of(payload: Mapping[str, object]) -> Edit:
    """The edit that a checked payload stands for. Raises EditRefusedError."""
    if is_shortened(f"{payload.get('text', '')}\n{payload.get('content', '')}"):
        raise EditRefusedError("the note has a private part; suggest a change of another section")
    if "base64" not in payload:
        return _text_edit(payload)
    try:
        return ReplaceAll(data=base64.b64decode(str(payload["base64"]), validate=True))
    except binascii.Error as error:
        raise EditRefusedError("base64 is not valid") from error


def changes_watch(before: bytes | None, after: bytes | None) -> bool:
    """Whether the note would watch others, which an agent would read without approval."""
    was, is_now = (() if data is None else declared_watch(data)[0] for data in (before, after))
    return was != is_now


def _text_edit(payload: Mapping[str, object]) -> Edit:
    if "to" in payload:
        to, label = str(payload["to"]).strip(), str(payload.get("label", "")).strip()
        if any(mark in to + label for mark in ("[[", "]]", "|", "\n", "\r")):
            raise EditRefusedError("to and label should be names, without [[, ]], | or line ends")
        link = f"- [[{to}|{label}]]" if label else f"- [[{to}]]"
        return AppendToSection(
            section=str(payload.get("section", LINKS)), content=link, create=True
        )
    if "text" in payload:
        return ReplaceAll(data=str(payload["text"]).encode())
    if "key" in payload:
        return SetFrontmatterKey(key=str(payload["key"]), value=payload["value"])  # type: ignore[arg-type]  # checked above
    section, content = str(payload["section"]), str(payload["content"])
    if payload.get("append"):
        return AppendToSection(section=section, content=content, create=True)
    return ReplaceSection(section=section, content=content, create=True, is_only=True)


def check_target(path: str) -> VaultPath:
    """The path, if something may be suggested for it. Raises PathRefusedError."""
    target = VaultPath.parse(path)
    if is_control(target):
        raise PathRefusedError(f"{printable(target)} is a program's; suggest nothing for it")
    try:
        target.encode()
    except UnicodeEncodeError as error:
        raise EditRefusedError(
            f"{printable(target)} is not UTF-8; give the file another name"
        ) from error
    return target


def module_of(path: str) -> str:
    return _MODULES.get(fold_name(path.partition("/")[0]), "vault")


def batch_of(several: Sequence[Suggestion], proposal: Proposal, at: datetime) -> Suggestion:
    """One for several, by the proposal's agent, reasoning, run and causes. EditRefusedError."""
    if not _FEWEST <= len(several) <= _MOST_AT_ONCE or any(
        not one.is_pending or stands_for(one) is not None for one in several
    ):
        raise EditRefusedError(
            f"a batch is of {_FEWEST} to {_MOST_AT_ONCE} that wait, without batches"
        )
    batch = replace(
        proposal,
        action="update",
        path="",
        reasoning=proposal.reasoning[:LONGEST_REASONING],
        is_strangers=proposal.is_strangers or any(one.is_strangers for one in several),
    )
    modules = {one.target_module for one in several}
    module = modules.pop() if len(modules) == 1 else "vault"
    return _suggestion(batch, {"suggestions": [one.id for one in several]}, at, module)


def suggestion_of(proposal: Proposal, at: datetime) -> Suggestion:
    """The proposal with an id. Raises EditRefusedError and PathRefusedError."""
    path = check_target(proposal.path)
    payload = check_payload(proposal.action, proposal.payload)
    if proposal.base is not None and _DIGEST.fullmatch(proposal.base) is None:
        raise EditRefusedError("base should be the digest of a text, as reading it returns")
    words = f"{proposal.reasoning}{proposal.source_session}{proposal.target_id}"
    if len(proposal.reasoning) > LONGEST_REASONING or _SURROGATE.search(words):
        most = LONGEST_REASONING
        raise EditRefusedError(f"reasoning should be a text of at most {most} characters")
    return _suggestion(replace(proposal, path=path), payload, at, module_of(path))


def _suggestion(
    proposal: Proposal, payload: Mapping[str, object], at: datetime, module: str
) -> Suggestion:
    values = asdict(proposal) | {"payload": payload, "timestamp": at, "target_module": module}
    values["origin"] = "stranger" if values.pop("is_strangers") else "agent"
    return Suggestion(id=f"s{secrets.token_hex(5)}", **values)


SUGGEST = (
    "Suggest a change that you may not make yourself, or that a person should decide on. Nothing "
    "changes before a person approves it. "
    "action: create (payload {text}), update (payload {text}, or {section, content} with append: "
    "true to add to it, or {key, value} for "
    "the frontmatter), delete (payload {}), link (payload {to} with section and label if you like)."
)


class ProposalSink(Protocol):
    async def propose(self, proposal: Proposal) -> Suggestion: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestingRun:
    """Who suggests. `sees`: files that exist for the agent; `read`: digests of those it read."""

    agent: str
    sees: Callable[[str], bool]
    session: str = ""
    run: str | None = None
    causes: tuple[str, ...] = ()
    is_tainted: Callable[[], bool] = lambda: False
    read: Mapping[str, str] = field(default_factory=dict)


_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "path": {"type": "string", "description": "The note's path in the vault."},
        "payload": {
            "type": "object",
            "description": "What is to stand there, as the description says.",
        },
        "reasoning": {
            "type": "string",
            "description": "Why you think that this is good, for the person who decides.",
            "pattern": "\\S",
            "maxLength": LONGEST_REASONING,
        },
    },
    "required": ["action", "path", "payload", "reasoning"],
    "additionalProperties": False,
}


def suggestion_tool(suggestions: ProposalSink, run: SuggestingRun) -> Tool:
    """The tool `suggest_change` for one run. Its caller checks arguments by its schema."""

    async def call(arguments: Mapping[str, Any]) -> ToolResult:
        try:
            suggestion = await suggestions.propose(_proposal(arguments, run))
        except ParachuteError as error:
            return ToolResult.refusal(error.message)
        return ToolResult(
            text=f"Suggested as {suggestion.id}. Nothing has changed; a person decides on it."
        )

    return Tool(name="suggest_change", description=SUGGEST, schema=_SCHEMA, call=call)


def _proposal(arguments: Mapping[str, Any], run: SuggestingRun) -> Proposal:
    target, action = VaultPath.parse(arguments["path"]), arguments["action"]
    if not run.sees(target):
        raise NotFoundError(f"{printable(target)} is not among the files that you were given")
    return Proposal(
        source_agent=run.agent,
        source_session=run.session,
        action=action,
        path=target,
        payload=arguments["payload"],
        reasoning=arguments["reasoning"],
        base=None if action == "create" else run.read.get(target),
        run=run.run,
        causes=run.causes,
        is_strangers=run.is_tainted(),
    )
