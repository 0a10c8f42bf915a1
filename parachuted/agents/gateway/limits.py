"""Spending limits, the run that a request belongs to with its models, and what a request may cost.
Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from parachuted.agents.gateway.prices import Tokens
from parachuted.json_limits import check_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How a run reaches the gateway: at `url`, with `token` as its API key; or by `socket`, which
    is the run's own and asks for none.

    `model` is the one that it may ask.
    """

    url: str
    token: str
    socket: Path | None = None
    model: str | None = None


BudgetPool: TypeAlias = Literal["work", "conversation"]

_FAMILIES = frozenset({"haiku", "sonnet", "opus", "fable", "mythos"})
_LONG_CONTEXT = "[1m]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunToken:
    """Whose requests they are: the run, its agent, the causes that its cost is counted for, and the
    US dollars that it may take.

    `models` are those that it may name: the one of the settings, or the one that its agent was
    approved with. `pool` is the budget that pays: that of conversations, or that of all other work.
    """

    run: str
    agent: str
    causes: tuple[str, ...]
    session: str | None
    max_cost_usd: float
    models: tuple[str, ...]
    pool: BudgetPool = "work"

    def foreign_model(self, named: Iterable[str]) -> str | None:
        """The first of these models that this run may not name, if there is one."""
        return next(
            (one for one in named if not any(is_same_model(one, own) for own in self.models)), None
        )


def is_same_model(asked: str, setting: str) -> bool:
    """Whether a request's model is the one that a setting names: by its whole name, without its
    date, or by its family alone (`haiku`).
    """
    own = setting.removesuffix(_LONG_CONTEXT)
    if own in _FAMILIES:
        return asked == own or (asked.startswith("claude-") and own in asked.split("-"))
    return asked in {own, setting} or asked.startswith(f"{own}-20")


_WORTH_BEGINNING = 0.01

