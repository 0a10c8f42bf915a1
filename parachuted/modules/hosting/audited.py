"""Audit lines for calls of modules by modules, agents and schedules, and for their events (the API
records requests). Lines hold no text.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from parachuted.access.caller import Caller
from parachuted.audit.chain import AuditEvent, AuditRecorder
from parachuted.vault import SourceType

_MOST_IDS = 32
_MOST_LOOKED_AT = 1_000
_LONG = 300
_PARA_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9:._-]{0,99}")


@dataclass(slots=True)
class CallAnswer:
    value: object = None


class ModuleAudit:
    def __init__(self, recorder: AuditRecorder, clock: Callable[[], datetime]) -> None:
        self._recorder, self._clock = recorder, clock

    @contextmanager
    def call(
        self, source: SourceType, who: str, module: str, what: str, caller: Caller
    ) -> Iterator[CallAnswer]:
        """Record a call when it ends, also with an error. `what`: such as `tool x` or `event x`."""
        started, answer, error = time.perf_counter(), CallAnswer(), None
        try:
            yield answer
        except BaseException as raised:
            error = type(raised).__name__  # its words may be the module's, and quote a note
            raise
        finally:
            self._recorder.record(
                AuditEvent(
                    timestamp=self._clock(),
                    event_type="module_call",
                    source_type=source,
                    source_id=who,
                    target_module=module,
                    target_endpoint=f"{module}: {what}"[:_LONG],
                    para_ids_involved=para_ids_of(answer.value),
                    duration_ms=(time.perf_counter() - started) * 1000,
                    success=error is None,
                    error=error,
                    request_id=caller.request.id or None,
                    causes=caller.causes,
                    run=caller.chain.run,
                    details=_details(what, answer.value, caller),
                )
            )


def _details(what: str, value: object, caller: Caller) -> Mapping[str, str | int | bool] | None:
    details = dict[str, str | int | bool]()
    if what.startswith("event ") and isinstance(value, Mapping):
        details |= {name: number for name, number in value.items() if isinstance(number, int)}
    if caller.request.entry == "bot":
        details["person"] = caller.request.who
    return details or None


def para_ids_of(value: object) -> list[str]:
    """Each distinct `para_id` and `para_ids` in a JSON value, up to a limit of depth and size."""
    found: dict[str, None] = {}
    waiting = deque([value])
    for _ in range(_MOST_LOOKED_AT):
        if not waiting or len(found) >= _MOST_IDS:
            break
        item = waiting.popleft()
        if isinstance(item, dict):
            many = item.get("para_ids")
            named = [item.get("para_id"), *(many if isinstance(many, list | tuple) else ())]
            names = (name for name in named if isinstance(name, str))
            found |= dict.fromkeys(name for name in names if _PARA_ID.fullmatch(name))
            item = list(item.values())
        if isinstance(item, list | tuple):
            inner = item[:_MOST_LOOKED_AT]
            waiting += [each for each in inner if isinstance(each, dict | list | tuple)]
    return list(found)[:_MOST_IDS]
