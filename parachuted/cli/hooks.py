"""Hooks commands: list, test, history, replay, docs, approve.

A running daemon answers them; without one they are done here.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parachuted.bundled import bundled_folder
from parachuted.cli.client import ask, home_of
from parachuted.cli.commands import Commands, add_command, add_json
from parachuted.cli.show import say, say_json, say_table, when
from parachuted.config import home_folder, load_settings
from parachuted.errors import NotFoundError, ParachuteError
from parachuted.hooks import (
    HookApprovals,
    HookRunner,
    HookRunRecord,
    HookRunRecorder,
    Hooks,
    document,
    parse_event,
)
from parachuted.hooks.names import UnknownEventError
from parachuted.hooks.responses import show_events, show_hook, show_run, show_trial, show_whole_run
from parachuted.hooks.run_recorder import FOLDER
from parachuted.hooks.samples import make_sample
from parachuted.hooks.trials import try_hooks
from parachuted.presence import running_daemon
from parachuted.vault_state import known_state_folder

_NONE = (
    "No hooks. A script named on-<event>.py or .sh in {} is one; `parachute hooks docs` lists "
    "the events."
)
_INDENT = "    "


def add_parsers(commands: Commands) -> None:
    """Add these commands to the parser."""
    about = "Your own programs, run when something happens; they can stop what is about to happen."
    hooks = add_command(
        commands, "hooks", None, "your own programs, run when something happens", about
    )
    parts = hooks.add_subparsers(metavar="COMMAND")
    add_json(
        add_command(
            parts,
            "list",
            hooks_list,
            "list the hooks",
            "List the hooks, and say which of them do not run and why.",
        )
    )
    test = add_command(
        parts,
        "test",
        hooks_test,
        "try hooks on a sample",
        "Run the hooks of an event on a sample, and show what goes in, what comes out, what it "
        "would decide and how long it took.",
    )
    test.add_argument(
        "event",
        metavar="EVENT",
        help="as `parachute hooks docs` lists it, such as file.modified, or PreToolUse",
    )
    test.add_argument(
        "--data",
        metavar="FILE",
        help="JSON for the sample: some of the event's data, or all that a hook reads; - is stdin",
    )
    test.add_argument(
        "--hook", metavar="HOOK", help="run this one alone, whatever its matcher says"
    )
    add_json(test)
    history = add_command(
        parts,
        "history",
        hooks_history,
        "what hooks did",
        "List the latest runs of hooks, or show one whole.",
    )
    history.add_argument(
        "run_name",
        nargs="?",
        metavar="RUN",
        help="show this run, with what went in and what came out",
    )
    history.add_argument(
        "-n",
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="how many (default: 20; 200 are kept)",
    )
    add_json(history)
    replay = add_command(
        parts,
        "replay",
        hooks_replay,
        "run a hook again",
        "Run a hook again on what it was given then.",
    )
    replay.add_argument("run_name", metavar="RUN", help="as `parachute hooks history` lists it")
    add_json(replay)
    docs = add_command(
        parts,
        "docs",
        hooks_docs,
        "the events, and what hooks read",
        "List the events, or show what a hook of one reads.",
    )
    docs.add_argument(
        "event",
        nargs="?",
        metavar="EVENT",
        help="such as write.before, or Claude Code's name for it",
    )
    add_json(docs)
    approve = add_command(
        parts,
        "approve",
        hooks_approve,
        "let changed scripts run",
        "Let hooks whose scripts have changed since they were approved run as they are now.",
    )
    approve.add_argument(
        "names", nargs="*", metavar="HOOK", help="as `parachute hooks list` names it (default: all)"
    )
    add_json(approve)


def hooks_list(options: Namespace) -> int:
    """`parachute hooks list`."""
    answer = ask("GET", "/api/hooks") if _is_running() else _alone(_listing)
    if options.json:
        say_json(answer)
        return 0
    rows = [
        (one["name"], " ".join(one["events"]), _does(one), _times(one), one["description"] or "")
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


def hooks_test(options: Namespace) -> int:
    """`parachute hooks test EVENT [--data FILE] [--hook ID]`; 1 when a hook failed."""
    given = _given(options.data)
    if _is_running():
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


def hooks_history(options: Namespace) -> int:
    """`parachute hooks history [RUN]`."""
    if options.run_name:
        run = _run_name(options.run_name)
        return _tell(
            ask("GET", f"/api/hooks/runs/{run}") if _is_running() else show_whole_run(_kept(run)),
            as_json=options.json,
        )
    limit = max(1, min(options.limit, 200))
    answer = (
        ask("GET", f"/api/hooks/runs?limit={limit}")
        if _is_running()
        else {"runs": [show_run(one) for one in _recorder().last(limit)]}
    )
    if options.json:
        say_json(answer)
        return 0
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


def hooks_replay(options: Namespace) -> int:
    """`parachute hooks replay RUN`; 1 when the hook failed."""
    name = _run_name(options.run_name)
    run = (
        ask("POST", f"/api/hooks/runs/{name}/replay", {})
        if _is_running()
        else _alone(lambda hooks, _vault: _replayed(hooks, name))
    )
    _tell(run, as_json=options.json)
    return int(_has_failed(run))


def hooks_docs(options: Namespace) -> int:
    """`parachute hooks docs [EVENT]`."""
    if options.event:
        return _tell_event(options)
    events = show_events()
    if options.json:
        say_json({"events": events})
        return 0
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


def hooks_approve(options: Namespace) -> int:
    """`parachute hooks approve [NAME ...]`."""
    names = options.names or None
    if _is_running():
        approved = ask("POST", "/api/hooks/approve", {"names": names})["approved"]
    else:
        approved = _alone(lambda hooks, _vault: _approval(hooks, names))
    if options.json:
        say_json({"approved": approved})
        return 0
    for path in approved:
        say(f"approved  {path}")
    if not approved:
        say("Nothing had changed since it was approved.")
    return 0


def _is_running() -> bool:
    return running_daemon(home_of(os.environ)) is not None


def _alone(act: Callable[[Hooks, Path], Awaitable[Any]]) -> Any:  # noqa: ANN401  a document, as the daemon would answer it
    """Do it here, with the hooks of this home. Raises ConfigError."""
    import asyncio

    home = home_folder(os.environ)
    settings = load_settings(home, os.environ, {})

    async def main() -> Any:  # noqa: ANN401  the same
        runner = HookRunner(settings.hooks.concurrency)
        hooks = Hooks(
            home=home,
            vault=settings.vault,
            runner=runner,
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
            await runner.close()

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
    """The sample's data from a file; `-` is stdin. Raises ParachuteError."""
    if name is None:
        return None
    try:
        data = json.loads(
            sys.stdin.read() if name == "-" else Path(name).expanduser().read_text("utf-8")
        )
    except OSError as error:
        raise ParachuteError(f"{name} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ParachuteError(f"{name} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ParachuteError(
            f"{name} should hold a JSON object: an event's data, or all that a hook reads"
        )
    return data


def recorder_folder(home: Path, vault: Path) -> Path:
    """Where the daemon keeps the runs, without the time that importing it takes."""
    return (known_state_folder(home, vault) or home / "state") / FOLDER


def _recorder() -> HookRunRecorder:
    home = home_folder(os.environ)
    return HookRunRecorder(recorder_folder(home, load_settings(home, os.environ, {}).vault))


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
    vault = load_settings(home_folder(os.environ), os.environ, {}).vault
    sample = document(make_sample(name, vault=vault, at=_now()))
    event = next((one for one in show_events() if one["name"] == name), None)
    if options.json:
        say_json({"event": event or {"name": name}, "sample": sample})
        return 0
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
