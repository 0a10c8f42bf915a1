"""Every route x every kind of key x every spelling of a path, made from the declarations: nothing
is served beyond a key's scope.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import aiohttp
from yarl import URL

from parachuted.api.http.route import Route
from parachuted.keys import BEYOND_PATHS, CAPABILITIES
from tests.api.calls import ELSEWHERE, get, key_of
from tests.api.places import INSIDE, Place, places
from tests.stories.daemon_rig import DaemonRig, Live, save

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


def filled(route: Route, path: str, name: str = "none") -> str:
    """The route's path with a file's in the place of its names."""
    return re.sub(
        r"\{(\w+)(:(?:[^{}]|\{[^{}]*\})*)?\}",
        lambda found: path if "." in (found[2] or "") else name,
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
    live: Live, vault: Path, session: aiohttp.ClientSession
):
    fill(vault)
    async with live() as daemon_rig:
        routes = routes_of(daemon_rig)
        wrong = {
            words: key_of(daemon_rig, words)
            for words in {words for route in routes for words in others(route)}
        }
        daemon_rig.daemon.authenticator.look()
        before = contents(vault)
        opened, tried = [], 0
        for route in routes:
            if route.capability is None:
                continue
            tries = [
                (401, ELSEWHERE),
                (401, {"Authorization": "Bearer ", **ELSEWHERE}),
                *((403, wrong[words]) for words in others(route)),
            ]
            tries += [(401, {**ELSEWHERE, **override}) for override in OVERRIDES]
            for (expected, headers), method in itertools.product(
                tries, [route.method, *(["HEAD"] if route.method == "GET" else [])]
            ):
                status, body = await status_of(
                    session, daemon_rig, method, filled(route, INSIDE), headers=headers, data=b"{}"
                )
                tried += 1
                if status != expected and not (method == "HEAD" and status == 405):
                    opened.append((method, route.path, headers, status, body[:80]))
        assert opened == []
        assert contents(vault) == before
        assert tried > 20 * len([route for route in routes if route.capability])


FOR_PATH_KEYS = {
    *("GET /api/events", "GET /api/files/{path}", "PUT /api/files/{path}", "GET /api/history"),
    *("POST /api/history/restore", "GET /api/links/target", "GET /api/links/unresolved"),
    *("GET /api/ls", "GET /api/notes", "PUT /api/notes/{path}", "GET /api/notes/{path}"),
    *("PATCH /api/notes/{path}", "DELETE /api/notes/{path}", "GET /api/notes/{path}/backlinks"),
    *("POST /api/notes/{path}/move", "POST /api/notes/{path}/move-plan"),
    *("GET /api/notes/{path}/versions", "GET /api/read", "GET /api/search"),
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
    live: Live, vault: Path, home: Path, session: aiohttp.ClientSession
):
    """`**` is a path too, and so is the folder that a scope on Daily lends of the vault."""
    fill(vault)
    async with live() as daemon_rig:
        assert await daemon_rig.daemon.modules.manager.wait_started(60)
        routes = {
            f"{route.method} {re.sub(r':[^}]*', '', route.path)}": route
            for route in routes_of(daemon_rig)
        }
        keys = [
            key_of(daemon_rig, "*:read,write,admin", paths=[path]) for path in ("Projects/**", "**")
        ]
        folder = key_of(daemon_rig, "daily:read,write,admin")
        daemon_rig.daemon.authenticator.look()
        before, settings = contents(vault), contents(home)

        async def said(method: str, path: str, key: dict[str, str]) -> tuple[int, bytes]:
            return await status_of(session, daemon_rig, method, path, headers=key, data=b"{}")

        opened = []
        for name, route in routes.items():
            if route.capability is None or route.for_path_keys:
                continue
            of_vault = [folder] if route.module == "vault" else []
            for key in (*keys, *of_vault):
                status, body = await said(route.method, filled(route, INSIDE), key)
                if status != 403 or (BEYOND_PATHS.encode() not in body and route.has_head):
                    opened.append((name, status, body[:200]))
        for name in OF_MODULES:
            status, body = await said(*name.split(" "), keys[0])
            if status not in {403, 404}:
                opened.append((name, status, body[:200]))

        assert opened == []
        assert {name for name, route in routes.items() if route.for_path_keys} == FOR_PATH_KEYS
        assert contents(vault) == before
        assert {path: text for path, text in contents(home).items() if path.endswith(".yaml")} == {
            path: text for path, text in settings.items() if path.endswith(".yaml")
        }


def contents(vault: Path) -> dict[str, bytes]:
    files = (path for path in vault.rglob("*") if path.is_file() and ".parachute" not in path.parts)
    return {path.relative_to(vault).as_posix(): path.read_bytes() for path in files}


def fill(vault: Path) -> None:
    save(vault / INSIDE, "# Garden\n\n## Facts\n\n[[diary]]\n")
    save(
        vault / OUTSIDE,
        "---\nwatch:\n  - Projects/*\n---\n# Diary\n\n## "
        f"Facts\n\n{SECRET.decode()}\n\n[[AGENTS]]\n",
    )
    (vault / "Projects/link.md").symlink_to(vault / OUTSIDE)
    (vault / "Projects/folder").symlink_to(vault / "Private")
    (vault / "Projects/hard.md").symlink_to("/etc/hostname")


def keys_for(
    daemon_rig: DaemonRig, kinds: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], dict[str, str]]:
    """A key for each module and capability that is limited to the projects."""
    return {
        (module, one): key_of(daemon_rig, f"{module}:{one}", paths=["Projects/**"])
        for module, one in sorted(set(kinds))
    }


async def kept(place: Place, vault: Path) -> None:
    """What a try may have moved or taken away, put back."""
    if not (vault / INSIDE).is_file():
        fill_again = vault / INSIDE
        save(fill_again, "# Garden\n\n## Facts\n\n[[diary]]\n")


def said(body: bytes) -> bytes:
    """An answer without what differs each time."""
    return re.sub(rb'"request_id":"[^"]*"|"(timestamp|modified|server_time)":[^,}]*', b"", body)


async def test_a_key_of_some_paths_gets_no_byte_of_others_in_any_spelling(
    live: Live,
    vault: Path,
    session: aiohttp.ClientSession,
    torture: bool,  # noqa: FBT001
):
    fill(vault)
    async with live() as daemon_rig:
        found = [
            place
            for place in places(await get(daemon_rig, "/api/openapi.json"))
            if place.call.get("x-for-path-keys")
        ]
        keys = keys_for(daemon_rig, [(place.module, place.capability) for place in found])
        daemon_rig.daemon.agents.worker.pause()  # the diary watches the projects
        private, following = {OUTSIDE: (vault / OUTSIDE).read_bytes()}, itertools.cycle(SPELLINGS)
        reported, answers = [], Counter()
        for place in found:
            for spelling in SPELLINGS if torture else itertools.islice(following, 9):
                await kept(place, vault)
                value, is_raw = spelling.replace("{p}", OUTSIDE), place.where.startswith("path ")
                status, body = await place.tried(
                    session, daemon_rig, value, keys[place.module, place.capability], raw=is_raw
                )
                answers[status] += 1
                if SECRET in body or status >= 500:
                    reported.append((str(place), value, status, body[:200]))
        assert reported == []
        assert {path: (vault / path).read_bytes() for path in private} == private
        assert sorted(path.name for path in (vault / "Private").iterdir()) == ["diary.md"]
        assert answers[200] > 20, answers


async def test_what_is_there_beyond_a_key_and_what_is_not_are_not_distinguished(
    live: Live, vault: Path, session: aiohttp.ClientSession
):
    fill(vault)
    async with live() as daemon_rig:
        found = [
            place
            for place in places(await get(daemon_rig, "/api/openapi.json"))
            if place.call.get("x-for-path-keys")
        ]
        keys = keys_for(daemon_rig, [(place.module, place.capability) for place in found])
        daemon_rig.daemon.agents.worker.pause()
        differing = []
        for place in found:
            both = []
            for value in (OUTSIDE, MISSING):
                await kept(place, vault)
                status, body = await place.tried(
                    session, daemon_rig, value, keys[place.module, place.capability]
                )
                both.append(
                    (
                        status,
                        said(body)
                        .replace(value.encode(), b"")
                        .replace(value.encode().replace(b"/", b"%2F"), b""),
                    )
                )
            if both[0] != both[1] and place.where.partition(" ")[2] not in TEXTS:
                differing.append((str(place), *both))
        assert not differing, "\n".join(map(str, differing))
