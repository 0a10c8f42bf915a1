from __future__ import annotations

import base64
import os
import time
from urllib.parse import urlencode

import pytest

from tests.api.calls import call, digest, error, expect, get, key_of, post
from tests.stories.daemon_rig import DaemonRig, Live, save

PNG = b"\x89PNG\r\n\x1a\n\0\0"


@pytest.fixture
def tree(vault):
    save(vault / "Daily/journals/2026-11-21.md", "yesterday\n")
    save(vault / "Daily/journals/2026-11-22.md", "today\n")
    save(vault / "Daily/.agents/morning.md", "an agent\n")
    save(vault / "Daily/.versions/journals/2026-11-21.md.17", "old\n")
    save(vault / "Daily/.tombstones/gone.md.deleted", "{}\n")
    save(vault / "Daily/plan.sync-conflict-20261121-120000-PHONE.md", "a copy\n")
    save(vault / "Elsewhere.md", "not below the root\n")
    (vault / "Daily/assets").mkdir()
    (vault / "Daily/assets/2026-11-22_a.png").write_bytes(PNG)
    return vault


async def listed(daemon_rig, query: str) -> list[dict]:
    return (await get(daemon_rig, f"/api/sync/{query}"))["files"]


async def delete(daemon_rig, root: str, paths: list[str], **more: str) -> dict:
    status, answer = await call(
        daemon_rig,
        "DELETE",
        f"/api/sync/files?{urlencode([('root', root), *(('paths', path) for path in paths), *more.items()])}",  # noqa: E501
    )
    assert status == 200, answer
    assert type(answer["deleted"]) is int
    return answer


async def push(daemon_rig, *files: dict, root: str = "Daily") -> dict:
    answer = await post(daemon_rig, "/api/sync/push", {"root": root, "files": list(files)})
    assert type(answer["pushed"]) is int
    assert all(type(error) is str for error in answer["errors"])
    return answer


async def pull(daemon_rig, *paths: str, root: str = "Daily") -> dict[str, dict]:
    answer = await post(daemon_rig, "/api/sync/pull", {"root": root, "paths": list(paths)})
    for file in answer["files"]:
        assert (type(file["path"]), type(file["content"]), type(file["is_binary"])) == (
            str,
            str,
            bool,
        )
    return {file["path"]: file for file in answer["files"]}


async def test_the_manifest_is_as_the_app_reads_it(live: Live, tree):
    async with live() as daemon_rig:
        answer = await get(daemon_rig, "/api/sync/manifest?root=Daily&pattern=*.md")

    files = {file["path"]: file for file in answer["files"]}
    assert set(files) == {
        ".agents/morning.md",
        "journals/2026-11-21.md",
        "journals/2026-11-22.md",
        "plan.sync-conflict-20261121-120000-PHONE.md",
    }
    for path, file in files.items():
        data = (tree / "Daily" / path).read_bytes()
        assert (file["hash"], file["size"]) == (digest(data), len(data))
        assert type(file["size"]) is int
        assert file["modified"] == pytest.approx((tree / "Daily" / path).stat().st_mtime)


async def test_the_manifest_takes_a_pattern_binaries_a_date_and_the_quick_form(
    tree, daemon_rig: DaemonRig
):

    async def paths(query: str) -> list[str]:
        return sorted(
            file["path"] for file in await listed(daemon_rig, f"manifest?root=Daily&{query}")
        )

    assert await paths("pattern=2026-11-2[12].md") == [
        "journals/2026-11-21.md",
        "journals/2026-11-22.md",
    ]
    assert await paths("pattern=*.md&date=2026-11-22") == ["journals/2026-11-22.md"]
    assert await paths("pattern=*.md&date=2026-11-22&include_binary=true") == [
        "assets/2026-11-22_a.png",
        "journals/2026-11-22.md",
    ]
    assert len(await paths("pattern=*")) == 5
    assert await paths("pattern=%5B") == []
    binary = await listed(daemon_rig, "manifest?root=Daily&include_binary=true&pattern=none")
    quick = await listed(
        daemon_rig, "manifest?root=Daily&include_binary=true&pattern=none&quick=true"
    )
    whole = await listed(daemon_rig, "manifest")
    nowhere = await listed(daemon_rig, "manifest?root=Not/There")

    assert [(file["path"], file["hash"], file["size"]) for file in binary] == [
        ("assets/2026-11-22_a.png", digest(PNG), len(PNG))
    ]
    assert quick[0]["hash"] != ""
    assert "Elsewhere.md" in {file["path"] for file in whole}
    assert nowhere == []


