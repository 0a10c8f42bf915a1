"""Suggestion: a proposed change, the file that shows it, and its outcome."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from pydantic import ConfigDict, with_config

from parachuted.access.strangers import ORIGINS
from parachuted.errors import EditRefusedError
from parachuted.texts.adapters import late_adapter
from parachuted.texts.times import with_times
from parachuted.vault import PathText, parse_note, printable
from parachuted.vault.compose import compose_note

SuggestionAction: TypeAlias = Literal["create", "update", "delete", "link"]
Status: TypeAlias = Literal["pending", "approved", "rejected", "modified", "superseded"]
ACTIONS: tuple[SuggestionAction, ...] = get_args(SuggestionAction)
USER, AUTO, ORCHESTRATOR, KEY = "user", "auto", "orchestrator:", "key:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What is proposed, and by whom. `payload` is as in `payload.py`; `base` the digest of the text
    that it was decided on (None: what stands there now); `run` and `causes` led to it;
    `is_strangers`: strangers' text did.
    """

    source_agent: str
    action: SuggestionAction
    path: str
    payload: Mapping[str, object]
    reasoning: str
    source_session: str = ""
    target_id: str | None = None
    base: str | None = None
    run: str | None = None
    causes: tuple[str, ...] = ()
    is_strangers: bool = False


@with_config(ConfigDict(coerce_numbers_to_str=True))
@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A proposal with a name, and its resolution. `resolved_by`: `user`, `auto`,
    `orchestrator:<agent>`, or `key:<name>`. `applied_run`: the run that an undo takes back.
    `outcome`: a sentence on what came of it.
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
    path: PathText
    base: str | None
    run: str | None = None
    causes: tuple[str, ...] = ()
    origin: Literal["agent", "you", "bot", "imported", "web", "stranger"] = "agent"
    applied_run: str | None = None
    outcome: str = ""

    @property
    def is_strangers(self) -> bool:
        return self.origin in ORIGINS

    @property
    def is_pending(self) -> bool:
        return self.status == "pending"

    @property
    def effect(self) -> Mapping[str, object]:
        return self.payload if self.modifications is None else self.modifications


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSuggestion:
    """The texts before and after (None: no file), and the digest that it is based on."""

    before: bytes | None
    after: bytes | None
    base: str | None


def stands_for(suggestion: Suggestion) -> tuple[str, ...] | None:
    """The ids of those that an orchestrator put together; None: it stands for itself."""
    names = suggestion.payload.get("suggestions")
    return tuple(map(str, names)) if isinstance(names, list) else None


def to_document(suggestion: Suggestion) -> dict[str, object]:
    resolved_at = suggestion.resolved_at
    return asdict(suggestion) | {
        "timestamp": suggestion.timestamp.isoformat(),
        "resolved_at": None if resolved_at is None else resolved_at.isoformat(),
        "causes": list(suggestion.causes),
    }


def from_document(document: Mapping[str, object]) -> Suggestion:
    """Raises ValueError for what is no suggestion."""
    return _SUGGESTION().validate_python(dict(document))


