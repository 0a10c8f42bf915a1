"""Hooks commands: list, test, history, replay, docs, approve."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from datetime import UTC, datetime
from typing import Any

from parachuted.cli.client import ask, current_settings, quoted
from parachuted.cli.commands import JSON, Columns, Json, argument, command, group, limit, verb
from parachuted.cli.show import read_json, say, say_json, say_table, when
from parachuted.errors import ParachuteError
from parachuted.home_files.bundled import bundled_folder
from parachuted.processes.presence import home_of

_INDENT = "    "
_NONE = (
    "No hooks. A script named on-<event>.py or .sh in {} is one; "
    "`parachute hooks docs` lists the events."
)

HOOKS = group(
    "hooks",
    "your own programs, run when something happens",
    "Your own programs, run when something happens; they can stop what is about to happen.",
)


@verb("hooks list", "list the hooks", "GET /api/hooks")
def hooks_list(answer: Json, _options: Namespace) -> None:
    """List the hooks, and say which of them do not run and why."""
    columns: Columns = {
        "HOOK": "name",
        "EVENT": lambda hook: " ".join(hook["events"]),
        "MAY STOP IT": lambda hook: (
            "yes" if hook["blocking"] else f"no{', asynchronous' * hook['is_async']}"
        ),
        "RUNS": _times,
        "WHAT IT IS": lambda hook: hook["description"] or _program(hook["command"]),
    }
    say_table(answer["hooks"], columns, nothing=_NONE.format(f"{home_of(os.environ)}/hooks"))
    for hook in answer["hooks"]:
        if hook["problem"]:
            say(f"problem  {hook['name']} does not run: {hook['problem']}")
    for problem in answer["problems"]:
        say(f"problem  {problem}")


def _program(command: str | None) -> str:
    """What a command runs; its variables and arguments may hold a secret."""
    words = [word for word in (command or "").split() if "=" not in word]
    return words[0].rpartition("/")[2] if words else ""


def _times(hook: Json) -> str:
    if not hook["runs"]:
        return ""
    failed = f", {hook['failures']} failed" if hook["failures"] else ""
    return f"{hook['runs']}{failed}, slowest {hook['slowest_ms']:.0f} ms"


def _ask_test(options: Namespace) -> Json:
    data = None if options.data is None else read_json(options.data)
    if data is not None and not isinstance(data, dict):
        raise ParachuteError(f"{options.data} should hold a JSON object, such as an event's data")
    body = {"event": options.event, "data": data, "hook": options.hook}
    return ask("POST /api/hooks/test", body)


@verb(
    "hooks test",
    "try hooks on a sample",
    _ask_test,
    argument(
        "event", help="as `parachute hooks docs` lists it, such as file.modified, or PreToolUse"
    ),
    argument(
        "--data",
        metavar="FILE",
        help="JSON for the sample: some of the event's data, or all that a hook reads; - is stdin",
    ),
    argument("--hook", help="run this one alone, whatever its matcher says"),
    fails=lambda answer: any(map(_has_failed, answer["runs"])),
)
def hooks_test(answer: Json, _options: Namespace) -> None:
    """Run the hooks of an event on a sample, and show what goes in, what comes out, what it would
    decide and how long it took. Exits with 1 when a hook failed.
    """
    for run in answer["runs"]:
        _say_run(run)
    for name in answer["passed_over"]:
        say(f"{name} was passed over: its matcher does not mean this sample.")
        say(f"--hook {name} runs it all the same.")
    if answer["runs"]:
        ends = "it would go on" if answer["allowed"] else "it would be stopped"
        say(f"{answer['event']}: {ends}.")
    elif not answer["passed_over"]:
        say(f"No hook is for {answer['event']}; `parachute hooks list` lists the hooks.")


def _ask_history(options: Namespace) -> Json:
    if options.run_name:
        return ask(f"GET /api/hooks/runs/{quoted(options.run_name)}")
    return ask(f"GET /api/hooks/runs?limit={options.limit}")


@verb(
    "hooks history",
    "what hooks did",
    _ask_history,
    argument(
        "run_name",
        nargs="?",
        metavar="RUN",
        help="show this run, with what went in and what came out",
    ),
    limit(20, 200, "; 200 are kept"),
)
def hooks_history(answer: Json, options: Namespace) -> None:
    """List the latest runs of hooks, or show one whole."""
    if options.run_name:
        _say_run(answer)
        return
    columns: Columns = {
        "RUN": "id",
        "AT (UTC)": lambda run: when(run["at"]),
        "HOOK": "hook",
        "EVENT": "event",
        "TOOK": lambda run: f"{run['took_ms']:.0f} ms",
        "DECISION": "decision",
    }
    say_table(answer["runs"], columns, nothing="No hook has run yet.")


def _has_failed(run: Json) -> bool:
    is_over = run["exit_code"] is not None and run["problem"] is None
    return not is_over or str(run["decision"]).startswith("failed")


@verb(
    "hooks replay",
    "run a hook again",
    "POST /api/hooks/runs/{run_name}/replay",
    argument("run_name", metavar="RUN", help="as `parachute hooks history` lists it"),
    fails=_has_failed,
)
def hooks_replay(answer: Json, _options: Namespace) -> None:
    """Run a hook again on what it was given then. Exits with 1 when the hook failed."""
    _say_run(answer)


def _say_run(run: Json) -> None:
    ended = "not run" if run["exit_code"] is None else f"exit code {run['exit_code']}"
    ended = "ended by the limit" if run["timed_out"] else ended
    took = f"{run['took_ms']:.0f} ms"
    say(f"{run['hook']} on {run['event']}, run {run['id']}: {run['decision']} ({ended}, {took})")
    for name in ("stdin", "stdout", "stderr"):
        if run[name]:
            say(f"  {name}{' (cut)' if name in run['cut'] else ''}")
            for line in _lines(run[name]):
                say(f"{_INDENT}{line}")


def _lines(text: str) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        text = json.dumps(value, indent=2, ensure_ascii=False)
    return text.rstrip("\n").split("\n")


@command(
    "hooks docs",
    "the events, and what hooks read",
    argument("event", nargs="?", help="such as write.before, or Claude Code's name for it"),
    JSON,
)
def hooks_docs(options: Namespace) -> int:
    """List the events, or show what a hook of one reads."""
    events = _events()
    if options.event:
        return _say_event(options, {event["name"]: event for event in events})
    if options.json:
        return say_json({"events": events})
    columns: Columns = {
        "EVENT": "name",
        "CLAUDE CODE'S NAME": "claude",
        "MAY BE STOPPED": lambda event: "yes" if event["may_block"] else "",
        "WHEN": "tells",
    }
    say_table(events, columns)
    say("\nA hook reads one JSON object; `parachute hooks docs EVENT` shows it.")
    say("Exit code 2 stops what may be stopped.")
    say(_reference())
    return 0


def _say_event(options: Namespace, events: dict[str, Any]) -> int:
    from parachuted.hooks import document, parse_event
    from parachuted.hooks.trials import make_sample

    name = parse_event(options.event)
    sample = document(make_sample(name, vault=current_settings().vault, at=datetime.now(UTC)))
    event = events.get(name, {"name": name})
    if options.json:
        return say_json({"event": event, "sample": sample})
    say(f"{name}, in Claude Code {event['claude']}" if event.get("claude") else name)
    if "tells" in event:
        stopped = "Exit code 2 stops it, and stderr says why."
        stops = stopped if event["may_block"] else "It has happened, so nothing stops it."
        say(f"{event['tells']} {stops}".strip())
    say("\nA hook reads this on stdin, on one line:\n")
    for line in json.dumps(sample, indent=2, ensure_ascii=False).split("\n"):
        say(f"{_INDENT}{line}")
    say(f"\nTry one: parachute hooks test {name}")
    say(_reference())
    return 0


def _events() -> list[dict[str, Any]]:
    from parachuted.events.catalog import CATALOG

    return [
        {
            "name": kind.name,
            "claude": kind.claude or None,
            "may_block": kind.blocks,
            "tells": kind.tells,
            "fields": list(kind.fields),
        }
        for kind in sorted(CATALOG.values(), key=lambda kind: (kind.blocks, kind.name))
    ]


def _reference() -> str:
    return f"The reference: {bundled_folder('hooks') / 'README.md'}"


@verb(
    "hooks approve",
    "let changed scripts run",
    lambda options: ask("POST /api/hooks/approve", {"names": options.names or None}),
    argument(
        "names", nargs="*", metavar="HOOK", help="as `parachute hooks list` names it (default: all)"
    ),
)
def hooks_approve(answer: Json, _options: Namespace) -> None:
    """Let hooks whose scripts have changed since they were approved run as they are now."""
    for path in answer["approved"]:
        say(f"approved  {path}")
    if not answer["approved"]:
        say("Nothing had changed since it was approved.")
