"""Audit graph: who called whom, drawn as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from parachuted.audit.reader import AuditEntry

_NAMES = {
    "local": "this machine",
    "flutter_app": "the app",
    "person": "a person",
    "daemon": "the daemon",
}
_PLAIN = {"on disk", "person", "audit", "this machine"}
_NO_CALLER = ("api_key", "nobody")
_STREAMS = {"GET /api/events"}
_BAR, _MOST_ENDPOINTS, _MOST_RECENT = 24, 3, 8


@dataclass(slots=True)
class AuditEdge:
    """All calls of one source to one module, in milliseconds; a stream is not timed."""

    count: int = 0
    failed: int = 0
    timed: int = 0
    total_ms: float = 0.0
    slowest_ms: float = 0.0
    slowest: str = ""
    endpoints: Counter[str] = field(default_factory=Counter)

    def add(self, entry: AuditEntry) -> None:
        self.count += 1
        self.failed += not entry.success
        self.endpoints[entry.target_endpoint] += 1
        if entry.target_endpoint in _STREAMS:
            return
        self.timed += 1
        self.total_ms += entry.duration_ms
        if entry.duration_ms >= self.slowest_ms:
            self.slowest_ms, self.slowest = entry.duration_ms, entry.target_endpoint

    @property
    def mean_ms(self) -> float:
        return self.total_ms / self.timed if self.timed else 0.0


@dataclass(slots=True)
class AuditGraph:
    edges: dict[str, dict[str, AuditEdge]] = field(default_factory=dict)
    recent: list[AuditEntry] = field(default_factory=list)
    partial: bool = False


def graph_of(entries: Iterable[AuditEntry], most: int = 1_000_000) -> AuditGraph:
    """The graph of these entries, without the audit's own notes and the starts of runs."""
    graph = AuditGraph()
    for number, entry in enumerate(entries):
        if number == most:
            graph.partial = True
            break
        if entry.event_type in {"audit", "agent_start"}:
            continue
        edges = graph.edges.setdefault(source_name(entry), {})
        edges.setdefault(entry.target_module or "(no such call)", AuditEdge()).add(entry)
        if len(graph.recent) < _MOST_RECENT:
            graph.recent.append(entry)
    return graph


def source_name(entry: AuditEntry) -> str:
    kind, name = entry.source_type, entry.source_id
    if kind in _NAMES:
        return _NAMES[kind] if name in _PLAIN else f"{_NAMES[kind]} ({name})"
    return name if (kind, name) == _NO_CALLER else f"{kind.replace('_', ' ')} {name}"


def document_of(graph: AuditGraph) -> dict[str, Any]:
    edges = [
        {
            "source": source,
            "module": module,
            "count": edge.count,
            "failed": edge.failed,
            "mean_ms": round(edge.mean_ms, 3),
            "slowest_ms": edge.slowest_ms,
            "slowest": edge.slowest,
        }
        for source, modules in graph.edges.items()
        for module, edge in modules.items()
    ]
    return {"edges": edges, "partial": graph.partial}


def draw(graph: AuditGraph, span: str) -> list[str]:
    title = f"System activity, {span}"
    if not graph.edges:
        return [title, "", "Nothing happened."]
    every = [edge for edges in graph.edges.values() for edge in edges.values()]
    total, failed = sum(edge.count for edge in every), sum(edge.failed for edge in every)
    events = "1 event" if total == 1 else f"{total} events"
    lines = [f"{title}: {events}{f', {failed} failed' if failed else ''}", ""]
    wide = max(len(module) for edges in graph.edges.values() for module in edges)
    most = max(edge.count for edge in every)
    totals = {name: sum(edge.count for edge in of.values()) for name, of in graph.edges.items()}
    for source in sorted(totals, key=lambda source: -totals[source]):
        lines += _source(source, graph.edges[source], wide, most)
    lines += ["Recent:", *(f"  {_recent(entry)}" for entry in graph.recent)]
    return [*lines, "", "(only the latest events were counted)"] if graph.partial else lines


def _source(source: str, edges: dict[str, AuditEdge], wide: int, most: int) -> list[str]:
    rule = "─" * len(source)
    lines = [f"┌─{rule}─┐", f"│ {source} │", f"└┬{rule}─┘"]
    ordered = sorted(edges.items(), key=lambda item: -item[1].count)
    for number, (module, edge) in enumerate(ordered, 1):
        corner, side = ("└", " ") if number == len(ordered) else ("├", "│")
        bar = "█" * max(1, round(_BAR * edge.count / most))
        failed = f", {edge.failed} failed" if edge.failed else ""
        lines.append(f" {corner}──> {module:<{wide}}  {edge.count:>7}  {bar}{failed}")
        named = edge.endpoints.most_common(_MOST_ENDPOINTS)
        more = len(edge.endpoints) - len(named)
        endpoints = ", ".join(f"{name} x{count}" for name, count in named)
        lines.append(f" {side}      {endpoints}{f' and {more} more' if more else ''}")
        if edge.slowest_ms > 0:
            took = f"mean {_took(edge.mean_ms)}, slowest {_took(edge.slowest_ms)}"
            lines.append(f" {side}      {took}: {edge.slowest}")
    return [*lines, ""]


def _recent(entry: AuditEntry) -> str:
    path = f" {entry.paths[0]}" if entry.paths else ""
    outcome = "" if entry.success else f" -> {entry.error or 'failed'}"
    took = f" ({_took(entry.duration_ms)})" if entry.duration_ms else ""
    what = f"{entry.target_endpoint}{path}{outcome}{took}"
    return f"{entry.timestamp[11:19]}  {source_name(entry)}: {what}"


def _took(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f} s" if milliseconds >= 1000 else f"{milliseconds:.3g} ms"  # noqa: PLR2004
