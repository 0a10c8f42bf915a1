"""Note documents: every answer about notes has the shape that its route declares, and not a field
more.
"""

from __future__ import annotations

import aiohttp

from parachuted.api.routes.note_reading import NoteMapResponse, NoteResponse
from tests.api.shapes import answer_of, strict
from tests.stories.daemon_rig import Live, save

NOTE = "/api/notes/{path}"


async def test_what_notes_are_given_is_what_is_declared(live: Live, vault):
    save(vault / "a.md", "---\nk: [x, {y: z}]\n---\n# A\n[[b]] [[no#h|l]]\n## S\n")
    save(vault / "b.md", "# B\n")
    async with live() as daemon_rig:
        await daemon_rig.indexed(2)
        assert len((await answer_of(daemon_rig, "GET", "/api/notes"))["notes"]) == 2
        assert (
            await answer_of(
                daemon_rig, "GET", "/api/notes/b.md/backlinks", name=f"{NOTE}/backlinks"
            )
        )["count"] == 1
        assert len((await answer_of(daemon_rig, "GET", "/api/links/unresolved"))["links"]) == 1
        await answer_of(
            daemon_rig, "PATCH", "/api/notes/a.md", name=NOTE, json={"key": "k", "value": "v"}
        )
        await answer_of(daemon_rig, "PUT", "/api/notes/c.md", name=NOTE, status=201, data=b"x")
        assert (
            await answer_of(
                daemon_rig, "POST", "/api/notes/b.md/move", name=f"{NOTE}/move", json={"to": "d.md"}
            )
        )["rewritten"]
        await answer_of(daemon_rig, "DELETE", "/api/notes/c.md", name=NOTE)
        for query, shape in (("", NoteResponse), ("?as=map", NoteMapResponse)):
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{daemon_rig.url}/api/notes/a.md{query}") as answer,
            ):
                strict(shape, await answer.read())
