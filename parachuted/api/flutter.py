"""Flutter: answers in the names that the Flutter app and older programs read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from parachuted.agents.gateway.upstream import UsageWindow
from parachuted.agents.gateway.usage import UsageReport
from parachuted.context import ChainFile, PromptPreview, tokens_of_text
from parachuted.hooks import HookError
from parachuted.tasks import RunCounts
from parachuted.texts.times import Time, time_of
from parachuted.vault import RunSpending, VaultPath, printable

CAMEL = ConfigDict(alias_generator=to_camel)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountUsage:
    """The account's windows as the model's server names them, and what runs took.

    `five_hour` and `seven_day` are `5h` and `7d`; `spent` is null where no model is used.
    """

    five_hour: UsageWindow | None
    seven_day: UsageWindow | None
    seven_day_sonnet: None = None
    seven_day_opus: None = None
    windows: Mapping[str, UsageWindow]
    extra_usage: None = None
    subscription_type: None = None
    rate_limit_tier: None = None
    error: None = None
    today: RunSpending
    budget: RunCounts
    spent: UsageReport | None


class ModulePrompt(TypedDict):
    """The person's additional instructions; `defaultPrompt` is the first agent's own."""

    content: str | None
    exists: bool
    defaultPrompt: str


class PromptMetadata(TypedDict):
    """`files` lists what was left out, too."""

    prompt: str
    promptSource: Literal["agent", "default"]
    promptSourcePath: str | None
    contextFiles: list[str]
    contextTokens: int
    contextTruncated: bool
    agentName: str | None
    availableAgents: list[str]
    availableSkills: list[str]
    availableMcps: list[str]
    basePromptTokens: int
    totalPromptTokens: int
    trustMode: bool
    workingDirectoryClaudeMd: str | None
    brain_context_loaded: bool
    brain_context_count: int
    files: tuple[ChainFile, ...]


def prompt_metadata(preview: PromptPreview, agents: list[str]) -> PromptMetadata:
    return {
        "prompt": preview.prompt,
        "promptSource": "agent" if preview.agent is not None else "default",
        "promptSourcePath": printable(preview.agent) if preview.agent else None,
        "contextFiles": [printable(file.path) for file in preview.chain.files if file.included],
        "contextTokens": preview.chain.total_tokens,
        "contextTruncated": preview.is_truncated,
        "agentName": preview.agent_name,
        "availableAgents": agents,
        "availableSkills": [],
        "availableMcps": [],
        "basePromptTokens": tokens_of_text(preview.base),
        "totalPromptTokens": tokens_of_text(preview.prompt),
        "trustMode": False,
        "workingDirectoryClaudeMd": printable(preview.working) if preview.working else None,
        "brain_context_loaded": False,
        "brain_context_count": 0,
        "files": preview.chain.files,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorStatus:
    """Times are in seconds."""

    supervisor_uptime_seconds: int
    supervisor_version: str
    main_server_healthy: bool
    main_server_status: str = "running"
    config_loaded: bool = True
    main_server_uptime_seconds: int
    main_server_version: str
    main_server_port: int


class McpServerRow(TypedDict):
    """`validationErrors` keep it from running; `digest` names its definition and files, for
    approval.
    """

    name: str
    displayType: str
    displayCommand: str
    builtin: bool
    validationErrors: list[str]
    source: str
    approved: bool
    digest: str | None


class SessionScan(TypedDict):
    currentVaultRoot: str
    needsMigration: list[str]
    alreadyCurrent: int
    noVaultRoot: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderEntry:
    """`symlinkTarget` is where a link leads; `size` is in bytes, of files only."""

    __pydantic_config__: ClassVar = CAMEL

    name: VaultPath
    type: str
    path: VaultPath
    relative_path: VaultPath
    is_directory: bool
    is_symlink: bool
    symlink_target: VaultPath | None
    has_agents_md: bool
    has_claude_md: bool
    is_git_repo: bool
    last_modified: Time | None
    size: int | None


@dataclass(frozen=True, slots=True)
class Folder:
    """Folders first, each kind by name."""

    path: VaultPath
    entries: list[FolderEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileText:
    """`hash` is the SHA-256 in hex, and the base to name when the text is written."""

    __pydantic_config__: ClassVar = CAMEL

    path: VaultPath
    content: str
    size: int
    last_modified: Time
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """`replaced`: the digest of what was overwritten without a base; history has it."""

    __pydantic_config__: ClassVar = CAMEL

    success: bool = True
    path: VaultPath
    size: int
    last_modified: Time
    hash: str
    merged: bool
    replaced: str | None


class HookErrorRow(TypedDict):
    """A hook that failed; server and app never agreed on two of the names."""

    hook: str
    hook_name: str
    message: str
    error: str
    timestamp: Time


def hook_error_row(error: HookError) -> HookErrorRow:
    return {
        "hook": error.hook,
        "hook_name": error.hook,
        "message": error.message,
        "error": error.message,
        "timestamp": time_of(error.timestamp),
    }
