"""Pasted JSON: hooks.yaml may hold a settings file of Claude Code's, which becomes YAML here."""

from __future__ import annotations

import json
import re

_BREAKS = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def json_as_yaml(text: str) -> str:
    """JSON as YAML, line by line; any other text as it is.

    Tabs are space in JSON, and its strings hold characters that YAML spells otherwise.
    """
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return text
    try:
        json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return text  # braces are YAML too
    return _STRING.sub(_respelled, text).replace("\t", " ")


def _respelled(found: re.Match[str]) -> str:
    spelled = json.dumps(json.loads(found[0]), ensure_ascii=False)
    return _BREAKS.sub(lambda sign: f"\\u{ord(sign[0]):04x}", spelled)
