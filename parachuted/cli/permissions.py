"""Permissions commands: list, allow, deny, forget. The running daemon answers them."""

from __future__ import annotations

from argparse import Namespace

from parachuted import visible
from parachuted.cli.client import ask, quoted
from parachuted.cli.commands import JSON, argument, command, flag, group
from parachuted.cli.show import count, say, say_json, say_lines, when
from parachuted.visible import fact, one_line

_MOST = 10_000
_NONE = (
    "No agent asks for anything. One that does waits a minute for `parachute permissions "
    "allow ID` or `deny ID`."
)


_ID = argument("id", help="as `parachute permissions list` names it")

PERMISSIONS = group(
    "permissions",
    "what agents ask you for",
    "What agents ask for while they work, beyond what they were granted. Unanswered requests are "
    "denied.",
)


@command("permissions list", "those that wait", JSON)
def permissions_list(options: Namespace) -> int:
    """List what agents ask for, and what is always denied."""
    answer = ask("GET", "/api/permissions")
    if options.json:
        return say_json(answer)
    for one in answer["permissions"]:
        say_lines(
            (
                fact("question", f"{one['id']}, until {when(one['until'])} UTC"),
                visible.quoted("agent", one["agent"]),
                fact("wants", str(one["kind"])),
                visible.quoted("which", one["what"], _MOST),
                visible.quoted("says", one["why"]),
            )
        )
    if not answer["permissions"]:
        say(_NONE)
    say_lines(visible.quoted("never", one, _MOST) for one in answer["never"])
    return 0


@command(
    "permissions allow",
    "say yes",
    flag("--session", help="for as long as the agent's session lasts"),
    _ID,
    JSON,
)
def permissions_allow(options: Namespace) -> int:
    """Allow what an agent asks for, this once."""
    until, how = (
        ("session", "for as long as its session lasts") if options.session else ("once",) * 2
    )
    return _answer(options, until, f"is allowed {how}")


@command(
    "permissions deny", "say no", flag("--once", help="this time; it may be asked again"), _ID, JSON
)
def permissions_deny(options: Namespace) -> int:
    """Deny what an agent asks for; it is not asked again."""
    if options.once:
        return _answer(options, "deny", "is denied this once")
    return _answer(options, "never", "is denied, and not asked again")


@command(
    "permissions forget",
    "let it ask again",
    argument("agent", help="as `parachute permissions list` names it"),
    JSON,
)
def permissions_forget(options: Namespace) -> int:
    """Let an agent ask again what you denied it."""
    answer = ask("POST", "/api/permissions/forget", {"agent": options.agent})
    if options.json:
        return say_json(answer)
    if answer["forgotten"]:
        say(f"{options.agent} may ask again: {count(answer['forgotten'], 'answer')} forgotten.")
    else:
        say(
            f"Nothing was denied to {options.agent} for ever; `parachute permissions list` shows "
            "to whom something was."
        )
    return 0


def _answer(options: Namespace, answer: str, what: str) -> int:
    asked = ask("POST", f"/api/permissions/{quoted(options.id)}", {"answer": answer})
    if options.json:
        return say_json(asked)
    wish = f"{asked['kind']} {one_line(asked['what'], _MOST)}"
    say(f"{one_line(asked['agent'])}: {wish} {what}.")
    return 0
