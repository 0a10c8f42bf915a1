"""Runs hooks on a sample, to show their input, output and decision without further effect."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.hooks.decision import combine
from parachuted.hooks.hook import Hook
from parachuted.hooks.hook_event import HookEvent
from parachuted.hooks.hooks import Hooks
from parachuted.hooks.matching import compile_hook
from parachuted.hooks.names import parse_event
from parachuted.hooks.run_recorder import HookRunRecord
from parachuted.hooks.samples import make_sample


class HookTrialError(ParachuteError):
    """There is nothing that could be tried so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTrial:
    """The result.

    `allowed`: whether the action would go on; `passed_over`: the hooks whose matcher did not match.
    """

    event: str
    allowed: bool
    runs: tuple[HookRunRecord, ...]
    passed_over: tuple[str, ...]


async def try_hooks(
    hooks: Hooks,
    event: str,
    *,
    vault: Path,
    at: datetime,
    given: Mapping[str, object] | None = None,
    only: str | None = None,
) -> HookTrial:
    """Run the hooks that match an `event`, or the one called `only` whatever its matcher.

    Raises HookTrialError for an invalid event or data, and NotFoundError for an unknown hook.
    """
    try:
        name = parse_event(event)
        hook_event = make_sample(name, vault=vault, at=at, given=given)
    except ValueError as error:  # UnknownEventError is one
        raise HookTrialError(str(error)) from error
    declared = [listed.hook for listed in hooks.listed if listed.hook.event == name]
    if only is not None and only not in {hook.id for hook in declared}:
        raise NotFoundError(
            f"there is no hook {only[:80]!r} for {name}; `parachute hooks list` shows them"
        )
    chosen = [
        hook for hook in declared if hook.id == only or (only is None and _means(hook, hook_event))
    ]
    ran = await asyncio.gather(*(hooks.run_one(hook.id, hook_event) for hook in chosen))
    waited_for = [
        answer for hook, (answer, _) in zip(chosen, ran, strict=True) if not hook.is_async
    ]
    passed_over = (
        () if only is not None else tuple(hook.id for hook in declared if hook not in chosen)
    )
    allowed = combine(name, waited_for).allowed
    return HookTrial(
        event=name,
        allowed=allowed,
        runs=tuple(record for _, record in ran),
        passed_over=passed_over,
    )


def _means(hook: Hook, hook_event: HookEvent) -> bool:
    try:
        return compile_hook(hook)(hook_event) is not None
    except ValueError:
        return False
