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

from parachuted.audit.chain import EVENT_TYPES
from parachuted.audit.files import AUDIT_HEAD, AuditFolder, ChainHeadFile, machine_name
from parachuted.audit.graph import document_of, draw, graph_of, source_name
from parachuted.audit.reader import AuditFilter, AuditFollower, AuditReader, event_of, moment_of
from parachuted.audit.verify import verify
from parachuted.cli.client import current_vault, home_of
from parachuted.cli.commands import JSON, Argument, argument, command, flag, limit
from parachuted.cli.show import count, say, say_json, say_table, when
from parachuted.errors import ParachuteError
from parachuted.home_files.vault_state import known_state_folder
from parachuted.vault import VaultRoot

_LOOK_EVERY_S = 0.1
_MOST = 10_000
_EVERYTHING = 1 << 60
_DAY = "24h"
_HEADS = ("TIME (UTC)", "WHO", "WHAT", "TOOK", "CAME OF IT")


def _filters(since: str | None) -> tuple[Argument, ...]:
    when = "such as 24h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z"
    of_source = "a kind of source, such as agent or api_key, or the name of one"
    return (
        argument("--since", default=since, metavar="WHEN", help=when),
        argument("--until", metavar="WHEN", help="the same"),
        argument("--type", choices=EVENT_TYPES, metavar="TYPE", help=", ".join(EVENT_TYPES)),
        argument("--source", metavar="WHO", help=of_source),
        argument("--module", help="which was called, such as vault"),
        argument("--path", help="a file of the vault, or a folder and all below it"),
        flag("--failed", help="only what failed"),
        JSON,
    )


@command(
    "audit",
    "what was done, by whom",
    flag("-f", "--follow", help="keep showing new lines"),
    limit(50),
    *_filters(None),
)
def audit(options: Namespace) -> int:
    """Show every call of the API, call of a tool, run of an agent and write, the latest last."""
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


@command("audit verify", "check that the audit is unchanged", JSON)
def audit_verify(options: Namespace) -> int:
    """Find every line that was changed, removed, added or moved. Exits with 1 when there is
    one.
    """
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
        names = ("holds", "lines", "days", "findings", "notes")
        say_json({name: getattr(verdict, name) for name in names})
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


@command("audit graph", "who called whom", *_filters(_DAY))
def audit_graph(options: Namespace) -> int:
    """Draw who called whom in the last day, how often and how slowly."""
    wanted, reader = _wanted(options), AuditReader(_folder())
    lines = (
        event
        for line in reader.backward(wanted)
        if (event := event_of(line)) is not None and wanted.takes(event)
    )
    try:
        graph = graph_of(lines)
    except OSError as error:
        raise _unreadable(error) from error
    if options.json:
        return say_json(document_of(graph))
    for line in draw(graph, "the last day" if options.since == _DAY else f"since {options.since}"):
        say(line)
    return 0


def _follow(
    follower: AuditFollower, wanted: AuditFilter, events: list[dict[str, Any]], *, as_json: bool
) -> None:
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
    return Path(home_of(os.environ)), Path(current_vault())


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
