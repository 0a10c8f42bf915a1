"""Promises: what holds in a vault whatever was done to it, looked for in its files and over the API
of its daemon. Each function tells what does not hold, in sentences.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from parachuted.vault import digest_of

Ask = Callable[..., Any]
"""Asks the daemon by method and path; the JSON of its answer."""

PEOPLE = ("person", "earlier", "undo", "restore")
SPENT = {
    "usd_last_hour": "usd_per_hour",
    "usd_last_day": "usd_per_day",
    "usd_last_day_conversations": "conversations_usd_per_day",
}


def broken(ask: Ask, vault: Path, saved: Mapping[str, bytes]) -> list[str]:
    """What does not hold now; `saved` is what a person's editor last saved, by path."""
    notes = sorted(path.relative_to(vault) for path in vault.rglob("*.md"))
    shown = [path.as_posix() for path in notes if not path.parts[0].startswith(".")]
    return [
        *(said for path, data in saved.items() for said in _lost(ask, vault / path, path, data)),
        *(said for path in shown for said in _unexplained(ask, vault / path, path)),
        *_overspent(ask("GET", "/api/usage")),
    ]


def undo_all(ask: Ask, vault: Path) -> list[str]:
    """Undo every run that wrote, the newest first; each undo must give the bytes back.

    A run cannot be undone while an agent of what it led to is at work.
    """
    found: list[str] = []
    undone: set[str] = set()
    while name := _newest(ask):
        if name in undone:
            return [*found, f"{name} was undone and is not"]
        undone.add(name)
        while any(task["state"] == "running" for task in ask("GET", "/api/tasks")["tasks"]):
            time.sleep(0.05)
        plan = ask("GET", f"/api/runs/{name}/undo")
        names = {run["id"] for run in plan["runs"]}
        before = {path: _before(ask, vault / path, path, names) for path in plan["paths"]}
        kept = ask("POST", f"/api/runs/{name}/undo")["kept"]
        for path, digest in before.items():
            if path not in kept and digest not in (_digest(vault / path), ""):
                found.append(f"the undo of {name} did not give the bytes of {path} back")
    return found


def _lost(ask: Ask, file: Path, path: str, data: bytes) -> Iterator[str]:
    """A line that a person saved is there byte for byte, and after those before it, unless who took
    it out was asked to.
    """
    present = iter(file.read_bytes().splitlines(keepends=True) if file.exists() else ())
    for line in data.splitlines(keepends=True):
        if any(found.startswith(line) for found in present):
            continue
        newer: list[Mapping[str, Any]] = []
        for version in _versions(ask, path):
            if version["version"] == digest_of(data):
                break
            newer.append(version)
        if not any(_is_asked_for(ask, version) for version in newer):
            yield f"{path}: {line!r}, which a person saved, is gone or elsewhere"
        return


def _unexplained(ask: Ask, file: Path, path: str) -> Iterator[str]:
    """Each line that no person wrote has a run that says why."""
    why = ask("GET", f"/api/why?path={quote(path)}")
    lines = [line["text"].encode("utf-8", "surrogateescape") for line in why["lines"]]
    if lines != [line.rstrip(b"\r") for line in file.read_bytes().splitlines()]:
        yield f"{path}: its lines are not those of the file"
    for line in why["lines"]:
        run = why["runs"].get(line["run"]) or {}
        if line["by"] not in PEOPLE and not (run.get("reason") or run.get("reviewed")):
            yield f"{path}:{line['number']}: no run says why {line['by']} wrote {line['text']!r}"


def _overspent(usage: Mapping[str, Any]) -> Iterator[str]:
    budget, spent = usage["budget"], usage["spent"]
    for span in ("hour", "day"):
        if budget[f"runs_last_{span}"] > budget[f"runs_per_{span}"]:
            yield f"more runs in a {span} than its budget: {budget}"
    if spent is not None:
        limits = spent["limits"]
        pairs = [(spent[name], limits[limit], name) for name, limit in SPENT.items()]
        pairs += [(one["usd"], limits["usd_per_cause"], one["name"]) for one in spent["causes"]]
        pairs += [(one["usd"], limits["usd_per_session"], "a session") for one in spent["sessions"]]
        yield from (f"{name}: ${usd} of ${most}" for usd, most, name in pairs if usd > most)


def _before(ask: Ask, file: Path, path: str, runs: set[str]) -> str | None:
    """The digest before these runs (None: there was no file; empty: it moved, or others wrote
    since, or in between).
    """
    versions = _versions(ask, path)
    if not (file.exists() and versions and versions[0]["version"] == _digest(file)):
        return ""
    while versions and versions[0]["run"] in runs and versions[0]["source"] is None:
        versions.pop(0)
    mixed = any(version["run"] in runs or version["source"] for version in versions)
    return "" if mixed else versions[0]["version"] if versions else None


def _digest(file: Path) -> str | None:
    return digest_of(file.read_bytes()) if file.exists() else None


def _versions(ask: Ask, path: str) -> list[dict[str, Any]]:
    return list(ask("GET", f"/api/history?path={quote(path)}&limit=1000")["versions"])


def _is_asked_for(ask: Ask, version: Mapping[str, Any]) -> bool:
    if version["by"] in PEOPLE:
        return True
    return "asked for " in str(ask("GET", f"/api/runs/{version['run']}").get("reason"))


def _newest(ask: Ask) -> str | None:
    """The newest run that wrote and is not undone."""
    before = ""
    while runs := ask("GET", f"/api/runs?all=true&limit=500{before}")["runs"]:
        for run in runs:
            if run["wrote"] and run["ended"] and not run["undone"] and run["agent"] != "undo":
                return str(run["id"])
        before = f"&before={runs[-1]['id']}"
    return None