_SUGGESTION = late_adapter(Suggestion)
FOLDER = "Suggestions"
_BELOW = "below"
_LARGEST_INLINE = 16 << 10
_LARGEST_SHOWN = 256 << 10
_JSON_KEYS = ("payload", "modifications")
_TEXTS = ("outcome", "path", "reasoning", "source_session")  # which may be empty
_BOX = re.compile(r"[-*+] \[([ xX])\] (approve|reject)\b")
_BREAKS = re.compile(r"\r\n|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_MOST_WORDS = 4_000
_OWN_FOLDERS = (
    "A text that counts as a stranger's led to it. If it is in a folder of yours beside the vault, "
    "name the folder in the setting `agent.own_folders`; `parachute logs` has the command."
)
_VERBS = {"create": "Create", "update": "Update", "delete": "Delete", "link": "Link from"}


State: TypeAlias = Status | Literal["applying"]
TRANSITIONS: Mapping[State, frozenset[State]] = {
    "pending": frozenset({"applying", "approved", "rejected", "superseded"}),
    "applying": frozenset({"pending", "approved", "modified", "superseded"}),
}
"""What may follow a state; the others are final. `applying` is kept before the vault is written, so
that a kill in between does it neither twice nor half. Only a batch, which writes nothing itself, is
approved at once.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionRecord:
    """A suggestion, its file, and what a person is to see there: the difference, the new text where
    that was cut, `words` on a tick, and texts that show what became of it (`after`). `is_private`:
    something of it is for no agent. `applying` is the run that is at it.
    """

    suggestion: Suggestion
    file: str
    diff: str = field(repr=False)
    text: str | None = field(default=None, repr=False)
    words: str = ""
    after: tuple[tuple[str, str], ...] = ()
    is_private: bool = False
    applying: str | None = None

    @property
    def state(self) -> State:
        return "applying" if self.applying is not None else self.suggestion.status

    def start(self, run: str, by: str, payload: Mapping[str, object] | None) -> SuggestionRecord:
        self.check("applying")
        suggestion = replace(self.suggestion, resolved_by=by, modifications=payload)
        return replace(self, suggestion=suggestion, applying=run)

    def waiting(self) -> SuggestionRecord:
        """As it was before it was applied; its file has not changed, so a tick in it counts."""
        self.check("pending")
        suggestion = replace(self.suggestion, resolved_by=None, modifications=None)
        return replace(self, suggestion=suggestion, applying=None)

    def over(
        self, status: Status, by: str, outcome: str, at: datetime, *, run: str | None = None
    ) -> SuggestionRecord:
        """As it is once it is resolved; `run` is the one that applied it."""
        self.check(status)
        suggestion = replace(
            self.suggestion,
            status=status,
            resolved_by=by,
            resolved_at=at,
            outcome=outcome,
            applied_run=run,
        )
        return replace(self, suggestion=suggestion, words="", applying=None)

    def check(self, state: State) -> None:
        if state not in TRANSITIONS.get(self.state, ()):
            one = self.suggestion
            was = "is just being applied" if self.applying else f"was {one.status} already"
            raise EditRefusedError(f"the suggestion {one.id} {was}, by {one.resolved_by}")

    def to_json(self) -> dict[str, object]:
        row = asdict(self) | {"document": to_document(self.suggestion)}
        del row["suggestion"]
        return row | {"paper": row.pop("file"), "private": row.pop("is_private")}


def record_from(row: Mapping[str, Any]) -> SuggestionRecord:
    """Raises ValueError, KeyError or TypeError for what is no record."""
    return SuggestionRecord(
        suggestion=from_document(row["document"]),
        file=row["paper"],
        is_private=bool(row.get("private")),
        after=tuple((str(title), str(text)) for title, text in row["after"]),
        **{name: row[name] for name in ("diff", "text", "words", "applying")},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionFile:
    """As it was read. `suggestion` None: its frontmatter is none; `body`: the rest, unticked."""

    suggestion: Suggestion | None
    body: str = field(repr=False)
    approve: bool = False
    reject: bool = False

    @property
    def is_ticked(self) -> bool:
        return self.approve or self.reject


def body_of(record: SuggestionRecord) -> str:
    """What stands in its file below the frontmatter."""
    suggestion = record.suggestion
    words = _lines(record.words[:_MOST_WORDS]) if record.words else []
    reasons = _lines(suggestion.reasoning.strip() or "(no reason was given)")
    at = f"{suggestion.timestamp:%Y-%m-%d %H:%M} UTC"
    parts = [
        [f"# {title_of(suggestion)}"],
        [f"> **{line}**" if line else ">" for line in words],
        [f"By {_plain(suggestion.source_agent)}, {at}:"],
        [f"> {line}" for line in reasons],
    ]
    if suggestion.is_pending:
        how = f"Tick one box and save, or `parachute suggestions approve {suggestion.id}`."
        parts += [["- [ ] approve", "- [ ] reject"], [how]]
        parts += [[_OWN_FOLDERS]] if suggestion.is_strangers else []
    else:
        outcome = _plain(suggestion.outcome)
        parts += [[f"**{suggestion.status}** by {suggestion.resolved_by}: {outcome}"]]
    if record.diff:
        title = "What would change" if suggestion.is_pending else "What was proposed"
        parts += [[f"## {title}"], _fenced(record.diff, "diff")]
        if hidden := _unseen(record.diff + (record.text or "")):
            parts += [[f"It holds characters that are not seen: {hidden}."]]
    if record.text is not None:
        parts += [["## The whole new text"], _fenced(record.text, "")]
    for title, text in record.after:
        parts += [[f"## {title}"], _fenced(text, "")]
    if _is_below(suggestion):
        parts += [["## Payload"], ["```json", json.dumps(dict(suggestion.payload)), "```"]]
    return "\n".join("\n".join(part) + "\n" for part in parts if part)


def write_file(record: SuggestionRecord, *, is_private: bool = False) -> bytes:
    """The file; `is_private`: no agent and no index gets what stands in it."""
    document = to_document(record.suggestion)
    for name in _JSON_KEYS:
        document[name] = "" if document[name] is None else json.dumps(document[name])
    if _is_below(record.suggestion):
        document["payload"] = _BELOW
    values = with_times(
        {name: "" if value is None else value for name, value in document.items()}
        | ({"private": "true"} if is_private else {})
    )
    return compose_note(values, body_of(record)).encode()


def read_file(data: bytes) -> SuggestionFile:
    """What the file says. Never raises: a file may hold anything."""
    note = parse_note(data)
    body = data[note.body.start : note.body.stop].decode("utf-8", "replace")
    ticks, unticked = _boxes(normal(body))
    return SuggestionFile(
        suggestion=_suggestion(note.values, body),
        body=unticked,
        approve="approve" in ticks,
        reject="reject" in ticks,
    )


def normal(body: str) -> str:
    """The text as every editor leaves it: line ends, trailing blanks and blank ends removed."""
    return "\n".join(line.rstrip() for line in body.replace("\r\n", "\n").split("\n")).strip("\n")


def title_of(suggestion: Suggestion) -> str:
    several = stands_for(suggestion)
    if several is not None:
        return f"{len(several)} suggestions at once"
    return f"{_VERBS[suggestion.action]} {_plain(printable(suggestion.path))}"


def file_name(suggestion: Suggestion) -> str:
    last = suggestion.path.rpartition("/")[2]
    name = unicodedata.normalize("NFKD", last.rpartition(".")[0] or last or "several")
    ascii_name = name.encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_name).strip("-")[:40] or suggestion.action
    return f"{FOLDER}/{suggestion.timestamp:%Y-%m-%d}-{slug}-{suggestion.id}.md"


def _suggestion(values: Mapping[str, object], body: str) -> Suggestion | None:
    document = {name: value or None for name, value in values.items()}
    document |= {name: values.get(name) for name in _TEXTS}
    document["causes"] = values.get("causes") or []
    try:
        for name in _JSON_KEYS:
            text = str(values[name])
            if name == "payload" and text == _BELOW:
                whole = body.replace("\r\n", "\n").rstrip().removesuffix("```")
                text = whole.rstrip().rpartition("\n")[2]
            document[name] = json.loads(text) if text else None
        return from_document(document)
    except (ValueError, KeyError, RecursionError):
        return None


def _boxes(body: str) -> tuple[frozenset[str], str]:
    """The ticked boxes above the first fence or `## ` heading, and the text with them empty."""
    ticked: set[str] = set()
    lines = body.split("\n")
    for number, line in enumerate(lines):
        if line.startswith(("```", "~~~", "## ")):
            break
        box = _BOX.match(line)
        if box is not None:
            if box[1] != " ":
                ticked.add(box[2])
            lines[number] = f"- [ ] {box[2]}"
    return frozenset(ticked), "\n".join(lines)


def _is_below(suggestion: Suggestion) -> bool:
    return len(json.dumps(dict(suggestion.payload))) > _LARGEST_INLINE


def _fenced(text: str, kind: str) -> list[str]:
    text = text if len(text) <= _LARGEST_SHOWN else f"{text[:_LARGEST_SHOWN]}\n(cut: there is more)"
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{kind}", *_lines(text.removesuffix("\n")), fence]


def _lines(text: str) -> list[str]:
    """None of them can end the quotation or fence that a stranger's text stands in."""
    return [_plain(line) for line in _BREAKS.split(text)]


def _plain(text: str) -> str:
    return "".join(
        one if one == "\t" or unicodedata.category(one) not in {"Cc", "Cs", "Zl", "Zp"} else " "
        for one in text
    )


def _unseen(text: str) -> str:
    """Characters by which a text can look like another one (Boucher and Anderson, 2021)."""
    found = Counter(
        one
        for one in text
        if unicodedata.category(one) == "Cf" or unicodedata.bidirectional(one) in {"RLO", "LRO"}
    )
    return ", ".join(f"U+{ord(one):04X} x{number}" for one, number in found.most_common(10))
