"""A text is not had by its digest: an edit may be decided on a text that stood where the file is,
or was, and on no other.

Every way by which a digest can be named as a base, through a running daemon: what comes of it tells
nothing of another note's text.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

import pytest

from tests.api.calls import call, digest, get, key_of, post
from tests.stories.daemon_rig import DaemonRig, Live, save

CANARY = "canary7141"
HIDDEN = f"# Own\n\n## Focus\n\n{CANARY}\n\n## More\n\nx\n"
OWN = "# Own\n\n## Focus\n\nmine\n\n## More\n\ny\n"
PATH = "Shop/own.md"
NOTE = f"/api/notes/{PATH}"
FOCUS = {"section": "Focus", "content": "other"}


def if_match(base: str) -> dict[str, str]:
    return {"If-Match": f'"{base}"'}


@dataclass(frozen=True, kw_only=True)
class CallWithBase:
    """A call that names the hidden text as its base, in its header unless it has other headers."""

    method: str
    path: str = NOTE
    body: Mapping[str, object] | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: if_match(digest(HIDDEN)))

    async def by(self, daemon_rig: DaemonRig, key: Mapping[str, str]) -> str:
        """The answer to who has that key."""
        headers = {**key, **self.headers}
        _, answer = await call(daemon_rig, self.method, self.path, json=self.body, headers=headers)
        return json.dumps(answer)


PUSHED = {"path": "own.md", "content": "# Own\n", "base_hash": digest(HIDDEN)}
WRITTEN = {"path": PATH, "content": "# Own\n"}
WAYS = {
    "patch a section": CallWithBase(method="PATCH", body=FOCUS),
    "patch another section": CallWithBase(method="PATCH", body={**FOCUS, "section": "More"}),
    "append": CallWithBase(
        method="PATCH", body={"section": "More", "content": "o", "mode": "append"}
    ),
    "patch a key": CallWithBase(method="PATCH", body={"key": "tags", "value": ["a"]}),
    "put": CallWithBase(method="PUT", body={"content": "# Own\n\nother\n"}),
    "put nothing": CallWithBase(method="PUT", body={"content": ""}),
    "delete": CallWithBase(method="DELETE"),
    "move": CallWithBase(method="POST", path=f"{NOTE}/move", body={"to": "Shop/other.md"}),
    "write": CallWithBase(
        method="PUT",
        path="/api/write",
        body={**WRITTEN, "base_hash": digest(HIDDEN)},
        headers={},
    ),
    "write if": CallWithBase(method="PUT", path="/api/write", body=WRITTEN),
    "put a file": CallWithBase(
        method="PUT", path=f"/api/files/{PATH}", body={"content": "# Own\n"}
    ),
    "push": CallWithBase(
        method="POST",
        path="/api/sync/push",
        body={"root": "Shop", "files": [PUSHED]},
        headers={},
    ),
    "a version": CallWithBase(method="GET", path=f"{NOTE}?version={digest(HIDDEN)}", headers={}),
    "restore": CallWithBase(
        method="POST",
        path="/api/history/restore",
        body={"path": PATH, "version": digest(HIDDEN)},
        headers={},
    ),
}


@pytest.fixture
async def daemon_rig(live: Live, vault) -> AsyncIterator[DaemonRig]:
    """A daemon that keeps a private text, which stands nowhere now."""
    save(vault / "Private/x.md", HIDDEN)
    save(vault / PATH, OWN)
    async with live() as daemon_rig:
        await get(daemon_rig, "/api/notes/Private/x.md")
        await call(daemon_rig, "PUT", "/api/notes/Private/x.md", json={"content": "# gone\n"})
        assert daemon_rig.daemon.watched.objects.get(digest(HIDDEN)) == HIDDEN.encode()
        yield daemon_rig


async def test_a_digest_gives_no_one_another_notes_text(daemon_rig: DaemonRig, vault):
    key = key_of(daemon_rig, "vault:read,write", "curator:read,write", paths=["Shop/**"])
    for name, way in WAYS.items():
        save(vault / PATH, OWN)
        await daemon_rig.settled()
        assert CANARY not in await way.by(daemon_rig, key), name
        for file in vault.joinpath("Shop").iterdir():
            assert CANARY not in file.read_text(), (name, file)

    # nor in the conflict of a restore
    save(vault / PATH, OWN)
    await daemon_rig.settled()
    first = (await get(daemon_rig, NOTE))["hash"]
    await call(daemon_rig, "PUT", NOTE, json={"content": "# Own\n\n## Focus\n\nelse\n"})
    body = {"path": PATH, "version": first, "base": digest(HIDDEN)}
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
    key = key_of(daemon_rig, "vault:read,write", paths=["Shop/**"])
    answers = []
    for base in (digest(HIDDEN), digest("nobody has this")):
        headers = {**key, **if_match(base)}
        status, answer = await call(daemon_rig, "PATCH", NOTE, json=FOCUS, headers=headers)
        answers.append((status, answer["conflict"], answer["message"].replace(base[:12], "")))
    assert answers[0] == answers[1]


async def test_what_was_read_there_is_a_base_also_after_a_restart(live: Live, vault):
    changed, bases = OWN.replace("mine", "mine too"), {}
    paths = [PATH, "Shop/own.txt"]
    for path in paths:
        save(vault / path, OWN)
    async with live() as daemon_rig:
        pulled = await post(daemon_rig, "/api/sync/pull", {"root": "", "paths": paths})
        bases = {one["path"]: one["hash"] for one in pulled["files"]}
        objects = daemon_rig.daemon.watched.objects
        await daemon_rig.until(lambda: all(objects.has_stood(*pair) for pair in bases.items()))
    for path in paths:
        save(vault / path, OWN.replace("\ny\n", "\nz\n"))
    async with live() as daemon_rig:
        files = [{"path": path, "content": changed, "base_hash": bases[path]} for path in paths]
        pushed = await post(daemon_rig, "/api/sync/push", {"root": "", "files": files})

    assert [one["status"] for one in pushed["results"]] == ["merged", "merged"]
    for path in paths:
        assert (vault / path).read_text() == changed.replace("\ny\n", "\nz\n")


async def test_a_save_that_no_one_noticed_yet_is_merged_with_what_was_read(
    daemon_rig: DaemonRig, vault
):
    base = (await get(daemon_rig, NOTE))["hash"]
    save(vault / PATH, OWN.replace("\ny\n", "\nz\n"))
    status, answer = await call(daemon_rig, "PATCH", NOTE, json=FOCUS, headers=if_match(base))
    assert (status, answer["merged"]) == (200, True)


async def test_a_text_of_before_a_move_is_a_base_for_who_may_see_that_place(
    daemon_rig: DaemonRig, vault
):
    """It was read where it was, then changed there, then moved."""
    save(vault / "Open/a.md", OWN)
    await daemon_rig.settled()
    base = (await get(daemon_rig, "/api/notes/Open/a.md"))["hash"]
    change = {"section": "More", "content": "z"}
    await call(daemon_rig, "PATCH", "/api/notes/Open/a.md", json=change)
    await post(daemon_rig, "/api/notes/Open/a.md/move", {"to": "Shop/a.md"})
    body = {"content": OWN.replace("mine", "more")}
    for paths, expected in ((["Shop/**"], 409), (["Shop/**", "Open/**"], 200)):
        key = key_of(daemon_rig, "vault:read,write", paths=paths)
        status, _ = await call(
            daemon_rig, "PUT", "/api/notes/Shop/a.md", json=body, headers={**key, **if_match(base)}
        )
        assert status == expected, paths


async def test_who_may_write_and_not_read_is_shown_no_text(daemon_rig: DaemonRig):
    """Neither in a conflict of a whole text, nor of a push."""
    await get(daemon_rig, NOTE)
    key = key_of(daemon_rig, "vault:write", paths=["Shop/**"])
    ways = [name for name in WAYS if WAYS[name].method != "GET" and name not in {"delete", "move"}]
    for name in ways:
        assert "mine" not in await WAYS[name].by(daemon_rig, key), name
