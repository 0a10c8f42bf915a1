"""The events of a chat as the existing app decodes them: a missing field, or one of another type,
is a failure, as it is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

_S, _B, _I = (str,), (bool,), (int,)
_S0, _I0 = (str, type(None)), (int, type(None))
_RESUME = {
    "method": _S,
    "sdkSessionValid": _B,
    "sdkResumeAttempted": _B,
    "sdkResumeFailed": _B,
    "contextInjected": _B,
    "messagesInjected": _I,
    "tokensEstimate": _I,
    "previousMessageCount": _I,
    "loadedFromDisk": _B,
    "cacheHit": _B,
}
_TEXTS = [_S]
FIELDS: Mapping[str, Mapping[str, object]] = {
    "session": {
        "sessionId": _S0,
        "trustLevel": _S0,
        "title": _S0,
        "sessionResume": _RESUME,
        "resumeInfo": {},
    },
    "user_message": {"content": _S},
    "prompt_metadata": {
        "promptSource": _S,
        "promptSourcePath": _S0,
        "contextFiles": _TEXTS,
        "contextTokens": _I,
        "contextTruncated": _B,
        "agentName": _S0,
        "availableAgents": _TEXTS,
        "availableSkills": _TEXTS,
        "availableMcps": _TEXTS,
        "basePromptTokens": _I,
        "totalPromptTokens": _I,
        "trustMode": _B,
        "workingDirectoryClaudeMd": _S0,
        "brain_context_loaded": _B,
        "brain_context_count": _I,
    },
    "init": {"tools": _TEXTS, "permissionMode": _S0},
    "model": {"model": _S},
    "text": {"content": _S, "delta": _S},
    "thinking": {"content": _S},
    "tool_use": {"tool": {"id": _S, "name": _S, "input": {}}},
    "tool_result": {"toolUseId": _S, "content": _S, "isError": _B},
    "user_question": {
        "requestId": _S,
        "sessionId": _S,
        "questions": [
            {
                "question": _S,
                "header": _S,
                "options": [{"label": _S, "description": _S}],
                "multiSelect": _B,
            }
        ],
    },
    "warning": {"code": _S, "title": _S, "message": _S, "details": [_S]},
    "typed_error": {
        "code": _S,
        "title": _S,
        "message": _S,
        "actions": [{"key": _S, "label": _S, "action": _S}],
        "canRetry": _B,
        "retryDelayMs": _I0,
        "originalError": _S0,
        "sessionId": _S0,
    },
    "error": {"error": _S},
    "session_unavailable": {
        "reason": _S,
        "sessionId": _S,
        "hasMarkdownHistory": _B,
        "messageCount": _I,
        "message": _S,
    },
    "aborted": {"message": _S, "sessionId": _S, "partialResponse": _S},
    "done": {
        "sessionId": _S,
        "model": _S0,
        "durationMs": _I,
        "title": _S0,
        "sessionResume": _RESUME,
    },
    # the app ignores what it does not know
    "permission_request": {"id": _S, "sessionId": _S, "tool": _S, "input": {}, "patterns": _TEXTS},
    "injected": {"content": _S},
    "answered": {"requestId": _S},
    "ping": {},
    "reset": {},
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


def decoded(data: object) -> Mapping[str, object]:
    """The event, if the app would take it."""
    event = json.loads(json.dumps(data))
    assert isinstance(event, dict), event
    kind = event["type"]
    assert kind in FIELDS, f"no such event: {kind}"
    _check(event, FIELDS[kind], kind)
    if kind == "typed_error":
        assert event["code"] in CODES, event
        assert all(one["action"] in ACTIONS for one in event["actions"]), event
        assert all(len(one["key"]) == 1 for one in event["actions"]), event
    return event


def _check(value: object, shape: object, where: str) -> None:
    if isinstance(shape, Mapping):
        assert isinstance(value, dict), f"{where} is no object: {value!r}"
        for name, inner in shape.items():
            assert name in value, f"{where}.{name} is missing"
            _check(value[name], inner, f"{where}.{name}")
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{where} is no list: {value!r}"
        for one in value:
            _check(one, shape[0], f"{where}[]")
    else:
        assert isinstance(shape, tuple)
        assert type(value) in shape, f"{where} is {value!r}"
