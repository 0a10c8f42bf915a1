"""Suggestion reports: records each step of a suggestion in the audit and publishes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from parachuted.audit.chain import AuditEvent, AuditRecorder
from parachuted.errors import StorageFailedError
from parachuted.events import Bus
from parachuted.suggestions.suggestion import USER, Suggestion
from parachuted.vault import Requester, printable


class SuggestionReports:
    def __init__(
        self,
        bus: Bus,
        recorder: AuditRecorder,
        clock: Callable[[], datetime],
        paths_of: Callable[[Suggestion], Iterable[str]],
    ) -> None:
        """`paths_of`: all files that a suggestion is about."""
        self._bus, self._recorder, self._clock, self._paths_of = bus, recorder, clock, paths_of

    def refuse_unaudited(self) -> None:
        """Raises StorageFailedError while the audit refuses acts."""
        if self._recorder.refusal is not None:
            raise StorageFailedError(self._recorder.refusal)

    def created(self, suggestion: Suggestion) -> None:
        self._audit(suggestion, "created", Requester("agent", suggestion.source_agent))
        self._bus.publish("suggestion.created", **_fields(suggestion))

    def resolved(self, suggestion: Suggestion, requester: Requester | None) -> None:
        """`requester`: who resolved it, where that is more than its name."""
        by = str(suggestion.resolved_by)
        self._audit(
            suggestion,
            suggestion.status,
            requester or Requester("person" if by == USER else "daemon", by),
        )
        self._bus.publish(
            "suggestion.resolved",
            **_fields(suggestion),
            status=suggestion.status,
            resolved_by=by,
            applied_run=suggestion.applied_run,
        )

    def _audit(self, suggestion: Suggestion, what: str, requester: Requester) -> None:
        self._recorder.record(
            AuditEvent(
                timestamp=self._clock(),
                event_type="suggestion",
                source_type=requester.source_type,
                source_id=requester.source_id,
                target_module=suggestion.target_module,
                target_endpoint=f"suggestions.{what}",
                para_ids_involved=[suggestion.target_id] if suggestion.target_id else [],
                request_id=requester.request_id or None,
                paths=[printable(path) for path in self._paths_of(suggestion)],
                names=[f"id={suggestion.id}"],
                causes=suggestion.causes,
                run=suggestion.applied_run or suggestion.run,
                details={
                    "id": suggestion.id,
                    "action": suggestion.action,
                    "agent": suggestion.source_agent,
                },
            )
        )


def _fields(suggestion: Suggestion) -> dict[str, object]:
    return {
        "id": suggestion.id,
        "action": suggestion.action,
        "path": printable(suggestion.path),
        "target_module": suggestion.target_module,
        "source_agent": suggestion.source_agent,
        "run": suggestion.run,
        "causes": list(suggestion.causes),
    }
