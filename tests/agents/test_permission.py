"""Permission: what an agent asks for while it works, and what comes of each answer."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

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

AT = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)
DIARY = PermissionRequest(kind="read", what="Diary/2026.md", why="the plan says it is there")
MAKE = PermissionRequest(kind="bash", what="make")


def page(number: int) -> PermissionRequest:
    return PermissionRequest(kind="read", what=f"Diary/{number}.md")


def now() -> datetime:
    return AT


class ScriptedPerson:
    """A person who hears questions, and answers each with the next of some answers; with None, not
    at all.
    """

    def __init__(self, *answers: Answer | None, wait_s: float = 30) -> None:
        self.bus = Bus(now)
        self.permissions = PermissionRequests(self.bus, now, wait_s)
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
        **more: object,
    ) -> bool:
        async with asyncio.timeout(30):
            return await self.permissions.ask(
                run=run, session=session, agent=agent, request=request, **more
            )

    def reported(self, name: str = "permission.requested") -> list[Event]:
        return [event for event in self.events if event.event == name]

    async def question(self) -> PendingPermission:
        async with asyncio.timeout(30):
            while not (found := self.permissions.pending()):
                await asyncio.sleep(0)
        return found[0]


async def test_a_wish_is_reported_to_all_and_once_means_once():
    desk = ScriptedPerson("once", None, wait_s=0.02)

    assert await desk.ask()
    assert not await desk.ask()

    first, second = desk.reported()
    wish = {"agent": "work/helper", "kind": "read", "what": "Diary/2026.md", "why": DIARY.why}
    wish |= {"run": "r1", "session": "s1", "until": "2026-11-22T09:00:00.020000Z"}
    assert {**first.data, **wish} == first.data
    answers = [event.data["answer"] for event in desk.reported("permission.answered")]
    assert answers == ["once", "unanswered"]
    assert first.data["id"] != second.data["id"]
    assert desk.permissions.pending() == []
    with pytest.raises(NotFoundError, match="parachute permissions list"):
        desk.permissions.answer(str(second.data["id"]), "once")


async def test_after_an_unanswered_question_only_the_next_run_may_ask():
    desk = ScriptedPerson(None, None, "once", wait_s=0.02)

    assert [await desk.ask(), await desk.ask(MAKE)] == [False, False]
    assert [event.data["what"] for event in desk.reported()] == [DIARY.what]
    desk.permissions.end_run("r1")
    assert not await desk.ask(run="r2")
    assert await desk.ask(run="r3")


@pytest.mark.parametrize("answer", ["session", "deny"])
async def test_what_is_decided_for_a_session_is_not_asked_again_in_it(answer):
    desk = ScriptedPerson(answer, "once")

    for run in ("r1", "r2"):
        assert await desk.ask(run=run) is (answer == "session")
    assert len(desk.reported()) == 1
    assert await desk.ask(session="s2")


async def test_without_a_session_it_lasts_as_long_as_the_run_or_as_what_it_began():
    desk = ScriptedPerson("session", "session", None, wait_s=0.02)

    assert await desk.ask(session=None)
    assert await desk.ask(session=None)
    desk.permissions.end_run("r1", "s9")
    assert await desk.ask(run="r2", session="s9")
    assert len(desk.reported()) == 1
    assert await desk.ask(run="r3", session=None)
    desk.permissions.end_run("r3")
    assert not await desk.ask(run="r3", session=None)


async def test_another_file_another_act_and_another_agent_are_other_wishes():
    desk = ScriptedPerson("session", None, None, None, wait_s=0.02)

    assert await desk.ask()
    assert not await desk.ask(PermissionRequest(kind="write", what=DIARY.what))
    assert not await desk.ask(page(2025))
    assert not await desk.ask(agent="work/other")


async def test_an_agent_that_asks_and_asks_is_denied_unheard():
    desk = ScriptedPerson(*["once"] * 20, wait_s=0.02)
    assert sum([await desk.ask(page(number)) for number in range(100)]) == 20

    assert len(desk.reported()) == 20
    assert not await desk.ask(run="r2", session="s2")
    assert len(desk.reported()) == 21


async def test_no_more_than_three_questions_of_a_run_wait_at_once():
    desk = ScriptedPerson(wait_s=0.05)
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(desk.ask(page(number)))

    assert len(desk.reported()) == 3


async def test_a_run_that_is_ended_leaves_no_question_behind():
    desk = ScriptedPerson()
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(desk.ask())
        question = await desk.question()
        asking.cancel()

    assert desk.permissions.pending() == []
    assert desk.reported("permission.answered")[0].data["answer"] == "ended"
    with pytest.raises(NotFoundError):
        desk.permissions.answer(question.id, "session")
    async with asyncio.TaskGroup() as group:  # and its end denies what it still asks
        asking = group.create_task(desk.ask())
        await desk.question()
        desk.permissions.end_run("r1")
    assert asking.result() is False


async def test_what_an_agent_says_of_its_wish_is_cut_and_shown_safely():
    desk = ScriptedPerson(wait_s=0.001)

    long = "x" * 10_000
    assert not await desk.ask(PermissionRequest(kind="bash", what="ls\x1b[2J", why=long))
    assert not await desk.ask(PermissionRequest(kind="bash", what=long))

    (reported,) = desk.reported()
    assert reported.data["what"] == "ls\\x1b[2J"
    assert len(str(reported.data["why"])) == 500


async def test_a_pattern_allows_what_it_matches_for_the_session_and_nothing_else():
    desk = ScriptedPerson()
    opened: list[PendingPermission] = []

    async def ask(what: str, kind: str = "read") -> bool:
        return await desk.ask(
            PermissionRequest(kind=kind, what=what), wait_s=30, opened=opened.append
        )

    async with asyncio.TaskGroup() as group:
        asking = group.create_task(ask("Diary/a.md"))
        question = await desk.question()
        assert question.patterns == ("Diary/a.md", "Diary/**")
        for wrong in ("Work/**", "../**", "Diary/b.md"):
            with pytest.raises(ActRefusedError):
                desk.permissions.answer(question.id, "session", pattern=wrong)
        desk.permissions.answer(question.id, "session", pattern="Diary/**")

    assert asking.result()
    assert await ask("Diary/deep/b.md")
    assert opened == [question]
    desk.permissions.end_run("r1", "s1")
    assert await ask("Diary/c.md")
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(ask("Diary/a.md", "write"))
        desk.permissions.answer((await desk.question()).id, "deny")
    assert not writing.result()
