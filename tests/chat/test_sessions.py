"""Sessions: one readable file each, that people and the app change alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.testing import ModuleHarness
from tests.chat.chat_of import (
    acting_as_owner,
    conversations,
    files,
    running_chat,
    session,
    sessions_of,
    texts,
)
from tests.chat.talks import talk

FOLDER = "Chat/sessions"


async def _made(chat: ModuleHarness, title: str, *said: str) -> str:
    made = await conversations(chat).create(title)
    for words in said:
        await conversations(chat).add_message(made["id"], words, "parachute")
    await session(chat, made["id"])
    return str(made["id"])


async def _edited(chat: ModuleHarness, vault: Path, old: str, new: str) -> str:
    (name,) = files(vault)
    path = vault / FOLDER / name
    path.write_text(path.read_text().replace(old, new))
    await chat.event("file.modified", path=f"{FOLDER}/{name}")
    return f"{FOLDER}/{files(vault)[0]}"


async def _moved(
    chat: ModuleHarness, vault: Path, session_id: str, name: str, new: str
) -> dict[str, Any]:
    """The session, once its file has the other name."""
    (vault / FOLDER / name).rename(vault / FOLDER / new)
    moved = {"path": f"{FOLDER}/{new}", "from": f"{FOLDER}/{name}"}
    await chat.event("file.moved", **moved)
    found = await session(chat, session_id)
    assert found["path"] == f"{FOLDER}/{new}"
    return found


async def _listed(chat: ModuleHarness, **query: str) -> list[str]:
    found = await chat.request("GET", "/", query=query)
    assert isinstance(found, dict)
    return [one["title"] for one in found["sessions"]]


async def test_a_sessions_title_and_its_files_name_follow_each_other(
    chat: ModuleHarness, vault: Path
):
    made = await _made(chat, "Garden plans", "Where do the beans go?")
    (name,) = files(vault)
    text = (vault / FOLDER / name).read_text()
    assert name.endswith(" Garden plans.md")
    assert "title: Garden plans\ntitle_source: user\n" in text
    assert "\n### User\n\nWhere do the beans go?\n" in text, "any editor reads it"

    answer: Any = await chat.request("PATCH", f"/{made}", body={"title": "Peas: a/b"})
    assert answer["session"]["title"] == "Peas: a/b"
    assert answer["session"]["metadata"]["title_source"] == "user"
    (name,) = files(vault)
    assert name.endswith(" Peas a b.md")
    assert await texts(chat, made) == ["Where do the beans go?"]

    found = await _moved(chat, vault, made, name, name.replace("Peas a b", "Runner beans"))
    assert found["title"] == "Runner beans"


async def test_a_title_typed_into_a_file_is_the_persons_and_a_move_gives_none(
    chat: ModuleHarness, vault: Path
):
    made = await _made(chat, "", "Hello")
    (name,) = files(vault)
    (vault / FOLDER / "old").mkdir()
    assert not (await _moved(chat, vault, made, name, f"old/{name}"))["title"]
    await _moved(chat, vault, made, f"old/{name}", name)

    await _edited(chat, vault, "title_source: default", "title_source: default\ntitle: Mine")

    found = await session(chat, made)
    assert found["title"] == "Mine"
    assert found["metadata"]["title_source"] == "user"


async def test_an_edited_or_removed_message_is_followed(chat: ModuleHarness, vault: Path):
    made = await _made(chat, "Beans", "Plant beans", "Second")
    path = await _edited(chat, vault, "Plant beans", "Plant peas")
    text = (vault / path).read_text()
    (vault / path).write_text(text[: text.index("<!-- message", text.index("Plant peas"))])

    await conversations(chat).add_message(made, "And now?", "parachute")

    assert await texts(chat, made) == ["Plant peas", "And now?"]


async def test_a_file_made_by_hand_is_listed_and_left_as_it_is(vault: Path):
    (vault / FOLDER).mkdir(parents=True)
    text = (
        "---\ntitle: Old talk\ntags: garden\nmode: wild\n---\n### User | 2026-01-02 10:30\n\nHi\n"
    )
    (vault / FOLDER / "old.md").write_text(text)
    (vault / FOLDER / "latin.md").write_bytes(b"caf\xe9")

    async with running_chat(vault) as chat:
        assert await _listed(chat, tag="garden") == ["Old talk"]
        problems = {one.path: one.problem for one in await chat.doctor()}
        assert (vault / FOLDER / "old.md").read_text() == text
        assert "mode is one of" in problems[f"{FOLDER}/old.md"]
        assert f"{FOLDER}/latin.md" in problems


async def test_the_index_follows_what_happened_while_the_daemon_was_off(vault: Path):
    async with running_chat(vault) as chat:
        kept = await _made(chat, "Kept", "Hello")
        await _made(chat, "Gone", "Hello")
    for path in (vault / FOLDER).iterdir():
        if "Gone" in path.name:
            path.unlink()
        else:
            (vault / FOLDER / "sub").mkdir()
            path.write_text(path.read_text().replace("Hello", "Good evening"))
            path.rename(vault / FOLDER / "sub" / path.name)

    async with running_chat(vault) as chat:
        assert await _listed(chat) == ["Kept"]
        assert await _listed(chat, search="evening") == ["Kept"]
        assert await texts(chat, kept) == ["Good evening"]


async def test_sessions_are_searched_paged_archived_and_counted(chat: ModuleHarness, vault: Path):
    none = {"sessions": 0, "archived": 0, "messages": 0, "active_streams": 0}
    assert await chat.request("GET", "/stats") == none
    made = [
        await _made(chat, f"Bed {number}", "Carrots" if number % 2 else "Turnips")
        for number in range(5)
    ]

    assert len(await _listed(chat, search="carr")) == 2
    first: Any = await chat.request("GET", "/", query={"limit": "3"})
    rest: Any = await chat.request("GET", "/", query={"limit": "3", "cursor": first["next"]})
    every = [f"Bed {number}" for number in (4, 3, 2, 1, 0)]
    assert [one["title"] for one in (*first["sessions"], *rest["sessions"])] == every
    assert rest["next"] is None

    await chat.request("POST", f"/{made[0]}/activate", body={"workspaceId": "garden"})
    assert await _listed(chat, workspaceId="garden") == ["Bed 0"]
    assert await _listed(chat, workspaceId="kitchen") == []

    await chat.request("POST", f"/{made[4]}/archive")
    assert set(await _listed(chat)) == set(every[1:])
    assert await _listed(chat, archived="true") == ["Bed 4"]
    copied = next((vault / FOLDER).glob("*Bed 4*"))
    copied.with_name("zz copy.md").write_bytes(copied.read_bytes())
    await chat.event("file.created", path=f"{FOLDER}/zz copy.md")
    found = await chat.request("GET", "/stats")
    assert found == {"sessions": 5, "archived": 1, "messages": 5, "active_streams": 0}
    assert made[4] in next(one.problem for one in await chat.doctor()), "a copy counts once"
    await chat.request("POST", f"/{made[4]}/unarchive")
    assert sorted(await _listed(chat)) == sorted(every)


async def test_a_session_is_found_bounded_forked_and_deleted(chat: ModuleHarness, vault: Path):
    made = await _made(chat, "Beans", "One", "Two", "Three")
    found = await session(chat, made)
    ids = [one["id"] for one in found["messages"]]
    with acting_as_owner():
        find = sessions_of(chat).find_para
        of_message = await find(found["messages"][0]["paraId"])
        of_session = await find(found["paraId"])
        assert await find("para:chat:nothing") is None
    assert (of_message[0].id, of_message[1]) == (made, ids[0])
    assert (of_session[0].id, of_session[1]) == (made, None)

    body = {"permissions": {"allowed_folders": ["Projects/a"], "allowed_mcps": []}}
    await chat.request("PATCH", f"/{made}", body=body)
    await _edited(chat, vault, "- Projects/a", "- Projects/b")
    stored = (await session(chat, made))["metadata"]["permissions"]
    assert stored["allowed_folders"] == ["Projects/b"], "the file and the app say it alike"
    assert stored["allowed_mcps"] == []

    answer: Any = await chat.request("POST", f"/{made}/fork", body={"message_id": ids[1]})
    forked = await session(chat, answer["session"]["id"])
    assert [one["content"] for one in forked["messages"]] == ["One", "Two"]
    assert not {one["id"] for one in forked["messages"]} & set(ids)
    assert forked["metadata"]["forked_from"] == {"session": made, "message": ids[1]}
    with pytest.raises(NotFoundError):
        await chat.request("POST", f"/{made}/fork", body={"message_id": "none"})

    for one in (made, forked["id"]):
        await chat.request("DELETE", f"/{one}")
    assert files(vault) == []
    with pytest.raises(NotFoundError):
        await session(chat, made)
    with pytest.raises(NotFoundError):
        await conversations(chat).add_message(made, "Still there?", "parachute")


async def test_a_session_names_the_runs_of_its_agent_the_newest_first(
    chat: ModuleHarness, vault: Path
):
    made = await _made(chat, "Beans", "One", "Two")
    (name,) = files(vault)
    text = (vault / FOLDER / name).read_text()
    for number in (1, 2):  # as a turn leaves them
        text = text.replace('"source": "parachute"}', f'"run": "r-{number}"}}', 1)
    (vault / FOLDER / name).write_text(text)

    found = await chat.request("GET", f"/{made}/runs")
    assert found["runs"] == ["r-2", "r-1"]
    assert found["path"] == f"{FOLDER}/{name}"


async def test_a_file_that_a_person_named_keeps_its_name(vault: Path):
    (vault / FOLDER).mkdir(parents=True)
    for name in ("Garden.md", "2026-01-02 My beans.md"):
        (vault / FOLDER / name).write_text("### User | 2026-01-02 10:30\n\nHi\n")
    async with running_chat(vault) as chat:
        listed = await chat.request("GET", "/")
        with acting_as_owner():
            for one in listed["sessions"]:
                with pytest.raises(EditRefusedError):
                    await sessions_of(chat).change(one["id"], title="Hi there", title_source="ai")

    assert files(vault) == ["2026-01-02 My beans.md", "Garden.md"]


async def test_no_two_sessions_begin_with_the_same_name(chat: ModuleHarness, vault: Path):
    names = set()
    for title in ("Beans", "Peas"):
        made = str((await conversations(chat).create())["id"])
        (first,) = files(vault)
        names.add(first)
        await chat.request("PATCH", f"/{made}", body={"title": title})
        assert files(vault)[0].endswith(f" {title}.md")
        await chat.request("DELETE", f"/{made}")

    assert len(names) == 2


async def test_other_modules_find_a_conversation_by_its_topic_and_by_its_bot(
    chat: ModuleHarness, vault: Path
):
    made = await talk(
        chat,
        vault,
        ["When do the beans go out?", "In May."],
        linked_bot_platform="telegram",
        linked_bot_chat_id='"12"',
    )
    other = (await conversations(chat).create("Cars", "discord"))["id"]

    assert [one["id"] for one in await conversations(chat).get_sessions("beans may")] == [made]
    assert [one["id"] for one in await conversations(chat).get_sessions("cars")] == [other]
    assert await conversations(chat).get_sessions("boats") == []
    found = await conversations(chat).get_by_bot_link("telegram", "12")
    assert (found["id"], found["linkedBotPlatform"]) == (made, "telegram")
    for platform, chat_id in (("discord", "12"), ("telegram", "1")):
        assert await conversations(chat).get_by_bot_link(platform, chat_id) is None
    created = [data for name, data in chat.published if name == "chat.session.created"]
    assert created[-1] == {
        "session_id": other,
        "title": "Cars",
        "module": "chat",
        "source": "discord",
    }
