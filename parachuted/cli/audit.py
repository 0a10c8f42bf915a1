"""Audit: what was done and who did it, read from the files, so without a daemon too."""

from __future__ import annotations

import json
import os
import sys
import time
from argparse import Namespace
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from parachuted.audit.chain import EVENT_TYPES
from parachuted.audit.files import AUDIT_HEAD, AuditFolder, ChainHeadFile, machine_name
from parachuted.audit.reader import (
    AuditEntry,
    AuditFilter,
    AuditReader,
    draw,
    graph_of,
    moment_of,
    source_name,
    verify,
)
from parachuted.cli.client import current_vault
from parachuted.cli.commands import JSON, Columns, Steps, command, verb
from parachuted.cli.show import count, say, say_each, say_json, say_table, when
from parachuted.errors import ParachuteError
from parachuted.home_files.vault_state import known_state_folder
from parachuted.processes.presence import home_of
from parachuted.vault import VaultRoot

_LOOK_EVERY_S = 0.1
_EVERYTHING = 1 << 60


_FILTERS = f"""
    --until WHEN  the same
    --type TYPE={"|".join(EVENT_TYPES)}  {", ".join(EVENT_TYPES)}
    --source WHO  a kind of source, such as agent or api_key, or the name of one
    --module MODULE  which was called, such as vault
    --path PATH  a file of the vault, or a folder and all below it
    --failed  only what failed
"""


@command("audit", "what was done, and who did it", f"{_FILTERS}\n{JSON}")
def audit(options: Namespace) -> None:
    """Show every call of the API, call of a tool, run of an agent and write, the latest last.

    -f/--follow  keep showing new lines
    -n/--limit N=50..10000  how many (default: 50)
    --since WHEN  such as 24h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z
    """
    wanted, reader = _wanted(options), AuditReader(_audit_folder())
    last = next((entry.seq for entry in reader.entries(AuditFilter())), 0)
    events = reader.page(wanted, limit=options.limit, most=_EVERYTHING).events[::-1]
    if options.follow:
        _follow(reader, wanted, events, last, as_json=options.json)
    elif options.json:
        say_json({"events": list(map(asdict, events)), "count": len(events)})
    else:
        say_table(events, _COLUMNS, nothing="Nothing was done.")


@verb("audit verify", "check that the audit is unchanged")
def audit_verify(_options: Namespace) -> Steps:
    """Find every line that was changed, removed, added or moved. Exits with 1 when there is
    one.
    """
    home = Path(home_of(os.environ))
    state = known_state_folder(home, Path(current_vault())) or home / "state"
    verdict = verify(_audit_folder(), ChainHeadFile(state / AUDIT_HEAD))
    names = ("holds", "lines", "days", "findings", "notes")
    yield {name: getattr(verdict, name) for name in names}, not verdict.holds
    say_each(f"known    {note}" for note in verdict.notes)
    say_each(f"WRONG    {finding}" for finding in verdict.findings)
    what = f"{count(verdict.lines, 'line')} of {count(verdict.days, 'day')}"
    if verdict.holds:
        last = f"to seq {verdict.last_seq} ({verdict.last_hash[:16]})"
        say(f"The audit holds: {what}, each as it was written, {last}.")
    else:
        say(f"The audit was changed: {count(len(verdict.findings), 'finding')} in {what}.")


@verb("audit graph", "which program called what", _FILTERS)
def audit_graph(options: Namespace) -> Steps:
    """Draw which program called what in the last day, how often and how slowly.

    --since WHEN  such as 24h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z
    """
    is_day, options.since = options.since is None, options.since or "24h"
    graph = graph_of(AuditReader(_audit_folder()).entries(_wanted(options)))
    yield {"edges": list(map(asdict, graph))}
    say_each(draw(graph, "the last day" if is_day else f"since {options.since}"))


def _follow(
    reader: AuditReader, wanted: AuditFilter, entries: list[AuditEntry], last: int, *, as_json: bool
) -> None:
    while True:
        for entry in entries:
            if as_json:
                sys.stdout.write(json.dumps(asdict(entry)) + "\n")
            else:
                cells = (column(entry) for column in _COLUMNS.values() if callable(column))
                say("  ".join(str(cell) for cell in cells if cell))
            last = max(last, entry.seq)
        sys.stdout.flush()
        time.sleep(_LOOK_EVERY_S)
        entries = list(reader.entries(wanted, after=last))[::-1]


def _wanted(options: Namespace) -> AuditFilter:
    now, texts = datetime.now(UTC), (options.since, options.until)
    try:
        since, until = (None if text is None else moment_of(text, now) for text in texts)
    except ValueError as error:
        raise ParachuteError(str(error)) from error
    return AuditFilter(
        since=since,
        until=until,
        type=options.type,
        source=options.source,
        module=options.module,
        path=options.path,
        success=False if options.failed else None,
    )


def _audit_folder() -> AuditFolder:
    vault = Path(current_vault())
    if not vault.is_dir():
        raise ParachuteError(f"no vault at {vault}")
    return AuditFolder(VaultRoot(vault), machine_name(Path(home_of(os.environ))))


def _outcome(entry: AuditEntry) -> str:
    usual = "ok" if entry.success else "failed"
    status = usual if entry.status is None else str(entry.status)
    error = "" if entry.error is None else f" {entry.error}"
    return f"{status}{error}{f' in {entry.run}' if entry.run else ''}"


_COLUMNS: Columns = {
    "TIME (UTC)": lambda entry: when(entry.timestamp),
    "WHO": source_name,
    "WHAT": lambda entry: " ".join([entry.target_endpoint, *(entry.paths[:2] or entry.names)]),
    "TOOK": lambda entry: f"{entry.duration_ms:.1f} ms" if entry.duration_ms else "",
    "CAME OF IT": _outcome,
}
