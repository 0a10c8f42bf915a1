"""Files documents: rows 28 to 30, and streams, have the shapes that the app and the OpenAPI
document promise.
"""

from __future__ import annotations

from tests.api.shapes import answer_of
from tests.stories.daemon_rig import Live, save


async def test_rows_28_to_30_hold_to_the_letter(live: Live, vault):
    save(vault / "Projects/plan.md", "a plan\n")
    (vault / "alias.md").symlink_to("Projects/plan.md")
    async with live() as daemon_rig:
        listed = await answer_of(daemon_rig, "GET", "/api/ls")
        read = await answer_of(daemon_rig, "GET", "/api/read?path=Projects/plan.md")
        written = await answer_of(
            daemon_rig,
            "PUT",
            "/api/write",
            json={"path": "Projects/plan.md", "content": "b", "encoding": "utf-8"},
        )
        placed = await answer_of(
            daemon_rig, "PUT", "/api/files/a.bin", name="/api/files/{path}", status=201, data=b"x"
        )

    assert len(listed["entries"]) == 2
    assert written["replaced"] == read["hash"]
    assert placed["created"] is True
