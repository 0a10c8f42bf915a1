"""Context documents: the shapes of answers about contexts and prompts."""

from __future__ import annotations

from typing_extensions import TypedDict

from parachuted.times import Time


class ContextFolderResponse(TypedDict):
    """A folder with a context file."""

    path: str
    context_file: str
    has_agents_md: bool
    has_claude_md: bool
    display_name: str
    tokens: int


class ContextFoldersResponse(TypedDict):
    """All context folders."""

    folders: list[ContextFolderResponse]
    count: int


class ChainFileResponse(TypedDict):
    """A context file and whether it is loaded."""

    path: str
    folder_path: str
    level: str
    tokens: int
    exists: bool
    included: bool
    reason: str


class ChainResponse(TypedDict):
    """A chain, in the order of the prompt."""

    files: list[ChainFileResponse]
    total_tokens: int
    truncated: bool


class SessionContextResponse(TypedDict):
    """One context of a session."""

    folder_path: str
    added_at: Time


class SessionContextsResponse(TypedDict):
    """What is chosen for a session; `contexts` says the same with times.

    `missing`: those of them without a context file, now.
    """

    session_id: str
    folder_paths: list[str]
    missing: list[str]
    contexts: list[SessionContextResponse]


class PromptResponse(TypedDict):
    """A prompt and what it was made of, as the app reads it; `files` lists what was left out,
    too.
    """

    prompt: str
    promptSource: str
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
    files: list[ChainFileResponse]


class MigrationMoveResponse(TypedDict):
    """What becomes of an old context file.

    `action`: create, append, keep (nothing to add) or refuse; `sections` are those added.
    """

    file: str
    target: str
    action: str
    sections: list[str]
    kept_as: str
    reason: str


class MigrationPlanResponse(TypedDict):
    """What a migration would do; nothing was done."""

    moves: list[MigrationMoveResponse]
    count: int


class ContextMigrationResponse(TypedDict):
    """What it did; `run` is what `parachute undo` takes, None when there was nothing to do."""

    run: str | None
    moves: list[MigrationMoveResponse]
    sessions: int
