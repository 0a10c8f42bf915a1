"""The count of the files that an act enters: benchmarks/walk.py."""

from __future__ import annotations

from benchmarks.walk import find_source, take


async def test_a_walk_has_the_files_that_an_act_enters_and_no_library():
    save, get = await take(["save", "get"], settle_s=0.2)

    assert {"parachuted/bubbling/reconciler.py", "parachuted/agents/offline.py"} <= set(save.files)
    assert "parachuted/api/routes/notes.py" in get.files
    assert "parachuted/agents/offline.py" not in get.files
    assert 0 < get.lines < save.lines
    assert all(file.startswith(("parachuted/", "modules/")) for file in save.files + get.files)


def test_code_of_an_approved_copy_is_the_modules_own():
    assert find_source("/home/eve/.parachute/modules/chat/0a1b/module.py") == (
        "modules/chat/module.py"
    )
    assert find_source("/usr/lib/python3/asyncio/tasks.py") is None
