"""Every place in a call where a path can stand x ways out of the vault: nothing outside is read,
changed, or told to be there.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote

import aiohttp
import pytest

from tests.api.calls import get
from tests.api.places import INSIDE, Place, places
from tests.stories.daemon_rig import DaemonRig, save

SECRET = b"canary 77aa"
WAYS = (
    *("../{f}", "../../{f}", "Projects/../../{f}", "./../{f}", "{a}", "/{a}", "//{a}"),
    *("file://{a}", "~/{f}", "~root/{f}", "..\\{f}"),
    *("..%2f{f}", "%2e%2e/{f}", "%2e%2e%2f{f}", "%252e%252e%252f{f}", "..%5c{f}", "..%00/{f}"),
    *("../{f}%00", "../{f}%00.md", "..;/{f}"),
    *("Projects%2F..%2F..%2F{f}", "%2F{a}", "out%2F{f}", "Projects%2fout%2f{f}"),
    *(".git%2Fconfig", "%2F..%2F{f}"),
    *("....//{f}", "..%c0%af{f}", "%c0%ae%c0%ae/{f}", "%e0%80%ae%e0%80%ae/{f}"),
    *("..%ef%bc%8f{f}", "%E2%80%A5/{f}", ".%2e/{f}", "..%0a/{f}"),
    *("out/{f}", "out.md", "Projects/out/{f}", "Projects/../out.md", "loop/loop/{f}"),
    *(".git/config", ".parachute/x", ".env", "a/.env"),
    *("Projects/garden/AGENTS.md/../../../../{f}", "../vault/../{f}", "../{v}-other/{f}"),
    *("/proc/self/environ", "/etc/passwd", "${HOME}/{f}"),
    *("C:\\{f}", "\\\\?\\{a}", "CON", "{f}:stream", "..", ".", "/", "", "*", "../*"),
    "%2e%2e%2f%2e%2e%2f{f}",
)


@pytest.fixture
def vault() -> Iterator[Path]:
    """An empty vault at a short path: an answer that cuts a long value off would show it beside
    what was sent.
    """
    with TemporaryDirectory(prefix="pd-") as folder:
        made = Path(folder).resolve() / "vault"
        made.mkdir()
        yield made


@pytest.fixture
def outside(vault: Path) -> Path:
    """What stands beside the vault, and ways to it."""
    save(vault / INSIDE, "# Garden\n\n## Facts\n")
    save(vault / ".git/config", f"{SECRET.decode()}\n")
    save(vault / ".env", f"{SECRET.decode()}\n")
    file = vault.parent / "outside.md"
    file.write_bytes(SECRET)
    (vault.parent / "vault-other").mkdir()
    (vault.parent / "vault-other/outside.md").write_bytes(SECRET)
    (vault / "out").symlink_to(vault.parent)
    (vault / "Projects/out").symlink_to("../..")
    (vault / "out.md").symlink_to(file)
    (vault / "loop").symlink_to("loop")
    return file


@pytest.fixture
def daemon_rig(own_daemon: DaemonRig) -> DaemonRig:
    """It has this vault from its start."""
    return own_daemon


def around(vault: Path) -> dict[str, bytes]:
    """All that is beside the vault, but for the daemon's own home."""
    files = (path for path in vault.parent.rglob("*") if path.is_file() and not path.is_symlink())
    kept = (
        path
        for path in files
        if not path.is_relative_to(vault.parent / "home")
        and (not path.is_relative_to(vault) or ".git" in path.parts)
    )
    return {str(path): path.read_bytes() for path in kept}


def spelled(way: str, outside: Path) -> str:
    return way.replace("{f}", outside.name).replace("{a}", str(outside)).replace("{v}", "vault")


def said(body: bytes, *values: str) -> bytes:
    """An answer without the value that was sent, and without what differs each time."""
    body = re.sub(
        rb'"request_id":"[^"]*"|"(id|key|timestamp|modified|lastModified|server_time|added_at|created_at)":[^,}]*',
        b"",
        body,
    )
    for value in values:
        body = body.replace(value.encode(), b"").replace(Path(value).name.encode(), b"")
    return body


async def test_no_way_leads_out_of_the_vault(
    vault: Path,
    outside: Path,
    session: aiohttp.ClientSession,
    torture: bool,  # noqa: FBT001
    daemon_rig: DaemonRig,
):
    daemon_rig.daemon.agents.worker.pause()
    found = list(places(await get(daemon_rig, "/api/openapi.json")))
    following, before, reported = itertools.cycle(WAYS), around(vault), []
    for place in found:
        for way in WAYS if torture else itertools.islice(following, 11):
            if not (vault / INSIDE).is_file():
                save(vault / INSIDE, "# Garden\n\n## Facts\n")
            asked = spelled(way, outside)
            status, body = await place.tried(
                session, daemon_rig, asked, {}, raw=is_spelled(place, way)
            )
            for sent in (asked, repr(asked)[1:-1], unquote(asked)):  # a sentence may have it
                body = body.replace(json.dumps(sent)[1:-1].encode(), b"")
            is_telling = status >= 400 and str(vault.parent).encode() in body
            if SECRET in body or b"root:" in body or is_telling or status not in {*range(500), 501}:
                reported.append((str(place), way, status, body[:300]))
    assert not reported, "\n".join(map(str, reported))
    assert around(vault) == before


def is_spelled(place: Place, way: str) -> bool:
    return place.where.startswith("path ") and not set(way) & set(" \\*$\n")


async def test_whether_something_is_outside_is_not_reported(
    vault: Path, outside: Path, session: aiohttp.ClientSession, daemon_rig: DaemonRig
):
    pairs = (
        ("../outside.md", "../missing.md"),
        ("out/outside.md", "out/missing.md"),
        (str(outside), str(outside.with_name("missing.md"))),
    )
    # texts that are no paths; what was added before is told when it is taken away, or added again
    texts = {"content", "label", "q", "value", "name"}
    adding = ("/remove", "/auth/keys", "/api/agents", "/api/skills", "/api/mcps")
    daemon_rig.daemon.agents.worker.pause()
    differing = []
    for place in places(await get(daemon_rig, "/api/openapi.json")):
        if place.where.partition(" ")[2] in texts or place.path.endswith(adding):
            continue
        for pair in pairs:
            if not (vault / INSIDE).is_file():
                save(vault / INSIDE, "# Garden\n\n## Facts\n")
            one, other = [await place.tried(session, daemon_rig, value, {}) for value in pair]
            if (one[0], said(one[1], *pair)) != (other[0], said(other[1], *pair)):
                differing.append((str(place), pair, one, other))
    assert not differing, "\n".join(map(str, differing))
