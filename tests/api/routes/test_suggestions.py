"""Suggestions over HTTP: seen by who sees the file, decided on by who could write it, and the same
act as a tick.
"""

from __future__ import annotations

from parachuted.suggestions import Proposal
from tests.api.calls import error, expect, get, key_of, post
from tests.stories.daemon_rig import DaemonRig, Live, save


async def propose(
    daemon_rig: DaemonRig,
    path: str,
    payload: dict[str, object],
    action: str = "update",
    **more: object,
):
    given = {"source_agent": "reflector", "reasoning": "it follows", **more}
    return await daemon_rig.daemon.vault.suggestions.propose(
        Proposal(path=path, payload=payload, action=action, **given)
    )


async def test_what_waits_is_listed_and_shown_with_its_difference(live: Live, vault):
    save(vault / "Brain/Kevin.md", "# Kevin\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "Brain/Kevin.md", {"text": "# Kevin B\n"})
        answer = await get(daemon_rig, "/api/suggestions?status=pending&agent=reflector")
        one = await get(daemon_rig, f"/api/suggestions/{made.id}")
    assert answer["count"] == 1
    assert [shown["title"] for shown in answer["suggestions"]] == ["Update Brain/Kevin.md"]
    assert "-# Kevin\n+# Kevin B" in one["diff"]


async def test_an_approval_does_it_once_and_an_undo_takes_it_back(live: Live, vault):
    save(vault / "a.md", "one\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "a.md", {"text": "two\n"})
        approve = f"/api/suggestions/{made.id}/approve"
        done = await post(daemon_rig, approve)
        assert done == done | {"status": "approved", "resolved_by": "user"}
        assert (vault / "a.md").read_text() == "two\n"
        await expect(daemon_rig, 422, "POST", approve, says="was approved already")
        await post(daemon_rig, f"/api/runs/{done['applied_run']}/undo")
        assert (vault / "a.md").read_text() == "one\n"


async def test_a_file_that_a_person_changed_is_not_put_back(live: Live, vault):
    save(vault / "a.md", "one\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "a.md", {"text": "two\n"})
        file = vault / daemon_rig.daemon.vault.suggestions.record(made.id).file
        changed = f"{file.read_text()}\nMine.\n"
        save(file, changed)
        await daemon_rig.daemon.vault.suggestions.show_again(made.id)
    assert file.read_text() == changed


async def test_it_can_be_rejected_with_a_reason_or_done_otherwise(live: Live, vault):
    save(vault / "a.md", "one\n")
    async with live() as daemon_rig:
        first = await propose(daemon_rig, "a.md", {"text": "two\n"})
        second = await propose(daemon_rig, "a.md", {"text": "three\n"})
        done = await post(daemon_rig, f"/api/suggestions/{first.id}/reject", {"reason": "no"})
        modify, body = f"/api/suggestions/{second.id}/modify", {"payload": {"text": "four\n"}}
        changed = await post(daemon_rig, modify, body)
        await expect(daemon_rig, 422, "POST", modify, json={"payload": {"text": "five\n"}})
    assert (done["status"], done["outcome"]) == ("rejected", "no")
    assert (changed["status"], changed["modifications"]) == ("modified", {"text": "four\n"})
    assert (vault / "a.md").read_text() == "four\n"


async def test_who_may_not_write_the_file_cannot_have_it_written_by_an_approval(live: Live, vault):
    save(vault / "a.md", "one\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "a.md", {"text": "two\n"})
        key = {"headers": key_of(daemon_rig, "curator:read,write", "vault:read")}
        await expect(daemon_rig, 403, "POST", f"/api/suggestions/{made.id}/approve", **key)
        answer = await expect(daemon_rig, 200, "POST", "/api/suggestions/approve-all", **key)
        assert list(answer["failed"]) == [made.id]
        await expect(daemon_rig, 200, "POST", f"/api/suggestions/{made.id}/reject", **key)
    assert (vault / "a.md").read_text() == "one\n"


async def test_a_key_cannot_tick_by_writing_the_file_and_an_admin_of_all_can(live: Live, vault):
    save(vault / "a.md", "one\n")
    async with live() as daemon_rig:
        suggestions = daemon_rig.daemon.vault.suggestions
        made = await propose(daemon_rig, "a.md", {"text": "two\n"})
        path = suggestions.record(made.id).file
        ticked = (vault / path).read_text().replace("- [ ] approve", "- [x] approve")
        written = {"json": {"path": path, "content": ticked}}
        for key in (
            key_of(daemon_rig, "vault:read,write"),
            key_of(daemon_rig, "vault:read,write,admin", paths=["Suggestions/**"]),
        ):
            for method, place, body in (
                ("PUT", "/api/write", written),
                ("PUT", f"/api/files/{path}", {"data": ticked.encode()}),
                ("PUT", f"/api/notes/{path}", {"data": ticked.encode()}),
                ("PATCH", f"/api/notes/{path}", {"json": {"section": "x", "content": "y"}}),
                ("DELETE", f"/api/notes/{path}", {}),
            ):
                status = await error(daemon_rig, method, place, headers=key, **body)
                assert status in {403, 422}, (method, place)
        assert suggestions.get(made.id).is_pending
        admin = key_of(daemon_rig, "vault:read,write,admin")
        await expect(daemon_rig, 200, "PUT", "/api/write", **written, headers=admin)
        await daemon_rig.until(lambda: not suggestions.get(made.id).is_pending)
        await daemon_rig.daemon.approvals.quiet()
    assert (vault / "a.md").read_text() == "two\n"
