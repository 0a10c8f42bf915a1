"""Permissions commands: list, allow, deny, forget. The running daemon answers them."""

from __future__ import annotations

from argparse import Namespace
from typing import Any
from urllib.parse import quote

from parachuted.cli.client import ask
from parachuted.cli.commands import Commands, add_command, add_json
from parachuted.cli.show import count, say, say_json, say_lines, when
from parachuted.visible import fact, one_line, quoted

_MOST = 10_000
_NONE = (
    "No agent asks for anything. One that does waits a minute for `parachute permissions "
    "allow ID` or `deny ID`."
)


def add_parsers(commands: Commands) -> None:
    """Add these commands to the parser."""
    about = (
        "What agents ask for while they work, beyond what they were granted. Unanswered "
        "requests are denied."
    )
    parts = add_command(
        commands, "permissions", None, "what agents ask you for", about
    ).add_subparsers(metavar="COMMAND")
    listed = add_command(
        parts,
        "list",
        permissions_list,
        "those that wait",
        "List what agents ask for, and what is always denied.",
    )
    allow = add_command(
        parts,
        "allow",
        permissions_allow,
        "say yes",
        "Allow what an agent asks for, this once.",
    )
    allow.add_argument(
        "--session", action="store_true", help="for as long as the agent's session lasts"
    )
    deny = add_command(
        parts,
        "deny",
        permissions_deny,
        "say no",
        "Deny what an agent asks for; it is not asked again.",
    )
    forget = add_command(
        parts,
        "forget",
        permissions_forget,
        "let it ask again",
        "Let an agent ask again what you denied it.",
    )
    forget.add_argument("agent", metavar="AGENT", help="as `parachute permissions list` names it")
    for parser in (allow, deny):
        parser.add_argument("id", metavar="ID", help="as `parachute permissions list` names it")
    for parser in (listed, allow, deny, forget):
        add_json(parser)


def permissions_list(options: Namespace) -> int:
    """`parachute permissions list`."""
    answer = ask("GET", "/api/permissions")
    if options.json:
        say_json(answer)
        return 0
    for one in answer["permissions"]:
        say_lines(
            (
                fact("question", f"{one['id']}, until {when(one['until'])} UTC"),
                quoted("agent", one["agent"]),
                fact("wants", str(one["kind"])),
                quoted("which", one["what"], _MOST),
                quoted("says", one["why"]),
            )
        )
    if not answer["permissions"]:
        say(_NONE)
    say_lines(quoted("never", one, _MOST) for one in answer["never"])
    return 0


def permissions_allow(options: Namespace) -> int:
    """`parachute permissions allow ID [--session]`."""
    return _tell(
        _answered(options.id, "session" if options.session else "once"),
        options,
        "is allowed" + _how(session=options.session),
    )


def permissions_deny(options: Namespace) -> int:
    """`parachute permissions deny ID`."""
    return _tell(_answered(options.id, "never"), options, "is denied, and not asked again")


def permissions_forget(options: Namespace) -> int:
    """`parachute permissions forget AGENT`."""
    answer = ask("POST", "/api/permissions/forget", {"agent": options.agent})
    if options.json:
        say_json(answer)
        return 0
    if answer["forgotten"]:
        say(f"{options.agent} may ask again: {count(answer['forgotten'], 'answer')} forgotten.")
    else:
        say(
            f"Nothing was denied to {options.agent} for ever; `parachute permissions list` shows "
            "to whom something was."
        )
    return 0


def _how(*, session: bool) -> str:
    return " for as long as its session lasts" if session else " once"


def _answered(question: str, answer: str) -> Any:  # noqa: ANN401  JSON
    return ask("POST", f"/api/permissions/{quote(question, safe='')}", {"answer": answer})


def _tell(question: Any, options: Namespace, what: str) -> int:  # noqa: ANN401  JSON
    if options.json:
        say_json(question)
        return 0
    say(
        f"{one_line(question['agent'])}: {question['kind']} {one_line(question['what'], _MOST)} "
        f"{what}."
    )
    return 0
