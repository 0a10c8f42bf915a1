"""Places: where in a call of the API a path can stand, found in its own description."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from tests.stories.daemon_rig import DaemonRig

INSIDE = "Projects/garden/AGENTS.md"
USUAL = {"section": "Facts", "content": "x"}
PATHLIKE = re.compile(
    r"path|folder|file|root|^to$|^from$|watcher|source|target|directory|contexts", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A call, and the one place in it where a value is put: `path NAME`, `query NAME` or `body
    NAME`.
    """

    method: str
    path: str
    module: str
    capability: str | None
    where: str
    call: dict
    whole: dict

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.where}"

    def target(self, value: str, *, raw: bool) -> str:
        """The target with the value in its place: as it is spelled when `raw`, else encoded, but
        for slashes in a path.
        """
        kind, _, name = self.where.partition(" ")
        path = self.path
        if kind == "path":
            path = path.replace(f"{{{name}}}", value if raw else quote(value, safe="/"))
        path = re.sub(r"\{path\}", INSIDE, path)
        path = re.sub(r"\{\w+\}", "none", path)
        asked = [
            parameter
            for parameter in self.call.get("parameters", [])
            if parameter["required"] and parameter["in"] == "query"
        ]
        query = {one["name"]: sample(self.whole, one["schema"], "x") for one in asked}
        if kind == "query":
            query[name] = value
        return f"{path}?{urlencode(query, doseq=True, errors='surrogateescape')}" if query else path

    def body(self, value: str) -> object:
        """The JSON of the body, or None where there is none."""
        said = self.call.get("requestBody", {}).get("content", {}).get("application/json")
        if said is None:
            return None
        kind, _, name = self.where.partition(" ")
        properties = followed(self.whole, said["schema"]).get("properties", {})
        made = {
            **sample(self.whole, said["schema"], INSIDE),
            **{one: text for one, text in USUAL.items() if one in properties},
        }
        if kind == "body":
            made[name] = sample(self.whole, properties[name], value, force=True)
        return made

    async def tried(
        self,
        session: aiohttp.ClientSession,
        daemon_rig: DaemonRig,
        value: str,
        headers: dict[str, str],
        *,
        raw: bool = False,
    ) -> tuple[int, bytes]:
        """The status and the body of the answer, without what is asked for by an endless stream."""
        body = self.body(value)
        sent = (
            {"json": body}
            if body is not None
            else {"data": b"# x\n"}
            if self.method in {"PUT", "POST", "PATCH"}
            else {}
        )
        url = URL(daemon_rig.url + self.target(value, raw=raw), encoded=True)
        async with session.request(self.method, url, headers=headers, **sent) as answer:
            return (
                answer.status,
                b"" if answer.content_type == "text/event-stream" else await answer.read(),
            )


def followed(whole: dict, schema: dict) -> dict:
    """What a reference leads to."""
    while "$ref" in schema:
        schema = whole["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def sample(whole: dict, schema: dict, value: str, *, force: bool = False, name: str = "") -> object:
    """Something that the schema allows, with the value for every text that may be a path."""
    schema = followed(whole, schema)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    ways = [
        way for way in schema.get("anyOf", schema.get("oneOf", [])) if way.get("type") != "null"
    ]
    if ways:
        return sample(whole, ways[0], value, force=force, name=name)
    kind = schema.get("type")
    if kind == "array":
        return [sample(whole, schema.get("items", {}), value, force=force, name=name)]
    if kind == "object":
        said = schema.get("properties", {})
        return {
            one: sample(whole, said[one], value, name=one) for one in schema.get("required", [])
        }
    if kind == "string" or kind is None:
        return value if force or PATHLIKE.search(name) else "x"
    return {"integer": schema.get("minimum", 1), "number": 1, "boolean": False}[str(kind)]


def places(document: dict) -> Iterator[Place]:
    """Every place of every call: names in paths, texts in queries, texts and lists of them in
    bodies.
    """
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            names = [
                f"{parameter['in']} {parameter['name']}"
                for parameter in call.get("parameters", [])
                if parameter["in"] != "header" and holds_text(document, parameter["schema"])
            ]
            said = call.get("requestBody", {}).get("content", {}).get("application/json")
            if said is not None:
                properties = followed(document, said["schema"]).get("properties", {})
                names += [
                    f"body {name}"
                    for name, schema in properties.items()
                    if holds_text(document, schema)
                ]
            for where in names:
                yield Place(
                    method=method.upper(),
                    path=path,
                    module=call["x-module"],
                    capability=call["x-capability"],
                    where=where,
                    call=call,
                    whole=document,
                )


def holds_text(whole: dict, schema: dict) -> bool:
    """Whether a free text can stand there, perhaps deeper."""
    schema = followed(whole, schema)
    if "enum" in schema or "const" in schema:
        return False
    inner = [
        *schema.get("anyOf", []),
        *schema.get("oneOf", []),
        *([schema["items"]] if "items" in schema else []),
    ]
    inner += list(schema.get("properties", {}).values())
    return schema.get("type") == "string" or any(holds_text(whole, one) for one in inner)
