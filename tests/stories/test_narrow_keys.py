"""Every route x every kind of narrow key x every place where a text of an unseen note could stand.

Bodies, headers, counts, events and errors are looked at. The texts that a key does not see are
canaries. What does not name them may still count them, so all answers are compared besides with
those of a second vault that differs only where the key does not look.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
import pytest_asyncio
from yarl import URL

from parachuted.keys import BEYOND_PATHS, KeyFile, mint, parse_words
from tests.api.calls import ELSEWHERE, get
from tests.api.places import Place, places, sample
from tests.stories.daemon_rig import DaemonRig, Live, running_daemon
from tests.stories.two_worlds import INSIDE, VaultWithSecrets, answer, happen, masked, world_of

SHOP, ANYWHERE, DAILY = ["Shop/**"], [], ["Daily/**"]
KINDS: Mapping[str, list[tuple[str, list[str]]]] = {
    "everything in Shop": [("*:read,write,admin", SHOP)],
    "a reader of Shop": [("*:read", SHOP)],
    **{
        f"{module}:{one} in Shop": [(f"{module}:{one}", SHOP)]
        for module in ("vault", "curator", "system")
        for one in ("read", "write", "admin")
    },
    "the system everywhere, no notes": [("system:read", ANYWHERE)],
    "runs everywhere, notes in Shop": [("curator:read", ANYWHERE), ("vault:read", SHOP)],
    "the journal": [("daily:read,write", ANYWHERE)],
}
NAMES = {"a folder name", "a file name", "the name of a deleted note"}
ALLOWED = {
    "the system everywhere, no notes": NAMES,
    "runs everywhere, notes in Shop": NAMES,
    "the journal": {"a journal entry"},
}
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),  # thousands of requests, on a machine that does other things too
]
STREAMS = {"/api/events"}
WITHOUT_LIMITS = [
    kind for kind in KINDS if not kind.endswith("Shop") or kind.startswith("runs everywhere")
]
IN_PART = {kind for kind in KINDS if ":" in kind} - {"vault:read in Shop", "curator:admin in Shop"}


def asking(*, torture: bool) -> list[str]:
    """The kinds whose keys ask everything: in `make torture` also each key that opens only a part
    of what `everything in Shop` does.
    """
    return [kind for kind in KINDS if torture or kind not in IN_PART]


def keys_of_all_kinds(daemon_rig: DaemonRig) -> dict[str, dict[str, str]]:
    """The headers of a new key of each kind, from another machine."""
    return {kind: key(daemon_rig, kind) for kind in KINDS}


def key(daemon_rig: DaemonRig, kind: str) -> dict[str, str]:
    """The headers of a new key of that kind, from another machine."""
    file = KeyFile(daemon_rig.daemon.watched.home)
    scopes = [parse_words(words, paths) for words, paths in KINDS[kind]]
    made = mint(f"matrix {len(file.load().keys)}", scopes, now=daemon_rig.daemon.watched.clock())
    file.add(made.key)
    return {"Authorization": f"Bearer {made.secret}", **ELSEWHERE}


@pytest_asyncio.fixture(loop_scope="module")
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=120), connector=aiohttp.TCPConnector(limit=8)
    ) as one:
        yield one


def reads(document: dict, world: VaultWithSecrets) -> Iterator[tuple[str, str]]:
    """Each call that reads: its path with what a hostile caller might ask for in the place of every
    name.
    """
    asked = [
        INSIDE,
        "Shop/came.md",
        "Shop/AGENTS.md",
        "Private/left.md",
        "Private/watcher.md",
        "Private/nothing.md",
    ]
    for path, calls in document["paths"].items():
        said = calls.get("get")
        if said is None or path in STREAMS:
            continue
        fills = [*asked, *world.ids, *world.digests[:3], "s1", "none"] if "{" in path else [""]
        parameters = [one for one in said.get("parameters", []) if one["in"] == "query"]
        required = [one for one in parameters if one["required"]]
        optional = [one for one in parameters if not one["required"]]
        for fill in fills:
            filled = re.sub(r"\{\w+\}", quote(fill, safe="/"), path)
            values = asked if required else [""]
            for value in values:
                query = "&".join(
                    f"{one['name']}={quote(str(sample(document, one['schema'], value, force=True)), safe='')}"  # noqa: E501
                    for one in required
                )
                yield path, f"{filled}?{query}"
        for one in optional:
            for value in values_of(one["schema"], world):
                query = "&".join(
                    [
                        *(f"{need['name']}={quote(asked[0], safe='')}" for need in required),
                        f"{one['name']}={quote(value, safe='')}",
                    ]
                )
                yield path, re.sub(r"\{\w+\}", quote(asked[0], safe="/"), path) + f"?{query}"


def values_of(schema: Mapping[str, object], world: VaultWithSecrets) -> tuple[str, ...]:
    """What is asked for in a parameter: what its type allows, and one text that it does not."""
    types = {one.get("type") for one in schema.get("anyOf", [schema])} - {"null"}
    if types == {"boolean"}:
        return "true", "milk"
    if types <= {"integer", "number"}:
        return "500", "milk"
    return "milk", "Private/**", world.folder, "Shop/**", "500", "true"


async def every_answer(
    session: aiohttp.ClientSession, world: VaultWithSecrets, headers: dict[str, str], document: dict
) -> dict[str, tuple[int, str]]:
    """What a key is answered, by what it asked: each route until it is closed to the key."""
    limit = asyncio.Semaphore(8)
    found: dict[str, tuple[int, str]] = {}

    async def ask(targets: list[str]) -> None:
        async with limit:
            for target in targets:
                found[target] = await answer(
                    session, URL(world.daemon_rig.url + target, encoded=True), "GET", headers
                )
                if is_closed(found[target][1]):
                    return

    routes: dict[str, list[str]] = {}
    for path, target in reads(document, world):
        routes.setdefault(path, []).append(target)
    async with asyncio.TaskGroup() as group:
        for targets in routes.values():
            group.create_task(ask(list(dict.fromkeys(targets))))
    return found


def is_closed(text: str) -> bool:
    """Whether a call was refused before its path, query and body were looked at: then they change
    nothing.
    """
    return "this key lacks the scope " in text or BEYOND_PATHS in text


@contextlib.asynccontextmanager
async def listeners(
    world: VaultWithSecrets, keys: Mapping[str, dict[str, str]]
) -> AsyncIterator[dict[str, list[str]]]:
    """What each kind of key hears on the event stream."""
    heard: dict[str, list[str]] = {kind: [] for kind in KINDS}
    connected = dict.fromkeys(KINDS, False)

    async def listen(kind: str) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(timeout=timeout) as one,
            one.get(f"{world.daemon_rig.url}/api/events", headers=keys[kind]) as got,
        ):
            connected[kind] = True
            if got.status == 200:
                async for line in got.content:
                    heard[kind].append(line.decode())

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(listen(kind), name=f"listening as {kind}") for kind in KINDS]
        try:
            await world.daemon_rig.until(lambda: all(connected.values()))
            yield heard
        finally:
            for task in tasks:
                task.cancel()


async def test_vaults_that_differ_where_a_key_does_not_look_answer_it_alike(
    live: Live, tmp_path: Path, home: Path, vault: Path, session: aiohttp.ClientSession, torture
):
    reported: list[dict[tuple[str, str], tuple[int, str]]] = []
    for has_canaries in (True, False):
        async with world_of(live, vault, home, has_canaries=has_canaries, is_apart=True) as world:
            keys = keys_of_all_kinds(world.daemon_rig)
            async with listeners(world, keys) as heard:
                await happen(world)
            document = await get(world.daemon_rig, "/api/openapi.json")
            # the same questions in both
            world.ids, world.digests, world.folder = [], [], "Private/folder"
            answers: dict[tuple[str, str], tuple[int, str]] = {}
            for kind in [one for one in asking(torture=torture) if one not in WITHOUT_LIMITS]:
                found = await every_answer(session, world, keys[kind], document)
                for target, (status, text) in found.items():
                    answers[kind, target] = status, masked(text)
                lines = sorted(line for line in heard[kind] if line.startswith("data"))
                answers[kind, "events"] = 200, masked("".join(lines))
            reported.append(answers)
        put_away(vault, home, tmp_path / f"world {has_canaries}")
    one, other = reported
    differing = [
        (*asked, *where_they_differ(one[asked], other[asked]))
        for asked in one
        if one[asked] != other[asked]
    ]
    assert not differing, "\n".join(map(str, differing[:60])) + f"\n{len(differing)} in all"


def put_away(vault: Path, home: Path, to: Path) -> None:
    """Make room for the other world in the same places."""
    to.mkdir()
    for folder in (vault, home):
        folder.rename(to / folder.name)
        folder.mkdir(mode=0o700)


def where_they_differ(one: tuple[int, str], other: tuple[int, str]) -> tuple[str, str]:
    """The two answers from just before the first difference."""
    texts = f"{one[0]} {one[1]}", f"{other[0]} {other[1]}"
    at = max(len(os.path.commonprefix(texts)) - 40, 0)  # noqa: RUF071  of characters
    return texts[0][at : at + 120], texts[1][at : at + 120]


@dataclass(frozen=True, kw_only=True)
class WatchedWorld:
    """A world with canaries in which much has happened, a key of each kind, and what each heard."""

    world: VaultWithSecrets
    keys: Mapping[str, dict[str, str]]
    heard: Mapping[str, list[str]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WatchedWorld]:
    """For several tests, of which the last changes what it can."""
    folder = tmp_path_factory.mktemp("canaries")
    vault, home = folder / "vault", folder / "home"
    vault.mkdir()
    home.mkdir(mode=0o700)
    live = partial(running_daemon, vault, home)
    async with world_of(live, vault, home, has_canaries=True) as world:
        keys = keys_of_all_kinds(world.daemon_rig)
        async with listeners(world, keys) as heard:
            await happen(world)
        yield WatchedWorld(world=world, keys=keys, heard=heard)


async def test_no_text_of_an_unseen_note_stands_in_any_answer_or_event(
    watched: WatchedWorld, session: aiohttp.ClientSession, torture
):
    world = watched.world
    document = await get(world.daemon_rig, "/api/openapi.json")
    seen: list[tuple[str, str, set[str]]] = []
    answered = 0
    for kind in asking(torture=torture):
        answers = await every_answer(session, world, watched.keys[kind], document)
        answered += sum(status == 200 for status, _text in answers.values())
        reported = {
            f"GET {target}": text.replace(quote_of(target), "")
            for target, (_status, text) in answers.items()
        }
        reported["events"] = "".join(watched.heard[kind])
        for where, text in reported.items():
            if leaked := world.found(text) - ALLOWED.get(kind, set()) - world.found(where):
                seen.append((kind, where, leaked))
    everything = await every_answer(session, world, {}, document)
    planted = set().union(*(world.found(text) for _status, text in everything.values()))
    assert not seen, "\n".join(map(str, seen[:60])) + f"\n{len(seen)} in all"
    assert answered > 500
    assert len(planted) > 15, planted


def quote_of(target: str) -> str:
    """An error may repeat what was asked for."""
    return target.partition("?")[0]


async def test_no_kept_text_is_had_by_its_digest(
    watched: WatchedWorld, session: aiohttp.ClientSession
):
    world, seen = watched.world, []
    headers, vault = watched.keys["everything in Shop"], world.daemon_rig.vault
    for digest in world.digests:
        matching = {**headers, "If-Match": f'"{digest}"'}
        patch = {"section": "Facts", "content": "x", "base_hash": digest}
        pushed = {"path": INSIDE, "content": "# Mine\n", "base_hash": digest}
        restored = {"path": INSIDE, "version": digest}
        for method, target, sent, options in (
            ("PUT", f"/api/notes/{INSIDE}", matching, {"data": b"# Mine\n"}),
            ("PATCH", f"/api/notes/{INSIDE}", headers, {"json": patch}),
            ("PUT", f"/api/files/{INSIDE}", matching, {"data": b"# Mine\n"}),
            ("POST", "/api/history/restore", headers, {"json": restored}),
            ("POST", "/api/sync/push", headers, {"json": {"files": [pushed]}}),
            ("GET", f"/api/notes/{INSIDE}", {**headers, "If-None-Match": f'"{digest}"'}, {}),
        ):
            url = world.daemon_rig.url + target
            status, text = await answer(session, url, method, sent, **options)
            inside = (vault / INSIDE).read_text()
            if status >= 500 or world.found(text + inside):
                found = world.found(text), world.found(inside)
                seen.append((method, target, digest[:8], status, *found))
    assert not seen, "\n".join(map(str, seen))


async def test_no_change_of_a_narrow_key_reaches_or_shows_what_it_does_not_see(
    watched: WatchedWorld, session: aiohttp.ClientSession, torture
):
    world = watched.world
    vault = world.daemon_rig.vault
    document = await get(world.daemon_rig, "/api/openapi.json")
    before = unseen(vault)
    seen = []
    for kind in asking(torture=torture):
        headers = key(world.daemon_rig, kind)  # an earlier one may have been revoked
        closed: set[tuple[str, str]] = set()
        for place, value in changes(document, world):
            if (place.method, place.path) in closed:
                continue
            status, text = await changed(session, world.daemon_rig, place, value, headers)
            if is_closed(text):
                closed.add((place.method, place.path))
            leaked = world.found(text) - ALLOWED.get(kind, set()) - world.found(value)
            if status >= 500 or leaked:
                why = leaked if status < 500 else text[:200]
                seen.append((kind, str(place), value, status, why))
            if unseen(vault) != before and "Shop" in kind:
                seen.append((kind, str(place), value, "changed a file that the key does not see"))
                before = unseen(vault)
    assert not seen, "\n".join(map(str, seen[:60])) + f"\n{len(seen)} in all"


def unseen(vault: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for folder in ("Private", "Daily")
        for path in (vault / folder).rglob("*")
        if path.is_file()
    }


ENDS_THE_WORLD = {
    "/supervisor/server/stop",
    "/supervisor/server/restart",
    "/supervisor/server/start",
    "/api/auth/settings",
}


def changes(document: dict, world: VaultWithSecrets) -> Iterator[tuple[Place, str]]:
    """Each place of each call that changes something, with ids, digests and paths that the caller
    should not make use of.
    """
    for place in places(document):
        if place.method == "GET" or place.path in ENDS_THE_WORLD:
            continue
        name = place.where.partition(" ")[2]
        if name in {"id", "run"}:
            yield from ((place, entry_id) for entry_id in world.ids)
        elif "base" in name or "version" in name or "digest" in name:
            yield from ((place, digest) for digest in world.digests)
        else:
            yield from (
                (place, one) for one in ("Private/watcher.md", "Private/left.md", world.folder)
            )


async def changed(
    session: aiohttp.ClientSession,
    daemon_rig: DaemonRig,
    place: Place,
    value: str,
    headers: dict[str, str],
) -> tuple[int, str]:
    """The answer, and headers and body as a text."""
    body = place.body(value)
    sent: dict[str, object] = {"json": body} if body is not None else {}
    if body is None and place.method in {"PUT", "POST", "PATCH"}:
        sent = {"data": b"# x\n"}
    url = URL(daemon_rig.url + place.target(value, raw=False), encoded=True)
    return await answer(session, url, place.method, headers, **sent)
