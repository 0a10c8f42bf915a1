"""MCP: how soon a client that starts `parachute mcp` is answered, and what a tool call takes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.process import daemon, temporary_home
from benchmarks.report import Figure
from benchmarks.serving import percentile
from benchmarks.vaults import make_vault

_NOTES, _STARTS, _CALLS = 1_000, 15, 200
_UNWATCHED = "Loose/plain.md"
_BARE = "import sys; sys.stdout.write(sys.stdin.readline())"
_OPENING = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}


class _Peer:
    """A program that was started, and is asked line by line."""

    def __init__(self, *command: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *command],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask_s(self, message: object) -> tuple[float, dict[str, object]]:
        """Seconds until the answer, and the answer."""
        began = time.perf_counter()
        sent, answered = self._process.stdin, self._process.stdout
        if sent is None or answered is None:
            raise RuntimeError("the program has no pipes")
        sent.write(json.dumps(message).encode() + b"\n")
        sent.flush()
        answer = json.loads(answered.readline())
        return time.perf_counter() - began, answer

    def end(self) -> None:
        """Close its input and wait."""
        self._process.communicate()


def mcp(folder: Path) -> Iterator[Figure]:
    """Over stdio, by a daemon that runs; the first client of all loads the `mcp` package there."""
    vault = make_vault(folder / "vault", _NOTES)
    with temporary_home() as home, daemon(vault, home):
        environment = {**os.environ, "PARACHUTE_HOME": str(home)}
        first = _opened_s(environment)
        opened, bare = [], []
        for _ in range(_STARTS):
            bare.append(_bare_s(environment))
            opened.append(_opened_s(environment))
        yield Figure(
            name="MCP: initialize over stdio, from the start of the command",
            value=statistics.median(opened) * 1000,
            unit="ms",
            bound=250,
        )
        yield Figure(
            name="MCP: the same, against a bare Python that answers a line",
            value=statistics.median(opened) * 1000,
            unit="ms",
            reference=statistics.median(bare) * 1000,
            bound=None,
        )
        yield Figure(
            name="MCP: initialize of a daemon's first client",
            value=first * 1000,
            unit="ms",
            bound=None,
        )
        yield from _calls(vault, environment)


def _bare_s(environment: dict[str, str]) -> float:
    began = time.perf_counter()
    peer = _Peer("-c", _BARE, environment=environment)
    peer.ask_s(_OPENING)
    spent = time.perf_counter() - began
    peer.end()
    return spent


def _opened_s(environment: dict[str, str]) -> float:
    began = time.perf_counter()
    peer = _Peer("-m", "parachuted", "mcp", environment=environment)
    peer.ask_s(_OPENING)
    spent = time.perf_counter() - began
    peer.end()
    return spent


def _calls(vault: Path, environment: dict[str, str]) -> Iterator[Figure]:
    watched = next(vault.rglob("note-*.md")).relative_to(vault).as_posix()
    (vault / _UNWATCHED).parent.mkdir()
    (vault / _UNWATCHED).write_text("---\nseen: 0\n---\n\n# Plain\n\n" + "A line of text.\n" * 40)
    calls: list[tuple[str, str, dict[str, object]]] = [
        ("read_note", "", {"path": watched}),
        ("search_notes", "", {"query": "project"}),
        ("set_key", "", {"path": _UNWATCHED, "key": "seen", "value": 0}),
        (
            "set_key",
            " of a watched note, beside the runs that it starts",
            {"path": watched, "key": "seen", "value": 0},
        ),
    ]
    peer = _Peer("-m", "parachuted", "mcp", environment=environment)
    peer.ask_s(_OPENING)
    for tool, where, arguments in calls:
        spans, bare = [], []
        for number in range(_CALLS):
            given = arguments | ({"value": number} if "value" in arguments else {})
            params = {"name": tool, "arguments": given}
            spent, answer = peer.ask_s(
                {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            )
            result = answer.get("result")
            if not isinstance(result, dict) or result.get("isError"):
                raise RuntimeError(f"{tool}: {answer}")
            spans.append(spent)
            if "value" in arguments:
                bare.append(_durable_s(vault / str(arguments["path"])))
        yield Figure(
            name=f"MCP: {tool} over stdio{where}, p95",
            value=percentile(sorted(spans), 0.95) * 1000,
            unit="ms",
            bound=None if where else 10,
        )
        if bare:
            yield Figure(
                name=f"MCP: {tool}{where}, median, against two durable writes of bare Python",
                value=statistics.median(spans) * 1000,
                unit="ms",
                reference=statistics.median(bare) * 1000,
                bound=None,
            )
    peer.end()


def _durable_s(note: Path) -> float:
    """Seconds that the disk takes for what a write needs at least: the new text, and its copy in
    the history, each in a file of its own that a power cut leaves whole.
    """
    text, folder = note.read_bytes(), note.parent.parent / ".bare"
    folder.mkdir(exist_ok=True)
    began = time.perf_counter()
    for name in ("note", "copy"):
        with (folder / "temporary").open("wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        (folder / "temporary").rename(folder / name)
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    return time.perf_counter() - began
