"""Bounds: what permissions, an agent's paths and a person's overrides come to together."""

from __future__ import annotations

import pytest

from parachuted.access.grant import CallerGrant
from parachuted.errors import ActRefusedError, PathRefusedError
from parachuted.keys import AccessGrant, PathGlob
from parachuted.runs.bounds import ModuleBounds
from parachuted.vault import VaultPath

DAILY = ModuleBounds.of_module(
    "daily", read=["Daily/**", "parachute/memory.md"], write=["Daily/**"]
)


def may(bounds: ModuleBounds, path: str) -> str:
    return ("r" if bounds.may_read(path) else "") + ("w" if bounds.may_write(path) else "")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("Daily/a.md", "rw"),
        ("parachute/memory.md", "r"),
        ("parachute/x.md", ""),
        ("Daily/.x.md", ""),
        ("Daily/.agents/a.md", "r"),
    ],
)
def test_permissions_name_files_and_nothing_else_is_touched(path, allowed):
    assert may(DAILY, path) == allowed


@pytest.mark.parametrize(
    "path", ["Modules/brain/module.py", "modules/x.md", "Modules", ".git/config"]
)
def test_a_key_that_may_read_all_reads_no_code_and_nothing_of_a_program(path):
    everything = ModuleBounds.of_module("daily", read=["**"], write=["**"])

    assert (may(everything, path), everything.may_enter(path)) == ("", False)
    with pytest.raises(PathRefusedError):
        everything.check_read(VaultPath(path), VaultPath(path))


def test_a_callers_paths_narrow_a_module_further_but_never_widen_it():
    key = AccessGrant(
        alternatives=(((PathGlob("Daily/a*"), PathGlob("Private/**")),), ((PathGlob("Daily/b*"),),))
    )
    limited = DAILY.limited(CallerGrant(key, key))

    assert [
        may(limited, path) for path in ("Daily/a.md", "Daily/b.md", "Daily/c.md", "Private/a.md")
    ] == ["rw", "rw", "", ""]
    assert (limited.may_enter("Daily"), limited.may_enter("Private")) == (True, False)
    assert DAILY.limited(CallerGrant()) is DAILY
    with pytest.raises(ActRefusedError, match="the paths of the module or the key that called"):
        limited.check_read(VaultPath("Daily/c.md"), VaultPath("Daily/c.md"))


def test_both_ends_of_a_link_are_judged_and_where_it_leads_is_not_reported():
    inside, outside = VaultPath("Daily/a.md"), VaultPath("Private/a.md")
    for check in (DAILY.check_read, DAILY.check_write):
        check(inside, VaultPath("Daily/b.md"))
        with pytest.raises(ActRefusedError, match=r"what the link Daily/a\.md leads to") as refused:
            check(inside, outside)
        assert "Private" not in refused.value.message
        with pytest.raises(ActRefusedError):
            check(outside, inside)
    with pytest.raises(PathRefusedError):
        DAILY.check_write(VaultPath("Modules/daily/module.py"), inside)
