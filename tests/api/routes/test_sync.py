from __future__ import annotations

import base64
import os
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest
import pytest_asyncio

from tests.api.calls import digest, expect, get, key_of, noticed, post
from tests.stories.daemon_rig import DaemonRig, save

PNG = b"\x89PNG\r\n\x1a\n\0\0"
PICTURE = "assets/2026-11-22_a.png"
HIDDEN = ".versions/journals/2026-11-21.md.17"


@pytest_asyncio.fixture(loop_scope="module")
async def tree(vault: Path, daemon_rig: DaemonRig) -> Path:
    save(vault / "Daily/journals/2026-11-21.md", "yesterday\n")
    save(vault / "Daily/journals/2026-11-22.md", "today\n")
    save(vault / "Daily/.agents/morning.md", "an agent\n")
    save(vault / "Daily" / HIDDEN, "old\n")
    save(vault / "Daily/.tombstones/gone.md.deleted", "{}\n")
    save(vault / "Daily/plan.sync-conflict-20261121-120000-PHONE.md", "a copy\n")
    save(vault / "Elsewhere.md", "not below the root\n")
    (vault / "Daily/assets").mkdir()
    (vault / "Daily" / PICTURE).write_bytes(PNG)
    await noticed(daemon_rig)
    daemon_rig.events.clear()
    return vault


async def listed(daemon_rig: DaemonRig, query: str) -> list[dict]:
    return (await get(daemon_rig, f"/api/sync/{query}"))["files"]


async def delete(
    daemon_rig: DaemonRig,
    root: str,
    paths: Sequence[str],
    headers: dict[str, str] | None = None,
    **more: str,
) -> dict:
    query = urlencode([("root", root), *(("paths", path) for path in paths), *more.items()])
    where = f"/api/sync/files?{query}"
    answer = await expect(daemon_rig, 200, "DELETE", where, headers=headers)
    assert type(answer["deleted"]) is int
    return answer


async def push(daemon_rig: DaemonRig, *files: dict, root: str = "Daily") -> dict:
    answer = await post(daemon_rig, "/api/sync/push", {"root": root, "files": list(files)})
    assert type(answer["pushed"]) is int
    assert all(type(one) is str for one in answer["errors"])
    return answer


async def pull(daemon_rig: DaemonRig, *paths: str) -> dict:
    answer = await post(daemon_rig, "/api/sync/pull", {"root": "Daily", "paths": list(paths)})
    for file in answer["files"]:
        kinds = (type(file["path"]), type(file["content"]), type(file["is_binary"]))
        assert kinds == (str, str, bool)
    return answer


async def test_the_manifest_is_as_the_app_reads_it(tree, daemon_rig: DaemonRig):
    files = {
        file["path"]: file for file in await listed(daemon_rig, "manifest?root=Daily&pattern=*.md")
    }

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
        files = await listed(daemon_rig, f"manifest?root=Daily&{query}")
        return sorted(file["path"] for file in files)

    both = ["journals/2026-11-21.md", "journals/2026-11-22.md"]
    assert await paths("pattern=2026-11-2[12].md") == both
    assert await paths("pattern=*.md&date=2026-11-22") == both[1:]
    assert await paths("pattern=*.md&date=2026-11-22&include_binary=true") == [PICTURE, both[1]]
    assert len(await paths("pattern=*")) == 5
    assert await paths("pattern=%5B") == []
    query = "manifest?root=Daily&include_binary=true&pattern=none"
    (binary,) = await listed(daemon_rig, query)
    assert (binary["path"], binary["hash"], binary["size"]) == (PICTURE, digest(PNG), len(PNG))
    assert (await listed(daemon_rig, f"{query}&quick=true"))[0]["hash"] != ""
    assert "Elsewhere.md" in {file["path"] for file in await listed(daemon_rig, "manifest")}
    assert await listed(daemon_rig, "manifest?root=Not/There") == []


