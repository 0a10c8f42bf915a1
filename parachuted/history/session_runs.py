"""Session runs: what a conversation led to, found by who wrote the note that it is kept in.

A conversation's note is text that others may have written, so what it says counts for nothing here:
the history knows which of its module's calls wrote it, and what shares their causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.history.run_account import RUNNING, causes_of, has_ended
from parachuted.history.undo import cascade_of
from parachuted.vault import History, VaultPath, printable
from parachuted.vault.trail import trail_of

_MODULE = "module:"


def runs_of_session(
    history: History,
    note: VaultPath,
    recorded: Iterable[str] = (),
    *,
    exists: Callable[[Mapping[str, object]], bool],
) -> list[dict[str, object]]:
    """The documents of the runs that a conversation led to, that wrote something and are not
    undone, the newest first. What only keeps the conversation itself is not among them.

    `recorded` are runs that its module knows of by itself; one that does not exist for the caller,
    as `exists` says, is passed over. Raises NotFoundError where no module wrote that note,
    EditRefusedError while one of the runs is at work.
    """
    keeping = _keeping(history, note)
    if not keeping:
        raise NotFoundError(f"the history knows of no conversation in {printable(note)}")
    # a call that follows from another run is part of that run's conversation
    causes = {cause for one in keeping.values() if not one["parents"] for cause in causes_of(one)}
    found = {str(one["id"]): one for one in history.runs_of_causes(sorted(causes))}
    for name in recorded:
        document = None if name in found else history.run(name)
        if document is not None and exists(document):
            found |= {str(one["id"]): one for one in cascade_of(document, history)}
    led_to = [
        one
        for name, one in sorted(found.items(), reverse=True)
        if name not in keeping and not one["undone"] and not one.get("takes_back")
    ]
    if at_work := [one for one in led_to if one["outcome"] == RUNNING]:
        names = ", ".join(str(one["id"]) for one in at_work if exists(one))
        raise EditRefusedError(
            f"an agent is still at work{f' in {names}' if names else ''}; undo it when that is over"
        )
    return [one for one in led_to if has_ended(one) and history.writes_by(str(one["id"]))]


def _keeping(history: History, note: VaultPath) -> dict[str, dict[str, object]]:
    """The calls by which the module that made the note keeps it, by run, the oldest first."""
    names = dict.fromkeys(one.run for one in trail_of(history, note) if one.run is not None)
    calls = {
        name: document
        for name in names
        if (document := history.run(name)) is not None
        and str(document["agent"]).startswith(_MODULE)
    }
    owner = next((one["agent"] for one in calls.values()), None)
    return {name: one for name, one in calls.items() if one["agent"] == owner}
