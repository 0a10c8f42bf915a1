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
_HIDDEN_TOKENS = 2_000  # what the far side adds to a prompt that has tools, and more
_IMAGE_TOKENS = 5_000
_DOCUMENT_BYTES_A_TOKEN = 10
_REACHING = ("mcp", "container")
_SOURCES = ("base64", "text", "content")
_TOOLS = ("custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_")
_DATA = frozenset({"input", "input_schema"})  # what is a tool's own affair
_TEXTS = frozenset({"messages", "system", "metadata"})
_USUAL = {"service_tier": ("auto", "standard_only"), "speed": ("standard",)}
_CONTEXT_EDITS = ("clear_",)
_FAMILIES = frozenset({"haiku", "sonnet", "opus", "fable", "mythos"})
_LONG_CONTEXT = "[1m]"


class RequestRefusedError(Exception):
    """The request gets no answer from a model, and the message says why; `status`, `kind` and
    `headers` are the API's terms for it.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.headers = status, kind, headers or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRequest:
    """`input` is an estimate of its tokens, `output` the longest answer. `writes_hour`: it may
    write to the one-hour cache, which costs more.
    """

    document: Mapping[str, Any]
    model: str
    input: int
    output: int
    writes_hour: bool

    def tokens(self, output: int) -> Tokens:
        written = {"cache_write_1h" if self.writes_hour else "cache_write_5m": self.input}
        return Tokens(output=output, **written)

    def body(self, output: int) -> bytes:
        """Written anew, so that the far side cannot read a second value of a key."""
        return json.dumps({**self.document, "max_tokens": output}).encode()


def read_request(body: bytes, own_model: str) -> MessageRequest:
    """Raises RequestRefusedError if it would make the model's server reach out, names another
    model, may cost what cannot be known before, or is no message.
    """
    try:
        check_json(body)
        document = json.loads(body.decode("utf-8"))
        if not isinstance(document, dict):
            raise RequestRefusedError("a request is a JSON object")
        parts = [part for name in ("system", "messages") for part in _dicts(document.get(name))]
        options = {name: value for name, value in document.items() if name not in _TEXTS}
        wrong = next(_refused(options, parts, own_model), None)
        caches = [part.get("cache_control") for part in _dicts(document)]
    except (ValueError, RecursionError) as error:
        raise RequestRefusedError(f"a request is JSON in UTF-8: {str(error)[:100]}") from error
    if wrong is not None:
        raise RequestRefusedError(f"this gateway takes no {wrong}")
    asked = document.get("max_tokens")
    return MessageRequest(
        document=document,
        model=document["model"],
        input=_estimate_input(len(body), parts),
        output=asked if type(asked) is int and 0 <= asked <= _MOST_OUTPUT else _MOST_OUTPUT,
        writes_hour=any(isinstance(it, dict) and it.get("ttl", "5m") != "5m" for it in caches),
    )


def is_same_model(asked: str, setting: str) -> bool:
    """By its whole name, without its date, or by its family alone (`haiku`)."""
    own = setting.removesuffix(_LONG_CONTEXT)
    if own in _FAMILIES:
        return asked == own or (asked.startswith("claude-") and own in asked.split("-"))
    return asked in {own, setting} or asked.startswith(f"{own}-20")


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


def _refused(
    options: Mapping[str, Any], parts: list[dict[str, Any]], own_model: str
) -> Iterator[str]:
    """What reaches more than the model, costs otherwise than by its tokens, or names another."""
    yield from (name for name in options if name.lower().startswith(_REACHING) and options[name])
    yield from _types(options.get("tools"), _TOOLS, "tool", "custom")
    sources = [part["source"] for part in parts if isinstance(part.get("source"), dict)]
    yield from _types(sources, _SOURCES, "source")
    yield from (kind for part in parts if (kind := part.get("type")) == "container_upload")
    for name, usual in _USUAL.items():
        if name in options and options[name] not in usual:
            yield f"{name} but {' and '.join(usual)}"
    if isinstance(management := options.get("context_management"), dict):
        yield from _types(management.get("edits"), _CONTEXT_EDITS, "context edit")
    for model in (options.get("model"), *_models(options)):
        if not (isinstance(model, str) and is_same_model(model, own_model)):
            asked = f"the model {str(model)[:80]}" if model else "a request without a model"
            yield f"requests for {asked}; this run may ask {own_model} (setting agent.model)"


def _types(items: object, allowed: tuple[str, ...], what: str, usual: object = "") -> Iterator[str]:
    """Those of a list's objects that are none of these, or of these beginnings (`bash_`)."""
    beginnings = tuple(name for name in allowed if name.endswith("_"))
    for item in items if isinstance(items, list) else []:
        kind = str(item.get("type", usual)) if isinstance(item, dict) else ""
        if kind not in allowed and not kind.startswith(beginnings):
            yield f"{what} of type {kind[:100]}: an agent's requests reach the model alone"


def _models(options: Mapping[str, Any]) -> Iterator[str]:
    for part in _dicts(options):
        for name, value in part.items():
            if name == "model" or name.endswith(("_model", "models", "fallbacks")):
                values = value if isinstance(value, list) else [value]
                yield from (model for model in values if isinstance(model, str))


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
