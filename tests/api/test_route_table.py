"""The table of routes, taken from the running daemon: what each answers is what the API's
description says, times among it. test_app_scopes.py has what each refuses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.api.calls import call, get
from tests.api.places import followed
from tests.stories.daemon_rig import Live, note, save

GARDEN = "Projects/garden/AGENTS.md"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*")
UTC_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
FREE = {
    "text",
    "diff",
    "content",
    "frontmatter",
    "steps",
    "runs",
    "chains",
    "lines",
}  # texts of notes, and what is not described
PUSHED = [
    {"path": "Projects/new.md", "content": "n\n"},
    {"path": "AGENTS.md", "content": "x", "base_hash": "0" * 64},
    {"path": "Projects/c.png", "content": "/w==", "is_binary": True, "base_hash": "0" * 64},
    {"path": "..", "content": ""},
]
CALLS = [
    ("POST", "/api/bubble/plan", {"path": GARDEN}),
    ("POST", "/api/bubble/run", {"path": GARDEN}),
    ("PUT", "/api/contexts/session/{id}", {"folder_paths": ["Projects/garden"]}),
    ("POST", "/api/migration/all", {"copyTranscripts": True}),
    ("POST", "/api/migration/session/{id}", {"copyTranscript": False}),
    ("POST", "/api/scheduler/reload", None),
    ("POST", "/api/scan", None),
    ("POST", "/api/pause", None),
    ("POST", "/api/resume", None),
    ("POST", "/api/runs/{run}/undo", None),
    ("PUT", "/api/write", {"path": "new.md", "content": "x", "encoding": "utf-8"}),
    ("PATCH", "/api/notes/{path}", {"section": "Facts", "content": "x", "create": True}),
    ("POST", "/api/notes/{path}/move", {"to": "plot.md"}),
    ("POST", "/api/history/restore", {"path": "AGENTS.md", "run": "{run}"}),
    ("POST", "/api/sync/push", {"root": "", "files": PUSHED}),
    ("POST", "/api/sync/pull", {"root": "Projects", "paths": ["new.md", "c.png", "none"]}),
    ("DELETE", "/api/sync/files?paths=new.md", None),
    ("PUT", "/api/notes/{path}", {"content": "# Another\n"}),
    ("DELETE", "/api/notes/{path}", None),
]
QUERIES = {
    "/api/contexts/chain": "folders=Projects/garden,Nowhere&max_tokens=10",
    "/api/history": f"path={GARDEN}",
    "/api/links/target": "target=garden",
    "/api/models": "show_all=1",
    "/api/para": "id=para:daily:abcdefghijkl",
    "/api/prompt/preview": "contexts=.,Projects/garden&workingDirectory=Projects/garden",
    "/api/read": f"path={GARDEN}",
    "/api/sandbox/explain": "agent=curator",
    "/api/search": "q=garden",
    "/api/sync/changes": "root=Projects&since=0",
    "/api/sync/manifest": "root=Projects",
    "/api/why": f"path={GARDEN}",
    "/api/hooks/scripts": "hook=x",
    "/api/health": "detailed=true",
}


@pytest.fixture
def garden(vault: Path) -> Path:
    """A vault in which a note watches another."""
    save(vault / "AGENTS.md", note("All", watch=["Projects/*"]))
    save(vault / GARDEN, note("Garden"))
    save(vault / "Chat/contexts/garden-context.md", "# Old\n\n## Plans\n- beans\n")
    return vault


async def test_what_is_answered_is_what_the_description_says(live: Live, garden: Path):
    async with live() as daemon_rig:
        save(garden / GARDEN, note("Garden", focus="- sow"))
        await daemon_rig.settled()
        document = await get(daemon_rig, "/api/openapi.json")
        run = (await get(daemon_rig, "/api/runs"))["runs"][0]["id"]
        answers = []
        for name, path in gets(document, run):
            target = f"{path}?{QUERIES.get(path, '')}".rstrip("?")
            status, answer = await call(daemon_rig, "GET", target)
            assert status == 200, (name, answer)
            answers.append((name, answer))
        for method, path, body in CALLS:
            target = path.replace("{id}", "s-1").replace("{run}", run).replace("{path}", GARDEN)
            sent = json.loads(json.dumps(body).replace("{run}", run))
            status, answer = await call(daemon_rig, method, target, json=sent)
            assert status in {200, 201}, (method, path, answer)
            name = path.replace("{run}", "{id}").partition("?")[0]
            answers.append((f"{method} {name}", answer))

    wrong = [
        f"{name}: {error.json_path} {error.message[:200]}"
        for name, answer in answers
        for error in checker(document, name).iter_errors(answer)
    ]
    for name, answer in answers:
        wrong += [
            f"{name} {one}" for one in misspelled(document, schema_of(document, name), answer)
        ]
    assert wrong == []
    assert len(answers) > 50


def gets(document: Mapping[str, dict], run: str) -> Iterator[tuple[str, str]]:
    """Every GET that answers JSON and needs no name, or the name of a run, a session or a note."""
    names = {
        "/api/runs/{id}": f"/api/runs/{run}",
        "/api/contexts/session/{id}": "/api/contexts/session/s-1",
        "/api/runs/{id}/diff": f"/api/runs/{run}/diff",
        **{
            f"/api/notes/{{path}}{ending}": f"/api/notes/{GARDEN}{ending}"
            for ending in ("", "/backlinks")
        },
    }
    for path, calls in document["paths"].items():
        if "get" not in calls or calls["get"]["x-module"] not in {"vault", "curator", "system"}:
            continue
        if path in {"/api/hooks/scripts", "/api/para", "/api/tls"}:
            continue
        content = calls["get"]["responses"]["200"].get("content", {})
        target = names.get(path, path)
        if "application/json" in content and "{" not in target:
            yield f"GET {path}", target


def checker(document: Mapping[str, dict], name: str) -> Draft202012Validator:
    """What holds an answer against the schema of that call's."""
    schema = strict(schema_of(document, name))
    return Draft202012Validator({**schema, "components": strict(document["components"])})


def schema_of(document: Mapping[str, dict], name: str) -> dict:
    method, path = name.split()
    content = document["paths"][path][method.lower()]["responses"]["200"]["content"]
    return content["application/json"]["schema"]


def strict(schema: object) -> dict:
    """The same, and no names beyond those that it has."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: strict(part) for name, part in schema.items()}
    is_shape = isinstance(parts.get("properties"), dict) and "additionalProperties" not in parts
    return {**parts, "additionalProperties": False} if is_shape else parts


def misspelled(whole: dict, schema: dict, value: object, where: str = "") -> Iterator[str]:
    """Times that are spelled otherwise, and texts that look like one and are not said to be."""
    schema = followed(whole, schema)
    ways = [way for way in schema.get("anyOf", [schema]) if way.get("type") != "null"]
    schema = followed(whole, ways[0]) if ways else {}
    if isinstance(value, dict):
        for name, one in value.items():
            yield from misspelled(
                whole, schema.get("properties", {}).get(name, {}), one, f"{where}.{name}"
            )
    elif isinstance(value, list):
        for one in value:
            yield from misspelled(whole, schema.get("items", {}), one, where)
    elif isinstance(value, str) and TIME.fullmatch(value) and not UTC_TIME.fullmatch(value):
        yield f"{where}: {value}"
    elif (
        isinstance(value, str)
        and TIME.fullmatch(value)
        and schema.get("format") != "date-time"
        and not FREE & set(where.split("."))
    ):
        yield f"{where} is not said to be a time"
