from __future__ import annotations

import os

import pytest

from parachuted.access.filter import AccessFilter
from parachuted.api.routes.files import list_folder
from parachuted.errors import NotFoundError
from parachuted.keys import AccessGrant, PathGlob
from parachuted.vault import VaultPath, VaultRoot, printable
from tests.stories.daemon_rig import save

ALL = AccessGrant(alternatives=None)


def names(vault, folder: str = "", *globs: str) -> list[str]:
    grant = (
        AccessGrant(alternatives=((tuple(PathGlob(glob) for glob in globs),),)) if globs else ALL
    )
    return [
        printable(entry.path)
        for entry in list_folder(VaultPath(folder), AccessFilter(VaultRoot(vault), grant))
    ]


def test_a_folder_is_shown_when_something_below_may_be_seen(vault):
    for path in ("Projects/garden/plan.md", "Projects/attic/old.md", "Daily/a.md", "root.md"):
        save(vault / path, "x")

    assert names(vault, "", "Projects/garden/**") == ["Projects"]
    assert names(vault, "Projects", "Projects/garden/**") == ["Projects/garden"]
    assert names(vault, "Projects/garden", "Projects/garden/**") == ["Projects/garden/plan.md"]
    with pytest.raises(NotFoundError, match=r"^Daily is not in the vault$"):
        names(vault, "Daily", "Projects/garden/**")


def test_links_into_what_the_caller_may_not_see_are_not_there(vault):
    save(vault / "Daily/a.md", "x")
    save(vault / "Projects/plan.md", "x")
    (vault / "Projects/in.md").symlink_to("plan.md")
    (vault / "Projects/out.md").symlink_to("../Daily/a.md")
    (vault / "Projects/door").symlink_to("../Daily")
    (vault / "Projects/loop").symlink_to("loop")
    (vault / "Projects/etc").symlink_to("/etc")

    assert names(vault, "Projects", "Projects/**") == ["Projects/in.md", "Projects/plan.md"]
    assert names(vault, "Projects") == [
        "Projects/door",
        "Projects/in.md",
        "Projects/out.md",
        "Projects/plan.md",
    ]
    with pytest.raises(NotFoundError):
        names(vault, "Projects/door", "Projects/**")
    assert names(vault, "Projects/door") == ["Projects/door/a.md"]


def test_odd_things_are_passed_over(vault):
    os.mkfifo(vault / "pipe")
    save(vault / ".hidden/a.md", "x")
    save(vault / ".agents/a.md", "x")
    (vault / "line\nbreak.md").write_text("x")
    (vault / os.fsdecode(b"not-utf8-\xff.md")).write_text("x")

    assert names(vault) == [".agents", "not-utf8-\\xff.md"]
