"""Assembly: the context files of chosen folders as one text, for a prompt, within a budget of
tokens.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from parachuted.access.context_preview import ContextPart, ContextPreview
from parachuted.access.origin import UNTRUSTED
from parachuted.access.origins import Origins
from parachuted.context.chain import LARGEST_FILE, Chain, ChainFile, chain_of, choice_of
from parachuted.context.prompt import DEFAULT_TOKENS, PromptText, assemble, tokens_of_text
from parachuted.errors import ParachuteError
from parachuted.vault import VaultIndex, VaultPath, printable

_NS = 1_000_000_000


class ContextAssembly:
    """Assembles them. What a caller may read, and the reading itself, are the caller's own."""

    def __init__(
        self,
        index: VaultIndex,
        watched_by: Callable[[str], Sequence[VaultPath]],
        origins: Origins | None = None,
    ) -> None:
        """`watched_by` answers the context files that one watches."""
        self._index, self._watched_by, self._origins = index, watched_by, origins

    async def load(
        self,
        folders: Iterable[str],
        *,
        sees: Callable[[str], bool],
        read: Callable[[str], Awaitable[str]],
        max_tokens: int = DEFAULT_TOKENS,
    ) -> ContextPreview:
        """The context of these folders, and of what their context files watch.

        Over `max_tokens` the farthest are left out first. What cannot be read is listed with the
        reason. Raises PathRefusedError for what is no path in the vault.
        """
        choice = choice_of(folders, self._index)
        chain = await asyncio.to_thread(
            chain_of, choice, self._index, self._watched_by, max_tokens=max_tokens, sees=sees
        )
        texts: list[tuple[ChainFile, PromptText]] = []
        files: list[ChainFile] = []
        for file in chain.files:
            if file.included:
                try:
                    texts.append((file, _text(file.path, await read(file.path))))
                except ParachuteError as error:  # it was there a moment ago
                    reason = f"{file.reason}, but could not be read: {error.message}"
                    files.append(replace(file, included=False, reason=reason))
                    continue
            files.append(file)
        text = assemble("", texts, None) if texts else ""
        return ContextPreview(
            text=text,
            tokens=tokens_of_text(text),
            is_truncated=_is_cut(chain, texts),
            parts=tuple(map(self._part, files)),
        )

    def _part(self, file: ChainFile) -> ContextPart:
        entry = self._index.get(file.path)
        modified = None if entry is None else datetime.fromtimestamp(entry.mtime_ns / _NS, UTC)
        origin = "you" if self._origins is None else self._origins.of(file.path)
        return ContextPart(
            path=printable(file.path),
            level=file.level,
            tokens=file.tokens,
            included=file.included,
            reason=file.reason,
            modified=modified,
            is_strange=origin in UNTRUSTED,
        )


def _text(path: VaultPath, text: str) -> PromptText:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return PromptText(
        path=path,
        text=text[:LARGEST_FILE],
        digest=digest,
        is_cut=len(text) > LARGEST_FILE,
    )


def _is_cut(chain: Chain, texts: Sequence[tuple[ChainFile, PromptText]]) -> bool:
    return chain.truncated or any(text.is_cut for _file, text in texts)
