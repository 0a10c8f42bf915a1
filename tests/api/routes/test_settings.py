"""Settings over HTTP: shown with their meaning and source, changed for the next start."""

from __future__ import annotations

from pathlib import Path

from parachuted.config import load_settings
from tests.api.calls import expect, get, key_of, post, refused
from tests.stories.daemon_rig import DaemonRig, Live

EVERYTHING = "*:read,write,admin"


def by_key(answer: dict) -> dict[str, dict]:
    return {one["key"]: one for one in answer["settings"]}


async def test_each_setting_has_its_value_its_meaning_and_its_source(live: Live):
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


async def test_a_change_is_written_and_counts_from_the_next_start(home, daemon_rig: DaemonRig):
    path = "/api/settings/budget.runs_per_hour"
    answer = await expect(daemon_rig, 200, "PUT", path, json={"value": "7"})
    changed = by_key(answer)["budget.runs_per_hour"]
    assert (changed["value"], changed["next"]) == ("60", "7")
    assert changed["source"].startswith("config.yaml line ")
    assert load_settings(home, {}, {}).budget.runs_per_hour == 7
    await expect(daemon_rig, 200, "PUT", path, json={"value": ""})
    assert load_settings(home, {}, {}).budget.runs_per_hour == 60


async def test_who_needs_a_key_changes_at_once(daemon_rig: DaemonRig):
    sent = {"json": {"value": "disabled"}}
    answer = await expect(daemon_rig, 200, "PUT", "/api/settings/auth_mode", **sent)
    assert by_key(answer)["auth_mode"]["value"] == "disabled"
    assert daemon_rig.daemon.authenticator.mode == "disabled"


async def test_a_wrong_value_and_an_unknown_setting_change_nothing(home, daemon_rig: DaemonRig):
    status, why = await refused(daemon_rig, "PUT", "/api/settings/port", json={"value": "many"})
    assert (status, "port" in why, "was not changed" in why) == (409, True, True)
    await expect(daemon_rig, 404, "PUT", "/api/settings/prot", json={"value": "1"})
    assert not (home / "config.yaml").exists()


async def test_only_a_key_that_may_do_everything_changes_one(daemon_rig: DaemonRig):
    path, body = "/api/settings/agent.base_url", {"value": "https://stranger.example"}
    for scopes, paths, status in (
        ("*:read,write", [], 403),
        ("system:read,write,admin", [], 403),
        (EVERYTHING, ["Kitchen/**"], 403),
        (EVERYTHING, [], 200),
    ):
        key = key_of(daemon_rig, scopes, paths=paths)
        await expect(daemon_rig, status, "PUT", path, headers=key, json=body)
    await expect(daemon_rig, 403, "GET", "/api/settings", headers=key_of(daemon_rig, "*:read"))


async def test_another_vault_is_made_or_chosen_for_the_next_start(
    tmp_path: Path, home: Path, daemon_rig: DaemonRig
):
    new, mine = tmp_path / "new", tmp_path / "mine"
    mine.mkdir()
    (mine / "note.md").write_text("# Mine\n")
    for folder in (new, mine):
        answer = await post(daemon_rig, "/api/vault", {"folder": str(folder), "make": True})
        assert (answer["folder"], answer["restart"]) == (str(folder), True)
        assert load_settings(home, {}, {}).vault == folder
    assert (new / "Welcome.md").exists()
    assert [path.name for path in mine.iterdir()] == ["note.md"]


async def test_a_folder_that_cannot_be_the_vault_is_refused_with_the_reason(
    vault: Path, home: Path, tmp_path: Path, daemon_rig: DaemonRig
):
    (tmp_path / "file").write_text("")
    for body, status, why in (
        ({"folder": str(tmp_path / "none")}, 409, "there is no vault at"),
        ({"folder": "Notes"}, 422, "begin it with / or ~/"),
        ({"folder": "~nosuchuser/x"}, 422, "is not a folder's path"),
        ({"folder": "/a\0b"}, 422, "is not a folder's path"),
        ({"folder": f"/{'a' * 300}"}, 422, "is not a folder's path"),
        ({"folder": str(vault / "new"), "make": True}, 409, "lies in the present vault"),
        ({"folder": str(tmp_path / "file"), "make": True}, 409, "cannot be made"),
        ({"folder": str(home.parent)}, 409, "settings and keys"),
    ):
        await expect(daemon_rig, status, "POST", "/api/vault", json=body, says=why)
    narrow = key_of(daemon_rig, "system:read,write,admin")
    body = {"folder": str(tmp_path / "none"), "make": True}
    await expect(daemon_rig, 403, "POST", "/api/vault", headers=narrow, json=body)
    for made in (home / "config.yaml", tmp_path / "none", vault / "new"):
        assert not made.exists()
