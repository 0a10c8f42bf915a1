"""A proposed change that waits for a person, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias, TypeVar, get_args

from parachuted.access.origin import Origin

SuggestionAction: TypeAlias = Literal["create", "update", "delete", "link"]
Status: TypeAlias = Literal["pending", "approved", "rejected", "modified", "superseded"]
ACTIONS: tuple[SuggestionAction, ...] = get_args(SuggestionAction)
STATUSES: tuple[Status, ...] = get_args(Status)
_ORIGINS: tuple[Origin, ...] = get_args(Origin)
_Word = TypeVar("_Word")
USER, AUTO, ORCHESTRATOR, KEY = "user", "auto", "orchestrator:", "key:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What is proposed, and by whom.

    `path` is the file of the vault, `payload` what is to stand there; see `payload.py`.

    `base` is the digest of the text that it was decided on (None: of what stands there now), `run`
    and `causes` what led to it, `origin` what its words count as. `target_module` None: told from
    the path.
    """

    source_agent: str
    action: SuggestionAction
    path: str
    payload: Mapping[str, object]
    reasoning: str
    source_session: str = ""
    target_module: str | None = None
    target_id: str | None = None
    base: str | None = None
    run: str | None = None
    causes: tuple[str, ...] = ()
    origin: Origin = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A proposal with a name, and its resolution. First the fields of the specification, then ours.

    `resolved_by`: `user`, `auto`, `orchestrator:<agent>`, or `key:<name>` for a key that may write
    some files alone. `applied_run`: the run that an undo takes back. `outcome`: a sentence on what
    came of it.
    """

    id: str
    source_agent: str
    source_session: str
    timestamp: datetime
    action: SuggestionAction
    target_module: str
    target_id: str | None
    payload: Mapping[str, object] = field(repr=False)
    reasoning: str = field(repr=False)
    status: Status = "pending"
    resolved_by: str | None = None
    resolved_at: datetime | None = None
    modifications: Mapping[str, object] | None = field(default=None, repr=False)
    path: str
    base: str | None
    run: str | None = None
    causes: tuple[str, ...] = ()
    origin: Origin = "agent"
    applied_run: str | None = None
    outcome: str = ""

    @property
    def is_pending(self) -> bool:
        """Whether it still waits for somebody."""
        return self.status == "pending"

    @property
    def effect(self) -> Mapping[str, object]:
        """The payload that counts: as it was proposed, or as a person changed it."""
        return self.payload if self.modifications is None else self.modifications


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSuggestion:
    """What a suggestion would do: the texts before and after, None where there is no file, and the
    digest that it is based on.
    """

    before: bytes | None
    after: bytes | None
    base: str | None


def stands_for(suggestion: Suggestion) -> tuple[str, ...] | None:
    """The ids of those for which it stands, where an orchestrator put several together; None: it
    stands for itself.
    """
    names = suggestion.payload.get("suggestions")
    return tuple(map(str, names)) if isinstance(names, list) else None


def to_document(suggestion: Suggestion) -> dict[str, object]:
    """As JSON."""
    resolved_at = suggestion.resolved_at
    return asdict(suggestion) | {
        "timestamp": suggestion.timestamp.isoformat(),
        "resolved_at": None if resolved_at is None else resolved_at.isoformat(),
        "causes": list(suggestion.causes),
    }


def from_document(document: Mapping[str, object]) -> Suggestion:
    """The suggestion again. Raises ValueError, KeyError or TypeError for what is none."""
    resolved_at, modifications, causes = (
        document["resolved_at"],
        document["modifications"],
        document["causes"],
    )
    payload = document["payload"]
    if (
        not isinstance(payload, dict)
        or not isinstance(modifications, dict | None)
        or not isinstance(causes, list | tuple)
    ):
        raise TypeError("payload, modifications and causes are not what they should be")
    return Suggestion(
        id=str(document["id"]),
        source_agent=str(document["source_agent"]),
        source_session=str(document["source_session"]),
        timestamp=datetime.fromisoformat(str(document["timestamp"])),
        action=_one_of(ACTIONS, document["action"]),
        target_module=str(document["target_module"]),
        target_id=_text(document["target_id"]),
        payload=payload,
        reasoning=str(document["reasoning"]),
        status=_one_of(STATUSES, document["status"]),
        resolved_by=_text(document["resolved_by"]),
        resolved_at=None if resolved_at is None else datetime.fromisoformat(str(resolved_at)),
        modifications=modifications,
        path=str(document["path"]),
        base=_text(document["base"]),
        run=_text(document["run"]),
        causes=tuple(map(str, causes)),
        origin=_one_of(_ORIGINS, document["origin"]),
        applied_run=_text(document["applied_run"]),
        outcome=str(document["outcome"]),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _one_of(words: tuple[_Word, ...], value: object) -> _Word:
    for word in words:
        if word == value:
            return word
    raise ValueError(f"{str(value)[:40]!r} is not one of {', '.join(map(str, words))}")
