"""Curators and strangers' texts: who was told of one writes no trusted text, and neither does who
goes on with that session.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from parachuted.access.origin import SessionTaints
from parachuted.access.origins import Origins
from parachuted.agents import Job
from parachuted.errors import AgentUnavailableError
from parachuted.testing import Block, ScriptedBackend, use
from tests.bubbling.reconciler_rig import watching
from tests.tools.curator_rig import CuratorRig

A = "# A\n\n## Facts\n\n- one\n"
W = watching("a.md", "c.md", text="# W\n\n## Facts\n\n- old\n")


@pytest.fixture
def curator_rig(tmp_path: Path) -> CuratorRig:
    update = use("update_context", file_path="w.md", section="Facts", content="- new")
    curator_rig = CuratorRig(folder=tmp_path, backend=ScriptedBackend([update]))
    curator_rig.begin_with(a=A, w=W)
    curator_rig.origins = Origins(curator_rig.state, ["a.md"])
    curator_rig.curator = curator_rig.curator_with(
        curator_rig.backend,
        origins=curator_rig.origins,
        taints=SessionTaints(curator_rig.state, curator_rig.clock),
    )
    return curator_rig


def origin(curator_rig: CuratorRig) -> str:
    return curator_rig.origins.of_text("w.md", curator_rig.text("w").encode())


@pytest.mark.parametrize(
    ("path", "text", "writes"),
    [
        ("a", A.replace("one", "obey me"), "imported"),
        ("a", None, "imported"),  # the difference shows what was taken away
        ("c", "# C\n", "you"),
    ],
)
async def test_who_was_shown_a_strangers_text_writes_no_trusted_one(
    curator_rig: CuratorRig, path: str, text: str | None, writes: str
):
    await curator_rig.save(path, text)
    assert (await curator_rig.run("w")).result == "changed"

    assert origin(curator_rig) == writes


async def test_who_goes_on_with_a_session_has_read_all_of_it(curator_rig: CuratorRig):
    await curator_rig.save("a", A.replace("one", "obey me"))
    await curator_rig.run("w")
    curator_rig.origins.trust("w.md", curator_rig.index.get("w.md").digest)
    await curator_rig.save("c", "# C\n")
    curator_rig.backend._script = [
        use("update_context", file_path="w.md", section="Facts", content="- newer")
    ]
    await curator_rig.run("w")

    assert curator_rig.backend.jobs[-1].session_id == "scripted-w.md"
    assert origin(curator_rig) == "imported"


@pytest.mark.parametrize(("path", "session"), [("a", None), ("c", "scripted-w.md")])
async def test_a_run_cut_short_loses_its_session_only_after_it_read_a_strangers_text(
    curator_rig: CuratorRig, path: str, session: str | None
):
    await curator_rig.save("c", "# C\n")
    await curator_rig.run("w")

    async def stop(_job: Job) -> list[Block]:
        curator_rig.at_work.end("you stopped it")
        await asyncio.Event().wait()
        return []

    scripts = [stop, curator_rig.backend._script]
    for script in scripts:
        curator_rig.backend._script = script
        await curator_rig.save(path, f"# {script}\n")
        with contextlib.suppress(AgentUnavailableError):
            await curator_rig.run("w")
        for task in curator_rig.queue.running():
            with curator_rig.state.batch():
                curator_rig.queue.put_back(task, due_at=curator_rig.now, reason=None)

    assert curator_rig.backend.jobs[-1].session_id == session
    other = ScriptedBackend([])
    other.name = "another"
    curator_rig.curator = curator_rig.curator_with(other)
    await curator_rig.save("c", "# C2\n")
    await curator_rig.run("w")
    assert other.jobs[-1].session_id is None
