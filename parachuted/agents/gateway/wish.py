"""Wish: what a request asks of the model, as far as its cost and its reach go. Pure.

A model's server can reach out itself: it fetches addresses of pictures, searches the web, and asks other servers for tools. A program in a
container without network could send a note's text away with it, so what reaches out is refused, however the request came here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from parachuted.json_limits import check_json

_BYTES_A_TOKEN = 4
_LONGEST_PROMPT = 1_000_000  # tokens: no model reads more
_LONGEST_ANSWER = 128_000
_REACHING = ("mcp", "container")
_SOURCES = frozenset({"base64", "text", "content"})
_TOOLS = ("custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_")
_DATA = frozenset({"input", "input_schema"})


class WishRefusedError(Exception):
    """The request does not go up; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A request's model, and the most tokens that it reads and writes, roughly."""

    model: str
    input: int
    output: int
    speed: str = ""


def read_wish(body: bytes) -> Wish:
    """What the body of a request asks for. Raises WishRefusedError when it would have the model's server reach out, or is no message.

    A key that is there twice is refused: whoever reads it next might take the other one.
    """
    try:
        check_json(body)
        document = json.loads(body.decode("utf-8"), object_pairs_hook=_once)
        if not isinstance(document, dict):
            raise WishRefusedError("a request is a JSON object")
        reaching = next(_reaching(document), None)
    except (ValueError, RecursionError) as error:
        raise WishRefusedError(f"a request is JSON in UTF-8: {str(error)[:100]}") from error
    if reaching is not None:
        raise WishRefusedError(f"an agent's requests reach nothing but the model, so this gateway takes no {reaching[:100]}")
    most, model, speed = document.get("max_tokens"), document.get("model"), document.get("speed")
    return Wish(
        model=model if isinstance(model, str) else "",
        input=min(len(body) // _BYTES_A_TOKEN, _LONGEST_PROMPT),
        output=min(max(most, 0), _LONGEST_ANSWER) if isinstance(most, int) and not isinstance(most, bool) else _LONGEST_ANSWER,
        speed=speed if isinstance(speed, str) else "",
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is there twice")
    return made


def _reaching(document: dict[str, Any]) -> Iterator[str]:
    """The names of what would reach out."""
    yield from (name for name in document if name.lower().startswith(_REACHING) and document[name])
    tools = document.get("tools")
    for tool in tools if isinstance(tools, list) else []:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind is not None and not (isinstance(kind, str) and kind.startswith(_TOOLS)):
            yield f"tool of type {kind}"
    for part in ("system", "messages"):
        yield from _sources(document.get(part))


def _sources(value: object) -> Iterator[str]:
    """Texts and pictures that are not in the request itself. What a tool was given is a tool's affair."""
    if isinstance(value, list):
        for one in value:
            yield from _sources(one)
    elif isinstance(value, dict):
        source = value.get("source")
        if isinstance(source, dict) and source.get("type") not in _SOURCES:
            yield f"source of type {source.get('type')}"
        if value.get("type") == "container_upload":
            yield "container_upload"
        for key, one in value.items():
            if key not in _DATA and isinstance(one, list | dict):
                yield from _sources(one)
