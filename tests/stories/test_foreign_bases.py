"""A text is not had by its digest: an edit may be decided on a text that stood where the file is,
or was, and on no other.

Every way by which a digest can be named as a base, through a running daemon: what comes of it tells
nothing of another note's text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import pytest

from tests.api.calls import call, get, key_of, post
from tests.stories.daemon_rig import DaemonRig, Live, save

CANARY = "canary7141"
HIDDEN = f"# Own\n\n## Focus\n\n{CANARY}\n\n## More\n\nx\n"
OWN = "# Own\n\n## Focus\n\nmine\n\n## More\n\ny\n"
PATH = "Shop/own.md"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def if_match(text: str) -> dict[str, str]:
    return {"If-Match": f'"{digest(text)}"'}


async def kept(daemon_rig: DaemonRig) -> str:
    """The digest of a private text that is kept."""
    await get(daemon_rig, "/api/notes/Private/x.md")
    await call(daemon_rig, "PUT", "/api/notes/Private/x.md", json={"content": "# gone\n"})
    assert daemon_rig.daemon.watched.objects.get(digest(HIDDEN)) == HIDDEN.encode()
    return digest(HIDDEN)


@dataclass(frozen=True, kw_only=True)
class CallWithBase:
    """A call that names a base."""

    method: str
    path: str
    body: Mapping[str, object] | None = None
    headers: Mapping[str, str] | None = None


NOTE = f"/api/notes/{PATH}"
WAYS = {
    "patch a section": CallWithBase(
        method="PATCH",
        path=NOTE,
        body={"section": "Focus", "content": "other"},
        headers=if_match(HIDDEN),
    ),
    "patch another section": CallWithBase(
        method="PATCH",
        path=NOTE,
        body={"section": "More", "content": "other"},
        headers=if_match(HIDDEN),
    ),
    "append": CallWithBase(
        method="PATCH",
        path=NOTE,
        body={"section": "More", "content": "o", "mode": "append"},
        headers=if_match(HIDDEN),
    ),
    "patch a key": CallWithBase(
        method="PATCH", path=NOTE, body={"key": "tags", "value": ["a"]}, headers=if_match(HIDDEN)
    ),
    "put": CallWithBase(
        method="PUT", path=NOTE, body={"content": "# Own\n\nother\n"}, headers=if_match(HIDDEN)
    ),
    "put nothing": CallWithBase(
        method="PUT", path=NOTE, body={"content": ""}, headers=if_match(HIDDEN)
    ),
    "delete": CallWithBase(method="DELETE", path=NOTE, headers=if_match(HIDDEN)),
    "move": CallWithBase(
        method="POST", path=f"{NOTE}/move", body={"to": "Shop/other.md"}, headers=if_match(HIDDEN)
    ),
    "write": CallWithBase(
        method="PUT",
        path="/api/write",
        body={"path": PATH, "content": "# Own\n", "base_hash": digest(HIDDEN)},
    ),
    "write if": CallWithBase(
        method="PUT",
        path="/api/write",
        body={"path": PATH, "content": "# Own\n"},
        headers=if_match(HIDDEN),
    ),
    "put a file": CallWithBase(
        method="PUT",
        path=f"/api/files/{PATH}",
        body={"content": "# Own\n"},
        headers=if_match(HIDDEN),
    ),
    "push": CallWithBase(
        method="POST",
        path="/api/sync/push",
        body={
            "root": "Shop",
            "files": [{"path": "own.md", "content": "# Own\n", "base_hash": digest(HIDDEN)}],
        },
    ),
    "a version": CallWithBase(method="GET", path=f"{NOTE}?version={digest(HIDDEN)}"),
    "restore": CallWithBase(
        method="POST", path="/api/history/restore", body={"path": PATH, "version": digest(HIDDEN)}
    ),
}


@pytest.fixture
async def daemon_rig(live: Live, vault) -> AsyncIterator[DaemonRig]:
    save(vault / "Private/x.md", HIDDEN)
    save(vault / PATH, OWN)
    async with live() as daemon_rig:
        yield daemon_rig


@pytest.mark.parametrize("name", WAYS)
async def test_a_digest_gives_no_one_another_notes_text(daemon_rig: DaemonRig, vault, name: str):
    way = WAYS[name]
    await kept(daemon_rig)
    key = key_of(daemon_rig, "vault:read,write", "curator:read,write", paths=["Shop/**"])
    _, answer = await call(
        daemon_rig, way.method, way.path, json=way.body, headers={**key, **(way.headers or {})}
    )

    assert CANARY not in json.dumps(answer)
    for file in vault.joinpath("Shop").iterdir():
        assert CANARY not in file.read_text(), file


async def test_a_restore_shows_no_foreign_base_in_a_conflict(daemon_rig: DaemonRig, vault):
    hidden = await kept(daemon_rig)
    first = (await get(daemon_rig, NOTE))["hash"]
    await call(daemon_rig, "PUT", NOTE, json={"content": "# Own\n\n## Focus\n\nelse\n"})
    key = key_of(daemon_rig, "vault:read,write", "curator:read,write", paths=["Shop/**"])
    body = {"path": PATH, "version": first, "base": hidden}
    for before in ("there", "gone"):
        if before == "gone":
            (vault / PATH).unlink()
            await daemon_rig.settled()
        status, answer = await call(
            daemon_rig, "POST", "/api/history/restore", json=body, headers=key
        )
        assert status != 200, before
        assert CANARY not in json.dumps(answer), before


async def test_whether_a_digest_is_of_a_kept_text_is_not_reported(daemon_rig: DaemonRig):
    """The same answer for a text that is kept elsewhere and for one that no one has."""
    hidden = await kept(daemon_rig)
    key = key_of(daemon_rig, "vault:read,write", paths=["Shop/**"])
    answers = []
    for base in (hidden, digest("nobody has this")):
        status, answer = await call(
            daemon_rig,
            "PATCH",
            NOTE,
            json={"section": "Focus", "content": "other"},
            headers={**key, "If-Match": f'"{base}"'},
        )
        answers.append((status, answer["conflict"], answer["message"].replace(base[:12], "")))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("path", [PATH, "Shop/own.txt"])
async def test_what_was_read_there_is_a_base_also_after_a_restart(live: Live, vault, path: str):
    save(vault / path, OWN)
    async with live() as daemon_rig:
        if path.endswith(".md"):
            base = (await get(daemon_rig, f"/api/notes/{path}"))["hash"]
        (pulled,) = (await post(daemon_rig, "/api/sync/pull", {"root": "", "paths": [path]}))[
            "files"
        ]
        base = pulled["hash"]
        await daemon_rig.until(lambda: daemon_rig.daemon.watched.objects.has_stood(path, base))
    save(vault / path, OWN.replace("\ny\n", "\nz\n"))
    async with live() as daemon_rig:
        file = {"path": path, "content": OWN.replace("mine", "mine too"), "base_hash": base}
        pushed = await post(daemon_rig, "/api/sync/push", {"root": "", "files": [file]})

    assert [one["status"] for one in pushed["results"]] == ["merged"]
    assert (vault / path).read_text() == OWN.replace("mine", "mine too").replace("\ny\n", "\nz\n")


async def test_what_a_person_saved_before_anybody_noticed_is_merged_with_what_was_read(
    daemon_rig: DaemonRig, vault
):
    base = (await get(daemon_rig, NOTE))["hash"]
    save(vault / PATH, OWN.replace("\ny\n", "\nz\n"))
    status, answer = await call(
        daemon_rig,
        "PATCH",
        NOTE,
        json={"section": "Focus", "content": "other"},
        headers={"If-Match": f'"{base}"'},
    )
    assert (status, answer["merged"]) == (200, True)


@pytest.mark.parametrize(("scopes", "status"), [(["Shop/**"], 409), (["Shop/**", "Open/**"], 200)])
async def test_a_text_of_before_a_move_is_a_base_for_who_may_see_that_place(
    daemon_rig: DaemonRig, vault, scopes: list[str], status: int
):
    """It was read where it was, then changed there, then moved."""
    save(vault / "Open/a.md", OWN)
    await daemon_rig.settled()
    base = (await get(daemon_rig, "/api/notes/Open/a.md"))["hash"]
    await call(
        daemon_rig, "PATCH", "/api/notes/Open/a.md", json={"section": "More", "content": "z"}
    )
    await post(daemon_rig, "/api/notes/Open/a.md/move", {"to": "Shop/a.md"})
    key = key_of(daemon_rig, "vault:read,write", paths=scopes)
    headers = {**key, "If-Match": f'"{base}"'}
    found, _ = await call(
        daemon_rig,
        "PUT",
        "/api/notes/Shop/a.md",
        json={"content": OWN.replace("mine", "more")},
        headers=headers,
    )
    assert found == status


async def test_who_may_write_and_not_read_is_shown_no_text(daemon_rig: DaemonRig):
    """Neither in a conflict of a whole text, nor of a push."""
    await get(daemon_rig, NOTE)
    key = key_of(daemon_rig, "vault:write", paths=["Shop/**"])
    ways = [name for name in WAYS if WAYS[name].method != "GET" and name not in {"delete", "move"}]
    for name in ways:
        way = WAYS[name]
        _, answer = await call(
            daemon_rig, way.method, way.path, json=way.body, headers={**key, **(way.headers or {})}
        )
        assert "mine" not in json.dumps(answer), name
