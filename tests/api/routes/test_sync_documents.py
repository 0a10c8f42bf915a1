"""Sync documents: rows 31 to 35 have the shapes that the app and the OpenAPI document promise."""

from __future__ import annotations

import base64
import hashlib

from tests.api.shapes import answer_of
from tests.stories.daemon_rig import Live, save


async def test_rows_31_to_35_hold_to_the_letter(live: Live, vault):
    save(vault / "Daily/a.md", "a\n")
    save(vault / "Daily/b.md", "b\n")
    (vault / "Daily/c.png").write_bytes(b"\x89PNG")
    base = hashlib.sha256(b"before\n").hexdigest()
    sent = [
        {"path": "new.md", "content": "n\n"},
        {"path": "a.md", "content": "a, again\n"},
        {"path": "b.md", "content": "x", "base_hash": base},
        {
            "path": "c.png",
            "content": base64.b64encode(b"\xff").decode(),
            "is_binary": True,
            "base_hash": base,
        },
        {"path": "..", "content": ""},
    ]
    async with live() as daemon_rig:
        manifest = await answer_of(
            daemon_rig, "GET", "/api/sync/manifest?root=Daily&include_binary=true"
        )
        dated = await answer_of(
            daemon_rig, "GET", "/api/sync/manifest?root=Daily&date=2026-11-22&quick=true"
        )
        changes = await answer_of(daemon_rig, "GET", "/api/sync/changes?root=Daily&since=0")
        pulled = await answer_of(
            daemon_rig,
            "POST",
            "/api/sync/pull",
            json={"root": "Daily", "paths": ["a.md", "c.png", "none"]},
        )
        pushed = await answer_of(
            daemon_rig, "POST", "/api/sync/push", json={"root": "Daily", "files": sent}
        )
        asked = await answer_of(
            daemon_rig, "DELETE", "/api/sync/files?root=Daily&paths=a.md&paths=b.md"
        )
        deleted = await answer_of(daemon_rig, "DELETE", "/api/sync/files?root=Daily&paths=a.md")

    assert (len(manifest["files"]), dated["files"], len(changes["files"])) == (3, [], 3)
    assert (len(pulled["files"]), len(pulled["errors"])) == (2, 1)
    assert [result["status"] for result in pushed["results"]] == [
        "created",
        "written",
        "conflict",
        "conflict",
        "refused",
    ]
    assert [conflict["is_binary"] for conflict in pushed["conflicts"]] == [False, True]
    assert (asked["confirm_needed"], deleted["deleted"]) == (True, 1)
