"""What the existing app reads: a missing field, or one of another type, is a failure, as there.

Fields are written `name:kind`; one whose name ends with `?` may be null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

_RESUME = (
    "method:s sdkSessionValid:b sdkResumeAttempted:b sdkResumeFailed:b contextInjected:b "
    "messagesInjected:i tokensEstimate:i previousMessageCount:i loadedFromDisk:b cacheHit:b"
)
FIELDS: Mapping[str, str] = {
    "session": "sessionId?:s trustLevel?:s title?:s sessionResume:resume resumeInfo:o",
    "user_message": "content:s",
    "prompt_metadata": (
        "promptSource:s promptSourcePath?:s contextFiles:texts contextTokens:i contextTruncated:b "
        "agentName?:s availableAgents:texts availableSkills:texts availableMcps:texts "
        "basePromptTokens:i totalPromptTokens:i trustMode:b workingDirectoryClaudeMd?:s "
        "brain_context_loaded:b brain_context_count:i"
    ),
    "init": "tools:texts permissionMode?:s",
    "model": "model:s",
    "text": "content:s delta:s",
    "thinking": "content:s",
    "tool_use": "tool:tool",
    "tool_result": "toolUseId:s content:s isError:b",
    "user_question": "requestId:s sessionId:s questions:questions",
    "warning": "code:s title:s message:s details:texts",
    "typed_error": (
        "code:s title:s message:s actions:actions canRetry:b retryDelayMs?:i originalError?:s "
        "sessionId?:s"
    ),
    "error": "error:s",
    "session_unavailable": "reason:s sessionId:s hasMarkdownHistory:b messageCount:i message:s",
    "aborted": "message:s sessionId:s partialResponse:s",
    "done": "sessionId:s model?:s durationMs:i title?:s sessionResume:resume",
    # the app ignores what it does not know
    "permission_request": "id:s sessionId:s tool:s input:o patterns:texts",
    "injected": "content:s",
    "answered": "requestId:s",
    "ping": "",
    "reset": "",
}
CODES = frozenset(
    [
        "invalid_api_key",
        "invalid_credentials",
        "expired_token",
        "billing_error",
        "rate_limited",
        "service_error",
        "service_unavailable",
        "context_exceeded",
        "network_error",
        "mcp_connection_failed",
        "mcp_load_failed",
        "mcp_tool_error",
        "attachment_save_failed",
        "tool_execution_failed",
        "transcription_failed",
        "session_not_found",
        "session_unavailable",
        "unknown_error",
    ]
)
ACTIONS = frozenset({"retry", "settings", "reauth", "dismiss", "new_session"})


def _each(fields: str) -> Callable[[Any], object]:
    return lambda value: isinstance(value, list) and [decode(one, fields) for one in value] == value


def _is_time(value: object) -> bool:
    return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None


_KINDS: Mapping[str, Callable[[Any], object]] = {
    "s": lambda value: isinstance(value, str),
    "t": _is_time,
    "i": lambda value: type(value) is int,
    "b": lambda value: isinstance(value, bool),
    "o": lambda value: isinstance(value, dict),
    "texts": lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    "resume": lambda value: decode(value, _RESUME),
    "tool": lambda value: decode(value, "id:s name:s input:o"),
    "options": _each("label:s description:s"),
    "questions": _each("question:s header:s options:options multiSelect:b"),
    "actions": _each("key:s label:s action:s"),
}


def decode(found: Any, fields: str) -> Mapping[str, Any]:
    """What the app makes of it: it throws where a type is not the one that it casts to."""
    found = json.loads(json.dumps(found))
    for part in fields.split():
        name, _, kind = part.partition(":")
        value = found[name.removesuffix("?")]
        if not (name.endswith("?") and value is None):
            assert _KINDS[kind](value), (name, value)
    return found


def decoded(data: object) -> Mapping[str, Any]:
    """The event, if the app would take it."""
    event = decode(data, "type:s")
    assert event["type"] in FIELDS, f"no such event: {event['type']}"
    decode(event, FIELDS[event["type"]])
    if event["type"] == "typed_error":
        assert event["code"] in CODES, event
        assert all(one["action"] in ACTIONS for one in event["actions"]), event
        assert all(len(one["key"]) == 1 for one in event["actions"]), event
    return event


SESSION = (
    "id:s title?:s createdAt:t updatedAt?:t lastAccessed?:t messageCount:i archived:b source:s "
    "agentPath?:s agentName?:s agentType?:s continuedFrom?:s originalId?:s workingDirectory?:s "
    "trustLevel?:s linkedBotPlatform?:s linkedBotChatId?:s linkedBotChatType?:s workspaceId?:s "
    "curatorSessionId?:s bridgeContextLog?:s metadata?:o module:s model?:s summary?:s "
    "parentSessionId?:s createdBy?:s"
)


MESSAGE = "id?:s paraId?:s sessionId?:s role:s timestamp?:t isCompactSummary?:b"


SOURCES = {"parachute", "claude-code", "claude", "chatgpt", "telegram", "discord", "matrix"}


def decode_session(found: Any) -> Mapping[str, Any]:
    session = decode(found, SESSION)
    assert session["source"] in SOURCES
    last_run = session["metadata"].get("curator_last_run")
    assert last_run == session["curatorLastRun"]
    if last_run is not None:
        decode(last_run, "ts:t exchange_number:i new_title?:s")
        assert all(isinstance(one, str) for one in last_run["actions"])
    return session


def decode_message(found: Any) -> Mapping[str, Any]:
    message = decode(found, MESSAGE)
    if not isinstance(message["content"], str):
        for block in message["content"]:
            wanted = {"text": "text:s", "tool_use": "id:s name:s input:o"}[block["type"]]
            decode(block, wanted)
    return message
