from __future__ import annotations

import asyncio
import re
import threading

import aiohttp
import pytest

from parachuted.vault import Store
from tests.api.calls import digest, expect, get, key_of, refused
from tests.stories.daemon_rig import DaemonRig, Live, note, save

NEW = "/api/notes/New/a.md"
NONE = "/api/notes/none.md"
NOTE = "/api/notes/a.md"
TEXT = "---\nstatus: open # a comment\n---\n# Garden\n\n## Facts\n- beans\n\n## Focus\n- dig\n"
KALE, LEEKS, PEAS = (TEXT.replace("beans", crop) for crop in ("kale", "leeks", "peas"))
SOWN = {"section": "Facts", "content": "- peas"}


async def changed(
    daemon_rig: DaemonRig,
    status: int,
    method: str,
    path: str,
    *,
    match: str = "",
    **options: object,
) -> dict:
    """The answer of that status; `match` is the digest that the note has to have, `*` for any, or
    `none`.
    """
    shown = {"": {}, "*": {"If-Match": "*"}, "none": {"If-None-Match": "*"}}
    headers = shown.get(match, {"If-Match": f'"{match}"'})
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, daemon_rig.url + path, headers=headers, **options) as answer,
    ):
        reported = await answer.json()
        assert answer.status == status, reported
        if status == 200 and method != "DELETE":
            assert answer.headers["ETag"] == f'"{reported["hash"]}"'
        return reported


