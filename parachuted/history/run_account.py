"""Run account: what is known of a run, and the document of it that is kept in the history."""

from __future__ import annotations

import hashlib
import reprlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from parachuted.access.caller import Caller
from parachuted.agents.job import (
    ChangedNote,
    PassingStep,
    RunResult,
    Step,
    TextStep,
    ToolCallStep,
)
from parachuted.tasks import Causes, RunOutcome, Task
from parachuted.vault import (
    BRINGS_BACK,
    PERSONS,
    Author,
    ObjectStore,
    Requester,
    Store,
    Write,
    WriteJournal,
    WriteResult,
    new_id,
    printable,
)
from parachuted.vault.chains import chains_of, wrote
from parachuted.vault.trail import requested, run_document

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
    """One run: `changes` is what it reviews, `agent` who works, `cost` that of all its attempts,
    `since` the last write before this one.
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
    since: int = 0

    def note(self, step: Step) -> None:
        if isinstance(step, RunResult):
            self.cost = step if step.of_run or self.cost is None else _sum(self.cost, step)
        elif not isinstance(step, PassingStep) and len(self.steps) < _MOST_STEPS:
            self.steps.append(_step(step))

    @property
    def changed(self) -> list[str]:
        """The files, without those that are again as it found them."""
        return list(dict.fromkeys(chain.path for chain in chains_of(self.written)))

    @property
    def last_said(self) -> str | None:
        return next((str(step["said"]) for step in reversed(self.steps) if "said" in step), None)


class RunAccounts:
    """Writes accounts into the history. Blocks on the disk."""

    def __init__(self, history: WriteJournal, objects: ObjectStore, causes: Causes) -> None:
        self._history, self._objects, self._causes = history, objects, causes

    def open(self, account: RunAccount) -> None:
        """The run has started, perhaps again: its earlier cost is kept."""
        account.cost = self._cost(str(account.task.run))
        account.since = self._history.last_write()
        self._save(
            account, RunOutcome(result="unchanged", reason="the agent is at work"), state=RUNNING
        )

    def wait(self, account: RunAccount, reason: str) -> None:
        """What it wrote is taken back."""
        self._save(account, RunOutcome(result="unchanged", reason=reason), state=WAITING)

    def close(self, account: RunAccount, outcome: RunOutcome, at: datetime) -> None:
        writes = self._history.writes_by(str(account.task.run))
        own = [write for write in writes if write.id > account.since]
        self._save(account, outcome, state=outcome.result, ended=at, writes=own)

    def _cost(self, run: str) -> RunResult | None:
        if (document := self._history.run(run)) is None:
            return None
        cost, tokens_in, tokens_out = (float(str(document[name])) for name in _COSTS)
        return RunResult(
            cost_usd=cost, input_tokens=int(tokens_in), output_tokens=int(tokens_out), turns=0
        )

    def _save(
        self,
        account: RunAccount,
        outcome: RunOutcome,
        *,
        state: str,
        ended: datetime | None = None,
        writes: Sequence[Write] = (),
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
            wrote=wrote(writes, self._history, self._objects),
            steps=account.steps,
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


def is_bookkeeping(history: WriteJournal, document: Mapping[str, Any]) -> bool:
    """Whether a list for a person leaves it out: a call of a module's code or a client that changed
    nothing or wrote a file again, and an answer of a module's agent, within something else, that
    changed nothing.
    """
    by, is_idle = str(document["agent"]), document["outcome"] == "unchanged"
    is_agents = "/" in by and not by.startswith(CLIENT)
    if is_agents and is_idle:
        related = history.runs_of_causes(causes_of(document))
        return any(str(run["id"]) < str(document["id"]) for run in related)
    if is_agents or not by.startswith(_WITHOUT_COST):
        return False
    return is_idle or any(
        map(partial(_is_same_call, document), map(history.run, document["parents"]))
    )


def _is_same_call(document: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> bool:
    """Whether both are of one call and wrote the same file, or began with it."""
    if earlier is None or any(document[name] != earlier[name] for name in ("agent", "reason")):
        return False
    one, other = (
        {written["path"] for written in run["wrote"]} or {run["watcher"]}
        for run in (document, earlier)
    )
    return not one.isdisjoint(other)


def save(
    history: WriteJournal,
    document: Mapping[str, object],
    *,
    watcher: str | None = None,
    is_durable: bool = True,
) -> None:
    """Keep a run's document. What a person, a client or a module's own code did counts in no
    budget. Raises StorageFailedError.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A person's act as a run, about the file `watcher`. Undoing it puts the runs that it
    `takes_back` in force again. Methods block on the disk, and raise StorageFailedError.
    """

    by: str
    run: str
    at: datetime
    watcher: str
    reason: str
    takes_back: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    requester: Requester | None = None

    @property
    def author(self) -> Author:
        key = self.requester.limited_key if self.requester is not None else ""
        return Author(
            by=self.by, run=self.run, causes=self.causes, key=key, requester=self.requester
        )

    def begin(self, store: Store, *, is_durable: bool = True) -> None:
        """Record the start: after a crash it is a failed run, whose writes can be undone. Without
        `is_durable` the first write makes it so.
        """
        save(store.history, self._document(), is_durable=is_durable)

    def end(self, store: Store, reason: str, *, is_durable: bool = True) -> dict[str, object]:
        """Record the end; returns the document. A power cut may undo it unless `is_durable`."""
        document = with_writes({**self._document(), "reason": reason}, store)
        save(store.history, document, is_durable=is_durable)
        return document

    def _document(self) -> dict[str, object]:
        return run_document(
            self.run,
            watcher=self.watcher,
            agent=self.by,
            started=self.at,
            causes=requested(self.causes, self.watcher, 1, self.at),
            outcome=RUNNING,
            reason=self.reason,
            takes_back=list(self.takes_back),
        )


def new_act(
    by: str,
    at: datetime,
    *,
    watcher: str,
    reason: str,
    takes_back: Iterable[str] = (),
    carries: bool = False,
    requester: Requester | None = None,
) -> Operation:
    """An operation that starts now; with `carries` it is a new cause for those that it wakes."""
    return Operation(
        by=by,
        run=new_id("r", at),
        at=at,
        watcher=watcher,
        reason=reason,
        takes_back=tuple(takes_back),
        causes=(new_id("c", at),) if carries else (),
        requester=requester,
    )


def with_writes(document: Mapping[str, object], store: Store) -> dict[str, object]:
    writes = store.history.writes_by(str(document["id"]))
    found = wrote(writes, store.history, store.objects)
    return {
        **document,
        "ended": store.clock().isoformat(),
        "outcome": "changed" if found else "unchanged",
        "wrote": found,
    }


def in_force(
    history: WriteJournal, document: Mapping[str, object], undone: Mapping[str, object] | None
) -> None:
    """Record that a run was undone, or (None) that it is in force again; for an undo, the reverse
    for what it undid, however deep.
    """
    save(history, {**document, "undone": None if undone is None else dict(undone)})
    again = {"at": document["started"], "with": document["id"], "run": document["id"]}
    for name in document.get("takes_back", ()):  # type: ignore[attr-defined]
        if (taken := history.run(str(name))) is not None:
            in_force(history, taken, again if undone is None else None)


_WHY = {"clock": "by the clock", "event": "after an event", "module": "by itself"}


class CallRun:
    """One request, tool call, event or schedule. Nothing is recorded before its first write. After
    `is_over`, each write is a run of its own. Threads may share it.
    """

    def __init__(self, store: Store, what: str, caller: Caller) -> None:
        self._store, self._what, self._caller = store, what, caller
        self._lock = threading.Lock()
        self._document: dict[str, object] | None = None
        self._writers, self.is_over, self._must_stay = 0, False, False
        self._earlier: str | None = None
        self.causes: tuple[str, ...] = ()
        """Of what is being written: a new one where nothing led to the call."""

    @property
    def run(self) -> str | None:
        document = self._document
        return None if document is None else str(document["id"])

    @contextmanager
    def writing(self, by: str, path: str, reason: str = "") -> Iterator[None]:
        """Around a write of that file by that author; a run with a `reason` is recorded also where
        nothing changes. Raises StorageFailedError.
        """
        with self._lock:
            if self._document is None:
                self._begin(by, path, reason)
            self._must_stay |= bool(reason)
            self._writers += 1
        try:
            yield
        finally:
            with self._lock:
                self._writers -= 1
                if self.is_over and not self._writers:
                    self._end()

    def close(self) -> None:
        """Blocks on the disk where it wrote. Raises StorageFailedError."""
        with self._lock:
            self.is_over = True
            if not self._writers:
                self._end()

    def _begin(self, by: str, path: str, reason: str) -> None:
        now, request, chain = self._store.clock(), self._caller.request, self._caller.chain
        self.causes = self._caller.causes_at(now)
        watcher = printable(path)
        causes: list[dict[str, object]] = [{"id": cause} for cause in self.causes]
        if request.by == "person":
            causes = requested(self.causes, watcher, 1, now)
        if chain.within is not None and request.by != "event":
            why = "for an agent"
        elif request.who == "cli" and not request.key:  # which a key may be called, too
            why = _WHY.get(request.by, "asked for on the command line")
        else:
            why = _WHY.get(request.by, f"asked for by {request.who or 'you'}")
        document = run_document(
            new_id("r", now),
            watcher=watcher,
            agent=by,
            started=now,
            ended=now.isoformat(),
            causes=causes,
            parents=[parent] if (parent := self._earlier or chain.run) else [],
            reason=reason or f"{self._what}, {why}",
        )
        self._save(document)
        self._document = document

    def _end(self) -> None:
        """Record what it wrote; a call that wrote nothing after all leaves no record."""
        if self._document is None:
            return
        history, run = self._store.history, str(self.run)
        document, self._document = self._document, None
        if not (history.writes_by(run) or self._must_stay):
            history.drop_runs([run], is_durable=False)
            return
        self._earlier = run
        self._must_stay = False
        self._save(with_writes(history.run(run) or document, self._store))

    def _save(self, document: dict[str, object]) -> None:
        save(self._store.history, document, is_durable=False)
