"""An entry of the journal, and a note's lines as the existing app reads and writes them."""

from __future__ import annotations

import hashlib
import json
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal

Kind = Literal["text", "voice", "linked", "photo", "handwriting"]

ID = r"(?:(?P<module>[a-z][a-z0-9-]*):)?(?P<id>[a-z0-9]{12}|[a-z0-9]{8}|[a-z0-9]{6})"
KEY_LETTERS = string.digits + string.ascii_lowercase  # in this order: imports made keys of it
KEY_LENGTH = 12
PLACEHOLDER = "*(Transcribing...)*"
"""The body of an entry whose recording waits for its words."""
_ANY_ID = re.compile(rf"(?:para:)?{ID}", re.IGNORECASE)
_SHORT = re.compile(r"[a-z0-9]{6,12}")
_TYPED = "plain_"
_LINK = re.compile(r"\[\[([^\[\]|\r\n]+)(?:\|[^\[\]\r\n]*)?\]\]")


class JournalError(ValueError):
    """An entry that is not in the journal, or a value that its format cannot hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`key` is its id without `para:` and module, or `plain_N`; `created` is `HH:MM` in `zone`."""

    key: str = ""
    module: str | None = None
    title: str
    body: str
    kind: str = "text"
    created: str = ""
    zone: tzinfo | None = None
    at: datetime | None = None
    audio: str | None = None
    image: str | None = None
    duration: int | None = None
    status: str | None = None
    mentions: tuple[str, ...] = ()
    is_private: bool = False
    lines: tuple[int, int] = (0, 0)

    @property
    def is_typed(self) -> bool:
        return self.key.startswith(_TYPED)

    @property
    def para_id(self) -> str | None:
        return f"para:{self.module or 'daily'}:{self.key}" if _SHORT.fullmatch(self.key) else None

    @property
    def link(self) -> str | None:
        return first_link(self.body)


def first_link(body: str) -> str | None:
    match = _LINK.search(body)
    return match[1].strip() if match else None


def short_id(text: str) -> str:
    """`para:daily:ABC123def456` is `abc123def456`; what is not an id is returned unchanged."""
    match = _ANY_ID.fullmatch(text.strip())
    return match["id"].lower() if match else text.strip()


def zone_of(text: str) -> tzinfo | None:
    if not text.startswith("UTC"):
        return None
    try:
        return datetime.fromisoformat(f"2000-01-01T00:00{text[3:] or 'Z'}").tzinfo
    except ValueError:
        return None


def one_line(title: str) -> str:
    return " ".join(title.split())


def is_id(text: str) -> bool:
    return _ANY_ID.fullmatch(text.strip()) is not None


def key_of_text(text: str) -> str:
    """A key that is always the same for the same text, so that what it names is made once."""
    number = int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace")).digest()[:16])
    letters = []
    for _ in range(KEY_LENGTH):
        number, place = divmod(number, len(KEY_LETTERS))
        letters.append(KEY_LETTERS[place])
    return "".join(letters)


MARK = "\ufeff"
KEY = re.compile(
    r"(?P<indent> *)(?P<key>\"[^\"]*\"|'[^']*'|[^\s#'\"][^#]*?)[ \t]*:(?:[ \t]+(?P<value>.*))?"
)
_ITEM = re.compile(r" *- +(?P<value>\S.*)")
_PLAIN = re.compile(
    r"(?!.*---)[A-Za-z0-9_/](?:[^\x00-\x1f\x7f#\"':\[\]{},&*!|>%@`]|:(?=\S))*(?<!\s)(?<!:)"
)
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
    return tuple(text_of(part) for part in inner.split(",") if part.strip())
