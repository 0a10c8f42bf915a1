"""Agent runs: ask an agent for something, the one for maintenance too, and end all that are at
work.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from parachuted.cli.client import ask
from parachuted.cli.commands import Commands, add_command, add_json
from parachuted.cli.show import count, escape, say, say_json, say_lines, when
from parachuted.errors import ParachuteError
from parachuted.visible import one_line, quoted_lines

_LONGEST_S = 6 * 60 * 60.0  # the daemon ends a run by its own limits, long before
_MOST = 2_000  # characters of a stranger's on one line
_LOOK_S = 3.0  # each look is a line of the audit
_WANTS = {"bash": "run", "network": "reach", "trusted": "begin as"}


def add_parsers(commands: Commands) -> None:
    """Add these commands to the parser."""
    stop = add_command(
        commands,
        "stop-agents",
        stop_agents,
        "stop all agents at once",
        "Stop every running agent, and start none until `resume`. What a curator was doing is "
        "undone, and done again then.",
    )
    stop.add_argument("--go-on", action="store_true", help="stop them, but let new runs start")
    add_json(stop)
    maintenance_parser = add_command(
        commands,
        "maintenance",
        maintenance,
        "ask the maintenance agent",
        "Ask an agent what is wrong with the installation, and let it repair notes in "
        "Chat/, Daily/ and Brain/. It has no network.",
    )
    maintenance_parser.add_argument(
        "prompt",
        nargs="+",
        metavar="PROMPT",
        help="what to look after, such as 'why is search slow?'; - is stdin",
    )
    maintenance_parser.add_argument(
        "--session", metavar="ID", help="continue an earlier conversation"
    )
    add_json(maintenance_parser)


def stop_agents(options: Namespace) -> int:
    """`parachute stop-agents`."""
    answer = ask("POST", "/api/agents/stop", {"pause": not options.go_on})
    if options.json:
        say_json(answer)
        return 0
    say(
        f"Ended: {count(len(answer['stopped']), 'run')}{': ' + ', '.join(answer['stopped']) if answer['stopped'] else ''}."  # noqa: E501
    )
    if answer["paused"]:
        say("No run begins until `parachute resume`; what was being done is done again then.")
    return 0


def agents_run(options: Namespace) -> int:
    """`parachute agents run AGENT PROMPT`."""
    body: dict[str, object] = {"prompt": _prompt(options), "entry": "cli"}
    if options.folder is not None:
        body["working_directory"] = options.folder
    if options.session is not None:
        body["session"] = options.session
    with _questions_shown():
        ran = ask("POST", f"/api/agents/{_quoted(options.agent)}/run", body, timeout_s=_LONGEST_S)
    return _tell(ran, options)


def maintenance(options: Namespace) -> int:
    """`parachute maintenance PROMPT`."""
    body: dict[str, object] = {"prompt": _prompt(options)}
    if options.session is not None:
        body["session"] = options.session
    if not options.json:
        say("Starting the maintenance agent: this machine only, no network.")
    with _questions_shown():
        ran = ask("POST", "/api/maintenance", body, timeout_s=_LONGEST_S)
    return _tell(ran, options)


def _prompt(options: Namespace) -> str:
    words = sys.stdin.read() if options.prompt == ["-"] else " ".join(options.prompt)
    if not words.strip():
        raise ParachuteError(
            "there is nothing to ask: give the prompt as words, or - to read it from the standard "
            "input"
        )
    return words


@contextlib.contextmanager
def _questions_shown() -> Iterator[None]:
    """Meanwhile, say on stderr what agents ask a person for: who waits for the answer would else
    see a minute of nothing, and a refusal.
    """
    over = threading.Event()
    watching = threading.Thread(target=_show_questions, args=(over,), daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def _show_questions(over: threading.Event) -> None:
    shown: set[str] = set()
    while not over.wait(_LOOK_S):
        try:
            waiting = ask("GET", "/api/permissions", timeout_s=_LOOK_S)["permissions"]
        except ParachuteError:  # the run's own call tells what is wrong
            continue
        for one in waiting:
            if one["id"] not in shown:
                shown.add(one["id"])
                wish = (
                    f"{one['agent']} wants to {_WANTS.get(one['kind'], one['kind'])} {one['what']}"
                )
                how = f"`parachute permissions allow {one['id']}`, or `deny`, in another terminal"
                told = f"asks     {wish}, and waits until {when(one['until'])} UTC: {how}"
                sys.stderr.write(f"{escape(told)}\n")
                sys.stderr.flush()


def _tell(ran: Any, options: Namespace) -> int:  # noqa: ANN401  JSON
    if options.json:
        say_json(ran)
        return 0
    if options.session is not None and ran["session"] not in {None, options.session}:
        say(
            f"note     the session {options.session} is not known here any more; a new one was "
            "begun"
        )
    if ran["warning"]:
        say(f"note     {one_line(ran['warning'], _MOST)}")
    for step in ran["steps"]:
        if step["called"]:
            said = (
                f"{': refused' if step['error'] else ''}{', ' + step['why'] if step['why'] else ''}"
            )
            say(f"did      {one_line(step['called'] + said, _MOST)}")
    say_lines(quoted_lines(ran["words"], sys.maxsize))
    for path in ran["wrote"]:
        say(f"wrote    {one_line(path, _MOST)}")
    for one in ran["suggested"]:
        say(f"suggests {one}; `parachute suggestions show {one}` shows it")
    say(f"run      {ran['run']}: {ran['outcome']}, ${ran['cost_usd']:.4f}")
    if ran["wrote"]:
        say(f"take it back with: parachute undo {ran['run']}")
    if ran["session"]:
        say(f"go on with: --session {ran['session']}")
    return 0


def _quoted(name: str) -> str:
    safe = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~/")
    return "".join(
        one
        if one in safe
        else "".join(f"%{byte:02X}" for byte in one.encode("utf-8", "surrogateescape"))
        for one in name
    )
