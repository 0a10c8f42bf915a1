"""Audit graph: who called whom, drawn as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from parachuted.audit.reader import AuditEntry

_NAMES = {
    "local": "this machine",
    "flutter_app": "the app",
    "person": "a person",
    "daemon": "the daemon",
}
_PLAIN = {"on disk", "person", "audit", "this machine"}
_NO_CALLER = ("api_key", "nobody")
_STREAM = "GET /api/events"  # which takes as long as somebody listens
_BAR = 24


@dataclass(slots=True, kw_only=True)
class AuditEdge:
    """All calls of one source to one module, in milliseconds; a stream is not timed."""

    source: str
    module: str
    count: int = 0
    failed: int = 0
    mean_ms: float = 0.0
    slowest_ms: float = 0.0
    slowest: str = ""


def graph_of(entries: Iterable[AuditEntry]) -> list[AuditEdge]:
    """Without the audit's own notes and the starts of runs. The busiest source is first, and of
    each the module that it called most.
    """
    edges: dict[tuple[str, str], AuditEdge] = {}
    timed: dict[tuple[str, str], int] = {}
    for entry in entries:
        if entry.event_type in {"audit", "agent_start"}:
            continue
        ends = source_name(entry), entry.target_module or "(no such call)"
        edge = edges.setdefault(ends, AuditEdge(source=ends[0], module=ends[1]))
        edge.count += 1
        edge.failed += not entry.success
        if entry.target_endpoint != _STREAM:
            timed[ends] = timed.get(ends, 0) + 1
            edge.mean_ms += (entry.duration_ms - edge.mean_ms) / timed[ends]
            if entry.duration_ms >= edge.slowest_ms:
                edge.slowest_ms, edge.slowest = entry.duration_ms, entry.target_endpoint
    totals: dict[str, int] = {}
    for edge in edges.values():
        edge.mean_ms = round(edge.mean_ms, 3)
        totals[edge.source] = totals.get(edge.source, 0) + edge.count
    return sorted(edges.values(), key=lambda one: (-totals[one.source], one.source, -one.count))


def source_name(entry: AuditEntry) -> str:
    kind, name = entry.source_type, entry.source_id
    if kind in _NAMES:
        return _NAMES[kind] if name in _PLAIN else f"{_NAMES[kind]} ({name})"
    return name if (kind, name) == _NO_CALLER else f"{kind.replace('_', ' ')} {name}"


def draw(graph: Sequence[AuditEdge], span: str) -> list[str]:
    title = f"System activity, {span}"
    if not graph:
        return [title, "", "Nothing happened."]
    total, failed = sum(edge.count for edge in graph), sum(edge.failed for edge in graph)
    lines = [f"{title}: {total} events, {failed} failed", ""]
    wide, most = max(len(edge.module) for edge in graph), max(edge.count for edge in graph)
    for source, grouped in groupby(graph, key=lambda edge: edge.source):
        edges, rule = list(grouped), "─" * len(source)
        lines += [f"┌─{rule}─┐", f"│ {source} │", f"└┬{rule}─┘"]
        for edge in edges:
            corner, side = ("└", " ") if edge is edges[-1] else ("├", "│")
            bar = "█" * max(1, round(_BAR * edge.count / most))
            errors = f", {edge.failed} failed" if edge.failed else ""
            lines.append(f" {corner}──> {edge.module:<{wide}}  {edge.count:>7}  {bar}{errors}")
            if edge.slowest_ms > 0:
                took = f"mean {edge.mean_ms:.1f} ms, slowest {edge.slowest_ms:.1f} ms"
                lines.append(f" {side}      {took}: {edge.slowest}")
        lines.append("")
    return lines[:-1]