@pytest.mark.parametrize("listing", ["manifest", "changes"])
async def test_binary_kinds_come_beside_what_a_pattern_matches(
    vault, listing, daemon_rig: DaemonRig
):
    async def paths(query: str = "") -> set[str]:
        return {file["path"] for file in await listed(daemon_rig, f"{listing}?root=Media{query}")}

    save(vault / "Media/clip.WAV", "RIFF")
    await noticed(daemon_rig)
    for query, expected in {
        "": {"clip.WAV"},
        "&include_binary=true": {"clip.WAV"},
        "&pattern=*.md": set(),
    }.items():
        assert await paths(query) == expected
    for name in ("note.md", "table.csv", ".hidden"):
        save(vault / "Media" / name, "x\n")
    await noticed(daemon_rig)
    for query, expected in {
        "": {"clip.WAV", "note.md", "table.csv"},
        "&include_binary=true": {"clip.WAV", "note.md", "table.csv"},
        "&include_binary=false": {"clip.WAV", "note.md", "table.csv"},
        "&pattern=*.md&include_binary=true": {"clip.WAV", "note.md"},  # as the app asks
        "&pattern=*.csv&include_binary=false": {"table.csv"},
    }.items():
        assert await paths(query) == expected, query


async def test_the_manifest_follows_the_disk(tree, daemon_rig: DaemonRig):
    query = "manifest?root=Daily&include_binary=true&quick=false"
    before = {file["path"]: file["hash"] for file in await listed(daemon_rig, query)}
    save(tree / "Daily/journals/2026-11-22.md", "today, later\n")
    (tree / "Daily" / PICTURE).write_bytes(PNG + b"more")
    (tree / "Daily/journals/2026-11-21.md").unlink()
    watched = daemon_rig.daemon.watched
    await watched.detector.rescan(accept_missing=True)
    await daemon_rig.until(lambda: watched.index.get(f"Daily/{PICTURE}").size == len(PNG) + 4)
    after = {file["path"]: file["hash"] for file in await listed(daemon_rig, query)}

    changed = after["journals/2026-11-22.md"]
    assert changed == digest("today, later\n") != before["journals/2026-11-22.md"]
    assert after[PICTURE] == digest(PNG + b"more")
    assert set(before) - set(after) == {"journals/2026-11-21.md"}


async def test_changes_since_a_moment(tree, daemon_rig: DaemonRig):
    everything = await listed(daemon_rig, "changes?root=Daily&since=0&pattern=*.md")
    assert len(everything) == 4
    assert {"path", "size", "modified"} == set(everything[0])
    binary = await listed(daemon_rig, "changes?root=Daily&since=0&pattern=*.md&include_binary=true")
    assert len(binary) == 5
    assert await listed(daemon_rig, f"changes?root=Daily&since={time.time() + 1}") == []
    for since in ("x", "-1", "nan", "1e99"):
        await expect(daemon_rig, 400, "GET", f"/api/sync/changes?root=Daily&since={since}")
    now = int(time.time())
    save(tree.parent / "old.md", "moved in with an old time\n")
    os.utime(tree.parent / "old.md", (1, 1))
    (tree.parent / "old.md").rename(tree / "Daily/old.md")
    await daemon_rig.daemon.watched.detector.rescan()
    changed = await listed(daemon_rig, f"changes?root=Daily&since={now}")
    assert "old.md" in {file["path"] for file in changed}


async def test_a_push_makes_replaces_and_names_what_it_replaced(tree, daemon_rig: DaemonRig):
    answer = await push(
        daemon_rig,
        {"path": "journals/2026-11-23.md", "content": "tomorrow\n", "is_binary": False},
        {"path": "journals/2026-11-22.md", "content": "today, from the phone\n"},
        {"path": "journals/2026-11-21.md", "content": "yesterday\n"},
        {"path": "assets/b.png", "content": base64.b64encode(PNG).decode(), "is_binary": True},
    )
    reported = {(event["path"], event["by"]) for event in daemon_rig.reported("file.")}

    assert (answer["pushed"], answer["errors"], answer["conflicts"]) == (4, [], [])
    assert [(result["status"], result["replaced"]) for result in answer["results"]] == [
        ("created", None),
        ("written", digest("today\n")),
        ("unchanged", None),
        ("created", None),
    ]
    assert daemon_rig.daemon.watched.objects.get(digest("today\n")) == b"today\n"
    assert (tree / "Daily/assets/b.png").read_bytes() == PNG
    assert (tree / "Daily/journals/2026-11-22.md").read_text() == "today, from the phone\n"
    changed = ("journals/2026-11-23.md", "journals/2026-11-22.md", "assets/b.png")
    assert reported == {(f"Daily/{path}", "person") for path in changed}


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

    assert (answer["pushed"], len(answer["errors"])) == (1, len(bad))
    statuses = [result["status"] for result in answer["results"]]
    assert statuses == ["refused"] * len(bad) + ["created"]
    assert not (tree.parent / "out.md").exists()
    assert str(tree.parent) not in str(answer)


