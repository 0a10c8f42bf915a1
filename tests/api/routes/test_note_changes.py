from __future__ import annotations

import asyncio
import re

import aiohttp
import pytest

from tests.api.calls import call, digest, expect, get, key_of, refused
from tests.stories.daemon_rig import DaemonRig, Live, note, save

NEW = "/api/notes/New/a.md"

NOTE = "/api/notes/a.md"

TEXT = "---\nstatus: open # a comment\n---\n# Garden\n\n## Facts\n- beans\n\n## Focus\n- dig\n"


async def changed(
    daemon_rig: DaemonRig,
    method: str,
    path: str,
    *,
    match: str | None = None,
    new: bool = False,
    **options: object,
) -> tuple[int, dict]:
    headers = {
        **({"If-Match": f'"{match}"' if match != "*" else "*"} if match else {}),
        **({"If-None-Match": "*"} if new else {}),
    }
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, daemon_rig.url + path, headers=headers, **options) as answer,
    ):
        reported = await answer.json()
        assert (
            answer.status != 200
            or method == "DELETE"
            or answer.headers["ETag"] == f'"{reported["hash"]}"'
        )
        return answer.status, reported


async def test_a_section_is_replaced_appended_to_and_made(live: Live, vault):
    save(vault / "a.md", TEXT)
    async with live() as daemon_rig:
        for body in (
            {"section": "Facts", "content": "- peas", "mode": "append"},
            {"section": "Focus", "content": "- rest"},
            {"section": "New", "content": "- x", "create": True},
        ):
            assert (await changed(daemon_rig, "PATCH", NOTE, json=body))[0] == 200
        status, message = await refused(
            daemon_rig, "PATCH", NOTE, json={"section": "None", "content": "x"}
        )

    assert (status, message) == (
        404,
        "there is no section 'None'; there are 'Garden', 'Facts', 'Focus', 'New'",
    )
    assert (vault / "a.md").read_text() == TEXT.replace("- beans\n", "- beans\n- peas\n").replace(
        "- dig", "- rest"
    ) + "\n## New\n\n- x\n"


async def test_a_refused_edit_says_what_to_do(live: Live, vault):
    save(vault / "open.md", "# A\n\n```\nx\n")
    save(vault / "cr.md", "---\ra: 1\r---\r# A\r")
    save(vault / "text.md", "---\ntext\n---\n# A\n")
    save(vault / "many.md", "# A\n" * 50_001)
    # markdown-it: the list ends with the definition, so x is a heading
    save(vault / "lazy.md", '## A\n- [a]: /u "t"\nx\n---\n\n## B\n')
    # cmark: the dashes are text, and underlined
    save(vault / "rule.md", "## A\n[a]: /u\n---\n=\n\n## B\n")
    save(vault / "broken.md", "---\nstatus: open\n# my tags\n- a\n- b\n---\n")
    async with live() as daemon_rig:
        for path, edit, way in (
            (
                "open.md",
                {"section": "New", "content": "x", "create": True},
                "line 3 is never closed.*close it with a line ```",
            ),
            ("cr.md", {"key": "b", "value": "x"}, "lone CR.*LF first"),
            ("text.md", {"key": "b", "value": "x"}, "put that right first"),
            ("broken.md", {"key": "status", "value": "x"}, "below 'status' may not be its own"),
            ("lazy.md", {"section": "A", "content": "x"}, "put a blank line above it"),
            ("rule.md", {"section": "A", "content": "x"}, "put a blank line above it"),
            (
                "many.md",
                {"section": "A", "content": "x"},
                "only its keys, or the whole of it, can be changed",
            ),
        ):
            status, message = await refused(daemon_rig, "PATCH", f"/api/notes/{path}", json=edit)
            assert (status, bool(re.search(way, message))) == (422, True), message


async def test_a_key_is_set_and_taken_out_and_every_other_byte_stays(live: Live, vault):
    data = b"\xef\xbb\xbf---\r\nodd:   'x'   # y\r\nstatus: open\r\n---\r\n# T\xff\r\n"
    (vault / "a.md").write_bytes(data)
    async with live() as daemon_rig:
        for body in (
            {"key": "status", "value": "done"},
            {"key": "tags", "value": ["a", "b"]},
            {"key": "n", "value": 5},
            {"key": "ok", "value": True},
        ):
            assert (await changed(daemon_rig, "PATCH", NOTE, json=body))[0] == 200
        for key in ("tags", "n", "ok"):
            assert (await changed(daemon_rig, "PATCH", NOTE, json={"key": key, "delete": True}))[
                0
            ] == 200

    assert (vault / "a.md").read_bytes() == data.replace(b"open", b"done")


