"""Call run: what one call of a module writes, as one run that can be explained and undone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from parachuted.access.authority import Authority
from parachuted.access.run_records import QuotedPaths
from parachuted.history.operation import net_of
from parachuted.history.run_account import save
from parachuted.vault import Store, new_id, printable
from parachuted.vault.run_document import requested, run_document

_WHY = {
    "person": "asked for by {}",
    "clock": "by the clock",
    "event": "after an event",
    "module": "by itself",
}


class CallRun:
    """One call: a request, a tool call, an event, a schedule.

    `is_over`: the call has ended, and only what it began goes on.

    Nothing is recorded before its first write, which makes the record durable with it. What work
    that outlives the call writes is a run of its own, for each time that it writes. Threads may
    share it.
    """

    def __init__(self, store: Store, what: str, authority: Authority) -> None:
        """`what` names the call, `authority` is its caller's."""
        self._store, self._what, self._authority = store, what, authority
        self._lock = threading.Lock()
        self._document: dict[str, object] | None = None
        self._writers, self.is_over, self._must_stay = 0, False, False
        self._earlier: tuple[str, ...] = ()
        self._causes: tuple[str, ...] = ()

    @property
    def run(self) -> str | None:
        """The run that is being written; None before the first write."""
        document = self._document
        return None if document is None else str(document["id"])

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes of what is being written: a new one where nothing led to the call."""
        return self._causes

    @contextmanager
    def writing(self, by: str, path: str, reason: str = "") -> Iterator[None]:
        """Around a write of that file by that author; a run with a `reason` is recorded also where
        nothing changes. Blocks on the disk.

        Raises StorageFailedError.
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
        """The call is over. Blocks on the disk where it wrote. Raises StorageFailedError."""
        with self._lock:
            self.is_over = True
            if not self._writers:
                self._end()

    def _begin(self, by: str, path: str, reason: str) -> None:
        now, asked = self._store.clock(), self._authority
        self._causes = asked.causes_at(now)
        watcher = printable(path)
        causes = (
            requested(self._causes, watcher, 1, now)
            if asked.asked_by == "person"
            else [{"id": cause} for cause in self._causes]
        )
        is_agents = asked.within is not None and asked.asked_by != "event"
        why = "for an agent" if is_agents else _WHY[asked.asked_by].format(asked.who or "you")
        document = run_document(
            new_id("r", now),
            watcher=watcher,
            agent=by,
            started=now,
            ended=now.isoformat(),
            causes=causes,
            parents=list(self._earlier or asked.runs),
            reason=reason or f"{self._what}, {why}",
        )
        self._save(document)
        self._document = document

    def _end(self) -> None:
        """Record what it wrote; a call that wrote nothing after all leaves no record."""
        if self._document is None:
            return
        history, objects, run = self._store.history, self._store.objects, str(self.run)
        writes = history.writes_by(run)
        net = net_of(writes, objects)
        document, self._document = self._document, None
        if not (writes or self._must_stay):
            history.drop_runs([run], is_durable=False)
            return
        self._earlier = (run,)
        self._must_stay = False
        quotes = QuotedPaths([str(document["watcher"]), *(printable(one.path) for one in writes)])
        known = history.run(run) or document
        ended = {
            "ended": self._store.clock().isoformat(),
            "outcome": "changed" if net else "unchanged",
            "wrote": net,
            "quotes": quotes.document(),
        }
        self._save({**known, **ended})

    def _save(self, document: dict[str, object]) -> None:
        save(self._store.history, document, is_durable=False)
