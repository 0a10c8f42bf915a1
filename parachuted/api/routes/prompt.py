"""Prompt: what an agent would read before a conversation begins."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from pydantic import Field

from parachuted.api.http.decorators import get
from parachuted.api.http.route import ApiCall, AppRequestModel, Whole
from parachuted.api.routes.contexts import (
    ContextName,
    NameLists,
    PromptResponse,
    chain_document,
    chosen_in,
)
from parachuted.bubbling import WatchRegistry
from parachuted.context import (
    DEFAULT_TOKENS,
    PromptBuilder,
    PromptPreview,
    PromptRequest,
    tokens_of_text,
)
from parachuted.errors import PathRefusedError
from parachuted.vault import VaultIndex, VaultPath, VaultRoot, printable

_MOST_TOKENS = 1_000_000
_AGENTS = ".agents"


class PreviewQuery(AppRequestModel):
    """What the prompt is to be made of.

    `working_directory`: a folder of the vault, by its path there or on the disk.
    """

    working_directory: ContextName = ""
    agent_path: ContextName = ""
    contexts: NameLists = ()
    max_tokens: Annotated[Whole, Field(ge=1, le=_MOST_TOKENS)] = DEFAULT_TOKENS


class PromptRoutes:
    def __init__(
        self, root: VaultRoot, index: VaultIndex, watches: WatchRegistry, vault: Path
    ) -> None:
        """`vault` is the vault's folder as the settings name it, links unresolved."""
        self._root, self._index, self._vault = root, index, vault
        self._prompts = PromptBuilder(root, index, watches.watched_by)

    @get("/api/prompt/preview", "vault", "read", reach="paths")
    async def preview(self, call: ApiCall, query: PreviewQuery) -> PromptResponse:
        """Preview the prompt of an agent."""
        wanted = PromptRequest(
            choice=chosen_in([text for text in query.contexts if text], self._index),
            working_directory=self._folder(query.working_directory),
            agent=VaultPath.parse(query.agent_path) if query.agent_path else None,
            max_tokens=query.max_tokens,
        )
        preview = await asyncio.to_thread(
            self._prompts.preview, wanted, find=call.sight.find, sees=call.sight.sees
        )
        return _document(preview, self._agents(call))

    def _folder(self, text: str) -> VaultPath | None:
        """A folder of the vault, however it is named.

        Raises PathRefusedError, in the same words for all that lies elsewhere.
        """
        if not text:
            return None
        for vault in (self._vault, self._root.folder):
            if text.startswith("/") and Path(text).is_relative_to(vault):
                text = str(Path(text).relative_to(vault))
        if text.startswith("/"):
            raise PathRefusedError("the working directory is not in the vault")
        return VaultPath("") if text == "." else VaultPath.parse(text.rstrip("/"))

    def _agents(self, call: ApiCall) -> list[str]:
        names = sorted(name for name in self._index.files(_AGENTS) if name.endswith(".md"))
        return [
            printable(name.removesuffix(".md"))
            for name in names
            if call.sight.sees(f"{_AGENTS}/{name}")
        ]


def _document(preview: PromptPreview, agents: list[str]) -> PromptResponse:
    is_agent = preview.agent is not None
    return {
        "prompt": preview.prompt,
        "promptSource": "agent" if is_agent else "default",
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
        "workingDirectoryClaudeMd": printable(preview.working.path) if preview.working else None,
        "brain_context_loaded": False,
        "brain_context_count": 0,
        "files": chain_document(preview.chain)["files"],
    }