@pytest.mark.parametrize("listing", ["manifest", "changes"])
async def test_without_a_pattern_every_file_is_listed_and_binary_kinds_come_beside_what_a_pattern_matches(  # noqa: E501
    live: Live, vault, listing
):
    save(vault / "Media/clip.WAV", "RIFF")
    async with live() as daemon_rig:

        async def paths(query: str = "") -> set[str]:
            return {
                file["path"] for file in await listed(daemon_rig, f"{listing}?root=Media{query}")
            }

        alone = [await paths(), await paths("&include_binary=true"), await paths("&pattern=*.md")]
        for name in ("note.md", "table.csv", ".hidden"):
            save(vault / "Media" / name, "x\n")
        await daemon_rig.until(
            lambda: (
                {"Media/note.md", "Media/table.csv"} <= set(daemon_rig.daemon.watched.index.paths())
            )
        )
        every = [
            await paths(),
            await paths("&include_binary=true"),
            await paths("&include_binary=false"),
        ]
        asked_by_the_app = await paths("&pattern=*.md&include_binary=true")
        table = await paths("&pattern=*.csv&include_binary=false")

    assert alone == [{"clip.WAV"}, {"clip.WAV"}, set()]
    assert every == [{"clip.WAV", "note.md", "table.csv"}] * 3
    assert asked_by_the_app == {"clip.WAV", "note.md"}
    assert table == {"table.csv"}


async def test_the_manifest_follows_the_disk(tree, daemon_rig: DaemonRig):
    query = "manifest?root=Daily&include_binary=true&quick=false"
    before = {file["path"]: file["hash"] for file in await listed(daemon_rig, query)}
    save(tree / "Daily/journals/2026-11-22.md", "today, later\n")
    (tree / "Daily/assets/2026-11-22_a.png").write_bytes(PNG + b"more")
    (tree / "Daily/journals/2026-11-21.md").unlink()
    await daemon_rig.daemon.watched.detector.rescan(accept_missing=True)
    await daemon_rig.until(
        lambda: (
            daemon_rig.daemon.watched.index.get("Daily/assets/2026-11-22_a.png").size
            == len(PNG) + 4
        )
    )
    after = {file["path"]: file["hash"] for file in await listed(daemon_rig, query)}

    assert (
        after["journals/2026-11-22.md"]
        == digest("today, later\n")
        != before["journals/2026-11-22.md"]
    )
    assert after["assets/2026-11-22_a.png"] == digest(PNG + b"more")
    assert set(before) - set(after) == {"journals/2026-11-21.md"}


async def test_changes_since_a_moment(tree, daemon_rig: DaemonRig):
    everything = await listed(daemon_rig, "changes?root=Daily&since=0&pattern=*.md")
    later = time.time() + 1
    nothing = await listed(daemon_rig, f"changes?root=Daily&since={later}")
    binary = await listed(daemon_rig, "changes?root=Daily&since=0&pattern=*.md&include_binary=true")
    odd = [
        await error(daemon_rig, "GET", f"/api/sync/changes?root=Daily&since={since}")
        for since in ("x", "-1", "nan", "1e99")
    ]

    assert len(everything) == 4
    assert {"path", "size", "modified"} == set(everything[0])
    assert nothing == []
    assert len(binary) == 5
    assert odd == [400] * 4


