"""Hooks commands: list, test, history, replay, docs, approve."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from datetime import UTC, datetime

from parachuted.cli.client import ask, current_settings, quoted
from parachuted.cli.commands import Columns, Command, Json, Steps, verb
from parachuted.cli.show import read_json, say, say_each, say_table, when
from parachuted.errors import ParachuteError
from parachuted.home_files.bundled import bundled_folder
from parachuted.processes.presence import home_of

_INDENT = "    "
_NONE = (
    "No hooks. A script named on-<event>.py or .sh in {} is one; "
    "`parachute hooks docs` lists the events."
)

HOOKS = Command(
    "hooks",
    "your own programs, run when something happens",
    "Your own programs, run when something happens; they can stop what is about to happen.",
)


@verb("hooks list", "list the hooks")
def hooks_list(_options: Namespace) -> Steps:
    """List the hooks, and say which of them do not run and why."""
    answer = yield ask("GET /api/hooks")
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
    say_each(f"problem  {problem}" for problem in answer["problems"])


def _program(command: str | None) -> str:
    """What a command runs; its variables and arguments may hold a secret."""
    words = [word for word in (command or "").split() if "=" not in word]
    return words[0].rpartition("/")[2] if words else ""


def _times(hook: Json) -> str:
    if not hook["runs"]:
        return ""
    failed = f", {hook['failures']} failed" if hook["failures"] else ""
    return f"{hook['runs']}{failed}, slowest {hook['slowest_ms']:.0f} ms"


@verb("hooks test", "try hooks on a sample")
def hooks_test(options: Namespace) -> Steps:
    """Run the hooks of an event on a sample, and show what goes in, what comes out, what it would
    decide and how long it took. Exits with 1 when a hook failed.

    event  as `parachute hooks docs` lists it, such as file.modified, or PreToolUse
    --data FILE  JSON for the sample: some of the event's data, or all that a hook reads; - is
        stdin
    --hook HOOK  run this one alone, whatever its matcher says
    """
    data = None if options.data is None else read_json(options.data)
    if data is not None and not isinstance(data, dict):
        raise ParachuteError(f"{options.data} should hold a JSON object, such as an event's data")
    body = {"event": options.event, "data": data, "hook": options.hook}
    answer = ask("POST /api/hooks/test", body)
    yield answer, any(map(_has_failed, answer["runs"]))
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


@verb("hooks history", "what hooks did")
def hooks_history(options: Namespace) -> Steps:
    """List the latest runs of hooks, or show one whole.

    run_name? RUN  show this run, with what went in and what came out
    -n/--limit N=20..200  how many (default: 20; 200 are kept)
    """
    if options.run_name:
        _say_run((yield ask(f"GET /api/hooks/runs/{quoted(options.run_name)}")))
        return
    answer = yield ask(f"GET /api/hooks/runs?limit={options.limit}")
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


@verb("hooks replay", "run a hook again")
def hooks_replay(options: Namespace) -> Steps:
    """Run a hook again on what it was given then. Exits with 1 when the hook failed.

    run_name RUN  as `parachute hooks history` lists it
    """
    answer = ask(f"POST /api/hooks/runs/{quoted(options.run_name)}/replay")
    yield answer, _has_failed(answer)
    _say_run(answer)


def _say_run(run: Json) -> None:
    ended = "not run" if run["exit_code"] is None else f"exit code {run['exit_code']}"
    ended = "ended by the limit" if run["timed_out"] else ended
    took = f"{run['took_ms']:.0f} ms"
    say(f"{run['hook']} on {run['event']}, run {run['id']}: {run['decision']} ({ended}, {took})")
    for name in ("stdin", "stdout", "stderr"):
        if run[name]:
            say(f"  {name}{' (cut)' if name in run['cut'] else ''}")
            say_each(f"{_INDENT}{line}" for line in _lines(run[name]))


def _lines(text: str) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        text = json.dumps(value, indent=2, ensure_ascii=False)
    return text.rstrip("\n").split("\n")


@verb("hooks docs", "the events, and what hooks read")
def hooks_docs(options: Namespace) -> Steps:
    """List the events, or show what a hook of one reads.

    event?  such as write.before, or Claude Code's name for it
    """
    from parachuted.events.catalog import CATALOG

    kinds = sorted(CATALOG.values(), key=lambda kind: (kind.blocks, kind.name))
    events = [
        {
            "name": kind.name,
            "claude": kind.claude or None,
            "may_block": kind.blocks,
            "tells": kind.tells,
            "fields": list(kind.fields),
        }
        for kind in kinds
    ]
    if options.event:
        yield from _say_event(options.event, {event["name"]: event for event in events})
    else:
        yield {"events": events}
        columns: Columns = {
            "EVENT": "name",
            "CLAUDE CODE'S NAME": "claude",
            "MAY BE STOPPED": lambda event: "yes" if event["may_block"] else "",
            "WHEN": "tells",
        }
        say_table(events, columns)
        say("\nA hook reads one JSON object; `parachute hooks docs EVENT` shows it.")
        say("Exit code 2 stops what may be stopped.")
    say(f"The reference: {bundled_folder('hooks') / 'README.md'}")


def _say_event(named: str, events: Json) -> Steps:
    from parachuted.hooks import document, parse_event
    from parachuted.hooks.trials import make_sample

    name = parse_event(named)
    sample = document(make_sample(name, vault=current_settings().vault, at=datetime.now(UTC)))
    event = events.get(name, {"name": name})
    yield {"event": event, "sample": sample}
    say(f"{name}, in Claude Code {event['claude']}" if event.get("claude") else name)
    if "tells" in event:
        stopped = "Exit code 2 stops it, and stderr says why."
        stops = stopped if event["may_block"] else "It has happened, so nothing stops it."
        say(f"{event['tells']} {stops}".strip())
    say("\nA hook reads this on stdin, on one line:\n")
    text = json.dumps(sample, indent=2, ensure_ascii=False)
    say_each(f"{_INDENT}{line}" for line in text.split("\n"))
    say(f"\nTry one: parachute hooks test {name}")


@verb("hooks approve", "let changed scripts run")
def hooks_approve(options: Namespace) -> Steps:
    """Let hooks whose scripts have changed since they were approved run as they are now.

    names* HOOK  as `parachute hooks list` names it (default: all)
    """
    answer = yield ask("POST /api/hooks/approve", {"names": options.names or None})
    say_each(f"approved  {path}" for path in answer["approved"])
    if not answer["approved"]:
        say("Nothing had changed since it was approved.")
