"""Modules that take part in hooks: after the person's own, and by the same rules."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from parachuted.hooks import HookAnswer, HookEvent
from tests.hooks.test_hooks import HooksOpener, opened

__all__ = ["opened"]


@dataclass(kw_only=True, eq=False)
class Garden:
    """A module with one hook, which answers the same each time."""

    says: HookAnswer
    event: str = "prompt.before"
    id: str = "module:garden:prompt.before"
    asked: list[HookEvent] = field(default_factory=list)

    def wants(self, hook_event: HookEvent) -> bool:
        return hook_event.module != "garden"

    async def answer(self, hook_event: HookEvent) -> HookAnswer:
        self.asked.append(hook_event)
        return self.says


def saying(**said: object) -> Garden:
    return Garden(says=HookAnswer(hook="module:garden:prompt.before", **said))  # type: ignore[arg-type]


async def test_a_module_is_asked_after_the_persons_hooks_if_none_objects(
    opened: HooksOpener,
):
    opened.commands(prompt_before="grep -q secret && { echo no >&2; exit 2; }; echo from the hook")
    garden = saying(context=("from the module",))
    async with opened() as stand:
        stand.hooks.set_participants([garden])
        decision = await stand.ask("prompt.before", {"prompt": "dig"})
        assert decision.context == ("from the hook", "from the module")
        refused = await stand.ask("prompt.before", {"prompt": "secret"})
        assert (refused.allowed, refused.reason) == (False, "no")
        assert len(garden.asked) == 1


async def test_a_module_that_left_is_not_asked_and_leaves_no_problem(opened: HooksOpener):
    garden = saying(failure="module:garden:prompt.before: it broke")
    async with opened() as stand:
        assert not stand.hooks.wants("prompt.before")
        stand.hooks.set_participants([garden])
        assert stand.hooks.wants("prompt.before")
        assert not stand.hooks.wants("stop.before")
        assert (await stand.ask("prompt.before", {"prompt": "x"})).allowed
        assert "it broke" in str(stand.reports["hooks:module:garden:prompt.before"])
        assert [error.hook for error in stand.failed] == [garden.id]

        stand.hooks.set_participants([])
        assert stand.reports["hooks:module:garden:prompt.before"] is None
        assert not stand.hooks.wants("prompt.before")


@pytest.mark.parametrize(("event", "goes_on"), [("prompt.before", False), ("stop.before", True)])
async def test_where_hooks_fail_closed_a_modules_do_too_but_for_an_end(
    opened: HooksOpener, event, goes_on
):
    garden = saying(failure="it broke")
    garden.event = event
    async with opened(fails_closed=True) as stand:
        stand.hooks.set_participants([garden])
        assert (await stand.ask(event, session_id="s")).allowed is goes_on
