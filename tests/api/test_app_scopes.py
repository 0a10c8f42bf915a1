"""Every route x every kind of key x every spelling of a path, made from the declarations: nothing
is served beyond a key's scope.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from parachuted.api.http.route import Route
from parachuted.keys import BEYOND_PATHS, CAPABILITIES
from tests.api.calls import ELSEWHERE, get, key_of
from tests.api.places import INSIDE, Place, places
from tests.stories.daemon_rig import DaemonRig, save

SECRET = b"canary 5d2e"
OUTSIDE, MISSING = "Private/diary.md", "Private/other.md"
SPELLINGS = (
    *("{p}", "%50rivate/diary.md", "Private%2Fdiary.md", "Private//diary.md", "./{p}"),
    *("Projects/../{p}", "Projects/garden/../../{p}", "Projects/%2e%2e/{p}", "Projects/..%2f{p}"),
    *("Projects/..%5c{p}", "Projects\\..\\{p}", "private/diary.md", "PRIVATE/DIARY.MD", "{p}/"),
    *("{p};x=1", "{p}%00", "{p}%00.md", "{p}%0a", "%252e%252e/{p}", "Projects/%c0%ae%c0%ae/{p}"),
    *("Projects/%c0%af../{p}", "/{p}", "%2f{p}", "Projects/link.md", "Projects/folder/diary.md"),
    *("Projects/garden/../folder/diary.md", "Projects/hard.md/../link.md", "{p}?x=1", "{p}%20"),
    *("%20{p}", "{p}.", "{p}::$DATA", "file:{p}", "~/{p}"),
    *("Projects/garden/AGENTS.md/../../../{p}", "%E2%80%A4%E2%80%A4/{p}"),
    *("%EF%BC%B0rivate/diary.md", "Private%E2%88%95diary.md", "{p}%E2%80%8B", "Private"),
    *("Private/", "P*", "**"),
)
TEXTS = ("content", "label", "q", "value", "name")  # places where anything may be said, a path too
OVERRIDES = (
    *({name: "GET"} for name in ("X-HTTP-Method-Override", "X-Method-Override", "X-HTTP-Method")),
    *(
        {name: "/api/health"}
        for name in ("X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Path", "X-Forwarded-Prefix")
    ),
    *({"X-Forwarded-For": value} for value in ("127.0.0.1", "::1", "localhost")),
    *({"Forwarded": "for=127.0.0.1"}, {"X-Real-IP": "127.0.0.1"}, {"Via": "1.1 localhost"}),
)


def routes_of(daemon_rig: DaemonRig) -> list[Route]:
    app = daemon_rig.daemon.http.make_app()
    found = [declared for route in app.router.routes() for declared in route.handler.args]
    return sorted(
        {id(declared): declared for declared in found}.values(),
        key=lambda route: (route.path, route.method),
    )


def filled_in(route: Route, path: str) -> str:
    """The route's path with a file's in the place of its names."""
    return re.sub(
        r"\{(\w+)(:(?:[^{}]|\{[^{}]*\})*)?\}",
        lambda found: path if "." in (found[2] or "") else "none",
        route.path,
    )


def others(route: Route) -> list[str]:
    """Scopes that are not what the route asks for: its module with the other capabilities, other
    modules with all.
    """
    rest = [capability for capability in CAPABILITIES if capability != route.capability]
    modules = [
        module for module in ("vault", "curator", "system", "telegram") if module != route.module
    ]
    return [
        f"{route.module}:{','.join(rest)}",
        *(f"{module}:read,write,admin" for module in modules),
    ]


async def status_of(
    session: aiohttp.ClientSession, daemon_rig: DaemonRig, method: str, path: str, **options: object
) -> tuple[int, bytes]:
    async with session.request(
        method, URL(daemon_rig.url + path, encoded=True), **options
    ) as answer:
        is_stream = answer.content_type == "text/event-stream"
        return answer.status, b"" if is_stream else await answer.read()


async def test_no_key_and_no_other_scope_opens_a_route(
    filled: Path, session: aiohttp.ClientSession, daemon_rig: DaemonRig
):
    routes = [route for route in routes_of(daemon_rig) if route.capability is not None]
    wrong = {
        words: key_of(daemon_rig, words)
        for words in {words for route in routes for words in others(route)}
    }
    daemon_rig.daemon.authenticator.look()
    before, opened, tried = contents(filled), [], 0
    for route in routes:
        tries = [
            (401, ELSEWHERE),
            (401, {"Authorization": "Bearer ", **ELSEWHERE}),
            *((403, wrong[words]) for words in others(route)),
            *((401, {**ELSEWHERE, **override}) for override in OVERRIDES),
        ]
        methods = [route.method, *(["HEAD"] if route.method == "GET" else [])]
        for (expected, headers), method in itertools.product(tries, methods):
            sent = {"headers": headers, "data": b"{}"}
            status, body = await status_of(
                session, daemon_rig, method, filled_in(route, INSIDE), **sent
            )
            tried += 1
            if status != expected and not (method == "HEAD" and status == 405):
                opened.append((method, route.path, headers, status, body[:80]))
    assert opened == []
    assert contents(filled) == before
    assert tried > 20 * len(routes)


FOR_PATH_KEYS = {
    *("GET /api/events", "GET /api/files/{path}", "PUT /api/files/{path}", "GET /api/history"),
    *("POST /api/history/restore", "GET /api/links/target"),
    *("GET /api/ls", "GET /api/notes", "PUT /api/notes/{path}", "GET /api/notes/{path}"),
    *("PATCH /api/notes/{path}", "DELETE /api/notes/{path}", "GET /api/notes/{path}/backlinks"),
    "POST /api/notes/{path}/move",
    *("GET /api/read", "GET /api/search"),
    *("GET /api/sync/changes", "DELETE /api/sync/files", "GET /api/sync/manifest"),
    *("POST /api/sync/pull", "POST /api/sync/push", "PUT /api/write", "POST /mcp"),
    *("DELETE /mcp",),
}
OF_MODULES = (
    *("GET /api/chat", "POST /api/chat", "GET /api/daily/entries", "POST /api/daily/entries"),
    *("GET /api/brain/search?q=a", "GET /api/modules/daily/agents/", "GET /api/modules/chat/x"),
    *("POST /api/modules/brain/tools/brain-search", "POST /api/modules/chat/commands/export"),
)


async def test_every_route_is_closed_to_a_key_with_paths_unless_declared(
    filled: Path, home: Path, session: aiohttp.ClientSession, daemon_rig: DaemonRig
):
    """`**` is a path too, and so is the folder that a scope on Daily lends of the vault."""
    assert await daemon_rig.daemon.modules.manager.wait_started(60)
    routes = {
        f"{route.method} {re.sub(r':[^}]*', '', route.path)}": route
        for route in routes_of(daemon_rig)
    }
    everything = "*:read,write,admin"
    keys = [key_of(daemon_rig, everything, paths=[path]) for path in ("Projects/**", "**")]
    folder = key_of(daemon_rig, "daily:read,write,admin")
    daemon_rig.daemon.authenticator.look()
    before, settings = contents(filled), yaml_of(home)

    async def said(method: str, path: str, key: dict[str, str]) -> tuple[int, bytes]:
        return await status_of(session, daemon_rig, method, path, headers=key, data=b"{}")

    opened = []
    for name, route in routes.items():
        if route.capability is None or route.for_path_keys:
            continue
        of_vault = [folder] if route.module == "vault" else []
        for key in (*keys, *of_vault):
            status, body = await said(route.method, filled_in(route, INSIDE), key)
            if status != 403 or (BEYOND_PATHS.encode() not in body and route.has_head):
                opened.append((name, status, body[:200]))
    for name in OF_MODULES:
        status, body = await said(*name.split(" "), keys[0])
        if status not in {403, 404}:
            opened.append((name, status, body[:200]))

    assert opened == []
    assert {name for name, route in routes.items() if route.for_path_keys} == FOR_PATH_KEYS
    assert (contents(filled), yaml_of(home)) == (before, settings)


def yaml_of(home: Path) -> dict[str, bytes]:
    return {path: text for path, text in contents(home).items() if path.endswith(".yaml")}


def contents(vault: Path) -> dict[str, bytes]:
    files = (path for path in vault.rglob("*") if path.is_file() and ".parachute" not in path.parts)
    return {path.relative_to(vault).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def filled(vault: Path, daemon_rig: DaemonRig) -> Path:
    """The vault with what a key may see and what it may not, and ways from one to the other."""
    daemon_rig.daemon.agents.worker.pause()  # the diary watches the projects
    keep(vault)
    head = "---\nwatch:\n  - Projects/*\n---\n# Diary\n\n## Facts\n\n"
    save(vault / OUTSIDE, f"{head}{SECRET.decode()}\n\n[[AGENTS]]\n")
    (vault / "Projects/link.md").symlink_to(vault / OUTSIDE)
    (vault / "Projects/folder").symlink_to(vault / "Private")
    (vault / "Projects/hard.md").symlink_to("/etc/hostname")
    return vault


def keep(vault: Path) -> None:
    """What a try may have moved or taken away, put back."""
    if not (vault / INSIDE).is_file():
        save(vault / INSIDE, "# Garden\n\n## Facts\n\n[[diary]]\n")


async def places_for_path_keys(
    daemon_rig: DaemonRig,
) -> list[tuple[Place, dict[str, str]]]:
    """Each place of a call that is for keys with paths, with a key that is limited to the projects
    and to what that call needs.
    """
    document = await get(daemon_rig, "/api/openapi.json")
    found = [place for place in places(document) if place.call.get("x-for-path-keys")]
    keys = {
        scope: key_of(daemon_rig, scope, paths=["Projects/**"])
        for scope in sorted({f"{place.module}:{place.capability}" for place in found})
    }
    return [(place, keys[f"{place.module}:{place.capability}"]) for place in found]


def said(body: bytes) -> bytes:
    """An answer without what differs each time."""
    return re.sub(
        rb'"request_id":"[^"]*"|"(timestamp|modified|server_time|indexing)":[^,}]*', b"", body
    )


async def test_a_key_of_some_paths_gets_no_byte_of_others_in_any_spelling(
    filled: Path,
    session: aiohttp.ClientSession,
    torture: bool,  # noqa: FBT001
    daemon_rig: DaemonRig,
):
    private, following = (filled / OUTSIDE).read_bytes(), itertools.cycle(SPELLINGS)
    reported, answers = [], Counter()
    for place, key in await places_for_path_keys(daemon_rig):
        for spelling in SPELLINGS if torture else itertools.islice(following, 9):
            keep(filled)
            value, is_raw = spelling.replace("{p}", OUTSIDE), place.where.startswith("path ")
            status, body = await place.tried(session, daemon_rig, value, key, raw=is_raw)
            answers[status] += 1
            if SECRET in body or status >= 500:
                reported.append((str(place), value, status, body[:200]))
    assert reported == []
    assert (filled / OUTSIDE).read_bytes() == private
    assert [path.name for path in (filled / "Private").iterdir()] == ["diary.md"]
    assert answers[200] > 20, answers


async def test_what_is_there_beyond_a_key_and_what_is_not_are_not_distinguished(
    filled: Path, session: aiohttp.ClientSession, daemon_rig: DaemonRig
):
    differing = []
    for place, key in await places_for_path_keys(daemon_rig):
        both = []
        for value in (OUTSIDE, MISSING):
            keep(filled)
            await daemon_rig.indexed()  # until then no order is refused
            status, body = await place.tried(session, daemon_rig, value, key)
            said_of = said(body).replace(value.encode(), b"")
            both.append((status, said_of.replace(value.encode().replace(b"/", b"%2F"), b"")))
        if both[0] != both[1] and place.where.partition(" ")[2] not in TEXTS:
            differing.append((str(place), *both))
    assert not differing, "\n".join(map(str, differing))
