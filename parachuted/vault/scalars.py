"""Scalars: how YAML reads a bare word, and how a value is written so that every reader agrees.

Readers of a vault speak YAML 1.1 (PyYAML) and 1.2 (the app), and the app ends the frontmatter at
the first `---` anywhere, so no text is written with those three characters in a row.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import Literal

import yaml

from parachuted.errors import EditRefusedError
from parachuted.vault.bounded_yaml import YamlRefusedError, plain_text, read_events

ScalarKind = Literal["text", "boolean", "number", "null", "date"]

_KINDS: dict[str, ScalarKind] = {
    "tag:yaml.org,2002:bool": "boolean",
    "tag:yaml.org,2002:int": "number",
    "tag:yaml.org,2002:float": "number",
    "tag:yaml.org,2002:null": "null",
    "tag:yaml.org,2002:timestamp": "date",
}
_NUMBER_12 = re.compile(
    r"0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
)
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_TYPED = frozenset(["", *"tTfFnN~-.0123456789"])
_LARGEST_NUMBER = 2**63
_LONGEST_NUMBER = 30
_RESERVED = frozenset({"y", "Y", "n", "N", "=", "<<"})
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPED = re.compile(f'["\\\\]|{_UNPRINTABLE.pattern}')


def kind_of(word: str) -> ScalarKind:
    """What a YAML 1.1 or 1.2 reader takes the unquoted word for."""
    for tag, pattern in yaml.SafeLoader.yaml_implicit_resolvers.get(word[:1], ()):
        if tag in _KINDS and pattern.match(word):
            return _KINDS[tag]
    return "number" if _NUMBER_12.fullmatch(word) else "text"


def json_scalar(word: str) -> str | float | bool | None:
    """What the unquoted word means as JSON.

    A number is one only where it is written as it would be written from here, so that no text is
    lost: `1.10`, `007` and numbers beyond 64 bits stay the words that they are. Dates do too.
    """
    if word[:1] not in _TYPED:
        return word
    if (found := _WORDS.get(word, word)) is not word or len(word) > _LONGEST_NUMBER:
        return found
    for kind in (int, float):
        with suppress(ValueError, OverflowError):
            number = kind(word)
            if math.isfinite(number) and str(number) == word and abs(number) < _LARGEST_NUMBER:
                return number
    return word


def write_scalar(value: str | float) -> str:
    """The value as YAML on one line; a text is quoted only where a reader would take it for
    something else.

    Raises EditRefusedError for what no YAML can hold: NUL, lone surrogates, integers of thousands
    of digits.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _write_integer(value)
    if isinstance(value, float):
        return _write_float(value)
    return value if is_bare(value) else _quote(value)


def write_key(name: str) -> str:
    """The name as a key, quoted only where it must be.

    Raises EditRefusedError for an empty name or one that YAML cannot hold.
    """
    if not name:
        raise EditRefusedError("a frontmatter key cannot be empty")
    return name if is_bare(name) else _quote(name)


def is_bare(text: str) -> bool:
    """Whether the text may stand unquoted as a key, a value or an item of a list."""
    if _UNPRINTABLE.search(text) or "---" in text or text in _RESERVED or kind_of(text) != "text":
        return False
    try:
        events = read_events(f"k: {text}\n")
    except YamlRefusedError:
        return False
    return len(events) == len(("start", "key", "value", "end")) and plain_text(events[2]) == text


def _write_integer(value: int) -> str:
    try:
        return str(value)
    except ValueError as error:
        raise EditRefusedError("the number has too many digits to be written") from error


def _write_float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    return text if "." in text else text.replace("e", ".0e")


def _quote(text: str) -> str:
    if "\0" in text:
        raise EditRefusedError("a frontmatter value cannot hold NUL")
    if re.search("[\ud800-\udfff]", text):
        raise EditRefusedError("a frontmatter value cannot hold text that is not Unicode")
    if _ESCAPED.search(text) and not _UNPRINTABLE.search(text) and "---" not in text:
        return "'" + text.replace("'", "''") + "'"
    return '"' + _ESCAPED.sub(_escape, text).replace("---", "--\\x2D") + '"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    return _ESCAPES.get(char) or (f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}")  # noqa: PLR2004 - \x holds two digits
