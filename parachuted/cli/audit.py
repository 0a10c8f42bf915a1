"""Audit: what was done, by whom, in the terminal.

Read from the files, so with and without a daemon.
"""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parachuted.audit.events import EVENT_TYPES
from parachuted.audit.files import AUDIT_HEAD, AuditFolder, ChainHeadFile, machine_name
from parachuted.audit.graph import document_of, draw, graph_of, source_name
from parachuted.audit.reader import AuditFilter, AuditFollower, AuditReader, moment_of, told
from parachuted.audit.verify import verify
from parachuted.cli.client import daemon_record, home_of
from parachuted.cli.commands import CommandParser, Commands, add_command, add_json
from parachuted.cli.show import count, say, say_json, say_table, when
from parachuted.errors import NoDaemonError, ParachuteError
from parachuted.vault import VaultRoot
from parachuted.vault_state import known_state_folder

_LOOK_EVERY_S = 0.1
_MOST = 10_000
_EVERYTHING = 1 << 60
_DAY = "24h"
_HEADS = ("TIME (UTC)", "WHO", "WHAT", "TOOK", "CAME OF IT")


def add_parsers(commands: Commands) -> None:
    """Add these commands to the parser."""
    audit_parser = add_command(
        commands,
        "audit",
        audit,
        "what was done, by whom",
        "Show every call of the API, call of a tool, run of an agent and write, the latest last.",
    )
    audit_parser.add_argument("-f", "--follow", action="store_true", help="keep showing new lines")
    audit_parser.add_argument(
        "-n", "--limit", type=int, default=50, metavar="N", help="how many (default: 50)"
    )
    _add_filters(audit_parser, since=None)
    parts = audit_parser.add_subparsers(metavar="COMMAND")
    says = (
        "Find every line that was changed, removed, added or moved. Exits with 1 when there is one."
    )
    add_json(add_command(parts, "verify", audit_verify, "check that the audit is unchanged", says))
    graph = add_command(
        parts,
        "graph",
        audit_graph,
        "who called whom",
        "Draw who called whom in the last day, how often and how slowly.",
    )
    _add_filters(graph, since="24h")


def _add_filters(parser: CommandParser, *, since: str | None) -> None:
    parser.add_argument(
        "--since",
        default=since,
        metavar="WHEN",
        help="such as 24h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z",
    )
    parser.add_argument("--until", metavar="WHEN", help="the same")
    parser.add_argument("--type", choices=EVENT_TYPES, metavar="TYPE", help=", ".join(EVENT_TYPES))
    parser.add_argument(
        "--source",
        metavar="WHO",
        help="a kind of source, such as agent or api_key, or the name of one",
    )
    parser.add_argument("--module", metavar="MODULE", help="which was called, such as vault")
    parser.add_argument(
        "--path", metavar="PATH", help="a file of the vault, or a folder and all below it"
    )
    parser.add_argument("--failed", action="store_true", help="only what failed")
    add_json(parser)


def audit(options: Namespace) -> int:
    """`parachute audit`."""
    wanted, folder = _wanted(options), _folder()
    follower = AuditFollower(folder) if options.follow else None
    try:
        page = AuditReader(folder).page(
            wanted, limit=max(1, min(options.limit, _MOST)), most=_EVERYTHING
        )
    except OSError as error:
        raise _unreadable(error) from error
    events = page.events[::-1]
    if follower is not None:
        _follow(follower, wanted, events, as_json=options.json)
    elif options.json:
        say_json({"events": events, "count": len(events)})
    else:
        say_table(map(_row, events), _HEADS, nothing="Nothing was done.")
    return 0


def audit_verify(options: Namespace) -> int:
    """`parachute audit verify`: 1 when the audit is not as it was written."""
    home, vault = _places()
    state = known_state_folder(home, vault)
    try:
        verdict = verify(
            AuditFolder(VaultRoot(vault), machine_name(home)),
            ChainHeadFile((state or home / "state") / AUDIT_HEAD),
        )
    except OSError as error:
        raise _unreadable(error) from error
    if options.json:
        say_json(
            {
                "holds": verdict.holds,
                "lines": verdict.lines,
                "days": verdict.days,
                "findings": verdict.findings,
                "notes": verdict.notes,
            }
        )
        return int(not verdict.holds)
    for note in verdict.notes:
        say(f"known    {note}")
    for finding in verdict.findings:
        say(f"WRONG    {finding}")
    what = f"{count(verdict.lines, 'line')} of {count(verdict.days, 'day')}"
    if verdict.holds:
        say(
            f"The audit holds: {what}, each as it was written, to seq {verdict.last.seq} "
            f"({verdict.last.hash[:16]})."
        )
    else:
        say(f"The audit was changed: {count(len(verdict.findings), 'finding')} in {what}.")
    return int(not verdict.holds)


def audit_graph(options: Namespace) -> int:
    """`parachute audit graph`."""
    wanted, reader = _wanted(options), AuditReader(_folder())
    lines = (
        event
        for line in reader.backward(wanted)
        if (event := told(line)) is not None and wanted.takes(event)
    )
    try:
        graph = graph_of(lines)
    except OSError as error:
        raise _unreadable(error) from error
    if options.json:
        say_json(document_of(graph))
        return 0
    for line in draw(graph, "the last day" if options.since == _DAY else f"since {options.since}"):
        say(line)
    return 0


def _follow(
    follower: AuditFollower, wanted: AuditFilter, events: list[dict[str, Any]], *, as_json: bool
) -> None:
    """Until Ctrl-C."""
    while True:
        for event in events:
            if as_json:
                sys.stdout.write(json.dumps(event) + "\n")
            else:
                say("  ".join(cell for cell in _row(event) if cell))
        sys.stdout.flush()
        time.sleep(_LOOK_EVERY_S)
        events = [event for event in follower.more() if wanted.takes(event)]


def _wanted(options: Namespace) -> AuditFilter:
    now = datetime.now(UTC)
    try:
        since, until = (
            None if text is None else moment_of(text, now)
            for text in (options.since, options.until)
        )
    except ValueError as error:
        raise ParachuteError(str(error)) from error
    success = False if options.failed else None
    return AuditFilter(
        since=since,
        until=until,
        type=options.type,
        source=options.source,
        module=options.module,
        path=options.path,
        success=success,
    )


def _places() -> tuple[Path, Path]:
    """The home, and the vault of the running daemon, or that of the settings."""
    home = Path(home_of(os.environ))
    try:
        return home, Path(str(daemon_record()["vault"]))
    except NoDaemonError:
        from parachuted.cli.setup import load

        return home, load({}).vault


def _folder() -> AuditFolder:
    home, vault = _places()
    if not vault.is_dir():
        raise ParachuteError(f"no vault at {vault}")
    return AuditFolder(VaultRoot(vault), machine_name(home))


def _row(event: dict[str, Any]) -> tuple[str, ...]:
    what = " ".join(
        [
            event["target_endpoint"],
            *event["paths"][:2],
            *(name for name in event["names"] if not event["paths"]),
        ]
    )
    took = f"{event['duration_ms']:.1f} ms" if event["duration_ms"] else ""
    came = "ok" if event["success"] else "failed"
    status = str(event["status"]) if event["status"] is not None else came
    said = "" if event["error"] is None else f" {event['error']}"
    return (
        when(event["timestamp"]),
        source_name(event),
        what,
        took,
        f"{status}{said}{' in ' + event['run'] if event['run'] else ''}",
    )


def _unreadable(error: OSError) -> ParachuteError:
    return ParachuteError(f"the audit cannot be read: {error.strerror or error}")