async def test_a_section_is_replaced_appended_to_and_made(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", TEXT)
    for body in (
        {**SOWN, "mode": "append"},
        {"section": "Focus", "content": "- rest"},
        {"section": "New", "content": "- x", "create": True},
    ):
        await changed(daemon_rig, 200, "PATCH", NOTE, json=body)

    says = "there is no section 'None'; there are 'Garden', 'Facts', 'Focus', 'New'"
    await expect(daemon_rig, 404, "PATCH", NOTE, json={**SOWN, "section": "None"}, says=says)
    sown = TEXT.replace("- beans\n", "- beans\n- peas\n").replace("- dig", "- rest")
    assert (vault / "a.md").read_text() == sown + "\n## New\n\n- x\n"


@pytest.mark.parametrize(
    ("text", "edit", "way"),
    [
        ("# A\n\n```\nx\n", {**SOWN, "create": True}, "line 3 is never closed.*with a line ```"),
        ("---\ra: 1\r---\r# A\r", {"key": "b", "value": "x"}, "lone CR.*LF first"),
        ("---\ntext\n---\n# A\n", {"key": "b", "value": "x"}, "put that right first"),
        ("# A\n" * 50_001, {**SOWN, "section": "A"}, "only its keys, or the whole of it, can be"),
    ],
    ids=["open fence", "lone returns", "no mapping", "too many headings"],
)
async def test_a_refused_edit_says_what_to_do(vault, daemon_rig: DaemonRig, text, edit, way):
    save(vault / "a.md", text)
    status, message = await refused(daemon_rig, "PATCH", NOTE, json=edit)
    assert (status, bool(re.search(way, message))) == (422, True), message


async def test_a_key_is_set_and_taken_out_and_every_other_byte_stays(vault, daemon_rig: DaemonRig):
    data = b"\xef\xbb\xbf---\r\nodd:   'x'   # y\r\nstatus: open\r\n---\r\n# T\xff\r\n"
    (vault / "a.md").write_bytes(data)
    values = {"status": "done", "tags": ["a", "b"], "n": 5, "ok": True}
    for key, value in values.items():
        await changed(daemon_rig, 200, "PATCH", NOTE, json={"key": key, "value": value})
    for key in ("tags", "n", "ok"):
        await changed(daemon_rig, 200, "PATCH", NOTE, json={"key": key, "delete": True})

    assert (vault / "a.md").read_bytes() == data.replace(b"open", b"done")


async def test_a_body_that_says_nothing_or_two_things_is_refused(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", TEXT)
    for body, says in (
        ({}, ""),
        ({"section": "Facts"}, ""),
        ({**SOWN, "key": "a"}, ""),
        ({**SOWN, "value": 1}, ""),
        ({**SOWN, "mode": "prepend"}, ""),
        ({**SOWN, "create": "yes"}, ""),
        ({"key": "a"}, ""),
        ({"key": "a", "value": 1, "delete": True}, ""),
        ({"key": "a", "value": 1, "other": 2}, ""),
        (
            {"key": "a", "value": {"b": 1}},
            "value.list[str]: Input should be a valid list",
        ),
        (
            {"section": 5, "content": "x"},
            "section.str: Input should be a valid string",
        ),
    ):
        await expect(daemon_rig, 400, "PATCH", NOTE, json=body, says=says)
    assert (vault / "a.md").read_text() == TEXT
    message = (await refused(daemon_rig, "PUT", "/api/notes/a.txt", data=b"x"))[1]
    assert message.endswith("other files are read and written with /api/files")


async def test_what_was_decided_on_an_older_text_is_merged(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", TEXT)
    seen = (await get(daemon_rig, NOTE))["hash"]
    save(vault / "a.md", TEXT.replace("dig", "dig deep"))
    reported = await changed(daemon_rig, 200, "PATCH", NOTE, match=seen, json=SOWN)

    assert (reported["merged"], reported["changed"]) == (True, True)
    assert (vault / "a.md").read_text() == PEAS.replace("dig", "dig deep")


@pytest.mark.parametrize(
    ("method", "sent", "now", "base", "ours"),
    [
        ("PATCH", {"json": SOWN}, LEEKS, TEXT, PEAS),
        ("PUT", {"data": KALE.encode()}, LEEKS, TEXT, KALE),
        ("PUT", {"json": {"content": KALE}}, "", TEXT, KALE),
        ("PUT", {"json": {"content": KALE}}, None, "", KALE),
    ],
    ids=["a section", "a whole note", "emptied since", "gone since"],
)
async def test_a_clash_carries_all_three_texts_and_writes_nothing(
    vault, daemon_rig: DaemonRig, method, sent, now, base, ours
):
    save(vault / "a.md", TEXT)
    seen = (await get(daemon_rig, NOTE))["hash"]
    (vault / "a.md").unlink()
    if now is not None:
        save(vault / "a.md", now)
    reported = await changed(daemon_rig, 409, method, NOTE, match=seen, **sent)

    hashed = None if now is None else digest(now)
    theirs = {"base": base, "ours": ours, "theirs": now or "", "hash": hashed}
    assert reported["conflict"] == theirs
    assert [path.read_text() for path in vault.glob("*.md")] == ([] if now is None else [now])


async def test_a_base_that_no_one_kept_is_a_conflict(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", TEXT)
    body, unknown = {**SOWN, "mode": "append"}, "0" * 64
    reported = await changed(daemon_rig, 409, "PATCH", NOTE, match=unknown, json=body)
    ours = TEXT.replace("- beans\n", "- beans\n- peas\n")
    theirs = {"theirs": TEXT, "hash": digest(TEXT)}
    assert reported["conflict"] == {"base": "", "ours": ours, **theirs}
    await changed(daemon_rig, 409, "PUT", NOTE, match=unknown, data=b"x")
    await changed(daemon_rig, 409, "DELETE", NOTE, match=unknown)
    for wrong in ("x", "0" * 63, '"a", "b"'):
        await expect(daemon_rig, 400, "PATCH", NOTE, json=body, headers={"If-Match": wrong})

    assert (vault / "a.md").read_text() == TEXT


async def test_conditions_hold_for_the_whole_of_a_note_too(vault, daemon_rig: DaemonRig):
    new = await changed(daemon_rig, 201, "PUT", NEW, match="none", data=b"one\r\n\xff")
    assert (new["before"], new["hash"]) == (None, digest(b"one\r\n\xff"))
    await changed(daemon_rig, 409, "PUT", NEW, match="none", data=b"two")
    assert (await changed(daemon_rig, 200, "PUT", NEW, match=new["hash"], data=b"two"))["changed"]
    await changed(daemon_rig, 200, "PUT", NEW, match="*", json={"content": "three\n"})
    assert not (await changed(daemon_rig, 200, "PUT", NEW, data=b"three\n"))["changed"]
    assert (vault / "New/a.md").read_bytes() == b"three\n"
    reported = await changed(daemon_rig, 409, "PUT", NONE, match="*", data=b"x")
    assert reported["message"] == "none.md is not there; nothing was written"
    assert reported["conflict"] == {"base": "", "ours": "x", "theirs": "", "hash": None}
    await changed(daemon_rig, 409, "PUT", NONE, match=digest("x"), data=b"x")
    await changed(daemon_rig, 404, "PATCH", NONE, match="*", json={"key": "a", "value": 1})
    assert not (vault / "none.md").exists()


TWO = (
    "# Tea\n\n## Facts\n- green\n\n# Coffee\n\n## Facts\n- black\n\n## Facts\n- hot\n\n# "
    "Rare\n## Rare\n"
)


async def test_a_name_of_several_sections_is_refused_with_how_to_name_each(
    vault, daemon_rig: DaemonRig
):
    save(vault / "a.md", TWO)
    body = {"section": "Facts", "content": "- x"}
    for more in (
        {},
        {"create": True},
        {"mode": "append"},
        {"section": ["facts"]},
        {"section": "Coffee > Facts"},
    ):
        status, message = await refused(daemon_rig, "PATCH", NOTE, json={**body, **more})
        assert (status, '"occurrence": ' in message) == (422, True)
        is_named = "Coffee" in str(more)
        assert ('"section": ["Coffee", "Facts"]' in message) is not is_named, message
    for wrong, expected in (
        ({"occurrence": 4}, 404),
        ({"occurrence": 0}, 400),
        ({"occurrence": "1"}, 400),
        ({"occurrence": 1, "create": True}, 400),
        ({"section": []}, 400),
        ({"section": [1]}, 400),
    ):
        await expect(daemon_rig, expected, "PATCH", NOTE, json={**body, **wrong})
    assert (vault / "a.md").read_text() == TWO
    for named in (
        {"section": ["Tea", "Facts"]},
        {"section": "Coffee > Facts", "occurrence": 2},
        {"section": "Rare"},
    ):
        await expect(daemon_rig, 200, "PATCH", NOTE, json={**body, **named})

    wanted = TWO.replace("green", "x").replace("hot", "x") + "\n- x\n"
    assert (vault / "a.md").read_text() == wanted


async def test_a_deleted_note_can_be_had_back_as_the_answer_says(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", TEXT)
    await changed(daemon_rig, 409, "DELETE", NOTE, match=digest("other"))
    reported = await changed(daemon_rig, 200, "DELETE", NOTE, match=digest(TEXT))
    assert (reported["hash"], (vault / "a.md").exists()) == (digest(TEXT), False)
    await expect(daemon_rig, 404, "DELETE", NOTE)
    async with (
        aiohttp.ClientSession() as session,
        session.get(daemon_rig.url + reported["restore"].split()[1]) as answer,
    ):
        text = await answer.read()
    await changed(daemon_rig, 201, "PUT", NOTE, match="none", data=text)

    assert (vault / "a.md").read_text() == TEXT


async def test_a_change_over_the_api_is_a_persons_and_wakes_who_watches(live: Live, vault):
    save(vault / "AGENTS.md", note("Everything", watch=["A/*.md"]))
    save(vault / "A/a.md", TEXT)
    async with live() as daemon_rig:
        await changed(daemon_rig, 200, "PATCH", "/api/notes/A/a.md", json=SOWN)
        reported = daemon_rig.reported("file.modified")  # before the answer went out
        assert [(one["path"], one["by"]) for one in reported] == [("A/a.md", "person")]
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))


async def test_who_may_not_read_does_not_learn_what_others_wrote(vault, daemon_rig: DaemonRig):
    save(vault / "a.md", TEXT)
    seen = (await get(daemon_rig, NOTE))["hash"]
    save(vault / "a.md", LEEKS)
    headers = {"If-Match": seen, **key_of(daemon_rig, "vault:write")}
    status, message = await refused(daemon_rig, "PATCH", NOTE, json=SOWN, headers=headers)

    assert (status, "leeks" in message) == (409, False)


async def test_beyond_the_keys_paths_nothing_is_written_and_nothing_reported(
    vault, daemon_rig: DaemonRig
):
    save(vault / "Mine/a.md", TEXT)
    save(vault / "Hers/b.md", TEXT)
    (vault / "Mine/hers.md").symlink_to("../Hers/b.md")
    key = key_of(daemon_rig, "vault:read,write", paths=["Mine/**"])
    reader = key_of(daemon_rig, "vault:read")
    ways = (("PATCH", {"json": SOWN}), ("PUT", {"data": b"x"}), ("DELETE", {}))
    for path in ("Hers/b.md", "Hers/new.md", "Mine/hers.md", "Mine/.b.md", ".parachute/a.md"):
        for method, sent in ways:
            answer = await refused(daemon_rig, method, f"/api/notes/{path}", headers=key, **sent)
            assert answer == (404, f"{path} is not in the vault")
    for headers, status in ((reader, 403), (key, 200)):
        mine = {"json": SOWN, "headers": headers}
        await expect(daemon_rig, status, "PATCH", "/api/notes/Mine/a.md", **mine)

    assert (vault / "Hers/b.md").read_text() == TEXT


async def test_two_notes_are_written_side_by_side(vault, daemon_rig: DaemonRig, monkeypatch):
    both, edit = threading.Barrier(2, timeout=20), Store.edit

    def together(*args, **options):
        both.wait()
        return edit(*args, **options)

    monkeypatch.setattr(Store, "edit", together)
    for name in ("a.md", "b.md"):
        save(vault / name, TEXT)
    paths = (NOTE, "/api/notes/b.md")
    body = {"key": "status", "value": "done"}
    await asyncio.gather(*(changed(daemon_rig, 200, "PATCH", path, json=body) for path in paths))


async def test_writers_to_one_note_and_to_many_lose_no_line(vault, daemon_rig: DaemonRig):
    names = [f"n{number}.md" for number in range(8)]
    for name in names:
        save(vault / name, "# N\n\n## Facts\n")
    lines = [
        (name, f"- {writer} {number} {name}")
        for writer in range(8)
        for number in range(4)
        for name in (names[0], names[writer])
    ]

    async def write(writer: int) -> None:
        for name, line in lines[writer * 8 : writer * 8 + 8]:
            body = {"section": "Facts", "content": line, "mode": "append"}
            await expect(daemon_rig, 200, "PATCH", f"/api/notes/{name}", json=body)

    await asyncio.gather(*map(write, range(8)))

    for name, line in lines:
        assert f"{line}\n" in (vault / name).read_text()


@pytest.mark.parametrize(
    ("edit", "status"),
    [
        ({"section": "Nope", "content": "x"}, 404),
        ({"section": "Plan", "content": "x", "occurrence": 3}, 404),
        ({"section": "Plan", "content": "x"}, 422),
        ({"section": "Nope", "content": "x", "mode": "append"}, 404),
    ],
)
async def test_who_may_write_and_not_read_a_note_learns_no_heading_of_it(
    vault, daemon_rig: DaemonRig, edit, status
):
    headings = "# Diary\n\n## Kim leaves\n\n## Plan\n\none\n\n# Other\n\n## Plan\n"
    save(vault / "Private/diary.md", headings)
    path = "/api/notes/Private/diary.md"
    writer, other = key_of(daemon_rig, "vault:write"), key_of(daemon_rig, "vault:read,write")
    await expect(daemon_rig, status, "PATCH", path, headers=other, json=edit)
    withheld = await expect(daemon_rig, status, "PATCH", path, headers=writer, json=edit)

    assert not any(word in str(withheld) for word in ("Kim", "Diary", "Other", "there are"))
    known = {"section": "Kim leaves", "content": "soon"}
    await expect(daemon_rig, 200, "PATCH", path, headers=writer, json=known)
