"""Message request: what a request asks for and may cost; what would reach out is refused. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from parachuted.agents.gateway.prices import BYTES_A_TOKEN, Tokens
from parachuted.texts.json_limits import check_json

_MOST_INPUT = 1_000_000  # tokens: no model reads more
_MOST_OUTPUT = 128_000
_LEAST_THINKING = 1024
_HIDDEN_TOKENS = 2_000  # what the far side adds to a prompt that has tools, and more
_IMAGE_TOKENS = 5_000
_DOCUMENT_BYTES_A_TOKEN = 10
_REACHING = ("mcp", "container")
_SOURCES = frozenset({"base64", "text", "content"})
_TOOLS = ("custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_")
_DATA = frozenset({"input", "input_schema"})  # what is a tool's own affair
_TEXTS = frozenset({"messages", "system", "metadata"})
_TIERS = frozenset({"auto", "standard_only"})
_CONTEXT_EDITS = "clear_"
_CACHE = "cache_control"


class RequestRefusedError(Exception):
    """The request gets no answer from a model, and the message says why; `status` and `kind` are
    the API's terms for it.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        wait_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.wait_s = status, kind, wait_s


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRequest:
    """`models` are all that it names; `input` is an estimate, `output` the longest answer.
    `writes_hour`: it may write to the one-hour cache, which costs more.
    """

    document: Mapping[str, Any]
    model: str
    models: tuple[str, ...]
    input: int
    output: int
    writes_hour: bool
    speed: str

    def tokens(self, output: int) -> Tokens:
        written = {"cache_write_1h" if self.writes_hour else "cache_write_5m": self.input}
        return Tokens(output=output, **written)

    def body(self, body: bytes, output: int) -> bytes:
        """Raises RequestRefusedError when it would think for longer than `output` tokens."""
        if _whole(self.document.get("max_tokens"), -1) == output:
            return body
        document, thinking = {**self.document, "max_tokens": output}, self.document.get("thinking")
        if isinstance(thinking, dict) and _whole(thinking.get("budget_tokens"), 0) >= output:
            if output <= _LEAST_THINKING:
                left = "what is left of the budget does not buy the thinking"
                raise RequestRefusedError(f"{left} that this request asks for")
            document["thinking"] = {**thinking, "budget_tokens": output - 1}
        return json.dumps(document).encode()


def read_request(body: bytes) -> MessageRequest:
    """Raises RequestRefusedError if it would make the model's server reach out, if its cost cannot
    be estimated, or if it is no message. Another parser might use the other value of a duplicate
    key.
    """
    try:
        check_json(body)
        document = json.loads(body.decode("utf-8"), object_pairs_hook=_without_duplicates)
        if not isinstance(document, dict):
            raise RequestRefusedError("a request is a JSON object")
        parts = [part for name in ("system", "messages") for part in _dicts(document.get(name))]
        reaching = next(_reaching(document, parts), None)
        models = tuple(dict.fromkeys(_models(document)))
    except (ValueError, RecursionError) as error:
        raise RequestRefusedError(f"a request is JSON in UTF-8: {str(error)[:100]}") from error
    if reaching is not None:
        alone = "an agent's requests reach nothing but the model"
        raise RequestRefusedError(f"{alone}, so this gateway takes no {reaching[:100]}")
    if unpriced := _unpriced(document):
        raise RequestRefusedError(f"this gateway takes no {unpriced}")
    model, speed = document.get("model"), document.get("speed")
    asked = _whole(document.get("max_tokens"), _MOST_OUTPUT)
    caches = [kept for part in _dicts(document) if isinstance(kept := part.get(_CACHE), dict)]
    return MessageRequest(
        document=document,
        model=model if isinstance(model, str) else "",
        models=models,
        input=_estimate_input(len(body), parts),
        output=asked if 0 <= asked <= _MOST_OUTPUT else _MOST_OUTPUT,
        writes_hour=any(cache.get("ttl", "5m") != "5m" for cache in caches),
        speed=speed if isinstance(speed, str) else "",
    )


def _estimate_input(size: int, parts: list[dict[str, Any]]) -> int:
    tokens = _HIDDEN_TOKENS
    for part in parts:
        source = part.get("source")
        if isinstance(source, dict) and source.get("type") == "base64":
            data = source.get("data")
            length = len(data) if isinstance(data, str) else 0
            size -= length
            is_image = part.get("type") != "document"
            tokens += _IMAGE_TOKENS if is_image else length // _DOCUMENT_BYTES_A_TOKEN
    return min(tokens + max(0, size) // BYTES_A_TOKEN, _MOST_INPUT)


def _unpriced(document: Mapping[str, Any]) -> str | None:
    """What would cost otherwise than by its model's tokens."""
    if document.get("service_tier", "auto") not in _TIERS:
        return "service_tier but auto and standard_only"
    management = document.get("context_management")
    edits = management.get("edits") if isinstance(management, dict) else None
    for edit in edits if isinstance(edits, list) else []:
        kind = edit.get("type") if isinstance(edit, dict) else None
        if not (isinstance(kind, str) and kind.startswith(_CONTEXT_EDITS)):
            said = f"context edit of type {str(kind)[:100]}"
            return f"{said}, whose cost cannot be known beforehand"
    return None


def _reaching(document: dict[str, Any], parts: list[dict[str, Any]]) -> Iterator[str]:
    yield from (name for name in document if name.lower().startswith(_REACHING) and document[name])
    tools = document.get("tools")
    for tool in tools if isinstance(tools, list) else []:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind is not None and not (isinstance(kind, str) and kind.startswith(_TOOLS)):
            yield f"tool of type {kind}"
    for part in parts:
        source = part.get("source")
        if isinstance(source, dict) and source.get("type") not in _SOURCES:
            yield f"source of type {source.get('type')}"
        if part.get("type") == "container_upload":
            yield "container_upload"


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    """Every object in `value`, however deep, except in what a tool is given."""
    if isinstance(value, list):
        for item in value:
            yield from _dicts(item)
    elif isinstance(value, dict):
        yield value
        for name, item in value.items():
            if name not in _DATA:
                yield from _dicts(item)


def _models(document: Mapping[str, Any]) -> Iterator[str]:
    """Every model that it names, outside of its texts."""
    for part in _dicts({name: value for name, value in document.items() if name not in _TEXTS}):
        for name, value in part.items():
            if name == "model" or name.endswith(("_model", "models", "fallbacks")):
                named = value if isinstance(value, list) else [value]
                yield from (model for model in named if isinstance(model, str))


def _whole(value: object, other: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else other


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key is there twice")
    return document
