"""Who may read the activity log."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from parachuted.access.caller import Caller, WorkRequest
from parachuted.access.grant import CallerGrant, grant_of
from parachuted.audit.activity import ActivityLog
from parachuted.errors import ActRefusedError
from parachuted.modules.hosting.module_context import ModuleActivity
from parachuted.vault import VaultRoot
from tests.modules.small_modules import approve, write_module

DAY, NOON = "2026-11-23", datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture
def make(tmp_path):
    (tmp_path / "vault").mkdir()

    def one(caller: Caller, *, manifest: str = "", trust: str = "trusted") -> ModuleActivity:
        folder = write_module(tmp_path / "daily", "", manifest=manifest)
        approved = replace(approve(folder), trust=trust)
        log = ActivityLog(VaultRoot(tmp_path / "vault"), lambda: NOON)
        return ModuleActivity(approved, log, lambda: caller)

    return one


async def test_an_untrusted_module_logs_and_reads_if_it_may_read_all(make):
    await make(Caller(), trust="untrusted").log("hello")
    with pytest.raises(ActRefusedError, match="quotes any note"):
        await make(Caller(), trust="untrusted").read(DAY)

    all_of_it = make(Caller(), manifest="permissions: {read: ['**']}\n", trust="untrusted")
    assert [one.summary for one in await all_of_it.read(DAY)] == ["hello"]


async def test_a_key_of_some_paths_and_one_that_has_ended_read_nothing(make):
    limited = Caller(grant=CallerGrant(reads=grant_of(["Daily/**"])))
    with pytest.raises(ActRefusedError):
        await make(limited).read(DAY)
    for work in (
        make(Caller(request=WorkRequest(is_valid=lambda: False))).read(DAY),
        make(Caller(request=WorkRequest(is_valid=lambda: False))).log("x"),
    ):
        with pytest.raises(ActRefusedError):
            await work
