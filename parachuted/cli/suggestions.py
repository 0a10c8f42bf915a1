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
from parachuted.cli.commands import Columns, Json, argument, flag, group, verb
from parachuted.cli.show import count, read_json, say, say_diff, say_lines, say_table, when
from parachuted.errors import ParachuteError
from parachuted.texts import visible
from parachuted.texts.visible import fact, quoted_lines

_NONE_WAITS = (
    "No suggestion waits. `parachute suggestions list --all` also shows those that were decided on."
)
_NONE = "No suggestion was made yet. What agents may not do themselves, they suggest."
_MOST = 20_000
_TEXTS = ("text", "content", "value", "to")
_ID = argument("id", help="as `parachute suggestions list` names it")
_IDS = argument("ids", nargs="+", metavar="ID", help="as `parachute suggestions list` names it")

SUGGESTIONS = group(
    "suggestions",
    "what agents would change",
    "Changes that agents and modules would make and may not. They are files in Suggestions/ too: "
    "ticking a box there is the same.",
)


@verb(
    "suggestions list",
    "those that wait",
    lambda options: ask(f"GET /api/suggestions{'' if options.all else '?status=pending'}"),
    flag("--all", help="earlier ones too, and how often each agent's were accepted"),
)
def suggestions_list(answer: Json, options: Namespace) -> None:
    """List the suggestions that wait for you."""
    columns: Columns = {
        "SUGGESTION": "id",
        "WHAT": "title",
        "BY": "source_agent",
        "AT (UTC)": lambda suggestion: when(suggestion["timestamp"]),
        "STATUS": "status",
    }
    say_table(answer["suggestions"], columns, nothing=_NONE if options.all else _NONE_WAITS)
    for row in answer["acceptance"] if options.all else ():
        decided = count(row["approved"] + row["modified"] + row["rejected"], row["action"])
        say(f"{row['agent']}: {decided} decided on, {row['rate']:.0%} accepted")


@verb("suggestions show", "one of them", lambda options: _get(options.id), _ID)
def suggestions_show(answer: Json, _options: Namespace) -> None:
    """Show what a suggestion would change, and why."""
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


def _say_resolved(answer: Json, _options: Namespace) -> None:
    for suggestion in answer:
        say(f"{suggestion['status']:<10} {suggestion['title']}: {suggestion['outcome']}")


@verb(
    "suggestions approve",
    "do it",
    lambda options: [_post(name, "approve", {}) for name in options.ids],
    _IDS,
    fails=_is_superseded,
)
def suggestions_approve(answer: Json, options: Namespace) -> None:
    """Do what it suggests; `parachute undo` takes it back. Exits with 1 when one could not be
    done.
    """
    _say_resolved(answer, options)


@verb(
    "suggestions reject",
    "reject it",
    lambda options: [
        _post(name, "reject", {"reason": options.reason or ""}) for name in options.ids
    ],
    argument("--reason", metavar="TEXT", help="why not, for the record"),
    _IDS,
    fails=_is_superseded,
)
def suggestions_reject(answer: Json, options: Namespace) -> None:
    """Reject a suggestion; nothing changes."""
    _say_resolved(answer, options)


@verb(
    "suggestions approve-all",
    "do all",
    "POST /api/suggestions/approve-all",
    fails=lambda answer: answer["failed"] or _is_superseded(answer["resolved"]),
)
def suggestions_approve_all(answer: Json, options: Namespace) -> None:
    """Do all that wait, the oldest first. Exits with 1 when one could not be done."""
    for name, why in answer["failed"].items():
        say(f"failed   {name}: {why}")
    if not answer["resolved"] and not answer["failed"]:
        say("No suggestion waits.")
    _say_resolved(answer["resolved"], options)


def _ask_edit(options: Namespace) -> Json:
    found = _get(options.id)
    if found["status"] != "pending":
        raise ParachuteError(f"the suggestion {found['id']} was {found['status']} already")
    payload = read_json(options.payload) if options.payload else _edited(found["payload"])
    if payload == found["payload"]:
        return []
    return [_post(found["id"], "modify", {"payload": payload})]


@verb(
    "suggestions edit",
    "change it, then do it",
    _ask_edit,
    argument(
        "--payload",
        metavar="FILE",
        help="take this payload, as JSON, in place of asking your editor; - is stdin",
    ),
    _ID,
    fails=_is_superseded,
)
def suggestions_edit(answer: Json, options: Namespace) -> None:
    """Change its text in $EDITOR, and do that."""
    if not answer:
        say("Nothing was changed, so nothing was done.")
        say(f"As it is, do it with: parachute suggestions approve {options.id}")
    _say_resolved(answer, options)


def _get(name: str) -> Json:
    return ask(f"GET /api/suggestions/{_name(name)}")


def _post(name: str, how: str, body: dict[str, object]) -> Json:
    return ask(f"POST /api/suggestions/{_name(name)}/{how}", body)


def _name(name: str) -> str:
    """A name as it may stand in a path; what is none is answered as one that does not exist."""
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else "none"


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
