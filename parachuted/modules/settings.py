"""A module's settings: its own class, and what a person wrote in modules.yaml."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from parachuted.errors import ModuleFailedError
from parachuted.texts.mistakes import mistakes_in

_LONGEST = 500
_KINDS = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true | false",
    "array": "list",
    "object": "mapping",
    "null": "nothing",
}


SettingValue: TypeAlias = str | bool | float | None
"""One value as modules.yaml has it; None: the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSpec:
    """One setting for a person: its name, its kind of value, its default as JSON, and what it
    means.
    """

    key: str
    kind: str
    default: str
    description: str = ""


def setting_specs(settings: type | None) -> tuple[SettingSpec, ...]:
    """In the class's order. Raises ValueError for one that cannot be a module's."""
    if settings is None:
        return ()
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(settings)
        schema, usual = adapter.json_schema(), adapter.dump_python(settings(), mode="json")
        properties: Mapping[str, Any] = schema["properties"]
        return tuple(
            SettingSpec(
                key=key,
                kind=_kind(found, schema.get("$defs", {}))[:_LONGEST],
                default=json.dumps(usual[key], ensure_ascii=False)[:_LONGEST],
                description=str(found.get("description", ""))[:_LONGEST],
            )
            for key, found in properties.items()
        )
    except Exception as error:  # a module's class
        raise ValueError(
            "Settings should be a dataclass or a model of pydantic whose fields all have a "
            f"default: {error}"
        ) from error


def read_settings(settings: type | None, config: Mapping[str, object]) -> Any:  # noqa: ANN401  of the module's own class
    """What the person wrote, as that class. Raises ModuleFailedError with all that does not fit."""
    if settings is None:
        return None
    adapter: TypeAdapter[Any] = TypeAdapter(settings)
    known = adapter.json_schema().get("properties", {})
    problems = [f"config.{key}: unknown setting" for key in config if key not in known]
    try:
        found = adapter.validate_python(dict(config))
    except ValidationError as error:
        problems += mistakes_in(error, "config")
    if problems:
        raise ModuleFailedError("; ".join(f"modules.yaml: {problem}" for problem in problems))
    return found


def _kind(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return _kind(definitions.get(schema["$ref"].rpartition("/")[2], {}), definitions)
    if "anyOf" in schema:
        return " | ".join(_kind(choice, definitions) for choice in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    return str(schema["const"]) if "const" in schema else _KINDS.get(schema.get("type", ""), "text")
