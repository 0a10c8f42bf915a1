"""Polled documents: the shapes of what apps ask for again and again."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import TypedDict

from parachuted.times import Time


class ScheduledJobResponse(TypedDict):
    """What the daemon or a module does by the clock: `every_s` in seconds, each day `at` a time, or
    as `cron` says, in `timezone` or else in the machine's.
    """

    name: str
    module: str | None
    every_s: float | None
    at: str | None
    cron: str | None
    timezone: str | None
    next_at: str | None
    description: str


class ScheduleResponse(TypedDict):
    """All of it."""

    jobs: list[ScheduledJobResponse]
    count: int


class ReloadResponse(TypedDict):
    """That the schedule stands as it is."""

    status: str
    count: int


class UsageWindowResponse(TypedDict):
    """How much of an account's allowance is used, in percent."""

    utilization: float
    resets_at: Time | None


class ExtraUsageResponse(TypedDict):
    """What was used beyond it."""

    is_enabled: bool
    monthly_limit: int
    used_credits: float
    utilization: float


class TodayUsageResponse(TypedDict):
    """What runs took since midnight UTC."""

    date: str
    runs: int
    cost_usd: float
    input_tokens: int
    output_tokens: int


class BudgetsResponse(TypedDict):
    """How many runs there were, and may be."""

    runs_last_hour: int
    runs_last_day: int
    runs_per_hour: int
    runs_per_day: int
    runs_per_cause: int


class MoneyLimitsResponse(TypedDict):
    """US dollars that may be spent, in a run, for all that one change leads to, in an hour and in a
    day; and beside that in one session of conversation, and in all conversations of a day.
    """

    usd_per_run: float
    usd_per_cause: float
    usd_per_hour: float
    usd_per_day: float
    usd_per_session: float
    conversations_usd_per_day: float


class UsageSumResponse(TypedDict):
    """A sum of requests to the model; `input_tokens` are those that the cache had no part in."""

    requests: int
    usd: float
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_written_tokens: int


class DayUsageResponse(UsageSumResponse):
    """Of a day, in UTC."""

    date: str


class AgentUsageResponse(UsageSumResponse):
    """Of an agent."""

    agent: str


class ModelUsageResponse(UsageSumResponse):
    """Of a model."""

    model: str


class CauseUsageResponse(UsageSumResponse):
    """Of all that one change led to; a run with several causes counts for each."""

    cause: str


class SessionUsageResponse(UsageSumResponse):
    """Of a session of an agent."""

    session: str


class RunUsageResponse(UsageSumResponse):
    """Of a run."""

    run: str


class UsageSummaryResponse(TypedDict):
    """What the model cost, counted from its own answers; the dearest 20 of a kind.

    For a key that sees a part of the vault, only sums.
    """

    days_told: int
    since: Time
    usd_last_hour: float
    usd_last_day: float
    usd_last_day_conversations: float
    limits: MoneyLimitsResponse
    notes: list[str]
    total: UsageSumResponse
    days: list[DayUsageResponse]
    agents: list[AgentUsageResponse]
    models: list[ModelUsageResponse]
    causes: list[CauseUsageResponse]
    sessions: list[SessionUsageResponse]
    runs: list[RunUsageResponse]


class UsageResponse(TypedDict):
    """The account's windows as far as they are known, and what this daemon's runs took; `spent`
    None: with no model, nothing is.

    `windows` has each by the name that the model's server gives it; `five_hour` and `seven_day` are
    `5h` and `7d` among them, and the app's others are not told by any answer.
    """

    five_hour: UsageWindowResponse | None
    seven_day: UsageWindowResponse | None
    seven_day_sonnet: UsageWindowResponse | None
    seven_day_opus: UsageWindowResponse | None
    windows: dict[str, UsageWindowResponse]
    extra_usage: ExtraUsageResponse | None
    subscription_type: str | None
    rate_limit_tier: str | None
    error: str | None
    today: TodayUsageResponse
    budget: BudgetsResponse
    spent: UsageSummaryResponse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """A model that runs may ask for.

    `is_latest`: of its family. Where the name says nothing, `family` is `other` and `created_at`
    1970.
    """

    id: str
    display_name: str
    created_at: Time
    family: str
    is_latest: bool


class ModelsResponse(TypedDict):
    """Models as far as they are known without asking anyone; `current` is the one that is set."""

    models: list[ModelResponse]
    current: str


class SupervisorResponse(TypedDict):
    """The daemon, as the app's supervisor page shows it; seconds."""

    supervisor_uptime_seconds: int
    supervisor_version: str
    main_server_healthy: bool
    main_server_status: str
    config_loaded: bool
    main_server_uptime_seconds: int
    main_server_version: str
    main_server_port: int


class OldSessionResponse(TypedDict):
    """A session that an older server left in another place; there are none."""

    sessionId: str
    title: str
    oldVaultRoot: str
    workingDirectory: str | None
    transcriptExists: bool
    transcriptPath: str | None
    createdAt: Time | None


class SessionScanResponse(TypedDict):
    """Sessions still in an older server's place: none."""

    currentVaultRoot: str
    needsMigration: list[OldSessionResponse]
    alreadyCurrent: int
    noVaultRoot: int
    total: int


class SessionMigrationResponse(TypedDict):
    """What was moved."""

    migrated: int
    failed: int
    total: int
    success: bool
    error: str | None
