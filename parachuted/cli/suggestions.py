"""Suggestions commands: list, show, approve, reject, edit, approve-all.

The running daemon answers them.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from parachuted import visible
from parachuted.cli.client import ask
from parachuted.cli.commands import JSON, Json, argument, command, flag, group
from parachuted.cli.show import (
    count,
    read_json,
    say,
    say_diff,
    say_json,
    say_lines,
    say_table,
    when,
)
from parachuted.errors import ParachuteError
from parachuted.visible import fact, quoted_lines

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


@command(
    "suggestions list",
    "those that wait",
    flag("--all", help="earlier ones too, and how often each agent's were accepted"),
    JSON,
)
def suggestions_list(options: Namespace) -> int:
    """List the suggestions that wait for you."""
    answer = ask("GET", "/api/suggestions" + ("" if options.all else "?status=pending"))
    if options.json:
        return say_json(answer)
    rows = [
        (one["id"], one["title"], one["source_agent"], when(one["timestamp"]), one["status"])
        for one in answer["suggestions"]
    ]
    nothing = _NONE if options.all else _NONE_WAITS
    say_table(rows, ("SUGGESTION", "WHAT", "BY", "AT (UTC)", "STATUS"), nothing=nothing)
    if options.all:
        for one in answer["acceptance"]:
            decided = one["approved"] + one["modified"] + one["rejected"]
            say(
                f"{one['agent']}: {count(decided, one['action'])} decided on, {one['rate']:.0%} "
                "accepted"
            )
    return 0


@command("suggestions show", "one of them", _ID, JSON)
def suggestions_show(options: Namespace) -> int:
    """Show what a suggestion would change, and why."""
    one = _one(options.id)
    if options.json:
        return say_json(one)
    say(f"{one['id']}: {one['status']}")
    lines = [
        visible.quoted("would", one["title"], _MOST),
        fact("at", f"{when(one['timestamp'])} UTC{', in run ' + one['run'] if one['run'] else ''}"),
        visible.quoted("by", one["source_agent"]),
        visible.quoted("because", one["reasoning"], _MOST),
    ]
    if one["origin"] not in {"agent", "you"}:
        lines.append(
            fact("origin", f"it was written after text of strangers was read ({one['origin']})")
        )
    say_lines(lines)
    say_diff(one["diff"])
    if one["text"] is not None:
        say("the whole new text:")
        say_lines(quoted_lines(one["text"], _MOST))
    if one["status"] == "pending":
        say(f"do it with: parachute suggestions approve {one['id']}")
    else:
        say_lines(
            [visible.quoted(one["status"], f"by {one['resolved_by']}: {one['outcome']}", _MOST)]
        )
    return 0


@command("suggestions approve", "do it", _IDS, JSON)
def suggestions_approve(options: Namespace) -> int:
    """Do what it suggests; `parachute undo` takes it back. Exits with 1 when one could not be
    done.
    """
    return _decide(options, "approve", {})


@command(
    "suggestions reject",
    "reject it",
    argument("--reason", metavar="TEXT", help="why not, for the record"),
    _IDS,
    JSON,
)
def suggestions_reject(options: Namespace) -> int:
    """Reject a suggestion; nothing changes."""
    return _decide(options, "reject", {"reason": options.reason or ""})


@command("suggestions approve-all", "do all", JSON)
def suggestions_approve_all(options: Namespace) -> int:
    """Do all that wait, the oldest first. Exits with 1 when one could not be done."""
    answer = ask("POST", "/api/suggestions/approve-all", {})
    if options.json:
        say_json(answer)
        return int(bool(answer["failed"]))
    for name, why in answer["failed"].items():
        say(f"failed   {name}: {why}")
    if not answer["resolved"] and not answer["failed"]:
        say("No suggestion waits.")
    return _tell(answer["resolved"], as_json=False) or int(bool(answer["failed"]))


@command(
    "suggestions edit",
    "change it, then do it",
    argument(
        "--payload",
        metavar="FILE",
        help="take this payload, as JSON, in place of asking your editor; - is stdin",
    ),
    _ID,
    JSON,
)
def suggestions_edit(options: Namespace) -> int:
    """Change its text in $EDITOR, and do that."""
    one = _one(options.id)
    if one["status"] != "pending":
        raise ParachuteError(f"the suggestion {one['id']} was {one['status']} already")
    payload = read_json(options.payload) if options.payload else _edited(one["payload"])
    if payload == one["payload"]:
        say(
            "Nothing was changed, so nothing was done; `parachute suggestions approve` does it as "
            "it is."
        )
        return 0
    return _tell(
        [ask("POST", f"/api/suggestions/{_name(one['id'])}/modify", {"payload": payload})],
        as_json=options.json,
    )


def _decide(options: Namespace, how: str, body: dict[str, object]) -> int:
    answers = [ask("POST", f"/api/suggestions/{_name(name)}/{how}", body) for name in options.ids]
    return _tell(answers, as_json=options.json)


def _one(name: str) -> Json:
    return ask("GET", f"/api/suggestions/{_name(name)}")


def _name(name: str) -> str:
    """A name as it may stand in a path; what is none is answered as one that does not exist."""
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else "none"


def _tell(answers: list[Any], *, as_json: bool) -> int:
    if as_json:
        say_json(answers)
    else:
        for one in answers:
            say(f"{one['status']:<10} {one['title']}: {one['outcome']}")
    return int(any(one["status"] == "superseded" for one in answers))


def _edited(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with its text as the person leaves it in $EDITOR. Raises ParachuteError."""
    name = next((one for one in _TEXTS if isinstance(payload.get(one), str)), None)
    if name is None:
        raise ParachuteError(
            "there is no text in it that could be edited; --payload FILE gives another payload as "
            "JSON"
        )
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