async def test_a_file_moved_in_with_an_old_time_counts_as_changed(tree, daemon_rig: DaemonRig):
    since = time.time()
    save(tree.parent / "old.md", "old\n")
    os.utime(tree.parent / "old.md", (1, 1))
    (tree.parent / "old.md").rename(tree / "Daily/old.md")
    await daemon_rig.daemon.watched.detector.rescan()
    changed = await listed(daemon_rig, f"changes?root=Daily&since={int(since)}")

    assert "old.md" in {file["path"] for file in changed}


async def test_a_push_makes_replaces_and_names_what_it_replaced(tree, daemon_rig: DaemonRig):
    answer = await push(
        daemon_rig,
        {"path": "journals/2026-11-23.md", "content": "tomorrow\n", "is_binary": False},
        {"path": "journals/2026-11-22.md", "content": "today, from the phone\n"},
        {"path": "journals/2026-11-21.md", "content": "yesterday\n"},
        {"path": "assets/b.png", "content": base64.b64encode(PNG).decode(), "is_binary": True},
    )
    kept = daemon_rig.daemon.watched.objects.get(digest("today\n"))
    reported = {(event["path"], event["by"]) for event in daemon_rig.reported("file.")}

    assert (answer["pushed"], answer["errors"], answer["conflicts"]) == (4, [], [])
    assert [result["status"] for result in answer["results"]] == [
        "created",
        "written",
        "unchanged",
        "created",
    ]
    assert [result["replaced"] for result in answer["results"]] == [
        None,
        digest("today\n"),
        None,
        None,
    ]
    assert kept == b"today\n"
    assert (tree / "Daily/assets/b.png").read_bytes() == PNG
    assert (tree / "Daily/journals/2026-11-22.md").read_text() == "today, from the phone\n"
    assert reported == {
        (f"Daily/{path}", "person")
        for path in ("journals/2026-11-23.md", "journals/2026-11-22.md", "assets/b.png")
    }


async def test_one_wrong_file_does_not_hold_up_the_others(tree, daemon_rig: DaemonRig):
    bad = [
        {"path": "../out.md", "content": "x"},
        {"path": "/etc/passwd", "content": "x"},
        {"path": "a/../../../x.md", "content": "x"},
        {"path": ".versions/x.md", "content": "x"},
        {"path": "assets/c.png", "content": "not base64!", "is_binary": True},
        {"path": "lone.md", "content": "\ud800"},
        {"path": "", "content": "x"},
    ]
    answer = await push(daemon_rig, *bad, {"path": "good.md", "content": "good\n"})

    assert answer["pushed"] == 1
    assert len(answer["errors"]) == len(bad)
    assert [result["status"] for result in answer["results"]] == ["refused"] * len(bad) + [
        "created"
    ]
    assert not (tree.parent / "out.md").exists()
    assert str(tree.parent) not in str(answer)


async def test_a_push_touches_no_program(live: Live, tree):
    save(tree / "Modules/m/module.py", "code\n")
    (tree / "Daily/link").symlink_to("../Modules")
    paths = [
        ".parachute/keys.yaml",
        "Modules/m/module.py",
        "modules/m/x.py",
        ".claude/settings.json",
        ".git/hooks/pre-commit",
        "Daily/link/m/x.py",
    ]
    async with live() as daemon_rig:
        answer = await push(
            daemon_rig, *({"path": path, "content": "x"} for path in paths), root=""
        )
        gone = await delete(
            daemon_rig, "", ["Modules/m/module.py", "Daily/link/m/module.py"], confirm="true"
        )

    assert (answer["pushed"], len(answer["errors"])) == (0, len(paths))
    assert (gone["deleted"], len(gone["errors"])) == (0, 2)
    assert (tree / "Modules/m/module.py").read_text() == "code\n"


async def test_what_is_not_well_formed_is_refused(tree, daemon_rig: DaemonRig):
    for body in (
        {"files": {}},
        {"files": [{"path": "a.md"}]},
        {"root": "..", "files": []},
        {"files": [{"path": "a.md", "content": 3}]},
    ):
        await expect(daemon_rig, 400, "POST", "/api/sync/push", json=body)
    await expect(daemon_rig, 400, "POST", "/api/sync/push", data=b"{")
    assert (await post(daemon_rig, "/api/sync/push", {"root": "Daily", "files": []}))["pushed"] == 0