async def test_a_body_that_says_nothing_or_two_things_is_refused(live: Live, vault):
    bodies = [
        {},
        {"section": "Facts"},
        {"section": "Facts", "key": "a", "content": "x"},
        {"section": "Facts", "content": "x", "value": 1},
        {"section": "Facts", "content": "x", "mode": "prepend"},
        {"section": "Facts", "content": "x", "create": "yes"},
        {"key": "a"},
        {"key": "a", "value": 1, "delete": True},
        {"key": "a", "value": {"b": 1}},
        {"key": "a", "value": 1, "other": 2},
        {"section": 5, "content": "x"},
    ]
    save(vault / "a.md", TEXT)
    async with live() as daemon_rig:
        for body in bodies:
            await expect(daemon_rig, 400, "PATCH", NOTE, json=body)
    assert (vault / "a.md").read_text() == TEXT


async def test_what_was_decided_on_an_older_text_is_merged_with_what_others_wrote(
    live: Live, vault
):
    save(vault / "a.md", TEXT)
    async with live() as daemon_rig:
        seen = (await get(daemon_rig, NOTE))["hash"]
        save(vault / "a.md", TEXT.replace("dig", "dig deep"))
        status, reported = await changed(
            daemon_rig, "PATCH", NOTE, match=seen, json={"section": "Facts", "content": "- peas"}
        )

    assert (status, reported["merged"], reported["changed"]) == (200, True, True)
    assert (vault / "a.md").read_text() == TEXT.replace("dig", "dig deep").replace("beans", "peas")


async def test_a_clash_carries_both_texts_and_the_one_they_began_with_and_writes_nothing(
    live: Live, vault
):
    save(vault / "a.md", TEXT)
    async with live() as daemon_rig:
        seen = (await get(daemon_rig, NOTE))["hash"]
        theirs = TEXT.replace("beans", "leeks")
        save(vault / "a.md", theirs)
        for method, options, ours in (
            (
                "PATCH",
                {"json": {"section": "Facts", "content": "- peas"}},
                TEXT.replace("beans", "peas"),
            ),
            (
                "PUT",
                {"data": TEXT.replace("beans", "kale").encode()},
                TEXT.replace("beans", "kale"),
            ),
        ):
            status, reported = await changed(daemon_rig, method, NOTE, match=seen, **options)
            assert status == 409
            assert reported["conflict"] == {
                "base": TEXT,
                "ours": ours,
                "theirs": theirs,
                "hash": digest(theirs),
            }

    assert (vault / "a.md").read_text() == theirs


async def test_a_note_that_was_emptied_since_is_a_conflict_with_a_hash_and_one_that_is_gone_with_none(  # noqa: E501
    live: Live, vault
):
    save(vault / "a.md", TEXT)
    ours = TEXT.replace("beans", "kale")
    async with live() as daemon_rig:
        seen = (await get(daemon_rig, NOTE))["hash"]
        save(vault / "a.md", "")
        status, reported = await changed(
            daemon_rig, "PUT", NOTE, match=seen, json={"content": ours}
        )
        assert (status, reported["conflict"]) == (
            409,
            {"base": TEXT, "ours": ours, "theirs": "", "hash": digest("")},
        )
        (vault / "a.md").unlink()
        status, reported = await changed(
            daemon_rig, "PUT", NOTE, match=seen, json={"content": ours}
        )
        assert (status, reported["conflict"]) == (
            409,
            {"base": "", "ours": ours, "theirs": "", "hash": None},
        )


async def test_a_base_that_no_one_kept_is_a_conflict_with_the_present_text(live: Live, vault):
    save(vault / "a.md", TEXT)
    async with live() as daemon_rig:
        body = {"section": "Facts", "content": "- peas", "mode": "append"}
        status, reported = await changed(daemon_rig, "PATCH", NOTE, match="0" * 64, json=body)
        ours = TEXT.replace("- beans\n", "- beans\n- peas\n")
        assert (status, reported["conflict"]) == (
            409,
            {"base": "", "ours": ours, "theirs": TEXT, "hash": digest(TEXT)},
        )
        assert (await changed(daemon_rig, "PUT", NOTE, match="0" * 64, data=b"x"))[0] == 409
        assert (await changed(daemon_rig, "DELETE", NOTE, match="0" * 64))[0] == 409
        for wrong in ("x", "0" * 63, '"a", "b"'):
            await expect(daemon_rig, 400, "PATCH", NOTE, json=body, headers={"If-Match": wrong})

    assert (vault / "a.md").read_text() == TEXT


