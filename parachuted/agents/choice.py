"""Agent choice: which backend runs the agents, and where their model calls and shells go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from parachuted.agents.backends import ClaudeSettings, choose_backend, make_backend
from parachuted.agents.credentials import CredentialSource, describe_credentials, find_credential
from parachuted.agents.gateway.gateway import Gateway
from parachuted.agents.gateway.upstream import is_in_own_network
from parachuted.agents.gateway.usage import MoneyLimits, UsageStore
from parachuted.agents.job import Backend
from parachuted.agents.sandbox import Sandboxes
from parachuted.config import Settings
from parachuted.state.elapsed_clock import ElapsedClock

CLOCK_FILE = "clock.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendChoice:
    """A backend, and a sentence that says why. The limits of the gateway count `elapsed` time."""

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
    """`folder` is the vault's state folder."""
    agent, vault = settings.agent, settings.vault
    elapsed = ElapsedClock(folder / CLOCK_FILE)
    credential = find_credential(env, vault, user_home)
    name, reason = choose_backend(agent.backend, credential, agent.base_url)
    budget, conversation = settings.budget, settings.conversation
    limits = MoneyLimits(
        usd_per_run=agent.max_cost_usd,
        usd_per_cause=budget.usd_per_cause,
        usd_per_hour=budget.usd_per_hour,
        usd_per_day=budget.usd_per_day,
        usd_per_session=conversation.usd_per_session,
        conversations_usd_per_day=conversation.usd_per_day,
    )
    may_cost = agent.base_url is None or not is_in_own_network(agent.base_url)
    # its file and its port are opened by the first run
    gateway = Gateway(
        env=env,
        vault=vault,
        user_home=user_home,
        base_url=agent.base_url,
        usage_store=UsageStore(folder / "usage.db", elapsed.now, limits, may_cost=may_cost),
    )
    run = folder.parents[1] / "run"  # short: the path of a socket has at most 107 bytes
    sandboxes = Sandboxes(folder=run / "boxes", env=env, label=folder.name)
    claude = ClaudeSettings(
        model=agent.model,
        folder=folder / "agent",
        env=env,
        gateway=gateway,
        sandboxes=sandboxes,
    )
    return BackendChoice(
        backend=make_backend(name, claude),
        reason=reason,
        model=agent.model if name == "claude" else None,
        gateway=gateway,
        sandboxes=sandboxes,
        elapsed=elapsed,
        find_logins=partial(describe_credentials, env, vault, user_home),
    )