async def test_a_push_touches_no_program(tree, daemon_rig: DaemonRig):
    save(tree / "Modules/m/module.py", "code\n")
    (tree / "Daily/link").symlink_to("../Modules")
    paths = [
        *(".parachute/keys.yaml", "Modules/m/module.py", "modules/m/x.py"),
        *(".claude/settings.json", ".git/hooks/pre-commit", "Daily/link/m/x.py"),
    ]
    answer = await push(daemon_rig, *({"path": path, "content": "x"} for path in paths), root="")
    programs = ["Modules/m/module.py", "Daily/link/m/module.py"]
    gone = await delete(daemon_rig, "", programs, confirm="true")

    assert (answer["pushed"], len(answer["errors"])) == (0, len(paths))
    assert (gone["deleted"], len(gone["errors"])) == (0, 2)
    assert (tree / "Modules/m/module.py").read_text() == "code\n"


async def test_what_is_not_well_formed_is_refused(daemon_rig: DaemonRig):
    for body in (
        {"files": {}},
        {"files": [{"path": "a.md"}]},
        {"root": "..", "files": []},
        {"files": [{"path": "a.md", "content": 3}]},
    ):
        await expect(daemon_rig, 400, "POST", "/api/sync/push", json=body)
    await expect(daemon_rig, 400, "POST", "/api/sync/push", data=b"{")
    assert (await push(daemon_rig))["pushed"] == 0


async def test_a_push_with_a_base_is_merged_or_reported_as_a_conflict_in_a_200(
    tree, daemon_rig: DaemonRig
):
    text = "".join(f"line {number}\n" for number in range(9))
    save(tree / "Daily/plan.md", text)
    objects = daemon_rig.daemon.watched.objects
    (pulled,) = (await pull(daemon_rig, "plan.md"))["files"]
    await daemon_rig.until(lambda: objects.has_stood("Daily/plan.md", pulled["hash"]))
    save(tree / "Daily/plan.md", text.replace("line 1\n", "theirs\n"))

    async def pushed(content: str, base_hash: str) -> dict:
        file = {"path": "plan.md", "content": content, "base_hash": base_hash}
        return await push(daemon_rig, file)

    merged = await pushed(text.replace("line 7\n", "ours\n"), pulled["hash"].upper())
    clash = await pushed(text.replace("line 1\n", "ours\n"), pulled["hash"])
    now = (tree / "Daily/plan.md").read_text()
    (conflict,) = clash["conflicts"]
    done = await pushed(conflict["theirs"] + "ours\n", conflict["theirs_hash"])

    assert (merged["pushed"], merged["results"][0]["status"]) == (1, "merged")
    assert now == text.replace("line 1\n", "theirs\n").replace("line 7\n", "ours\n")
    assert (clash["pushed"], clash["errors"], clash["results"][0]["status"]) == (0, [], "conflict")
    assert conflict == {
        "path": "plan.md",
        "base": text,
        "ours": text.replace("line 1\n", "ours\n"),
        "theirs": now,
        "theirs_hash": digest(now),
        "is_binary": False,
    }
    assert (done["pushed"], (tree / "Daily/plan.md").read_text()) == (1, f"{now}ours\n")


async def test_lines_of_a_picture_are_not_merged(tree, daemon_rig: DaemonRig):
    (tree / "Daily" / PICTURE).write_bytes(PNG + b"theirs")
    sent = base64.b64encode(PNG + b"ours").decode()
    file = {"path": PICTURE, "content": sent, "is_binary": True, "base_hash": digest(PNG)}
    (conflict,) = (await push(daemon_rig, file))["conflicts"]

    assert conflict["is_binary"] is True
    assert base64.b64decode(conflict["theirs"]) == PNG + b"theirs"
    assert (tree / "Daily" / PICTURE).read_bytes() == PNG + b"theirs"


