"""Who may read the activity log, and what stays known of strangers' texts, over the pipe too."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from parachuted.access.authority import Authority
from parachuted.access.grant import grant_of
from parachuted.audit.activity import ActivityLog
from parachuted.errors import ActRefusedError
from parachuted.modules.hosting.module_context import ModuleActivity
from parachuted.vault import VaultRoot
from tests.modules.small_modules import approve, write_module

DAY, NOON = "2026-11-23", datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture
def make(tmp_path):
    (tmp_path / "vault").mkdir()

    def one(authority: Authority, *, manifest: str = "", trust: str = "trusted") -> ModuleActivity:
        folder = write_module(tmp_path / "daily", "", manifest=manifest)
        approved = replace(approve(folder), trust=trust)
        log = ActivityLog(VaultRoot(tmp_path / "vault"))
        return ModuleActivity(approved, log, lambda: NOON, lambda: authority)

    return one


async def test_what_strangers_led_to_marks_who_reads_it(make):
    tainted, reader = Authority(), Authority()
    tainted.taint.read("Inbox/a.md", "web")
    await make(tainted).log("of a stranger")

    [found] = await make(reader).read(DAY)

    assert (found.summary, found.origin, reader.taint.origin) == ("of a stranger", "web", "web")


async def test_an_untrusted_module_logs_as_a_stranger_and_reads_if_it_may_read_all(make):
    await make(Authority(), trust="untrusted").log("hello")
    with pytest.raises(ActRefusedError, match="quotes any note"):
        await make(Authority(), trust="untrusted").read(DAY)

    all_of_it = make(Authority(), manifest="permissions: {read: ['**']}\n", trust="untrusted")
    assert [one.origin for one in await all_of_it.read(DAY)] == ["imported"]


async def test_a_key_of_some_paths_and_one_that_has_ended_read_nothing(make):
    limited = Authority(reads=grant_of(["Daily/**"]))
    with pytest.raises(ActRefusedError):
        await make(limited).read(DAY)
    for work in (
        make(Authority(holds=lambda: False)).read(DAY),
        make(Authority(holds=lambda: False)).log("x"),
    ):
        with pytest.raises(ActRefusedError):
            await work
