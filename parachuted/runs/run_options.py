"""Run options: with what the caller of an agent asks for a run, read and checked once.

Options may only narrow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from parachuted.access.narrowed import narrowing_configs
from parachuted.access.narrowing import WIDEST, AgentNarrowing
from parachuted.access.origin import Origin
from parachuted.agents import RunLimits
from parachuted.errors import ActRefusedError, PathRefusedError
from parachuted.vault import VaultPath

_WILD = frozenset("*?$")
_Number: TypeAlias = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]
_Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=2_000)]
_LongText: TypeAlias = Annotated[str, Field(max_length=1_000_000)]
_Model: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/\[\]-]{0,199}$")]
_Paths: TypeAlias = Annotated[tuple[_Text, ...], Field(max_length=100)]


@checked_dataclass(
    frozen=True,
    slots=True,
    kw_only=True,
    config=ConfigDict(defer_build=True, extra="forbid"),
)
class RunOptions:
    """Of any run: where it works, whose words its prompt is, what its caller takes from the agent,
    and what it may take at most.

    Of a run that is followed: `session_id` is an earlier one's to go on with, and a run that serves
    a conversation can take its `budget`.

    Of a run of a conversation, the rest: `attachments` are files of the vault, `context_folders`
    those whose context files go before the conversation, `history` what was said before, for a
    session that cannot be resumed, `context` what goes ahead of the prompt and is not the person's
    words. Hooks and listeners know the conversation by `conversation_id`, and that it is about
    `conversation_folder`, which gives the agent no right.
    """

    working_directory: str | None = None
    origin: Origin = "you"
    narrowing: AgentNarrowing = WIDEST
    timeout_s: _Number | None = None
    max_turns: _Number | None = None
    max_cost_usd: _Number | None = None
    session_id: str | None = None
    budget: Literal["conversation"] | None = None
    model: _Model | None = None
    system_prompt: _LongText | None = None
    attachments: _Paths = ()
    context_folders: _Paths = ()
    history: _LongText = ""
    context: _LongText = ""
    conversation_id: _Text | None = None
    conversation_folder: _Text | None = None

    def limits(self, most: RunLimits) -> RunLimits:
        """What the run may take, within what any may."""
        return RunLimits(
            timeout_s=min(self.timeout_s or most.timeout_s, most.timeout_s),
            max_turns=max(1, int(min(self.max_turns or most.max_turns, most.max_turns))),
            max_cost_usd=min(self.max_cost_usd or most.max_cost_usd, most.max_cost_usd),
        )

    @property
    def folder(self) -> str | None:
        """The folder of the vault where it works. Raises PathRefusedError."""
        if self.working_directory is None:
            return None
        return str(VaultPath.parse(self.working_directory.rstrip("/")))

    @property
    def about_folder(self) -> str | None:
        """The folder of the vault that a conversation is about, as far as it is one: a session's
        file can say anything.
        """
        with contextlib.suppress(PathRefusedError):
            return self.conversation_folder and str(
                VaultPath.parse(self.conversation_folder.rstrip("/"))
            )
        return None


_OPTIONS = TypeAdapter(RunOptions)
_OF_ANY = frozenset(
    {"working_directory", "origin", "narrowing", "timeout_s", "max_turns", "max_cost_usd"}
)
_TAKEN = {
    "run_agent": _OF_ANY,
    "start": _OF_ANY | {"session_id", "budget"},
    "conversation": frozenset(RunOptions.__dataclass_fields__),
}


def read_options(
    options: Mapping[str, object],
    kind: Literal["run_agent", "start", "conversation"] = "run_agent",
) -> RunOptions:
    """The options of such a run. None stands for one that is left out. Raises ActRefusedError."""
    call = "run_agent" if kind == "run_agent" else "start"
    named = {name: value for name, value in options.items() if value is not None}
    if kind == "conversation" and named.get("working_directory") == "":
        del named["working_directory"]
    if unknown := [name for name in named if name not in _TAKEN[kind]]:
        raise ActRefusedError(
            f"{call} takes {', '.join(sorted(_TAKEN[kind]))}, and not "
            f"{', '.join(map(str, unknown))[:200]}"
        )
    try:
        found = _OPTIONS.validate_python(named)
        narrowing_configs(found.narrowing)  # it raises for capabilities that do not exist
        folder = found.folder
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ActRefusedError(f"{call}: {place}: {first['msg']}") from error
    except ValueError as error:
        raise ActRefusedError(f"{call}: narrowing: {error}") from error
    except PathRefusedError as error:
        raise ActRefusedError(f"{call}: working_directory: {error.message}") from error
    if not _WILD.isdisjoint(folder or ""):  # it becomes part of patterns
        raise ActRefusedError(f"{call}: working_directory should be a folder of the vault")
    return found
