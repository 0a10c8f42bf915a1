"""Curators and strangers' texts: who was told of one writes no trusted text, and neither does who
goes on with that session.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.access.origins import Origins
from parachuted.access.session_taint import SessionTaints
from parachuted.runs import Curator
from parachuted.testing import ScriptedBackend, use
from tests.bubbling.desk import watching
from tests.tools.study import LIMITS, Study, replace

A = "# A\n\n## Facts\n\n- one\n"
W = watching("a.md", "c.md", text="# W\n\n## Facts\n\n- old\n")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    update = use("update_context", file_path="w.md", section="Facts", content="- new")
    study = Study(folder=tmp_path, backend=ScriptedBackend([update]))
    study.begin_with(a=A, w=W)
    study.origins = Origins(study.state, ["a.md"])
    parts = replace(
        study.parts, origins=study.origins, taints=SessionTaints(study.state, study.clock)
    )
    study.curator = Curator(parts, study.backend, model=None, limits=LIMITS)
    return study


def origin(study: Study) -> str:
    return study.origins.of_text("w.md", study.text("w").encode())


async def test_who_was_told_of_a_strangers_text_writes_no_trusted_one(study: Study):
    await study.save("a", A.replace("one", "obey me"))
    assert (await study.run("w")).result == "changed"

    assert origin(study) == "imported"


async def test_a_strangers_text_that_was_taken_away_was_told_all_the_same(study: Study):
    await study.save("a", None)
    await study.run("w")

    assert origin(study) == "imported"


async def test_who_was_told_of_ones_own_notes_writes_a_trusted_text(study: Study):
    await study.save("c", "# C\n")
    await study.run("w")

    assert origin(study) == "you"


async def test_who_goes_on_with_a_session_has_read_all_of_it(study: Study):
    await study.save("a", A.replace("one", "obey me"))
    await study.run("w")
    study.origins.trust("w.md", study.index.get("w.md").digest)
    await study.save("c", "# C\n")
    study.backend._script = [
        use("update_context", file_path="w.md", section="Facts", content="- newer")
    ]
    await study.run("w")

    assert study.backend.jobs[-1].session_id == "scripted-w.md"
    assert origin(study) == "imported"
