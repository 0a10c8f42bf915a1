"""Audit graph: who called whom, drawn as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_NAMES = {
    "local": "this machine",
    "flutter_app": "the app",
    "person": "a person",
    "daemon": "the daemon",
}
_NO_CALLER = ("api_key", "nobody")
_STREAMS = {"GET /api/events"}
_BAR, _MOST_ENDPOINTS, _MOST_RECENT = 24, 3, 8


@dataclass(slots=True)
class AuditEdge:
    """All calls of one source to one module.

    Durations in milliseconds, of the `timed` alone: a stream lasts as long as it is read.
    """

    count: int = 0
    failed: int = 0
    timed: int = 0
    total_ms: float = 0.0
    slowest_ms: float = 0.0
    slowest: str = ""
    endpoints: Counter[str] = field(default_factory=Counter)

    def add(self, event: dict[str, Any]) -> None:
        self.count += 1
        self.failed += not event["success"]
        self.endpoints[event["target_endpoint"]] += 1
        if event["target_endpoint"] in _STREAMS:
            return
        self.timed += 1
        self.total_ms += event["duration_ms"]
        if event["duration_ms"] >= self.slowest_ms:
            self.slowest_ms, self.slowest = event["duration_ms"], event["target_endpoint"]

    @property
    def mean_ms(self) -> float:
        """0.0 without timed calls."""
        return self.total_ms / self.timed if self.timed else 0.0


@dataclass(slots=True)
class AuditGraph:
    """Sources, the modules that they called, and the latest calls, newest first.

    `partial`: not everything was counted.
    """

    edges: dict[str, dict[str, AuditEdge]] = field(default_factory=dict)
    recent: list[dict[str, Any]] = field(default_factory=list)
    partial: bool = False

    def add(self, event: dict[str, Any]) -> None:
        """Add an event, newest first.

        The audit's own notes do not count, and a run counts when it ends.
        """
        if event["event_type"] in {"audit", "agent_start"}:
            return
        edges = self.edges.setdefault(source_name(event), {})
        edges.setdefault(event["target_module"] or "(no such call)", AuditEdge()).add(event)
        if len(self.recent) < _MOST_RECENT:
            self.recent.append(event)


def graph_of(events: Iterable[dict[str, Any]], most: int = 1_000_000) -> AuditGraph:
    """The graph of these events, newest first."""
    graph = AuditGraph()
    for number, event in enumerate(events):
        if number == most:
            graph.partial = True
            break
        graph.add(event)
    return graph


def source_name(event: dict[str, Any]) -> str:
    """Who did it, in words for a person."""
    kind, name = event["source_type"], event["source_id"]
    if kind in _NAMES:
        return (
            _NAMES[kind]
            if name in {_NAMES[kind], "on disk", "person", "audit", "this machine"}
            else f"{_NAMES[kind]} ({name})"
        )
    return name if (kind, name) == _NO_CALLER else f"{kind.replace('_', ' ')} {name}"


def document_of(graph: AuditGraph) -> dict[str, Any]:
    """The graph as JSON."""
    return {
        "edges": [
            {
                "source": source,
                "module": module,
                "count": edge.count,
                "failed": edge.failed,
                "mean_ms": round(edge.mean_ms, 3),
                "slowest_ms": edge.slowest_ms,
                "slowest": edge.slowest,
            }
            for source, edges in graph.edges.items()
            for module, edge in edges.items()
        ],
        "partial": graph.partial,
    }


def draw(graph: AuditGraph, span: str) -> list[str]:
    """The lines of the picture; `span` names its period."""
    title = f"System activity, {span}"
    if not graph.edges:
        return [title, "", "Nothing happened."]
    every = [edge for edges in graph.edges.values() for edge in edges.values()]
    total, failed = sum(edge.count for edge in every), sum(edge.failed for edge in every)
    lines = [f"{title}: {_count(total, 'event')}{f', {failed} failed' if failed else ''}", ""]
    modules = [module for edges in graph.edges.values() for module in edges]
    wide, most = max(map(_width, modules)), max(edge.count for edge in every)
    for source, edges in sorted(
        graph.edges.items(), key=lambda item: -sum(edge.count for edge in item[1].values())
    ):
        lines += _source(source, edges, wide, most)
    lines += ["Recent:", *(f"  {_recent(event)}" for event in graph.recent)]
    return [*lines, "", "(only the latest events were counted)"] if graph.partial else lines


def _source(source: str, edges: dict[str, AuditEdge], wide: int, most: int) -> list[str]:
    """A box, and an arrow to each module."""
    width = _width(source)
    lines = [f"┌─{'─' * width}─┐", f"│ {source} │", f"└┬{'─' * width}─┘"]
    ordered = sorted(edges.items(), key=lambda item: -item[1].count)
    for number, (module, edge) in enumerate(ordered, 1):
        is_last = number == len(ordered)
        bar = "█" * max(1, round(_BAR * edge.count / most))
        failed = f", {edge.failed} failed" if edge.failed else ""
        lines.append(
            f" {'└' if is_last else '├'}──> {module}{' ' * (wide - _width(module))}  "
            f"{edge.count:>7}  {bar}{failed}"
        )
        lines += [f" {' ' if is_last else '│'}      {said}" for said in _said(edge)]
    return [*lines, ""]


def _said(edge: AuditEdge) -> Sequence[str]:
    endpoints = ", ".join(
        f"{name} x{count}" for name, count in edge.endpoints.most_common(_MOST_ENDPOINTS)
    )
    more = len(edge.endpoints) - _MOST_ENDPOINTS
    said = [endpoints + (f" and {more} more" if more > 0 else "")]
    if edge.slowest_ms > 0:
        said.append(f"mean {_took(edge.mean_ms)}, slowest {_took(edge.slowest_ms)}: {edge.slowest}")
    return said


def _recent(event: dict[str, Any]) -> str:
    what = (
        event["target_endpoint"]
        if not event["paths"]
        else f"{event['target_endpoint']} {event['paths'][0]}"
    )
    came = "" if event["success"] else f" -> {event['error'] or 'failed'}"
    took = f" ({_took(event['duration_ms'])})" if event["duration_ms"] else ""
    return f"{event['timestamp'][11:19]}  {source_name(event)}: {what}{came}{took}"


def _took(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s" if milliseconds >= 1000 else f"{milliseconds:.3g} ms"  # noqa: PLR2004


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _width(text: str) -> int:
    return len(text)
