"""Context documents: what is said of contexts and prompts has the shapes that the app and the
OpenAPI document promise.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.api.routes.contexts import ContextFoldersResponse
from tests.api.shapes import answer_of, strict
from tests.stories.daemon_rig import Live, note, save


@pytest.fixture
def tree(vault: Path) -> Path:
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "Projects/garden/CLAUDE.md", note("Garden"))
    save(vault / "Chat/contexts/garden-context.md", "# Old\n\n## Plans\n- beans\n")
    return vault


async def test_rows_23_to_26_hold_to_the_letter(live: Live, tree: Path):
    session = "/api/contexts/session/{id}"
    async with live() as daemon_rig:
        folders = await answer_of(daemon_rig, "GET", "/api/contexts/folders")
        chain = await answer_of(
            daemon_rig, "GET", "/api/contexts/chain?folders=Projects/garden,Nowhere&max_tokens=10"
        )
        put = await answer_of(
            daemon_rig,
            "PUT",
            "/api/contexts/session/s%201",
            name=session,
            json={"folder_paths": ["Projects/garden"]},
        )
        got = await answer_of(daemon_rig, "GET", "/api/contexts/session/s%201", name=session)
        added = await answer_of(
            daemon_rig,
            "POST",
            "/api/contexts/session/s%201/add",
            name=f"{session}/add",
            json={"folder_path": ""},
        )
        gone = await answer_of(
            daemon_rig,
            "POST",
            "/api/contexts/session/s%201/remove",
            name=f"{session}/remove",
            json={"folderPath": "Projects/garden"},
        )
        preview = await answer_of(
            daemon_rig,
            "GET",
            "/api/prompt/preview?contexts=.,Projects/garden&workingDirectory=Projects/garden",
        )

    assert (folders["count"], chain["truncated"], put, got["session_id"]) == (2, True, got, "s 1")
    assert (got["folder_paths"], added["folder_paths"], gone["folder_paths"]) == (
        ["Projects/garden"],
        ["Projects/garden", ""],
        [""],
    )
    assert preview["contextFiles"] == ["AGENTS.md", "Projects/garden/CLAUDE.md"]


async def test_the_migration_s_plan_and_its_outcome_hold_too(live: Live, tree: Path):
    async with live() as daemon_rig:
        plan = await answer_of(daemon_rig, "GET", "/api/contexts/migration")
        done = await answer_of(daemon_rig, "POST", "/api/contexts/migration")

    assert plan["moves"] == done["moves"]
    assert plan["count"] == 1


@pytest.mark.parametrize(
    "data", [b"{}", b'{"folders": [], "count": "0"}', b'{"folders": [], "count": 0, "more": 1}']
)
def test_the_measure_itself_is_strict(data: bytes):
    with pytest.raises((AssertionError, ValueError)):
        strict(ContextFoldersResponse, data)
