"""Compose: the text of a new entity, and the lines that relationships are written as. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from parachuted.errors import EditRefusedError

from .entity import Json
from .type_file import scalar

BODY: Final = "body"
RELATIONSHIPS: Final = "relationships"
_LONGEST = 10_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def new_file(para_id: str, kind: str, name: str, data: Mapping[str, Json]) -> str:
    """The file of a new entity; `data` may have `body` and `relationships`. Raises
    EditRefusedError.
    """
    lines = ["---", f"para_id: {para_id}", f"type: {scalar(kind)}"]
    title = " ".join(_CONTROL.sub(" ", name).split())
    if title != name or name.startswith("#") or name.endswith("#"):
        lines.append(f"name: {scalar(name)}")
    for key, value in data.items():
        if key not in {BODY, RELATIONSHIPS} and value is not None:
            lines += key_lines(key, value)
    text = "\n".join([*lines, "---", "", f"# {title}", ""])
    body = data.get(BODY)
    if isinstance(body, str) and body.strip():
        text += f"\n{body.strip()}\n"
    if related := relationship_lines(data.get(RELATIONSHIPS)):
        text += "\n## Relationships\n\n" + "\n".join(related) + "\n"
    return text


def key_lines(key: str, value: Json) -> list[str]:
    if not key or "\n" in key or len(key) > _LONGEST:
        raise EditRefusedError(f"{key[:80]!r} is not a name of a field")
    if isinstance(value, Mapping):
        raise EditRefusedError(
            f"the field {key[:80]} takes a text, a number, true or false, or a list of texts"
        )
    if isinstance(value, list | tuple):
        if not all(isinstance(one, str | int | float) for one in value):
            raise EditRefusedError(f"the list {key[:80]} holds texts and numbers only")
        return [f"{scalar(key)}:", *(f"  - {scalar(one)}" for one in value)] if value else []
    return [f"{scalar(key)}: {scalar(value if isinstance(value, str | int | float) else '')}"]


def relationship_lines(relationships: Json) -> list[str]:
    """Items of `## Relationships`, from lines or mappings of `target` and `label`."""
    found: list[str] = []
    for one in relationships if isinstance(relationships, list | tuple) else ():
        if isinstance(one, str) and one.strip():
            line = " ".join(one.split()).removeprefix("- ")
            found.append(f"- {line}" if "[[" in line else f"- [[{line}]]")
        elif isinstance(one, Mapping) and isinstance(one.get("target"), str):
            label = one.get("label")
            found.append(link_line(str(one["target"]), label if isinstance(label, str) else ""))
    return found


def link_line(target: str, label: str = "") -> str:
    """An item that links to a file: `- [[kim]] - Founder`."""
    label = " ".join(label.split())
    return f"- [[{target}]] - {label}" if label else f"- [[{target}]]"


def without_title(body: str, name: str) -> str:
    first, _, rest = body.lstrip().partition("\n")
    return rest.lstrip("\n") if first.strip() == f"# {name}" else body


def union(first: Iterable[str], *others: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*first, *(one for other in others for one in other)]))


def texts_in(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [str(one) for one in value] if isinstance(value, list | tuple) else []