async def test_conditions_hold_for_the_whole_of_a_note_too(vault, daemon_rig: DaemonRig):
    new = await changed(daemon_rig, "PUT", NEW, new=True, data=b"one\r\n\xff")
    assert (new[0], new[1]["before"], new[1]["hash"]) == (201, None, digest(b"one\r\n\xff"))
    assert (await changed(daemon_rig, "PUT", NEW, new=True, data=b"two"))[0] == 409
    assert (await changed(daemon_rig, "PUT", NEW, match=new[1]["hash"], data=b"two"))[1]["changed"]
    assert (await changed(daemon_rig, "PUT", NEW, match="*", json={"content": "three\n"}))[0] == 200
    assert not (await changed(daemon_rig, "PUT", NEW, data=b"three\n"))[1]["changed"]
    assert (vault / "New/a.md").read_bytes() == b"three\n"
    status, reported = await changed(daemon_rig, "PUT", "/api/notes/none.md", match="*", data=b"x")
    assert (status, reported["message"]) == (409, "none.md is not there; nothing was written")
    assert reported["conflict"] == {"base": "", "ours": "x", "theirs": "", "hash": None}
    assert (await changed(daemon_rig, "PUT", "/api/notes/none.md", match=digest("x"), data=b"x"))[
        0
    ] == 409
    assert (
        await changed(
            daemon_rig, "PATCH", "/api/notes/none.md", match="*", json={"key": "a", "value": 1}
        )
    )[0] == 404
    assert not (vault / "none.md").exists()


async def test_json_that_curl_gives_no_type_of_its_own_is_json_and_text_is_text(live: Live, vault):
    body = b'{"content": "# lit\\n"}'
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    async with (
        live() as daemon_rig,
        aiohttp.ClientSession(skip_auto_headers=["Content-Type"]) as session,
    ):

        async def put(data: bytes, headers: dict[str, str]) -> bytes:
            async with session.put(
                daemon_rig.url + "/api/notes/lit.md", data=data, headers=headers
            ) as answer:
                assert answer.status in {200, 201}, await answer.text()
            return (vault / "lit.md").read_bytes()

        for headers in ({}, form, {"Content-Type": "application/json"}):
            assert await put(body, headers) == b"# lit\n"
            assert await put(b"# other\n", {"Content-Type": "text/markdown"}) == b"# other\n"
        assert await put(body, {"Content-Type": "text/markdown"}) == body
        for text in (
            b"# lit\n",
            b'{"content": "x", "more": 1}',
            b'{"content": 1}',
            b'{"content": ',
            b'["content"]',
            b"{" * 5_000,
        ):
            assert await put(text, form) == text
        await expect(
            daemon_rig,
            400,
            "PUT",
            "/api/notes/lit.md",
            data=b'{"content": "\\ud800"}',
            headers=form,
        )


TWO = (
    "# Tea\n\n## Facts\n- green\n\n# Coffee\n\n## Facts\n- black\n\n## Facts\n- hot\n\n# "
    "Rare\n## Rare\n"
)


async def test_a_name_that_several_sections_have_is_refused_and_says_how_to_name_one(
    live: Live, vault
):
    save(vault / "a.md", TWO)
    async with live() as daemon_rig:
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
            assert ('"section": ["Coffee", "Facts"]' in message) == ("Coffee" not in str(more)), (
                message
            )
        await expect(daemon_rig, 404, "PATCH", NOTE, json={**body, "occurrence": 4})
        for wrong in (
            {"occurrence": 0},
            {"occurrence": "1"},
            {"occurrence": 1, "create": True},
            {"section": []},
            {"section": [1]},
        ):
            await expect(daemon_rig, 400, "PATCH", NOTE, json={**body, **wrong})
        assert (vault / "a.md").read_text() == TWO
        for named in (
            {"section": ["Tea", "Facts"]},
            {"section": "Coffee > Facts", "occurrence": 2},
            {"section": "Rare"},
        ):
            await expect(daemon_rig, 200, "PATCH", NOTE, json={**body, **named})

    wanted = TWO.replace("green", "x").replace("hot", "x") + "\n- x\n"
    assert (vault / "a.md").read_text() == wanted


async def test_what_a_field_takes_is_said_in_one_sentence(live: Live, vault):
    save(vault / "a.md", TEXT)
    async with live() as daemon_rig:
        bodies = {
            "value: should be a text, a number, true or false, or a list of texts": {
                "key": "n",
                "value": {"a": 1},
            },
            "section: should be a title, or a list of the titles on the way to it": {
                "section": 5,
                "content": "x",
            },
        }
        for sentence, body in bodies.items():
            assert await refused(daemon_rig, "PATCH", NOTE, json=body) == (400, sentence)
        message = (await refused(daemon_rig, "PUT", "/api/notes/a.txt", data=b"x"))[1]
    assert message.endswith("other files are read and written with /api/files")


