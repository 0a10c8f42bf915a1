"""Permission: what an agent asks for while it works, and what comes of each answer."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.agents.permission import (
    Answer,
    PendingPermission,
    PermissionRequest,
    PermissionRequests,
)
from parachuted.errors import ActRefusedError, NotFoundError
from parachuted.events import Bus
from parachuted.events.bus import Event
from parachuted.state import open_state

AT = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
DIARY = PermissionRequest(kind="read", what="Diary/2026.md", why="the plan says it is there")


def now() -> datetime:
    return AT


class ScriptedPerson:
    """A person who hears questions, and answers each with the next of some answers; with None, not
    at all.
    """

    def __init__(self, *answers: Answer | None, wait_s: float = 30, never=None) -> None:
        self.bus = Bus(now)
        self.permissions = PermissionRequests(self.bus, now, wait_s, never=never)
        self.events: list[Event] = []
        self._answers = list(answers)
        self.bus.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        if (
            event.event == "permission.requested"
            and self._answers
            and (answer := self._answers.pop(0)) is not None
        ):
            self.permissions.answer(str(event.data["id"]), answer)

    async def ask(
        self,
        request: PermissionRequest = DIARY,
        *,
        run: str = "r1",
        session: str | None = "s1",
        agent: str = "work/helper",
    ) -> bool:
        async with asyncio.timeout(30):
            return await self.permissions.ask(
                run=run, session=session, agent=agent, request=request
            )

    def reported(self, name: str) -> list[Event]:
        return [event for event in self.events if event.event == name]

    async def question(self) -> PendingPermission:
        async with asyncio.timeout(30):
            while not (found := self.permissions.pending()):
                await asyncio.sleep(0)
        return found[0]


async def test_a_wish_is_reported_to_all_listeners_and_once_means_once():
    agent_rig = ScriptedPerson("once", None, wait_s=0.02)

    assert await agent_rig.ask()
    assert not await agent_rig.ask()

    first, second = agent_rig.reported("permission.requested")
    assert (first.data["agent"], first.data["kind"], first.data["what"]) == (
        "work/helper",
        "read",
        "Diary/2026.md",
    )
    assert (first.data["why"], first.data["run"], first.data["session"]) == (
        "the plan says it is there",
        "r1",
        "s1",
    )
    assert first.data["until"] == "2026-11-22T09:00:00.020000Z"
    assert [event.data["answer"] for event in agent_rig.reported("permission.answered")] == [
        "once",
        "unanswered",
    ]
    assert first.data["id"] != second.data["id"]


async def test_unanswered_is_denied_and_nothing_waits_any_more():
    agent_rig = ScriptedPerson(wait_s=0.02)

    assert not await agent_rig.ask()
    assert agent_rig.permissions.pending() == []
    with pytest.raises(NotFoundError, match="parachute permissions list"):
        agent_rig.permissions.answer(str(agent_rig.events[0].data["id"]), "once")


async def test_after_one_unanswered_question_a_run_waits_for_no_one_again_and_the_next_run_may_ask():  # noqa: E501
    agent_rig = ScriptedPerson(None, None, "once", wait_s=0.02)

    assert [
        await agent_rig.ask(),
        await agent_rig.ask(PermissionRequest(kind="bash", what="make")),
    ] == [False, False]
    assert [event.data["what"] for event in agent_rig.reported("permission.requested")] == [
        DIARY.what
    ]
    agent_rig.permissions.end_run("r1")
    assert not await agent_rig.ask(run="r2")
    assert await agent_rig.ask(run="r3")


async def test_what_is_allowed_for_a_session_is_not_asked_again_in_it():
    agent_rig = ScriptedPerson("session", "never")

    assert await agent_rig.ask()
    assert await agent_rig.ask(run="r2")
    assert len(agent_rig.reported("permission.requested")) == 1
    assert not await agent_rig.ask(session="s2")


async def test_another_file_another_act_and_another_agent_are_other_wishes():
    agent_rig = ScriptedPerson("session", None, None, None, wait_s=0.02)

    assert await agent_rig.ask()
    assert not await agent_rig.ask(PermissionRequest(kind="write", what=DIARY.what))
    assert not await agent_rig.ask(PermissionRequest(kind="read", what="Diary/2025.md"))
    assert not await agent_rig.ask(agent="work/other")


async def test_without_a_session_it_lasts_as_long_as_the_run():
    agent_rig = ScriptedPerson("session", None, wait_s=0.02)

    assert await agent_rig.ask(session=None)
    assert await agent_rig.ask(session=None)
    agent_rig.permissions.end_run("r1")
    assert not await agent_rig.ask(session=None)


async def test_never_is_never_asked_again_also_after_a_restart(tmp_path: Path):
    state = open_state(tmp_path / "state.journal")
    agent_rig = ScriptedPerson("never", never=state.table("never"))
    assert not await agent_rig.ask()
    state.close()

    state = open_state(tmp_path / "state.journal")
    again = ScriptedPerson("once", never=state.table("never"))

    assert not await again.ask(run="r9", session="s9")
    assert again.events == []
    assert again.permissions.never() == ["work/helper read Diary/2026.md"]
    assert again.permissions.forget("work/helper") == 1
    assert await again.ask()
    state.close()


async def test_the_same_question_asked_twice_at_once_is_one():
    agent_rig = ScriptedPerson()
    async with asyncio.TaskGroup() as group:
        both = [group.create_task(agent_rig.ask()) for _ in range(2)]
        question = await agent_rig.question()
        await asyncio.sleep(0)
        agent_rig.permissions.answer(question.id, "once")

    assert [one.result() for one in both] == [True, True]
    assert len(agent_rig.reported("permission.requested")) == 1


async def test_an_agent_that_asks_and_asks_is_denied_unheard():
    agent_rig = ScriptedPerson(*["once"] * 20, wait_s=0.02)
    assert (
        sum(
            [
                await agent_rig.ask(PermissionRequest(kind="read", what=f"Diary/{number}.md"))
                for number in range(100)
            ]
        )
        == 20
    )

    assert len(agent_rig.reported("permission.requested")) == 20
    assert not await agent_rig.ask(run="r2", session="s2")
    assert len(agent_rig.reported("permission.requested")) == 21


async def test_no_more_than_three_questions_of_a_run_wait_at_once():
    agent_rig = ScriptedPerson(wait_s=0.05)
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(
                agent_rig.ask(PermissionRequest(kind="read", what=f"Diary/{number}.md"))
            )

    assert len(agent_rig.reported("permission.requested")) == 3


async def test_a_run_that_is_ended_leaves_no_question_behind():
    agent_rig = ScriptedPerson()
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(agent_rig.ask())
        question = await agent_rig.question()
        asking.cancel()

    assert agent_rig.permissions.pending() == []
    assert agent_rig.reported("permission.answered")[0].data["answer"] == "ended"
    with pytest.raises(NotFoundError):
        agent_rig.permissions.answer(question.id, "session")


async def test_the_end_of_a_run_denies_what_it_still_asks():
    agent_rig = ScriptedPerson()
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(agent_rig.ask())
        await agent_rig.question()
        agent_rig.permissions.end_run("r1")

    assert asking.result() is False


async def test_what_an_agent_says_of_its_wish_is_cut_and_shown_safely():
    agent_rig = ScriptedPerson(wait_s=0.001)

    assert not await agent_rig.ask(
        PermissionRequest(kind="bash", what="ls\x1b[2J", why="x" * 10_000)
    )
    assert not await agent_rig.ask(PermissionRequest(kind="bash", what="x" * 10_000))

    (reported,) = agent_rig.reported("permission.requested")
    assert reported.data["what"] == "ls\\x1b[2J"
    assert len(str(reported.data["why"])) == 500


async def test_the_oldest_denials_make_room_for_newer_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("parachuted.agents.permission._MOST_DENIED", 2)
    state = open_state(tmp_path / "state.journal")
    for number in range(2):
        state.table("never").put(f"work/{number}\0read\0a.md", {"at": "2026"})
    agent_rig = ScriptedPerson("never", never=state.table("never"))
    assert not await agent_rig.ask(agent="work/2")

    assert [one.split()[0] for one in agent_rig.permissions.never()] == ["work/1", "work/2"]
    assert len(state.table("never")) == 2
    state.close()


async def test_a_pattern_allows_what_it_matches_for_the_session_and_nothing_else():
    desk = ScriptedPerson()

    async def ask(what: str, kind: str = "read") -> bool:
        return await desk.permissions.ask(
            run="r1",
            session="s1",
            agent="work/helper",
            request=PermissionRequest(kind=kind, what=what),
            wait_s=30,
            opened=opened.append,
        )

    opened: list[PendingPermission] = []
    asking = asyncio.get_running_loop().create_task(ask("Diary/a.md"))
    while not opened:
        await asyncio.sleep(0)
    assert opened[0].patterns == ("Diary/a.md", "Diary/**")
    for wrong in ("Work/**", "../**", "Diary/b.md"):
        with pytest.raises(ActRefusedError):
            desk.permissions.answer(opened[0].id, "session", pattern=wrong)
    desk.permissions.answer(opened[0].id, "session", pattern="Diary/**")

    assert await asking
    assert await ask("Diary/deep/b.md")
    assert len(opened) == 1
    desk.permissions.end_run("r1", "s1")
    assert await ask("Diary/c.md")
    writing = asyncio.get_running_loop().create_task(ask("Diary/a.md", "write"))
    while len(opened) < 2:
        await asyncio.sleep(0)
    desk.permissions.answer(opened[1].id, "deny")
    assert not await writing
    assert desk.permissions.never() == []


async def test_what_a_first_run_was_allowed_holds_in_the_session_that_began_with_it():
    desk = ScriptedPerson("session")
    assert await desk.ask(session=None)
    desk.permissions.end_run("r1", "s9")
    assert await desk.ask(run="r2", session="s9")
    assert [event.event for event in desk.events].count("permission.requested") == 1
