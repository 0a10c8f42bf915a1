"""Run account: what is known of a run, and the document of it that is kept in the history."""

from __future__ import annotations

import hashlib
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from parachuted.access.run_records import QuotedPaths
from parachuted.agents import PASSING_STEPS, ChangedNote, RunResult, Step, TextStep, ToolCallStep
from parachuted.tasks import Causes, RunOutcome, Task
from parachuted.vault import BRINGS_BACK, PERSONS, History, ObjectStore, WriteResult, printable
from parachuted.vault.run_document import Digests, run_document, wrote

NAME = "curator"
RUNNING = "running"
WAITING = "waiting"
CLIENT = "mcp:"
"""How the names of programs begin that a person connected: their runs cost the daemon nothing."""
_WITHOUT_COST = (CLIENT, "module:")
_MOST_STEPS = 200
_MOST_REVIEWED = 400
_STEP_TEXT = 2000
_COSTS = ("cost_usd", "input_tokens", "output_tokens")


@dataclass(slots=True, kw_only=True)
class RunAccount:
    """One run.

    `changes` is what it reviews, `written` what it wrote so far, `agent` who works: a curator, or a
    module's agent.

    `cost` is of all its attempts. `quoted` grows with all that the agent is shown; what it reviews
    and writes is added when the account is saved.
    """

    task: Task
    backend: str
    model: str | None
    started: datetime
    changes: Sequence[ChangedNote]
    prompt: str
    system_prompt: str
    written: Sequence[WriteResult]
    steps: list[dict[str, object]] = field(default_factory=list)
    cost: RunResult | None = None
    agent: str = NAME
    quoted: QuotedPaths = field(default_factory=QuotedPaths)

    def note(self, step: Step) -> None:
        if isinstance(step, RunResult):
            self.cost = step if step.of_run or self.cost is None else _sum(self.cost, step)
        elif not isinstance(step, PASSING_STEPS) and len(self.steps) < _MOST_STEPS:
            self.steps.append(_step(step))

    @property
    def net(self) -> dict[str, Digests]:
        """For each changed file, the digests before the run's first write and after its last."""
        net: dict[str, Digests] = {}
        for written in self.written:
            net[written.path] = (net.get(written.path, (written.before, None))[0], written.after)
        return {path: digests for path, digests in net.items() if digests[0] != digests[1]}

    def quotes(self) -> list[str] | None:
        """The paths whose names or texts the record may quote, in the form in which it
        stores them.
        """
        quoted = QuotedPaths([printable(self.task.watcher), *map(printable, self.net)])
        quoted.add_all(self.quoted)
        for note in self.changes:
            quoted.add(*filter(None, (note.path, note.source, note.target)))
        return quoted.document()

    @property
    def last_said(self) -> str | None:
        return next((str(step["said"]) for step in reversed(self.steps) if "said" in step), None)


class RunAccounts:
    """Writes accounts into the history. Blocks on the disk."""

    def __init__(self, history: History, objects: ObjectStore, causes: Causes) -> None:
        self._history, self._objects, self._causes = history, objects, causes

    def open(self, account: RunAccount) -> None:
        """The run has started, perhaps again: its earlier cost is kept."""
        account.cost = self._cost(str(account.task.run))
        self._save(
            account, RunOutcome(result="unchanged", reason="the agent is at work"), state=RUNNING
        )

    def wait(self, account: RunAccount, reason: str) -> None:
        self._save(account, RunOutcome(result="unchanged", reason=reason), state=WAITING)

    def close(self, account: RunAccount, outcome: RunOutcome, at: datetime) -> None:
        self._save(account, outcome, state=outcome.result, ended=at)

    def _cost(self, run: str) -> RunResult | None:
        if (document := self._history.run(run)) is None:
            return None
        cost, tokens_in, tokens_out = (document[name] for name in _COSTS)
        return RunResult(
            cost_usd=float(cost),  # type: ignore[arg-type]
            input_tokens=int(tokens_in),  # type: ignore[call-overload]
            output_tokens=int(tokens_out),  # type: ignore[call-overload]
            turns=0,
        )

    def _save(
        self, account: RunAccount, outcome: RunOutcome, *, state: str, ended: datetime | None = None
    ) -> None:
        task, cost = account.task, account.cost
        document = run_document(
            str(task.run),
            watcher=printable(task.watcher),
            agent=account.agent,
            started=account.started,
            task=task.id,
            backend=account.backend,
            model=account.model,
            causes=[self._cause(cause) for cause in task.causes],
            parents=list(task.parents),
            ended=ended.isoformat() if ended else None,
            outcome=state,
            reason=outcome.reason,
            reviewed=[_reviewed(note) for note in account.changes[:_MOST_REVIEWED]],
            reviewed_count=len(account.changes),
            wrote=[wrote(path, net, self._objects) for path, net in account.net.items()],
            steps=account.steps,
            quotes=account.quotes(),
            prompt_digest=hashlib.sha256(
                f"{account.system_prompt}\0{account.prompt}".encode("utf-8", "replace")
            ).hexdigest(),
            **{name: getattr(cost, name, 0) for name in _COSTS},
        )
        save(self._history, document, watcher=task.watcher)

    def _cause(self, cause: str) -> dict[str, object]:
        known = self._causes.get(cause)
        if known is None:
            return {"id": cause}
        return {
            "id": cause,
            "kind": known.kind,
            "path": printable(known.path),
            "files": known.files,
            "at": known.at.isoformat(),
        }


def save(
    history: History,
    document: Mapping[str, object],
    *,
    watcher: str | None = None,
    is_durable: bool = True,
) -> None:
    """Keep a run's document.

    What a person, a connected client or a module's own code did counts in no budget of agents.
    Raises StorageFailedError.
    """
    agent = str(document.get("agent"))
    is_persons = (agent in BRINGS_BACK or agent.startswith(_WITHOUT_COST)) and document[
        "outcome"
    ] != RUNNING
    history.save_run(
        str(document["id"]),
        started=datetime.fromisoformat(str(document["started"])),
        watcher=watcher or str(document["watcher"]),
        outcome=PERSONS if is_persons else str(document["outcome"]),
        causes=causes_of(document),
        document=document,
        is_durable=is_durable,
    )


def causes_of(document: Mapping[str, object]) -> list[str]:
    return [str(cause["id"]) for cause in document["causes"]]  # type: ignore[attr-defined]


def has_ended(document: Mapping[str, object] | None) -> bool:
    return document is not None and document["outcome"] not in (RUNNING, WAITING)


def _sum(earlier: RunResult, attempt: RunResult) -> RunResult:
    return replace(
        attempt, **{name: getattr(earlier, name) + getattr(attempt, name) for name in _COSTS}
    )


def _reviewed(note: ChangedNote) -> dict[str, object]:
    return {
        "path": note.path,
        "kind": note.kind,
        "source": note.source,
        "units": list(note.units),
        "diff": note.diff,
    }


def _step(step: TextStep | ToolCallStep) -> dict[str, object]:
    if isinstance(step, TextStep):
        return {"said": step.text[:_STEP_TEXT]}
    arguments = {key[:_STEP_TEXT]: _brief(value) for key, value in step.arguments.items()}
    return {
        "called": step.tool,
        "arguments": arguments,
        "answer": step.result.text[:_STEP_TEXT],
        "error": step.result.is_error,
    }


def _brief(value: object) -> str:
    return value[:_STEP_TEXT] if isinstance(value, str) else reprlib.repr(value)
