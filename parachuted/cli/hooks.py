"""Hooks commands: list, test, history, replay, docs, approve.

A running daemon answers them; without one they are done here.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parachuted.bundled import bundled_folder
from parachuted.cli.client import ask, current_settings, is_running
from parachuted.cli.commands import JSON, Json, argument, command, group, limit
from parachuted.cli.show import read_json, say, say_json, say_table, when
from parachuted.config import home_folder
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.home_files.vault_state import known_state_folder
from parachuted.hooks import (
    HookApprovals,
    HookRunner,
    HookRunRecord,
    HookRunRecorder,
    Hooks,
    document,
    parse_event,
)
from parachuted.hooks.hook import UnknownEventError
from parachuted.hooks.responses import show_events, show_hook, show_run, show_trial, show_whole_run
from parachuted.hooks.run_recorder import FOLDER
from parachuted.hooks.trials import make_sample, try_hooks

_NONE = (
    "No hooks. A script named on-<event>.py or .sh in {} is one; `parachute hooks docs` lists "
    "the events."
)
_INDENT = "    "


HOOKS = group(
    "hooks",
    "your own programs, run when something happens",
    "Your own programs, run when something happens; they can stop what is about to happen.",
)


@command("hooks list", "list the hooks", JSON)
def hooks_list(options: Namespace) -> int:
    """List the hooks, and say which of them do not run and why."""
    answer = ask("GET", "/api/hooks") if is_running() else _alone(_listing)
    if options.json:
        return say_json(answer)
    rows = [
        (
            one["name"],
            " ".join(one["events"]),
            _does(one),
            _times(one),
            one["description"] or _program(one["command"]),
        )
        for one in answer["hooks"]
    ]
    say_table(
        rows,
        ("HOOK", "EVENT", "MAY STOP IT", "RUNS", "WHAT IT IS"),
        nothing=_NONE.format(home_folder(os.environ) / "hooks"),
    )
    for one in answer["hooks"]:
        if one["problem"]:
            say(f"problem  {one['name']} does not run: {one['problem']}")
    for one in answer["hooks"]:
        if one["idle"]:
            say(f"note     {one['name']} never runs: {one['idle']}")
    for problem in answer["problems"]:
        say(f"problem  {problem}")
    return 0


@command(
    "hooks test",
    "try hooks on a sample",
    argument(
        "event", help="as `parachute hooks docs` lists it, such as file.modified, or PreToolUse"
    ),
    argument(
        "--data",
        metavar="FILE",
        help="JSON for the sample: some of the event's data, or all that a hook reads; - is stdin",
    ),
    argument("--hook", help="run this one alone, whatever its matcher says"),
    JSON,
)
def hooks_test(options: Namespace) -> int:
    """Run the hooks of an event on a sample, and show what goes in, what comes out, what it would
    decide and how long it took. Exits with 1 when a hook failed.
    """
    given = _given(options.data)
    if is_running():
        answer = ask(
            "POST", "/api/hooks/test", {"event": options.event, "data": given, "hook": options.hook}
        )
    else:
        answer = _alone(lambda hooks, vault: _trial(hooks, vault, options, given))
    code = int(any(_has_failed(run) for run in answer["runs"]))
    if options.json:
        say_json(answer)
        return code
    for run in answer["runs"]:
        _tell_run(run)
    for name in answer["passed_over"]:
        say(
            f"{name} was passed over: its matcher does not mean this sample; --hook {name} runs "
            "it all the same."
        )
    if not answer["runs"] and not answer["passed_over"]:
        say(f"No hook is for {answer['event']}; `parachute hooks list` lists the hooks.")
    elif answer["runs"]:
        say(
            f"{answer['event']}: "
            f"{'it would go on' if answer['allowed'] else 'it would be stopped'}."
        )
    return code


@command(
    "hooks history",
    "what hooks did",
    argument(
        "run_name",
        nargs="?",
        metavar="RUN",
        help="show this run, with what went in and what came out",
    ),
    limit(20, "; 200 are kept"),
    JSON,
)
def hooks_history(options: Namespace) -> int:
    """List the latest runs of hooks, or show one whole."""
    if options.run_name:
        run = _run_name(options.run_name)
        return _tell(
            ask("GET", f"/api/hooks/runs/{run}") if is_running() else show_whole_run(_kept(run)),
            as_json=options.json,
        )
    limit = max(1, min(options.limit, 200))
    answer = (
        ask("GET", f"/api/hooks/runs?limit={limit}")
        if is_running()
        else {"runs": [show_run(one) for one in _recorder().last(limit)]}
    )
    if options.json:
        return say_json(answer)
    rows = [
        (
            run["id"],
            when(run["at"]),
            run["hook"],
            run["event"],
            f"{run['took_ms']:.0f} ms",
            run["decision"],
        )
        for run in answer["runs"]
    ]
    say_table(
        rows,
        ("RUN", "AT (UTC)", "HOOK", "EVENT", "TOOK", "DECISION"),
        nothing="No hook has run yet.",
    )
    return 0


@command(
    "hooks replay",
    "run a hook again",
    argument("run_name", metavar="RUN", help="as `parachute hooks history` lists it"),
    JSON,
)
def hooks_replay(options: Namespace) -> int:
    """Run a hook again on what it was given then. Exits with 1 when the hook failed."""
    name = _run_name(options.run_name)
    run = (
        ask("POST", f"/api/hooks/runs/{name}/replay", {})
        if is_running()
        else _alone(lambda hooks, _vault: _replayed(hooks, name))
    )
    _tell(run, as_json=options.json)
    return int(_has_failed(run))


@command(
    "hooks docs",
    "the events, and what hooks read",
    argument("event", nargs="?", help="such as write.before, or Claude Code's name for it"),
    JSON,
)
def hooks_docs(options: Namespace) -> int:
    """List the events, or show what a hook of one reads."""
    if options.event:
        return _tell_event(options)
    events = show_events()
    if options.json:
        return say_json({"events": events})
    rows = [
        (one["name"], one["claude"] or "", "yes" if one["may_block"] else "", one["tells"])
        for one in events
    ]
    say_table(rows, ("EVENT", "CLAUDE CODE'S NAME", "MAY BE STOPPED", "WHEN"), nothing="")
    say(
        "\nA hook reads one JSON object; `parachute hooks docs EVENT` shows it. Exit code 2 stops "
        "what may be stopped."
    )
    say(_reference())
    return 0


@command(
    "hooks approve",
    "let changed scripts run",
    argument(
        "names", nargs="*", metavar="HOOK", help="as `parachute hooks list` names it (default: all)"
    ),
    JSON,
)
def hooks_approve(options: Namespace) -> int:
    """Let hooks whose scripts have changed since they were approved run as they are now."""
    names = options.names or None
    if is_running():
        approved = ask("POST", "/api/hooks/approve", {"names": names})["approved"]
    else:
        approved = _alone(lambda hooks, _vault: _approval(hooks, names))
    if options.json:
        return say_json({"approved": approved})
    for path in approved:
        say(f"approved  {path}")
    if not approved:
        say("Nothing had changed since it was approved.")
    return 0


def _alone(act: Callable[[Hooks, Path], Awaitable[Any]]) -> Json:
    """Do it here, with the hooks of this home. Raises ConfigError."""
    import asyncio

    home, settings = home_folder(os.environ), current_settings()

    async def main() -> Json:
        hooks = Hooks(
            home=home,
            vault=settings.vault,
            runner=HookRunner(settings.hooks.concurrency),
            approvals=HookApprovals(home),
            recorder=_recorder(),
            clock=_now,
            report=lambda _subject, _problem: None,
            env=os.environ,
            fails_closed=settings.hooks.fails_closed,
            must_approve=settings.hooks.must_approve,
        )
        try:
            return await act(hooks, settings.vault)
        finally:
            await hooks.close()

    return asyncio.run(main())


async def _listing(hooks: Hooks, _vault: Path) -> object:
    return {
        "hooks": [show_hook(listed, is_whole=True) for listed in hooks.listed],
        "health": {"recent_errors_count": len(hooks.errors)},
        "problems": list(hooks.problems),
    }


async def _trial(
    hooks: Hooks, vault: Path, options: Namespace, given: dict[str, object] | None
) -> object:
    return show_trial(
        await try_hooks(
            hooks, options.event, vault=vault, at=_now(), given=given, only=options.hook
        )
    )


async def _replayed(hooks: Hooks, name: str) -> object:
    return show_whole_run(await hooks.replay(name))


async def _approval(hooks: Hooks, names: list[str] | None) -> list[str]:
    return hooks.approve(names)


def _given(name: str | None) -> dict[str, object] | None:
    data = None if name is None else read_json(name)
    if data is None or isinstance(data, dict):
        return data
    raise ParachuteError(
        f"{name} should hold a JSON object: an event's data, or all that a hook reads"
    )


def recorder_folder(home: Path, vault: Path) -> Path:
    """Where the daemon keeps the runs, without the time that importing it takes."""
    return (known_state_folder(home, vault) or home / "state") / FOLDER


def _recorder() -> HookRunRecorder:
    home = home_folder(os.environ)
    return HookRunRecorder(recorder_folder(home, current_settings().vault))


def _kept(name: str) -> HookRunRecord:
    record = _recorder().get(name)
    if record is None:
        raise NotFoundError(
            f"unknown or deleted run {name}; `parachute hooks history` lists the last 200"
        )
    return record


def _tell(run: Mapping[str, Any], *, as_json: bool) -> int:
    if as_json:
        say_json(run)
    else:
        _tell_run(run)
    return 0


def _tell_run(run: Mapping[str, Any]) -> None:
    ended = (
        "ended by the limit"
        if run["timed_out"]
        else "not run"
        if run["exit_code"] is None
        else f"exit code {run['exit_code']}"
    )
    say(
        f"{run['hook']} on {run['event']}, run {run['id']}: {run['decision']} ({ended}, "
        f"{run['took_ms']:.0f} ms)"
    )
    if run["strays"]:
        say(f"  of what it left behind, {run['strays']} still ran and had to be ended")
    for name in ("stdin", "stdout", "stderr"):
        if run[name]:
            say(f"  {name}{' (cut)' if name in run['cut'] else ''}")
            for line in _lines(run[name]):
                say(f"{_INDENT}{line}")


def _lines(text: str) -> list[str]:
    """JSON spread over lines, so that a person can read it; other text as it is."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text.rstrip("\n").split("\n")
    return (
        json.dumps(value, indent=2, ensure_ascii=False).split("\n")
        if isinstance(value, dict)
        else text.rstrip("\n").split("\n")
    )


