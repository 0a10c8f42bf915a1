"""Agent runs: ask an agent for something, the one for maintenance too, and end all that are at work."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from parachuted.cli.client import ask
from parachuted.cli.show import count, say, say_json
from parachuted.errors import ParachuteError

_LONGEST_S = 6 * 60 * 60.0  # the daemon ends a run by its own limits, long before


def stop_agents(options: Namespace) -> int:
    """`parachute stop-agents`."""
    answer = ask("POST", "/api/agents/stop", {"pause": not options.go_on})
    if options.json:
        say_json(answer)
        return 0
    say(f"Ended: {count(len(answer['stopped']), 'run')}{': ' + ', '.join(answer['stopped']) if answer['stopped'] else ''}.")
    if answer["paused"]:
        say("No run begins until `parachute resume`; what was being done is then done anew.")
    return 0


def agents_run(options: Namespace) -> int:
    """`parachute agents run AGENT PROMPT`."""
    body: dict[str, object] = {"prompt": _prompt(options), "entry": "cli"}
    if options.folder is not None:
        body["working_directory"] = options.folder
    if options.session is not None:
        body["session"] = options.session
    return _tell(ask("POST", f"/api/agents/{_quoted(options.agent)}/run", body, timeout_s=_LONGEST_S), as_json=options.json)


def maintenance(options: Namespace) -> int:
    """`parachute maintenance PROMPT`."""
    body: dict[str, object] = {"prompt": _prompt(options)}
    if options.session is not None:
        body["session"] = options.session
    if not options.json:
        say("Starting the maintenance agent: this machine only, no network.")
    return _tell(ask("POST", "/api/maintenance", body, timeout_s=_LONGEST_S), as_json=options.json)


def _prompt(options: Namespace) -> str:
    words = sys.stdin.read() if options.prompt == ["-"] else " ".join(options.prompt)
    if not words.strip():
        raise ParachuteError("there is nothing to ask: give the prompt as words, or - to read it from the standard input")
    return words


def _tell(ran: Any, *, as_json: bool) -> int:  # noqa: ANN401  JSON
    if as_json:
        say_json(ran)
        return 0
    if ran["warning"]:
        say(f"note     {ran['warning']}")
    for step in ran["steps"]:
        if step["called"]:
            say(f"did      {step['called']}{': refused' if step['error'] else ''}")
    say(ran["words"])
    for path in ran["wrote"]:
        say(f"wrote    {path}")
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
    return "".join(one if one in safe else "".join(f"%{byte:02X}" for byte in one.encode("utf-8", "surrogateescape")) for one in name)
