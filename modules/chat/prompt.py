"""A turn's system prompt: its parts in their order, within a number of tokens. Pure: the same parts
give the same text. What stands in notes is quoted, and cannot end its quotation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "base",
    "bounds",
    "tools",
    "context",
    "entity",
    "brain",
    "journal",
    "working_directory",
    "skill",
]

MOST_TOKENS: Final = 24_000
PER_TOKEN: Final = 4  # characters, about
_LEAST: Final = 50  # tokens; less of a part is worth nothing
_QUOTED: Final = frozenset({"context", "entity", "brain", "journal", "working_directory", "skill"})
# they change with each message, so they go with it: while the system prompt stays the same, the
# model's cache holds, and the agent's process is used again
_OF_MESSAGE: Final = frozenset({"entity", "brain", "skill"})
_HEADS: Final[dict[str, str]] = {
    "context": "## Project knowledge",
    "entity": "## What the message mentions",
    "brain": "## From Brain",
    "journal": "## From the journal",
    "working_directory": "## The working directory",
    "skill": "## The skill that the person chose for this message: follow it, within your bounds",
}
# what is cut first where not all fits
_CUT_FIRST: Final[tuple[Kind, ...]] = (
    "journal",
    "entity",
    "brain",
    "context",
    "working_directory",
    "skill",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPart:
    """`path` is the note that it is from, `modified` when that changed (ISO 8601), `count` how many
    things it tells of.
    """

    kind: Kind
    text: str
    path: str | None = None
    title: str = ""
    modified: str | None = None
    is_strangers: bool = False
    is_cut: bool = False
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedPrompt:
    """`text` is the system prompt, `with_message` what goes ahead of the message."""

    text: str
    with_message: str
    parts: tuple[PromptPart, ...]
    left_out: tuple[PromptPart, ...] = ()

    @property
    def tokens(self) -> int:
        return tokens_in(self.text) + tokens_in(self.with_message)

    def tokens_of(self, *kinds: Kind) -> int:
        return sum(tokens_in(one.text) for one in self.parts if one.kind in kinds)

    def paths(self, *kinds: Kind) -> list[str]:
        found = (one.path for one in self.parts if one.kind in kinds and one.path)
        return list(dict.fromkeys(found))

    @property
    def is_cut(self) -> bool:
        return bool(self.left_out) or any(one.is_cut for one in self.parts)

    def rows(self) -> list[dict[str, object]]:
        """Its parts as they are shown, each with its share of the prompt between 0 and 1."""
        whole = max(1, sum(len(one.text) for one in self.parts))
        return [
            {
                "kind": one.kind,
                "path": one.path,
                "title": one.title,
                "tokens": tokens_in(one.text),
                "share": round(len(one.text) / whole, 4),
                "modified": one.modified,
                "strangers": one.is_strangers,
                "truncated": one.is_cut,
            }
            for one in self.parts
        ]


def tokens_in(text: str) -> int:
    """About: a token has four characters of English."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // PER_TOKEN)


def compose(parts: Iterable[PromptPart], most_tokens: int = MOST_TOKENS) -> ComposedPrompt:
    """The prompt of these parts. Over the budget those of `_CUT_FIRST` give way, the last of a kind
    first.
    """
    kept = [one for one in parts if one.text.strip()]
    excess = sum(tokens_in(one.text) for one in kept) - most_tokens
    left_out: list[PromptPart] = []
    for kind in _CUT_FIRST:
        for place in reversed([i for i, one in enumerate(kept) if one.kind == kind]):
            if excess <= 0:
                break
            shorter = _shortened(kept[place], tokens_in(kept[place].text) - excess)
            excess -= tokens_in(kept[place].text) - (tokens_in(shorter.text) if shorter else 0)
            if shorter is None:
                left_out.append(kept.pop(place))
            else:
                kept[place] = shorter
    lasting = [one for one in kept if one.kind not in _OF_MESSAGE]
    passing = [one for one in kept if one.kind in _OF_MESSAGE]
    return ComposedPrompt(
        text=_joined(lasting),
        with_message=f"{_joined(passing)}\n## The message\n" if passing else "",
        parts=tuple(kept),
        left_out=tuple(left_out),
    )


def _shortened(part: PromptPart, tokens: int) -> PromptPart | None:
    """Its beginning, or None where too little would be left."""
    if tokens < _LEAST:
        return None
    raw = part.text.encode("utf-8", "surrogatepass")[: tokens * PER_TOKEN]
    text = raw.decode("utf-8", "ignore").rpartition("\n")[0] or raw.decode("utf-8", "ignore")
    return replace(part, text=text, is_cut=True)


def _joined(parts: Sequence[PromptPart]) -> str:
    mark = hashlib.sha256("\0".join(one.text for one in parts).encode("utf-8", "surrogatepass"))
    tag = f"note-{mark.hexdigest()[:8]}"
    texts: list[str] = []
    last = ""
    for one in parts:
        if one.kind not in _QUOTED:
            texts.append(one.text.strip())
            continue
        if one.kind != last:
            texts.append(_HEADS[one.kind])
        last = one.kind
        name = " ".join(filter(None, [one.title, f"({one.path})" if one.path else ""]))
        head = f"### {name}\n" if name else ""
        strangers = "(written by a stranger)\n" if one.is_strangers else ""
        cut = "\n(cut: the rest did not fit)" if one.is_cut else ""
        texts.append(f"{head}{strangers}<{tag}>\n{one.text.strip()}\n</{tag}>{cut}")
    return "\n\n".join(texts) + "\n"