async def test_a_pull_hands_out_texts_and_binaries_exactly(tree, daemon_rig: DaemonRig):
    save(tree / "Daily/odd.md", "\ufeff# Title\r\n\r\nno end")
    (tree / "Daily/broken.md").write_bytes(b"\xff\xfe")
    answer = await pull(daemon_rig, "odd.md", "broken.md", PICTURE, "odd.md")
    files = {file["path"]: file for file in answer["files"]}
    missing = await pull(daemon_rig, "none.md", "../Elsewhere.md", HIDDEN)

    odd = (files["odd.md"]["content"].encode(), files["odd.md"]["is_binary"])
    assert odd == ((tree / "Daily/odd.md").read_bytes(), False)
    assert base64.b64decode(files["broken.md"]["content"]) == b"\xff\xfe"
    assert base64.b64decode(files[PICTURE]["content"]) == PNG
    assert (missing["files"], len(missing["errors"])) == ([], 3)


async def test_deleted_files_are_in_history_and_missing_ones_are_reported(
    tree, daemon_rig: DaemonRig
):
    path, watched = "journals/2026-11-21.md", daemon_rig.daemon.watched
    answer = await delete(daemon_rig, "Daily", [path, "gone.md", path])

    assert (answer["deleted"], answer["confirm_needed"]) == (1, False)
    assert answer["errors"] == ["gone.md: unknown file below the root"]
    assert not (tree / "Daily" / path).exists()
    assert watched.history.writes_of(f"Daily/{path}")[-1].operation == "Delete"
    assert watched.objects.get(digest("yesterday\n")) == b"yesterday\n"
    assert watched.index.get(f"Daily/{path}") is None


async def test_what_is_not_there_is_told_in_the_same_words_and_not_deleted(
    tree, daemon_rig: DaemonRig
):
    missing = ["a.md,b.md", "gone.md", HIDDEN, "Elsewhere.md"]
    key = key_of(daemon_rig, "daily:write")
    answer = await delete(daemon_rig, "", [*missing, "gone.md"], key)
    assert answer["errors"] == [f"{path}: unknown file below the root" for path in missing]
    assert answer["deleted"] == 0
    for path in ("../Elsewhere.md", "/etc/passwd", HIDDEN, "journals"):
        assert (await delete(daemon_rig, "Daily", [path]))["deleted"] == 0
    assert (tree / "Elsewhere.md").exists()
    assert (tree / "Daily" / HIDDEN).exists()


async def test_more_than_a_fifth_of_the_vault_goes_only_when_it_is_confirmed(
    vault, daemon_rig: DaemonRig
):
    notes = [f"note-{number}.md" for number in range(50)]
    for name in notes:
        save(vault / "Daily" / name, f"{name}\n")
    await noticed(daemon_rig)
    at_once = await delete(daemon_rig, "Daily", notes[:11])
    assert (at_once["deleted"], at_once["confirm_needed"]) == (0, True)
    assert len(list(vault.glob("Daily/*.md"))) == 50
    assert "confirm=true" in at_once["message"]
    confirmed = await delete(daemon_rig, "Daily", notes, confirm="true")

    assert confirmed["deleted"] == 50
    assert (list(vault.glob("Daily/*.md")), len(daemon_rig.daemon.watched.index)) == ([], 0)


@pytest.mark.parametrize("hidden", [0, 50])
async def test_a_key_with_paths_confirms_by_the_files_that_it_sees(
    vault, hidden, daemon_rig: DaemonRig
):
    for number in range(hidden):
        save(vault / f"Private/note-{number}.md", "note\n")
    for number in range(4):
        save(vault / f"Daily/note-{number}.md", "note\n")
    await noticed(daemon_rig)
    key = key_of(daemon_rig, "vault:write", paths=["Daily/**"])
    answer = await delete(daemon_rig, "Daily", ["note-0.md", "note-1.md"], key)

    message = answer["message"].partition(" are ")[0]
    assert (answer["confirm_needed"], message) == (True, "2 of 4 files")
