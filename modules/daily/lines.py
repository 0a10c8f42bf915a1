"""A note's frontmatter line by line, as the existing app reads and writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

MARK = "\ufeff"
KEY = re.compile(
    r"(?P<indent> *)(?P<key>\"[^\"]*\"|'[^']*'|[^\s#'\"][^#]*?)[ \t]*:(?:[ \t]+(?P<value>.*))?"
)
_ITEM = re.compile(r" *- +(?P<value>\S.*)")
_PLAIN = re.compile(
    r"(?!.*---)[A-Za-z0-9_/](?:[^\x00-\x1f\x7f#\"':\[\]{},&*!|>%@`]|:(?=\S))*(?<!\s)(?<!:)"
)
_PAIR = re.compile(r"[{,]\s*[\"']?([\w-]+)[\"']?\s*:\s*(\"[^\"]*\"|'[^']*'|[^,}]*)")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def split(text: str) -> tuple[str, ...]:
    return tuple(_LINE.findall(text))


def bare(line: str) -> str:
    return line.lstrip(MARK).rstrip("\n").removesuffix("\r")


def leading_marks(text: str) -> str:
    return text[: len(text) - len(text.lstrip(MARK))]


def line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text and text.count("\r\n") * 2 > text.count("\n") else "\n"


def front_end(lines: Sequence[str]) -> int:
    if not lines or bare(lines[0]).rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], 2):
        if bare(line).rstrip() == "---":
            return number
    return 0


def plain(value: str) -> str:
    """A scalar without quotes and comment. Times stay as they are written."""
    value = value.strip()
    if value[:1] in {'"', "'"}:
        end = value.find(value[0], 1)
        return value[1:end] if end > 0 else value
    return re.split(r"(?:^|\s)#", value, maxsplit=1)[0].strip()


def front_values(lines: Sequence[str]) -> Mapping[str, str | tuple[str, ...]]:
    """The outer keys of the frontmatter: a text, or a list of texts. A mapping is an empty list."""
    found: dict[str, str | tuple[str, ...]] = {}
    key = ""
    for line in lines[1 : max(front_end(lines) - 1, 1)]:
        item = _ITEM.fullmatch(bare(line))
        named = KEY.fullmatch(bare(line))
        if item and key and not isinstance(values := found[key], str):
            found[key] = (*values, text_of(item["value"]))
        elif named and not named["indent"]:
            key = named["key"].strip("\"'")
            value = (named["value"] or "").strip()
            found[key] = _listed(value) if value[:1] == "[" else text_of(value) or ()
    return found


def text_of(value: str) -> str:
    """The same as `plain`, with the escapes of a text in double quotes."""
    value = value.strip()
    if value[:1] == '"':
        try:
            return str(json.JSONDecoder().raw_decode(value)[0])
        except ValueError:
            pass
    return plain(value)


def scalar(value: str) -> str:
    """A text as a value on one line; the app ends the frontmatter at any `---`."""
    if _PLAIN.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False).replace("---", r"-\u002d-")


def _listed(value: str) -> tuple[str, ...]:
    inner = value[1:].partition("]")[0]
    return tuple(text_of(one) for one in inner.split(",") if one.strip())


def front_map(lines: Sequence[str], key: str) -> Mapping[str, str]:
    """The texts in the mapping under a key of the frontmatter, written `{a: b}` or over lines."""
    found: dict[str, str] = {}
    is_inside = False
    for line in lines[1 : max(front_end(lines) - 1, 1)]:
        named = KEY.fullmatch(bare(line))
        if named is None:
            continue
        name, value = named["key"].strip("\"'"), (named["value"] or "").strip()
        if not named["indent"]:
            is_inside = name == key
            if is_inside and value[:1] == "{":
                found |= {pair[1]: text_of(pair[2]) for pair in _PAIR.finditer(value)}
        elif is_inside:
            found[name] = text_of(value)
    return found