async def test_a_push_with_a_base_is_merged_or_reported_as_a_conflict_in_a_200(live: Live, tree):
    text = "".join(f"line {number}\n" for number in range(9))
    save(tree / "Daily/plan.md", text)
    async with live() as daemon_rig:
        pulled = (await pull(daemon_rig, "plan.md"))["plan.md"]
        await daemon_rig.until(
            lambda: daemon_rig.daemon.watched.objects.has_stood("Daily/plan.md", pulled["hash"])
        )
        save(tree / "Daily/plan.md", text.replace("line 1\n", "theirs\n"))
        merged = await push(
            daemon_rig,
            {
                "path": "plan.md",
                "content": text.replace("line 7\n", "ours\n"),
                "base_hash": pulled["hash"].upper(),
            },
        )
        clash = await push(
            daemon_rig,
            {
                "path": "plan.md",
                "content": text.replace("line 1\n", "ours\n"),
                "base_hash": pulled["hash"],
            },
        )
        now = (tree / "Daily/plan.md").read_text()
        resolved = clash["conflicts"][0]["theirs"] + "ours\n"
        done = await push(
            daemon_rig,
            {
                "path": "plan.md",
                "content": resolved,
                "base_hash": clash["conflicts"][0]["theirs_hash"],
            },
        )

    assert (merged["pushed"], merged["results"][0]["status"]) == (1, "merged")
    assert now == text.replace("line 1\n", "theirs\n").replace("line 7\n", "ours\n")
    assert (clash["pushed"], clash["errors"], clash["results"][0]["status"]) == (0, [], "conflict")
    (conflict,) = clash["conflicts"]
    assert conflict == {
        "path": "plan.md",
        "base": text,
        "ours": text.replace("line 1\n", "ours\n"),
        "theirs": now,
        "theirs_hash": digest(now),
        "is_binary": False,
    }
    assert (done["pushed"], (tree / "Daily/plan.md").read_text()) == (1, resolved)


async def test_lines_of_a_picture_are_not_merged(live: Live, tree):
    async with live() as daemon_rig:
        path, base = "assets/2026-11-22_a.png", digest(PNG)
        (tree / "Daily" / path).write_bytes(PNG + b"theirs")
        sent = base64.b64encode(PNG + b"ours").decode()
        clash = await push(
            daemon_rig, {"path": path, "content": sent, "is_binary": True, "base_hash": base}
        )

    assert clash["conflicts"][0]["is_binary"] is True
    assert base64.b64decode(clash["conflicts"][0]["theirs"]) == PNG + b"theirs"
    assert (tree / "Daily" / path).read_bytes() == PNG + b"theirs"


async def test_a_pull_hands_out_texts_and_binaries_exactly(live: Live, tree):
    odd = "\ufeff# Title\r\n\r\nno end"
    save(tree / "Daily/odd.md", odd)
    (tree / "Daily/broken.md").write_bytes(b"\xff\xfe")
    async with live() as daemon_rig:
        files = await pull(daemon_rig, "odd.md", "broken.md", "assets/2026-11-22_a.png", "odd.md")
        answer = await post(
            daemon_rig,
            "/api/sync/pull",
            {
                "root": "Daily",
                "paths": ["none.md", "../Elsewhere.md", ".versions/journals/2026-11-21.md.17"],
            },
        )

    assert (files["odd.md"]["content"].encode(), files["odd.md"]["is_binary"]) == (
        (tree / "Daily/odd.md").read_bytes(),
        False,
    )
    assert base64.b64decode(files["broken.md"]["content"]) == b"\xff\xfe"
    assert base64.b64decode(files["assets/2026-11-22_a.png"]["content"]) == PNG
    assert (answer["files"], len(answer["errors"])) == ([], 3)


