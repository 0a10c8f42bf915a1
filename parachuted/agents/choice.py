"""Agent choice: which backend runs the agents, and where their model calls and shells go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from parachuted.agents.backends import ClaudeSettings, choose_backend, make_backend
from parachuted.agents.credentials import (
    CredentialSource,
    describe_credentials,
    find_credential,
)
from parachuted.agents.gateway import Gateway, MoneyLimits, UsageStore
from parachuted.agents.job import Backend
from parachuted.agents.sandbox import Sandboxes
from parachuted.config import Settings
from parachuted.state.elapsed_clock import ElapsedClock
from parachuted.times import utc_now

CLOCK_FILE = "clock.json"
_MAX_NESTED_AGENTS = 3  # agents that wait for one another


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChoice:
    """A backend, and a sentence that says why it was chosen.

    All model calls go through `gateway`; agents run shells in `sandboxes`. The limits of the
    gateway count `elapsed` time.
    """

    backend: Backend
    reason: str
    model: str | None
    gateway: Gateway | None = None
    sandboxes: Sandboxes | None = None
    elapsed: ElapsedClock | None = None
    find_logins: Callable[[], Sequence[CredentialSource]] = tuple


def choose_agent(
    settings: Settings, folder: Path, env: Mapping[str, str], user_home: Path
) -> BackendChoice:
    """Choose the backend by the settings and the credentials.

    `folder` is the vault's state folder.
    """
    elapsed = ElapsedClock(folder / CLOCK_FILE)
    credential = find_credential(env, settings.vault, user_home)
    name, reason = choose_backend(settings.agent.backend, credential, settings.agent.base_url)
    gateway = _make_gateway(settings, folder, env, user_home, elapsed)
    run = folder.parents[1] / "run"  # short: the path of a socket has at most 107 bytes
    sandboxes = Sandboxes(
        folder=run / "boxes",
        env=env,
        label=folder.name,
        most=settings.agent.concurrency + _MAX_NESTED_AGENTS,
    )
    made = make_backend(
        name,
        ClaudeSettings(
            model=settings.agent.model,
            folder=folder / "agent",
            user_home=user_home,
            env=env,
            credential=credential,
            base_url=settings.agent.base_url,
            gateway=gateway,
            sandboxes=sandboxes,
        ),
    )
    model = settings.agent.model if name == "claude" else None
    return BackendChoice(
        backend=made,
        reason=reason,
        model=model,
        gateway=gateway,
        sandboxes=sandboxes,
        elapsed=elapsed,
        find_logins=lambda: describe_credentials(env, settings.vault, user_home),
    )


def _make_gateway(
    settings: Settings, folder: Path, env: Mapping[str, str], user_home: Path, elapsed: ElapsedClock
) -> Gateway:
    """Its file and its port are opened by the first run."""
    budget, talk = settings.budget, settings.conversation
    limits = MoneyLimits(
        usd_per_cause=budget.usd_per_cause,
        usd_per_hour=budget.usd_per_hour,
        usd_per_day=budget.usd_per_day,
        usd_per_session=talk.usd_per_session,
        conversations_usd_per_day=talk.usd_per_day,
    )
    return Gateway(
        env=env,
        vault=settings.vault,
        user_home=user_home,
        base_url=settings.agent.base_url,
        usage_store=UsageStore(folder / "usage.db", elapsed.now),
        limits=limits,
        clock=utc_now,
    )
