"""Settings over HTTP: shown with their meaning and source, changed for the next start."""

from __future__ import annotations

from pathlib import Path

from parachuted.config import load_settings
from tests.api.calls import call, expect, get, key_of, refused
from tests.stories.daemon_rig import DaemonRig, Live

EVERYTHING = "*:read,write,admin"


def by_key(answer: dict) -> dict[str, dict]:
    return {one["key"]: one for one in answer["settings"]}


async def test_each_setting_tells_its_value_its_meaning_and_where_that_comes_from(live: Live):
    async with live(history__keep_days=7) as daemon_rig:
        answer = await get(daemon_rig, "/api/settings")

    found = by_key(answer)
    assert found["history.keep_days"]["value"] == "7"
    assert found["history.keep_days"]["next"] == found["history.keep_days"]["default"] == "90"
    assert found["history.keep_days"]["kind"] == "whole number"
    assert found["agent.backend"]["means"].startswith("What does the work")
    assert found["agent.backend"]["source"] is None
    assert all(one["editable"] for one in found.values() if one["source"] is None)
    assert answer["restart"] is True


async def test_a_change_is_written_and_counts_from_the_next_start(daemon_rig: DaemonRig):
    status, answer = await call(
        daemon_rig, "PUT", "/api/settings/budget.runs_per_hour", json={"value": "7"}
    )
    changed = by_key(answer)["budget.runs_per_hour"]
    assert (status, changed["value"], changed["next"]) == (200, "60", "7")
    assert changed["source"].startswith("config.yaml line ")
    assert load_settings(daemon_rig.daemon.watched.home, {}, {}).budget.runs_per_hour == 7
    await call(daemon_rig, "PUT", "/api/settings/budget.runs_per_hour", json={"value": ""})
    assert load_settings(daemon_rig.daemon.watched.home, {}, {}).budget.runs_per_hour == 60


async def test_who_needs_a_key_changes_at_once(daemon_rig: DaemonRig):
    _, answer = await call(daemon_rig, "PUT", "/api/settings/auth_mode", json={"value": "disabled"})
    assert by_key(answer)["auth_mode"]["value"] == "disabled"
    assert daemon_rig.daemon.authenticator.mode == "disabled"


async def test_a_value_that_does_not_fit_and_a_setting_that_is_not_there_change_nothing(
    daemon_rig: DaemonRig,
):
    before = (daemon_rig.daemon.watched.home / "config.yaml").exists()
    status, why = await refused(daemon_rig, "PUT", "/api/settings/port", json={"value": "many"})
    assert (status, "port" in why, "was not changed" in why) == (409, True, True)
    await expect(daemon_rig, 404, "PUT", "/api/settings/prot", json={"value": "1"})
    assert (daemon_rig.daemon.watched.home / "config.yaml").exists() is before


async def test_only_a_key_that_may_do_everything_changes_one(daemon_rig: DaemonRig):
    path, body = "/api/settings/agent.base_url", {"value": "https://stranger.example"}
    for scopes, paths, expected in (
        (["*:read,write"], [], 403),
        (["system:read,write,admin"], [], 403),
        ([EVERYTHING], ["Kitchen/**"], 403),
        ([EVERYTHING], [], 200),
    ):
        key = key_of(daemon_rig, *scopes, paths=paths)
        status, _ = await call(daemon_rig, "PUT", path, headers=key, json=body)
        assert (scopes, paths, status) == (scopes, paths, expected)
    await expect(daemon_rig, 403, "GET", "/api/settings", headers=key_of(daemon_rig, "*:read"))


async def test_another_vault_is_made_or_chosen_for_the_next_start(
    tmp_path: Path, daemon_rig: DaemonRig
):
    new, mine = tmp_path / "new", tmp_path / "mine"
    mine.mkdir()
    (mine / "note.md").write_text("# Mine\n")
    home = daemon_rig.daemon.watched.home
    status, answer = await call(
        daemon_rig, "POST", "/api/vault", json={"folder": str(new), "make": True}
    )
    assert (status, answer["folder"], answer["restart"]) == (200, str(new), True)
    assert (new / "Welcome.md").exists()
    assert load_settings(home, {}, {}).vault == new
    await call(daemon_rig, "POST", "/api/vault", json={"folder": str(mine), "make": True})
    assert load_settings(home, {}, {}).vault == mine
    assert [path.name for path in mine.iterdir()] == ["note.md"]


async def test_a_folder_that_cannot_be_the_vault_is_refused_with_the_reason(
    vault: Path, tmp_path: Path, daemon_rig: DaemonRig
):
    (tmp_path / "file").write_text("")
    home = daemon_rig.daemon.watched.home
    before = (home / "config.yaml").exists()
    for body, expected, why in (
        ({"folder": str(tmp_path / "none")}, 409, "there is no vault at"),
        ({"folder": "Notes"}, 422, "begin it with / or ~/"),
        ({"folder": "~nosuchuser/x"}, 422, "is not a folder's path"),
        ({"folder": "/a\0b"}, 422, "is not a folder's path"),
        ({"folder": f"/{'a' * 300}"}, 422, "is not a folder's path"),
        ({"folder": str(vault / "new"), "make": True}, 409, "lies in the present vault"),
        ({"folder": str(tmp_path / "file"), "make": True}, 409, "cannot be made"),
        ({"folder": str(home.parent)}, 409, "settings and keys"),
    ):
        await expect(daemon_rig, expected, "POST", "/api/vault", json=body, says=why)
    assert (home / "config.yaml").exists() is before
    narrow = key_of(daemon_rig, "system:read,write,admin")
    body = {"folder": str(tmp_path / "none"), "make": True}
    await expect(daemon_rig, 403, "POST", "/api/vault", headers=narrow, json=body)
    assert not (tmp_path / "none").exists()
    assert not (vault / "new").exists()
