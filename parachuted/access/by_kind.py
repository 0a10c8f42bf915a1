"""By kind: how a value of one of several classes is JSON, with the name of its class."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


class ByKind:
    """Annotates a union of dataclasses: as JSON `{"kind": "SetKey", "value": {...}}`."""

    def __get_pydantic_core_schema__(
        self,
        source: Any,  # noqa: ANN401  the union, as pydantic hands it
        handler: GetCoreSchemaHandler,
    ) -> CoreSchema:
        kinds = {kind.__name__: kind for kind in get_args(source)}

        def dump(value: object) -> dict[str, object]:
            name = type(value).__name__
            if not isinstance(value, source):
                raise TypeError(f"{name} is not one of {', '.join(kinds)}")
            return {"kind": name, "value": asdict(value)}

        choices: dict[Any, CoreSchema] = {
            name: core_schema.typed_dict_schema(
                {
                    "kind": core_schema.typed_dict_field(core_schema.literal_schema([name])),
                    "value": core_schema.typed_dict_field(handler.generate_schema(kind)),
                },
                extra_behavior="forbid",
            )
            for name, kind in kinds.items()
        }
        return core_schema.no_info_after_validator_function(
            lambda found: found["value"],
            core_schema.tagged_union_schema(choices, "kind"),
            serialization=core_schema.plain_serializer_function_ser_schema(dump),
        )
