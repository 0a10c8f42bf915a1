"""Suggestions commands: list, show, approve, reject, edit, approve-all."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from parachuted.cli.client import ask
from parachuted.cli.commands import Columns, Command, Json, Steps, verb
from parachuted.cli.show import (
    read_json,
    say,
    say_diff,
    say_each,
    say_lines,
    say_table,
    when,
)
from parachuted.errors import ParachuteError
from parachuted.texts import visible
from parachuted.texts.visible import fact, quoted_lines

_NONE_WAITS = (
    "No suggestion waits. `parachute suggestions list --all` also shows those that were decided on."
)
_NONE = "No suggestion was made yet. What agents may not do themselves, they suggest."
_MOST = 20_000
_TEXTS = ("text", "content", "value", "to")
_ID = "id  as `parachute suggestions list` names it"
_IDS = "ids+ ID  as `parachute suggestions list` names it"

SUGGESTIONS = Command(
    "suggestions",
    "what agents would change",
    "Changes that agents and modules would make and may not. They are files in Suggestions/ too: "
    "ticking a box there is the same.",
)


@verb("suggestions list", "those that wait")
def suggestions_list(options: Namespace) -> Steps:
    """List the suggestions that wait for you.

    --all  earlier ones too
    """
    answer = yield ask(f"GET /api/suggestions{'' if options.all else '?status=pending'}")
    columns: Columns = {
        "SUGGESTION": "id",
        "WHAT": "title",
        "BY": "source_agent",
        "AT (UTC)": lambda suggestion: when(suggestion["timestamp"]),
        "STATUS": "status",
    }
    say_table(answer["suggestions"], columns, nothing=_NONE if options.all else _NONE_WAITS)


@verb("suggestions show", "one of them", _ID)
def suggestions_show(options: Namespace) -> Steps:
    """Show what a suggestion would change, and why."""
    answer = yield ask(f"GET {_path(options.id)}")
    status, run = answer["status"], answer["run"]
    say(f"{answer['id']}: {status}")
    lines = [
        visible.quoted("would", answer["title"], _MOST),
        fact("at", f"{when(answer['timestamp'])} UTC{f', in run {run}' if run else ''}"),
        visible.quoted("by", answer["source_agent"]),
        visible.quoted("because", answer["reasoning"], _MOST),
    ]
    if answer["origin"] not in {"agent", "you"}:
        why = f"it was written after text of strangers was read ({answer['origin']})"
        lines.append(fact("origin", why))
    say_lines(lines)
    say_diff(answer["diff"])
    if answer["text"] is not None:
        say("the whole new text:")
        say_lines(quoted_lines(answer["text"], _MOST))
    if status == "pending":
        say(f"do it with: parachute suggestions approve {answer['id']}")
    else:
        resolved = f"by {answer['resolved_by']}: {answer['outcome']}"
        say_lines([visible.quoted(status, resolved, _MOST)])


def _is_superseded(answer: Json) -> bool:
    return any(suggestion["status"] == "superseded" for suggestion in answer)


def _say_resolved(answer: Json) -> None:
    say_each(f"{found['status']:<10} {found['title']}: {found['outcome']}" for found in answer)


def _decide(how: str, names: list[str], **body: object) -> Steps:
    answer = [ask(f"POST {_path(name)}/{how}", body) for name in names]
    yield answer, _is_superseded(answer)
    _say_resolved(answer)


@verb("suggestions approve", "do it", _IDS)
def suggestions_approve(options: Namespace) -> Steps:
    """Do what it suggests; `parachute undo` takes it back. Exits with 1 when one could not be
    done.
    """
    return _decide("approve", options.ids)


@verb("suggestions reject", "reject it", _IDS)
def suggestions_reject(options: Namespace) -> Steps:
    """Reject a suggestion; nothing changes.

    --reason TEXT  why not, for the record
    """
    return _decide("reject", options.ids, reason=options.reason or "")


@verb("suggestions approve-all", "do all")
def suggestions_approve_all(_options: Namespace) -> Steps:
    """Do all that wait, the oldest first. Exits with 1 when one could not be done."""
    answer = ask("POST /api/suggestions/approve-all")
    resolved, failed = answer["resolved"], answer["failed"]
    yield answer, failed or _is_superseded(resolved)
    say_each(f"failed   {name}: {why}" for name, why in failed.items())
    if not resolved and not failed:
        say("No suggestion waits.")
    _say_resolved(resolved)


@verb("suggestions edit", "change it, then do it", _ID)
def suggestions_edit(options: Namespace) -> Steps:
    """Change its text in $EDITOR, and do that.

    --payload FILE  take this payload, as JSON, in place of asking your editor; - is stdin
    """
    found = ask(f"GET {_path(options.id)}")
    if found["status"] != "pending":
        raise ParachuteError(f"the suggestion {found['id']} was {found['status']} already")
    payload = read_json(options.payload) if options.payload else _edited(found["payload"])
    if payload != found["payload"]:
        return (yield from _decide("modify", [found["id"]], payload=payload))
    yield []
    say("Nothing was changed, so nothing was done.")
    say(f"As it is, do it with: parachute suggestions approve {options.id}")


def _path(name: str) -> str:
    """What cannot be a name is answered as one that does not exist."""
    known = name if re.fullmatch(r"[\w-]+", name, re.ASCII) else "none"
    return f"/api/suggestions/{known}"


def _edited(payload: dict[str, Any]) -> dict[str, Any]:
    name = next((name for name in _TEXTS if isinstance(payload.get(name), str)), None)
    if name is None:
        raise ParachuteError("it has no text to edit; --payload FILE gives another payload as JSON")
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise ParachuteError("set $EDITOR to the editor that is to be used, or give --payload FILE")
    with tempfile.TemporaryDirectory(prefix="parachute-") as folder:
        file = Path(folder) / "suggestion.md"
        file.write_text(payload[name], "utf-8")
        try:
            ended = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode  # noqa: S603  the person's own editor
        except OSError as error:
            raise ParachuteError(f"{editor} could not be started: {error.strerror}") from error
        if ended:
            raise ParachuteError(f"{editor} ended with {ended}, so nothing was done")
        return {**payload, name: file.read_text("utf-8")}
