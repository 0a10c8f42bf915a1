"""Settings: every setting, its default, and what it means."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator

from parachuted.keys.path_globs import PathGlob


def _address(host: str) -> str:
    if host != "localhost":
        try:
            ip_address(host)
        except ValueError:
            raise ValueError(
                "should be localhost, 127.0.0.1, ::1, or the address of this machine in a network"
            ) from None
    return host


def is_open_to_others(settings: Settings) -> bool:
    """Whether other machines could reach what the daemon listens at."""
    is_served = settings.tls.port > 0 and not is_loopback(settings.tls.host)
    return is_served or not is_loopback(settings.host)


def is_loopback(host: str) -> bool:
    return host == "localhost" or ip_address(host).is_loopback


def _web_address(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("should begin with http:// or https://")
    return url


def _each(pattern: str, should_be: str) -> AfterValidator:
    def check(text: str) -> str:
        if not all(re.fullmatch(pattern, part) for part in listed(text)):
            raise ValueError(f"should be {should_be}")
        return text

    return AfterValidator(check)


def _patterns(text: str) -> str:
    try:
        for pattern in listed(text):
            PathGlob(pattern)
    except ValueError as error:
        raise ValueError(f"should be patterns with commas between them: {error}") from None
    return text


def listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _folder(path: str | Path) -> Path:
    """By our own import of Path: a test's file system in memory cannot replace pydantic's."""
    return Path(path)


_LOGIN = re.compile(r"(://)[^/\s@]+@")

_HOST_NAME = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?|[0-9A-Fa-f:]{2,39}"
_FOLDER = r"~?(/(?!\.{1,2}(/|$))[^/\0]+)+/?"
_ORIGIN = r"https?://([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]{2,39}\])(:[0-9]{1,5})?"
_Text = Annotated[str, Field(min_length=1, max_length=1_000)]
_Count = Annotated[int, Field(ge=1, le=1_000_000)]
_Days = Annotated[int, Field(ge=0, le=36_500)]
_Megabytes = Annotated[int, Field(ge=0, le=10_000_000)]
_Few = Annotated[int, Field(ge=1, le=1_000)]
_Dollars = Annotated[float, Field(gt=0, le=1_000, allow_inf_nan=False)]
_Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600, allow_inf_nan=False)]
_Host = Annotated[str, AfterValidator(_address)]
_Port = Annotated[int, Field(ge=0, le=65_535)]
_Level = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(str.lower)]
_Mode = Literal["remote", "always", "disabled"]
_Listing = Annotated[str, Field(max_length=10_000)]
_HostNames = Annotated[
    _Listing,
    _each(_HOST_NAME, "names such as notes.example, with commas between them and no port"),
]
_Origins = Annotated[
    _Listing,
    _each(
        _ORIGIN,
        "origins such as https://notes.example, with commas between them and nothing after the "
        "name or port",
    ),
]
_Url = Annotated[str, AfterValidator(_web_address)]
_Folders = Annotated[
    _Listing, _each(_FOLDER, "folders such as ~/Projects/garden, with commas between")
]
_Patterns = Annotated[_Listing, AfterValidator(_patterns)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    hosts: Annotated[
        _HostNames,
        "Host names that the API answers to besides this machine's addresses, separated by commas.",
    ] = ""
    supervisor_port: Annotated[
        _Port,
        "A second port, on this machine alone, for apps that ask a supervisor there (3334); 0 for "
        "none.",
    ] = 0
    cors_origins: Annotated[
        _Origins,
        "The web pages that may use the API, such as https://notes.example, separated by commas.",
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Where other devices reach the API encrypted, with the authority that `parachute tls` made."""

    port: Annotated[_Port, "The port that is served encrypted, such as 3443; 0 for none."] = 0
    host: Annotated[
        _Host, "The address that it listens on; 0.0.0.0 is every one, and only keys open it."
    ] = "0.0.0.0"  # noqa: S104  what is asked for by `tls.port`


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    backend: Annotated[
        Literal["auto", "claude", "offline"],
        "What does the work: claude, no model (offline), or what is available (auto).",
    ] = "auto"
    model: Annotated[_Text, "The model that runs use."] = "claude-haiku-4-5-20251001"
    base_url: Annotated[
        _Url | None,
        "A server that speaks the Messages API, such as a local model's, in place of Anthropic's.",
    ] = None
    timeout_s: Annotated[_Seconds, "The seconds after which a run is stopped."] = 120.0
    max_turns: Annotated[_Few, "How often the model may answer in one run."] = 12
    max_cost_usd: Annotated[_Dollars, "The dollars that one run may cost."] = 0.25
    concurrency: Annotated[_Few, "How many runs may go on at once."] = 2
    ask_s: Annotated[
        _Seconds,
        "How many seconds an agent waits when it asks for more than it was given; then it is "
        "denied.",
    ] = 60.0
    untrusted: Annotated[
        _Patterns,
        "Where notes hold strangers' text, after which an agent runs no shell, reaches no network "
        "and asks before it writes elsewhere.",
    ] = "Inbox/**, Clippings/**, Imports/**"
    own_folders: Annotated[
        _Folders,
        "Folders outside the vault whose text is yours, such as ~/Projects/garden; that of any "
        "other counts as a stranger's.",
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettings:
    """How many runs there may be, over which tasks wait, and what they may cost."""

    runs_per_hour: Annotated[_Count, "The most runs in one hour."] = 60
    runs_per_cause: Annotated[_Count, "The runs that one person's change may lead to."] = 100
    runs_per_day: Annotated[_Count, "The most runs in one day."] = 500
    usd_per_cause: Annotated[
        _Dollars, "The dollars that everything which follows from one person's change may cost."
    ] = 2.0
    usd_per_hour: Annotated[
        _Dollars, "The most dollars spent in one hour; beyond that, the model is not asked."
    ] = 5.0
    usd_per_day: Annotated[
        _Dollars, "The most dollars spent in one day; beyond that, the model is not asked."
    ] = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationSettings:
    """What conversations with an agent may take, beside all other work and its budget."""

    concurrency: Annotated[_Few, "How many turns of conversations may go on at once."] = 50
    timeout_s: Annotated[
        _Seconds, "The seconds after which one turn is stopped, waiting for you included."
    ] = 1800.0
    max_turns: Annotated[_Few, "How often the model may answer in one turn."] = 100
    max_cost_usd: Annotated[_Dollars, "The dollars that one turn may cost."] = 2.0
    usd_per_session: Annotated[_Dollars, "The dollars that one conversation may cost."] = 10.0
    usd_per_day: Annotated[_Dollars, "The dollars that all conversations of one day may cost."] = (
        20.0
    )
    ask_s: Annotated[
        _Seconds, "How many seconds an agent waits for your answer before it goes on without."
    ] = 1500.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BubbleSettings:
    quiet_s: Annotated[
        _Seconds, "The seconds without another change after which a task begins."
    ] = 2.0
    max_wait_s: Annotated[
        _Seconds, "The seconds after which a task begins even if changes go on."
    ] = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    full_every_s: Annotated[
        _Seconds,
        "The seconds between two scans of the whole vault, which find changes that no event "
        "reported; with watchfiles, which misses some, at most 60.",
    ] = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    engine: Annotated[
        Literal["auto", "watchfiles"],
        "What reports changes: the best of this system (auto: inotify on Linux), or watchfiles.",
    ] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    keep_days: Annotated[_Days, "The days that the audit is kept; 0 for ever."] = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    keep_days: Annotated[
        _Days, "The days that earlier texts, and who wrote them, are kept; 0 for ever."
    ] = 90
    keep_mb: Annotated[
        _Megabytes,
        "The megabytes that earlier texts may take, after which the oldest go; 0 sets no limit.",
    ] = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    must_approve: Annotated[
        bool,
        "Whether a script that was changed waits for `parachute hooks approve` before it runs "
        "again.",
    ] = True
    fails_closed: Annotated[
        bool,
        "Whether a hook that ran and failed, or took too long, stops the act; one that could not "
        "start always does.",
    ] = False
    concurrency: Annotated[_Few, "How many hooks of what has happened may run at once."] = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, and `notes` on older names, and keys that mean nothing any more."""

    vault: Annotated[Path, PlainValidator(_folder), "The folder of notes."] = Path("~/Parachute")
    host: Annotated[
        _Host, "The address that the API listens on; beyond this machine, only keys open it."
    ] = "127.0.0.1"
    port: Annotated[_Port, "The port that the API listens on; 0 takes any that is free."] = 3333
    auth_mode: Annotated[
        _Mode,
        "Who needs a key: all but this machine (remote), everyone (always), or no one (disabled).",
    ] = "remote"
    log_level: Annotated[_Level, "The least that is logged."] = "info"
    api: ApiSettings = ApiSettings()
    tls: TlsSettings = TlsSettings()
    agent: AgentSettings = AgentSettings()
    budget: BudgetSettings = BudgetSettings()
    conversation: ConversationSettings = ConversationSettings()
    bubble: BubbleSettings = BubbleSettings()
    watch: WatchSettings = WatchSettings()
    scan: ScanSettings = ScanSettings()
    audit: AuditSettings = AuditSettings()
    history: HistorySettings = HistorySettings()
    hooks: HookSettings = HookSettings()
    notes: tuple[str, ...] = ()


class SettingDescription(NamedTuple):
    """One setting for a person: key, kind of value, default as text, and a sentence."""

    key: str
    kind: str
    default: str
    means: str


def setting_text(settings: Settings, key: str) -> str:
    """The value of that setting as text, without the login in an address."""
    value: object = settings
    for name in key.split("."):
        value = getattr(value, name)
    text = "" if value is None else _default_text(value)
    return _LOGIN.sub(r"\1[secret]@", text)


def setting_types() -> dict[str, Any]:
    """The type of each setting by its dotted key, with all that a text for it is held against."""
    return {key: hint for key, hint, _default in _declared(Settings, "")}


def describe_settings() -> list[SettingDescription]:
    described = []
    for key, hint, default in _declared(Settings, ""):
        kind, *_, means = get_args(hint)
        text = "" if default is None else _default_text(default)
        described.append(SettingDescription(key, _kind(kind), text, means))
    return described


def _declared(section: type, prefix: str) -> Iterator[tuple[str, Any, object]]:
    """Key, type and default."""
    hints = get_type_hints(section, include_extras=True)
    for setting in fields(section):
        hint = hints[setting.name]
        if isinstance(hint, type) and is_dataclass(hint):
            yield from _declared(hint, f"{setting.name}.")
        elif get_origin(hint) is Annotated:
            yield f"{prefix}{setting.name}", hint, setting.default


def _default_text(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return str(default).removesuffix(".0") if isinstance(default, float) else str(default)


def _kind(kind: object) -> str:
    if get_origin(kind) is Literal:
        return " | ".join(get_args(kind))
    return {Path: "path", int: "whole number", float: "number", bool: "true | false"}.get(  # type: ignore[call-overload, no-any-return]
        kind, "text"
    )
