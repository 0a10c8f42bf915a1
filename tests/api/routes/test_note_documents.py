"""Note documents: every answer about notes has the shape that its route declares, and not a field
more.
"""

from __future__ import annotations

import aiohttp

from parachuted.api.routes.note_reading import NoteMapResponse, NoteResponse
from tests.api.shapes import answer_of, strict
from tests.stories.life import Live, save

NOTE = "/api/notes/{path}"


async def test_what_notes_are_given_is_what_is_declared(live: Live, vault):
    save(vault / "a.md", "---\nk: [x, {y: z}]\n---\n# A\n[[b]] [[no#h|l]]\n## S\n")
    save(vault / "b.md", "# B\n")
    async with live() as life:
        await life.until(
            lambda: life.daemon.search.count() == 2 and not life.daemon.search.is_behind
        )
        assert len((await answer_of(life, "GET", "/api/notes"))["notes"]) == 2
        assert (
            await answer_of(life, "GET", "/api/notes/b.md/backlinks", name=f"{NOTE}/backlinks")
        )["count"] == 1
        assert len((await answer_of(life, "GET", "/api/links/unresolved"))["links"]) == 1
        await answer_of(
            life, "PATCH", "/api/notes/a.md", name=NOTE, json={"key": "k", "value": "v"}
        )
        await answer_of(life, "PUT", "/api/notes/c.md", name=NOTE, status=201, data=b"x")
        assert (
            await answer_of(
                life, "POST", "/api/notes/b.md/move", name=f"{NOTE}/move", json={"to": "d.md"}
            )
        )["rewritten"]
        await answer_of(life, "DELETE", "/api/notes/c.md", name=NOTE)
        for query, shape in (("", NoteResponse), ("?as=map", NoteMapResponse)):
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{life.url}/api/notes/a.md{query}") as answer,
            ):
                strict(shape, await answer.read())
