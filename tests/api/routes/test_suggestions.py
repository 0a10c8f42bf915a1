"""Suggestions over HTTP: seen by who sees the file, decided on by who could write it, and the same
act as a tick.
"""

from __future__ import annotations

import pytest

from parachuted.history.run_account import new_act
from parachuted.history.run_account import save as save_account
from parachuted.suggestions import Proposal
from tests.api.calls import call, get, key_of, post, refused
from tests.stories.daemon_rig import DaemonRig, Live, save

FIELDS = {
    *(
        "id",
        "source_agent",
        "source_session",
        "timestamp",
        "action",
        "target_module",
        "target_id",
        "payload",
        "reasoning",
        "status",
    ),
    *(
        "resolved_by",
        "resolved_at",
        "modifications",
        "path",
        "base",
        "run",
        "causes",
        "origin",
        "applied_run",
        "outcome",
        "title",
        "file",
    ),
}


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


async def test_what_waits_is_listed_with_all_fields_and_shown_with_its_difference(
    live: Live, vault
):
    save(vault / "Brain/Kevin.md", "# Kevin\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "Brain/Kevin.md", {"text": "# Kevin B\n"})
        answer = await get(daemon_rig, "/api/suggestions?status=pending&agent=reflector")
        one = await get(daemon_rig, f"/api/suggestions/{made.id}")
    assert (answer["count"], [set(shown) for shown in answer["suggestions"]]) == (1, [FIELDS])
    assert answer["suggestions"][0]["title"] == "Update Brain/Kevin.md"
    assert "-# Kevin\n+# Kevin B" in one["diff"]


async def test_an_approval_does_it_once_and_an_undo_takes_it_back(live: Live, vault):
    save(vault / "a.md", "one\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "a.md", {"text": "two\n"})
        done = await post(daemon_rig, f"/api/suggestions/{made.id}/approve")
        assert (done["status"], done["resolved_by"], (vault / "a.md").read_text()) == (
            "approved",
            "user",
            "two\n",
        )
        status, says = await refused(daemon_rig, "POST", f"/api/suggestions/{made.id}/approve")
        assert (status, "was approved already" in says) == (422, True)
        await post(daemon_rig, f"/api/runs/{done['applied_run']}/undo")
        assert (vault / "a.md").read_text() == "one\n"
        await daemon_rig.daemon.approvals.quiet()
        assert "was taken back" in (vault / done["file"]).read_text()


async def test_a_tick_that_is_saved_in_an_editor_is_the_same_act(live: Live, vault):
    save(vault / "a.md", "one\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "a.md", {"text": "two\n"})
        file = vault / daemon_rig.daemon.vault.suggestions.record(made.id).file
        save(file, file.read_text().replace("- [ ] approve", "- [x] approve"))
        await daemon_rig.until(
            lambda: not daemon_rig.daemon.vault.suggestions.get(made.id).is_pending
        )
        await daemon_rig.daemon.approvals.quiet()
    assert (vault / "a.md").read_text() == "two\n"
    assert "**approved** by user" in file.read_text()


async def test_a_file_that_is_there_by_then_is_not_put_back_over_what_a_person_wrote(
    live: Live, vault
):
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
        first, second = (
            await propose(daemon_rig, "a.md", {"text": "two\n"}),
            await propose(daemon_rig, "a.md", {"text": "three\n"}),
        )
        done = await post(daemon_rig, f"/api/suggestions/{first.id}/reject", {"reason": "no"})
        changed = await post(
            daemon_rig, f"/api/suggestions/{second.id}/modify", {"payload": {"text": "four\n"}}
        )
        status, _ = await refused(
            daemon_rig,
            "POST",
            f"/api/suggestions/{second.id}/modify",
            json={"payload": {"text": "five\n"}},
        )
        acceptance = (await get(daemon_rig, "/api/suggestions"))["acceptance"]
    assert (done["status"], done["outcome"]) == ("rejected", "no")
    assert (changed["status"], changed["modifications"], (vault / "a.md").read_text()) == (
        "modified",
        {"text": "four\n"},
        "four\n",
    )
    assert status == 422
    assert acceptance == [
        {
            "agent": "reflector",
            "action": "update",
            "approved": 0,
            "modified": 1,
            "rejected": 1,
            "rate": 0.25,
        }
    ]


async def test_a_key_whose_paths_do_not_reach_the_file_sees_nothing_of_it(live: Live, vault):
    save(vault / "Daily/a.md", "one\n")
    save(vault / "Projects/a.md", "one\n")
    async with live() as daemon_rig:
        seen, hidden = (
            await propose(daemon_rig, "Projects/a.md", {"text": "two\n"}),
            await propose(daemon_rig, "Daily/a.md", {"text": "two\n"}),
        )
        key = key_of(daemon_rig, "curator:read,write", "vault:read,write", paths=["Projects/**"])
        _, answer = await call(daemon_rig, "GET", "/api/suggestions", headers=key)
        assert ([one["id"] for one in answer["suggestions"]], answer["acceptance"]) == (
            [seen.id],
            [],
        )
        for method, path in (
            ("GET", ""),
            ("POST", "/approve"),
            ("POST", "/reject"),
            ("POST", "/modify"),
        ):
            body = {"json": {"payload": {"text": "x"}}} if path == "/modify" else {}
            unseen = await refused(
                daemon_rig, method, f"/api/suggestions/{hidden.id}{path}", headers=key, **body
            )
            unknown = await refused(
                daemon_rig, method, f"/api/suggestions/s0000000000{path}", headers=key, **body
            )
            assert (unseen[0], unseen[1].replace(hidden.id, "")) == (
                404,
                unknown[1].replace("s0000000000", ""),
            )
        _, all_done = await call(daemon_rig, "POST", "/api/suggestions/approve-all", headers=key)
    assert [one["id"] for one in all_done["resolved"]] == [seen.id]
    assert (vault / "Daily/a.md").read_text() == "one\n"


async def test_who_may_not_write_the_file_cannot_have_it_written_by_an_approval(live: Live, vault):
    save(vault / "a.md", "one\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "a.md", {"text": "two\n"})
        key = key_of(daemon_rig, "curator:read,write", "vault:read")
        assert (
            await refused(daemon_rig, "POST", f"/api/suggestions/{made.id}/approve", headers=key)
        )[0] == 403
        _, answer = await call(daemon_rig, "POST", "/api/suggestions/approve-all", headers=key)
        assert list(answer["failed"]) == [made.id]
        status, _ = await call(
            daemon_rig, "POST", f"/api/suggestions/{made.id}/reject", headers=key
        )
    assert (status, (vault / "a.md").read_text()) == (200, "one\n")


async def test_a_limited_key_cannot_have_a_note_watch_what_it_may_not_read(live: Live, vault):
    save(vault / "Projects/a.md", "# A\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "Projects/a.md", {"key": "watch", "value": ["Daily/**"]})
        key = key_of(daemon_rig, "curator:read,write", "vault:read,write", paths=["Projects/**"])
        status, says = await refused(
            daemon_rig, "POST", f"/api/suggestions/{made.id}/approve", headers=key
        )
    assert status == 422
    assert "may not watch" in says


async def test_a_key_cannot_tick_by_writing_the_file_and_an_admin_of_all_can(live: Live, vault):
    save(vault / "a.md", "one\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "a.md", {"text": "two\n"})
        path = daemon_rig.daemon.vault.suggestions.record(made.id).file
        ticked = (vault / path).read_text().replace("- [ ] approve", "- [x] approve")
        for key in (
            key_of(daemon_rig, "vault:read,write"),
            key_of(daemon_rig, "vault:read,write,admin", paths=["Suggestions/**"]),
        ):
            for method, place, body in (
                ("PUT", "/api/write", {"json": {"path": path, "content": ticked}}),
                ("PUT", f"/api/files/{path}", {"data": ticked.encode()}),
                ("PUT", f"/api/notes/{path}", {"data": ticked.encode()}),
                ("PATCH", f"/api/notes/{path}", {"json": {"section": "x", "content": "y"}}),
                ("DELETE", f"/api/notes/{path}", {}),
            ):
                assert (await refused(daemon_rig, method, place, headers=key, **body))[0] in {
                    403,
                    422,
                }, (
                    method,
                    place,
                )
        assert daemon_rig.daemon.vault.suggestions.get(made.id).is_pending
        status, _ = await call(
            daemon_rig,
            "PUT",
            "/api/write",
            json={"path": path, "content": ticked},
            headers=key_of(daemon_rig, "vault:read,write,admin"),
        )
        await daemon_rig.until(
            lambda: not daemon_rig.daemon.vault.suggestions.get(made.id).is_pending
        )
        await daemon_rig.daemon.approvals.quiet()
    assert (status, (vault / "a.md").read_text()) == (200, "two\n")


async def test_what_was_ticked_while_the_daemon_was_off_is_done_at_its_start(live: Live, vault):
    save(vault / "a.md", "one\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "a.md", {"text": "two\n"})
        file = vault / daemon_rig.daemon.vault.suggestions.record(made.id).file
    save(file, file.read_text().replace("- [ ] approve", "- [x] approve"))
    async with live() as daemon_rig:
        await daemon_rig.until(
            lambda: not daemon_rig.daemon.vault.suggestions.get(made.id).is_pending
        )
        await daemon_rig.daemon.approvals.quiet()
    assert (vault / "a.md").read_text() == "two\n"


async def test_who_sees_some_paths_or_reads_no_note_is_shown_what_is_theirs_alone(
    live: Live, vault
):
    save(vault / "Projects/a.md", "beans\n")
    async with live() as daemon_rig:
        made = await propose(
            daemon_rig,
            "Projects/a.md",
            {"text": "peas\n"},
            reasoning="it has read Private/diary.md",
        )
        some = {
            "headers": key_of(
                daemon_rig, "curator:read,write", "vault:read,write", paths=["Projects/**"]
            )
        }
        none = {"headers": key_of(daemon_rig, "curator:read,write")}
        listed = [
            (await call(daemon_rig, "GET", "/api/suggestions", **key))[1]["suggestions"][0]
            for key in (some, none)
        ]
        whole = [
            (await call(daemon_rig, "GET", f"/api/suggestions/{made.id}", **key))[1]
            for key in (some, none)
        ]
        assert [(one["payload"], one["reasoning"], one["file"] != "") for one in listed] == [
            ({"text": "peas\n"}, "", False),
            ({}, "", True),
        ]
        assert ["+peas" in one["diff"] for one in whole] == [True, False]
        assert "beans" not in str(whole[1])
        assert (
            await post(
                daemon_rig, f"/api/suggestions/{made.id}/reject", {"reason": "see Private/diary.md"}
            )
        )["outcome"]
        assert "Private" not in str(
            (await call(daemon_rig, "GET", f"/api/suggestions/{made.id}", **some))[1]
        )


async def test_what_a_key_for_some_paths_approves_counts_in_no_rate_that_holds_everywhere(
    live: Live, vault
):
    save(vault / "Projects/a.md", "beans\n")
    async with live() as daemon_rig:
        made = await propose(daemon_rig, "Projects/a.md", {"text": "peas\n"})
        key = {
            "headers": key_of(
                daemon_rig, "curator:read,write", "vault:read,write", paths=["Projects/**"]
            )
        }
        _, done = await call(daemon_rig, "POST", f"/api/suggestions/{made.id}/approve", **key)
        assert (done["status"], done["resolved_by"]) == ("approved", "key:a test's")
        assert daemon_rig.daemon.vault.suggestions.acceptance() == []


@pytest.mark.parametrize(
    ("quotes", "is_theirs"),
    [(["Projects/a.md"], True), (["Projects/a.md", "Private/b.md"], False), (None, False)],
)
async def test_what_an_agent_would_write_is_read_and_approved_by_who_sees_all_that_it_was_shown(
    live: Live, vault, quotes, is_theirs
):
    save(vault / "Projects/a.md", "beans\n")
    async with live() as daemon_rig:
        act = new_act(
            "reflector", daemon_rig.daemon.watched.clock(), watcher="Projects/a.md", reason=""
        )
        act.begin(daemon_rig.daemon.watched.history)
        document = act.end(
            daemon_rig.daemon.watched.history,
            daemon_rig.daemon.watched.objects,
            daemon_rig.daemon.watched.clock(),
            "",
        )
        save_account(daemon_rig.daemon.watched.history, {**document, "quotes": quotes})
        made = await propose(
            daemon_rig, "Projects/a.md", {"text": "it knows of the peas\n"}, run=act.run
        )
        key = {
            "headers": key_of(
                daemon_rig, "curator:read,write", "vault:read,write", paths=["Projects/**"]
            )
        }
        reported = [
            (await call(daemon_rig, "GET", f"/api/suggestions{one}", **key))[1]
            for one in ("", f"/{made.id}")
        ]
        status, _ = await call(daemon_rig, "POST", f"/api/suggestions/{made.id}/approve", **key)

    assert ["peas" in str(one) for one in reported] == [is_theirs] * 2
    assert (status, "peas" in (vault / "Projects/a.md").read_text()) == (
        200 if is_theirs else 403,
        is_theirs,
    )