def _tell_event(options: Namespace) -> int:
    try:
        name = parse_event(options.event)
    except UnknownEventError as error:
        raise ParachuteError(str(error)) from error
    vault = current_settings().vault
    sample = document(make_sample(name, vault=vault, at=_now()))
    event = next((one for one in show_events() if one["name"] == name), None)
    if options.json:
        return say_json({"event": event or {"name": name}, "sample": sample})
    claude = event["claude"] if event is not None else None
    say(f"{name}, in Claude Code {claude}" if claude else name)
    if event is not None:
        stops = (
            "Exit code 2 stops it, and stderr says why."
            if event["may_block"]
            else "It has happened, so nothing stops it."
        )
        say(f"{event['tells']} {stops}".strip())
    say("\nA hook reads this on stdin, on one line:\n")
    for line in json.dumps(sample, indent=2, ensure_ascii=False).split("\n"):
        say(f"{_INDENT}{line}")
    say(f"\nTry one: parachute hooks test {name}")
    say(_reference())
    return 0


def _reference() -> str:
    return f"The reference: {bundled_folder('hooks') / 'README.md'}"


def _program(command: str | None) -> str:
    """What a command runs; its variables and arguments may hold a secret."""
    words = [word for word in (command or "").split() if "=" not in word]
    return words[0].rpartition("/")[2] if words else ""


def _does(one: dict[str, Any]) -> str:
    return "yes" if one["blocking"] else "no, asynchronous" if one["is_async"] else "no"


def _times(one: dict[str, Any]) -> str:
    if not one["runs"]:
        return ""
    failed = f", {one['failures']} failed" if one["failures"] else ""
    return f"{one['runs']}{failed}, slowest {one['slowest_ms']:.0f} ms"


def _has_failed(run: Mapping[str, Any]) -> bool:
    return (
        run["exit_code"] is None
        or run["problem"] is not None
        or str(run["decision"]).startswith("failed")
    )


def _run_name(text: str) -> str:
    if not text.isascii() or not text.isalnum():
        raise ParachuteError(f"{text!r} is not a run; `parachute hooks history` lists them")
    return text


def _now() -> datetime:
    return datetime.now(UTC)