async def test_a_deleted_note_can_be_had_back_as_the_answer_says(live: Live, vault):
    save(vault / "a.md", TEXT)
    async with live() as daemon_rig:
        assert (await changed(daemon_rig, "DELETE", NOTE, match=digest("other")))[0] == 409
        status, reported = await changed(daemon_rig, "DELETE", NOTE, match=digest(TEXT))
        assert (status, reported["hash"], (vault / "a.md").exists()) == (200, digest(TEXT), False)
        await expect(daemon_rig, 404, "DELETE", NOTE)
        async with (
            aiohttp.ClientSession() as session,
            session.get(daemon_rig.url + reported["restore"].split()[1]) as answer,
        ):
            text = await answer.read()
        await changed(daemon_rig, "PUT", NOTE, new=True, data=text)

    assert (vault / "a.md").read_text() == TEXT


async def test_a_change_over_the_api_is_a_persons_and_wakes_who_watches(live: Live, vault):
    save(vault / "AGENTS.md", note("Everything", watch=["A/*.md"]))
    save(vault / "A/a.md", TEXT)
    async with live() as daemon_rig:
        await changed(
            daemon_rig, "PATCH", "/api/notes/A/a.md", json={"section": "Facts", "content": "- peas"}
        )
        reported = daemon_rig.reported("file.modified")
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))

    assert [(one["path"], one["by"]) for one in reported] == [
        ("A/a.md", "person")
    ]  # told of before the answer went out


async def test_who_may_not_read_does_not_learn_what_others_wrote(live: Live, vault):
    save(vault / "a.md", TEXT)
    async with live() as daemon_rig:
        seen = (await get(daemon_rig, NOTE))["hash"]
        save(vault / "a.md", TEXT.replace("beans", "leeks"))
        headers = {"If-Match": seen, **key_of(daemon_rig, "vault:write")}
        status, message = await refused(
            daemon_rig, "PATCH", NOTE, json={"section": "Facts", "content": "x"}, headers=headers
        )

    assert (status, "leeks" in message) == (409, False)


async def test_beyond_the_keys_paths_nothing_is_written_and_nothing_reported(live: Live, vault):
    save(vault / "Mine/a.md", TEXT)
    save(vault / "Hers/b.md", TEXT)
    (vault / "Mine/hers.md").symlink_to("../Hers/b.md")
    async with live() as daemon_rig:
        key, reader = (
            key_of(daemon_rig, "vault:read,write", paths=["Mine/**"]),
            key_of(daemon_rig, "vault:read"),
        )
        body = {"section": "Facts", "content": "x"}
        for path in ("Hers/b.md", "Hers/new.md", "Mine/hers.md", "Mine/.b.md", ".parachute/a.md"):
            for method, options in (
                ("PATCH", {"json": body}),
                ("PUT", {"data": b"x"}),
                ("DELETE", {}),
            ):
                assert await refused(
                    daemon_rig, method, f"/api/notes/{path}", headers=key, **options
                ) == (404, f"{path} is not in the vault")
        await expect(daemon_rig, 403, "PATCH", "/api/notes/Mine/a.md", json=body, headers=reader)
        await expect(daemon_rig, 200, "PATCH", "/api/notes/Mine/a.md", json=body, headers=key)

    assert (vault / "Hers/b.md").read_text() == TEXT


async def test_writers_to_one_note_and_to_many_lose_no_line(live: Live, vault):
    names = [f"n{number}.md" for number in range(8)]
    for name in names:
        save(vault / name, "# N\n\n## Facts\n")
    async with live() as daemon_rig, aiohttp.ClientSession() as session:

        async def write(writer: int) -> None:
            for number in range(4):
                for name in (names[0], names[writer]):
                    body = {
                        "section": "Facts",
                        "content": f"- {writer} {number} {name}",
                        "mode": "append",
                    }
                    async with session.patch(
                        f"{daemon_rig.url}/api/notes/{name}", json=body
                    ) as answer:
                        assert answer.status == 200, await answer.text()

        await asyncio.gather(*map(write, range(8)))

    for writer in range(8):
        for number in range(4):
            for name in (names[0], names[writer]):
                assert f"- {writer} {number} {name}\n" in (vault / name).read_text()


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
    live: Live, vault, edit, status
):
    save(
        vault / "Private/diary.md",
        "# Diary\n\n## Kim leaves\n\n## Plan\n\none\n\n# Other\n\n## Plan\n",
    )
    async with live() as daemon_rig:
        path = "/api/notes/Private/diary.md"
        writer, other = key_of(daemon_rig, "vault:write"), key_of(daemon_rig, "vault:read,write")
        reported, withheld = [
            await call(daemon_rig, "PATCH", path, headers=headers, json=edit)
            for headers in (other, writer)
        ]

        assert (reported[0], withheld[0]) == (status, status)
        assert not any(word in str(withheld[1]) for word in ("Kim", "Diary", "Other", "there are"))
        await expect(
            daemon_rig,
            200,
            "PATCH",
            path,
            headers=writer,
            json={"section": "Kim leaves", "content": "soon"},
        )
