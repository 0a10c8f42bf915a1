"""Session runs: what a conversation led to, found by who wrote the note that it is kept in.

A conversation's note is text that others may have written, so what it says counts for nothing here:
the history knows which of its module's calls wrote it, and what shares their causes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.history.run_account import RUNNING, causes_of, has_ended
from parachuted.history.undo import cascade_of
from parachuted.vault import History, VaultPath, printable
from parachuted.vault.trail import trail_of

_MODULE = "module:"


def runs_of_session(
    history: History, note: VaultPath, named: Iterable[str] = (), recorded: Iterable[str] = ()
) -> list[dict[str, object]]:
    """The documents of the runs that a conversation led to, that wrote something and are not
    undone, the newest first. What only keeps the conversation itself is not among them.

    `named` are more runs, as the note names them: those count that are its own module's. `recorded`
    are runs that its module knows of by itself. Raises NotFoundError where no module wrote that
    note, EditRefusedError while one of the runs is at work.
    """
    keeping = _keeping(history, note)
    if not keeping:
        raise NotFoundError(f"the history knows of no conversation in {printable(note)}")
    owner = str(next(iter(keeping.values()))["agent"])
    # a call that follows from another run is part of that run's conversation
    causes = {cause for one in keeping.values() if not one["parents"] for cause in causes_of(one)}
    found = {str(one["id"]): one for one in history.runs_of_causes(sorted(causes))}
    for name in (*named, *recorded):
        if name in found or (document := history.run(name)) is None:
            continue
        if name in recorded or _is_of(owner, document):
            found |= {str(one["id"]): one for one in cascade_of(document, history)}
    led_to = [
        one
        for name, one in sorted(found.items(), reverse=True)
        if name not in keeping and not one["undone"] and not one.get("takes_back")
    ]
    if at_work := [str(one["id"]) for one in led_to if one["outcome"] == RUNNING]:
        raise EditRefusedError(
            f"an agent is still at work in {', '.join(at_work)}; undo it when that is over"
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


def _is_of(owner: str, document: Mapping[str, object]) -> bool:
    """Whether it is a call of that module, or a run of an agent of its own."""
    agent = str(document["agent"])
    return agent == owner or agent.startswith(f"{owner.removeprefix(_MODULE)}/")