BudgetName: TypeAlias = Literal[
    "run",
    "usd_per_cause",
    "usd_per_hour",
    "usd_per_day",
    "usd_per_turn",
    "usd_per_session",
    "conversations_usd_per_day",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneyLimits:
    """US dollars for all that one person's change leads to, in any hour, and in any day (24
    hours); and, beside that, for one session of conversation, and for all of them in any day.
    """

    usd_per_cause: float
    usd_per_hour: float
    usd_per_day: float
    usd_per_session: float = math.inf
    conversations_usd_per_day: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceededBudget:
    """The budget that is used up, or of which too little is left: its limit, and what is left, in
    US dollars.
    """

    budget: BudgetName
    limit: float
    left: float = 0.0

    @property
    def is_used_up(self) -> bool:
        """Whether what is left is less than a hundredth, with which no run is worth beginning."""
        return math.isfinite(self.limit) and self.left < self.limit * _WORTH_BEGINNING

    def __str__(self) -> str:
        owner, setting = {
            "run": ("this run", "agent.max_cost_usd"),
            "usd_per_cause": ("what one change led to", "budget.usd_per_cause"),
            "usd_per_hour": ("this hour", "budget.usd_per_hour"),
            "usd_per_day": ("this day", "budget.usd_per_day"),
            "usd_per_turn": ("this turn", "conversation.max_cost_usd"),
            "usd_per_session": ("this conversation", "conversation.usd_per_session"),
            "conversations_usd_per_day": (
                "the day's conversations",
                "conversation.usd_per_day",
            ),
        }[self.budget]
        says = f"{owner} has used up its ${self.limit:g} (setting {setting})"
        if not self.is_used_up:
            says = (
                f"{owner} has ${self.left:.4f} left of its ${self.limit:g} (setting "
                f"{setting}), which does not pay for this request"
            )
        return f"{says}; `parachute usage` shows on what"


def narrowest(
    limits: MoneyLimits,
    *,
    run_usd: float,
    run_limit: float,
    causes: Mapping[str, float],
    hour_usd: float,
    day_usd: float,
) -> ExceededBudget:
    """The budget that has the least left.

    `causes` is what was spent for each of a run's causes; figures are in US dollars.
    """
    return _narrowest(
        ("run", run_usd, run_limit),
        ("usd_per_cause", max(causes.values(), default=0.0), limits.usd_per_cause),
        ("usd_per_hour", hour_usd, limits.usd_per_hour),
        ("usd_per_day", day_usd, limits.usd_per_day),
    )


def narrowest_of_conversation(
    limits: MoneyLimits, *, run_usd: float, run_limit: float, session_usd: float, day_usd: float
) -> ExceededBudget:
    """The same for a conversation: `session_usd` is what its session took, `day_usd` all
    conversations.
    """
    return _narrowest(
        ("usd_per_turn", run_usd, run_limit),
        ("usd_per_session", session_usd, limits.usd_per_session),
        ("conversations_usd_per_day", day_usd, limits.conversations_usd_per_day),
    )


def _narrowest(*spent: tuple[BudgetName, float, float]) -> ExceededBudget:
    every = [
        ExceededBudget(budget=budget, limit=limit, left=limit - usd) for budget, usd, limit in spent
    ]
    return next((one for one in every if one.is_used_up), min(every, key=lambda one: one.left))


def affordable(*, left: float, fixed: float, per_token: float, wanted: int) -> int:
    """How many tokens of an answer `left` dollars pay for, `wanted` at most, where the request
    costs `fixed` besides.
    """
    if fixed + wanted * per_token <= left:
        return wanted
    return int(min(max(0.0, (left - fixed) / per_token), wanted)) if per_token > 0 else 0


_MOST_INPUT = 1_000_000  # tokens: no model reads more
_MOST_OUTPUT = 128_000
_HIDDEN_TOKENS = 2_000  # what the far side adds to a prompt that has tools, and more
_IMAGE_TOKENS = 5_000
_REACHING = ("mcp", "container")
_SOURCES = frozenset({"base64", "text", "content"})
_TOOLS = ("custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_")
_DATA = frozenset({"input", "input_schema"})
_NO_MODELS_IN = frozenset({"messages", "system", "metadata"})
_TIERS = frozenset({"auto", "standard_only"})
_CONTEXT_EDITS = "clear_"
_COUNTED = frozenset({"model", "messages", "system", "tools", "tool_choice", "thinking"})
_LEAST_THINKING = 1024


class RequestRefusedError(Exception):
    """The request is not forwarded; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEstimate:
    """A request and the most tokens that it can use.

    `models` are all that it names; `input` is exact where the model's server counted it.
    `writes_hour`: it may write to the one-hour cache, which costs more.
    """

    document: Mapping[str, Any]
    model: str
    models: tuple[str, ...]
    input: int
    output: int
    writes_hour: bool = False
    speed: str = ""
    is_exact: bool = False

    def tokens(self, output: int) -> Tokens:
        """All that it takes at most, where the answer has `output` tokens."""
        written = {"cache_write_1h" if self.writes_hour else "cache_write_5m": self.input}
        return Tokens(output=output, **written)

    def counted(self, tokens: int) -> RequestEstimate:
        """With the input as the model's server counted it, and a twentieth more, since the server
        calls that an estimate.
        """
        return replace(self, input=min(self.input, tokens + tokens // 20 + 1), is_exact=True)

    def count_body(self) -> bytes:
        return json.dumps(
            {name: value for name, value in self.document.items() if name in _COUNTED}
        ).encode()

    def asks_for(self, output: int) -> bool:
        """Whether the document sets exactly that.

        A number below 0 has no meaning, and some servers then answer without end.
        """
        return _whole(self.document.get("max_tokens"), -1) == output

    def body(self, output: int) -> bytes:
        """The request with an answer of at most `output` tokens.

        Raises RequestRefusedError when it would think for longer than that.
        """
        document, thinking = {**self.document, "max_tokens": output}, self.document.get("thinking")
        if isinstance(thinking, dict) and _whole(thinking.get("budget_tokens"), 0) >= output:
            if output <= _LEAST_THINKING:
                raise RequestRefusedError(
                    "what is left of the budget does not buy the thinking that this request asks "
                    "for"
                )
            document["thinking"] = {**thinking, "budget_tokens": output - 1}
        return json.dumps(document).encode()


def read_request(body: bytes) -> RequestEstimate:
    """Parse a request body.

    Raises RequestRefusedError if it would make the model's server reach out, if its cost has no
    upper bound, or if it is not a message. A duplicate key is refused, because another parser might
    use the other value.
    """
    try:
        check_json(body)
        document = json.loads(body.decode("utf-8"), object_pairs_hook=_once)
        if not isinstance(document, dict):
            raise RequestRefusedError("a request is a JSON object")
        reaching = next(_reaching(document), None)
        models = tuple(dict.fromkeys(_models(document)))
        images, documents, writes_hour = _costly_parts(document)
    except (ValueError, RecursionError) as error:
        raise RequestRefusedError(f"a request is JSON in UTF-8: {str(error)[:100]}") from error
    if reaching is not None:
        raise RequestRefusedError(
            "an agent's requests reach nothing but the model, so this gateway takes no "
            f"{reaching[:100]}"
        )
    _refuse_unpriced(document)
    model, speed = document.get("model"), document.get("speed")
    most = (
        _MOST_INPUT
        if documents
        else min(len(body) + _HIDDEN_TOKENS + images * _IMAGE_TOKENS, _MOST_INPUT)
    )  # a token has a byte or more
    return RequestEstimate(
        document=document,
        model=model if isinstance(model, str) else "",
        models=models,
        input=most,
        output=asked
        if 0 <= (asked := _whole(document.get("max_tokens"), _MOST_OUTPUT)) <= _MOST_OUTPUT
        else _MOST_OUTPUT,
        writes_hour=writes_hour,
        speed=speed if isinstance(speed, str) else "",
    )


def _refuse_unpriced(document: Mapping[str, Any]) -> None:
    """What would cost otherwise than by its model's tokens."""
    if document.get("service_tier", "auto") not in _TIERS:
        raise RequestRefusedError("this gateway takes no service_tier but auto and standard_only")
    management = document.get("context_management")
    edits = management.get("edits") if isinstance(management, dict) else None
    for edit in edits if isinstance(edits, list) else []:
        kind = edit.get("type") if isinstance(edit, dict) else None
        if not (isinstance(kind, str) and kind.startswith(_CONTEXT_EDITS)):
            raise RequestRefusedError(
                f"this gateway takes no context edit of type {str(kind)[:100]}, whose cost cannot "
                "be known beforehand"
            )


def _models(document: Mapping[str, Any]) -> Iterator[str]:
    for name, value in document.items():
        if name not in _NO_MODELS_IN:
            yield from _named_models(name, value)


def _named_models(name: str, value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            if key not in _DATA:
                yield from _named_models(key, one)
    elif isinstance(value, list):
        for one in value:
            yield from _named_models(name, one)
    elif isinstance(value, str) and (
        name == "model" or name.endswith(("_model", "models", "fallbacks"))
    ):
        yield value


def _costly_parts(value: object) -> tuple[int, int, bool]:
    """How many images and how many documents are in it as data, and whether any part is to be
    cached for an hour.
    """
    images, documents, writes_hour = 0, 0, False
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
            source, cache = one.get("source"), one.get("cache_control")
            if isinstance(source, dict) and source.get("type") == "base64":
                images, documents = (
                    (images, documents + 1)
                    if one.get("type") == "document"
                    else (images + 1, documents)
                )
            writes_hour = writes_hour or (
                isinstance(cache, dict) and "ttl" in cache and cache["ttl"] != "5m"
            )
    return images, documents, writes_hour


def _whole(value: object, other: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else other


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is there twice")
    return made


def _reaching(document: dict[str, Any]) -> Iterator[str]:
    yield from (name for name in document if name.lower().startswith(_REACHING) and document[name])
    tools = document.get("tools")
    for tool in tools if isinstance(tools, list) else []:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind is not None and not (isinstance(kind, str) and kind.startswith(_TOOLS)):
            yield f"tool of type {kind}"
    for part in ("system", "messages"):
        yield from _sources(document.get(part))


def _sources(value: object) -> Iterator[str]:
    """Texts and pictures that are not in the request itself.

    What a tool was given is a tool's affair.
    """
    if isinstance(value, list):
        for one in value:
            yield from _sources(one)
    elif isinstance(value, dict):
        source = value.get("source")
        if isinstance(source, dict) and source.get("type") not in _SOURCES:
            yield f"source of type {source.get('type')}"
        if value.get("type") == "container_upload":
            yield "container_upload"
        for key, one in value.items():
            if key not in _DATA and isinstance(one, list | dict):
                yield from _sources(one)