async def test_deleted_files_are_in_history_and_those_that_are_gone_do_not_count_but_are_reported(
    tree, daemon_rig: DaemonRig
):
    answer = await delete(
        daemon_rig, "Daily", ["journals/2026-11-21.md", "gone.md", "journals/2026-11-21.md"]
    )
    writes = daemon_rig.daemon.watched.history.writes_of("Daily/journals/2026-11-21.md")
    kept = daemon_rig.daemon.watched.objects.get(digest("yesterday\n"))
    known = daemon_rig.daemon.watched.index.get("Daily/journals/2026-11-21.md")

    assert (answer["deleted"], answer["confirm_needed"]) == (1, False)
    assert answer["errors"] == ["gone.md: unknown file below the root"]
    assert not (tree / "Daily/journals/2026-11-21.md").exists()
    assert [write.operation for write in writes] == ["Delete"]
    assert kept == b"yesterday\n"
    assert known is None


async def test_a_path_that_is_not_there_is_reported_in_the_same_words_whatever_the_reason(
    tree, daemon_rig: DaemonRig
):
    missing = ["a.md,b.md", "gone.md", ".versions/journals/2026-11-21.md.17", "Elsewhere.md"]
    paths = urlencode([("paths", path) for path in [*missing, "gone.md"]])
    _status, answer = await call(
        daemon_rig,
        "DELETE",
        f"/api/sync/files?{paths}",
        headers=key_of(daemon_rig, "daily:write"),
    )

    assert answer["errors"] == [f"{path}: unknown file below the root" for path in missing]
    assert (answer["deleted"], (tree / "Elsewhere.md").exists()) == (0, True)


async def test_nothing_else_is_deleted(tree, daemon_rig: DaemonRig):
    hidden = ".versions/journals/2026-11-21.md.17"
    for path in ("../Elsewhere.md", "/etc/passwd", hidden, "journals"):
        assert (await delete(daemon_rig, "Daily", [path]))["deleted"] == 0
    assert (tree / "Elsewhere.md").exists()
    assert (tree / "Daily/.versions/journals/2026-11-21.md.17").exists()


async def test_more_than_a_fifth_of_the_vault_goes_only_when_it_is_confirmed(live: Live, vault):
    for number in range(50):
        save(vault / f"Daily/note-{number}.md", f"note {number}\n")
    async with live() as daemon_rig:
        at_once = await delete(daemon_rig, "Daily", [f"note-{number}.md" for number in range(11)])
        here = len(list(vault.glob("Daily/*.md")))
        in_pieces = [
            await delete(
                daemon_rig, "Daily", [f"note-{number}.md" for number in range(start, start + 4)]
            )
            for start in range(0, 20, 4)
        ]
        confirmed = await delete(
            daemon_rig, "Daily", [f"note-{number}.md" for number in range(50)], confirm="true"
        )
        save(vault / "Daily/new.md", "new\n")
        later = await delete(daemon_rig, "Daily", ["new.md"])
        left = list(vault.glob("Daily/*.md"))
        indexed = len(daemon_rig.daemon.watched.index)

    assert (at_once["deleted"], at_once["confirm_needed"], here) == (0, True, 50)
    assert "confirm=true" in at_once["message"]
    assert [answer["deleted"] for answer in in_pieces] == [4, 4, 0, 0, 0]
    assert (confirmed["deleted"], later["deleted"], left, indexed) == (42, 1, [], 0)


@pytest.mark.parametrize("hidden", [0, 50])
async def test_a_key_with_paths_confirms_by_the_files_that_it_sees(live: Live, vault, hidden):
    for number in range(hidden):
        save(vault / f"Private/note-{number}.md", "note\n")
    for number in range(4):
        save(vault / f"Daily/note-{number}.md", "note\n")
    async with live() as daemon_rig:
        paths = urlencode([("root", "Daily"), ("paths", "note-0.md"), ("paths", "note-1.md")])
        headers = key_of(daemon_rig, "vault:write", paths=["Daily/**"])
        _status, answer = await call(
            daemon_rig, "DELETE", f"/api/sync/files?{paths}", headers=headers
        )

    assert (answer["confirm_needed"], answer["message"].partition(" are ")[0]) == (
        True,
        "2 of 4 files",
    )
