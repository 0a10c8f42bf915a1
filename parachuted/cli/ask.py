"""Ask: the commands that a running daemon answers."""

from __future__ import annotations

from argparse import Namespace

from parachuted.cli.client import ask, current_settings, daemon_record, in_vault, quoted
from parachuted.cli.commands import JSON, Json, argument, command, flag, group, limit
from parachuted.cli.show import agrees, count, say, say_diff, say_json, say_table, say_text, when
from parachuted.cli.status import tell_status
from parachuted.errors import NotFoundError

_SUBJECTS = ("path", "file_path", "command", "url", "pattern", "query", "folder")
_STEP = 100
_WHO = {"person": "you", "earlier": "(older than the history)"}
_FILE = argument("file", help="a note, by its path in the vault or on the disk")


@command("status", "the state of the daemon", JSON)
def status(options: Namespace) -> int:
    """Show what the daemon watches, what waits, what it may spend, and what is wrong."""
    tell_status(as_json=options.json)
    return 0


@command("watches", "who watches what", JSON)
def watches(options: Namespace) -> int:
    """List the notes that watch others, and what they have not seen yet."""
    answer = ask("GET", "/api/watches")
    if options.json:
        return say_json(answer)
    rows = [
        (
            one["watcher"],
            ", ".join(one["patterns"]),
            str(len(one["watched"])),
            str(len(one["unseen"])) if one["unseen"] else "",
        )
        for one in answer["watches"]
    ]
    say_table(
        rows,
        ("WATCHER", "WATCHES", "FILES", "UNSEEN"),
        nothing="Nothing watches. Give a note a `watch:` list in its frontmatter.",
    )
    for one in answer["watches"]:
        for problem in (*one["problems"], *one["unmatched"]):
            say(f"problem  {one['watcher']}: {problem}")
    return 0


@command("tasks", "what waits for an agent", JSON)
def tasks(options: Namespace) -> int:
    """List the tasks that wait or are being worked on, and why they wait."""
    answer = ask("GET", "/api/tasks")
    if options.json:
        return say_json(answer)
    rows = [
        (
            one["id"],
            one["watcher"],
            one["state"],
            ", ".join(one["paths"]),
            one["reason"] or f"due {when(one['due'])} UTC",
        )
        for one in answer["tasks"]
    ]
    say_table(
        rows, ("TASK", "WATCHER", "STATE", "TO REVIEW", "WHY IT WAITS"), nothing="No task waits."
    )
    if answer["paused"]:
        say("Paused: no run begins until `parachute resume`.")
    return 0


@command(
    "runs",
    "what agents did",
    argument("run_name", nargs="?", metavar="RUN", help="show this run whole"),
    argument("--all", action="store_true", help="also calls of modules that changed nothing"),
    limit(20),
    JSON,
)
def runs(options: Namespace) -> int:
    """List the latest runs, or show one with what it read, wrote and cost."""
    if options.run_name:
        return _one_run(options)
    more = "&all=true" if options.all else ""
    answer = ask("GET", f"/api/runs?limit={max(1, min(options.limit, 500))}{more}")
    if options.json:
        return say_json(answer)
    rows = [
        (
            run["id"],
            when(run["started"]),
            run["watcher"],
            f"{run['outcome']}{' (undone)' if run['undone'] else ''}",
            f"${run['cost_usd']:.4f}",
            run["reason"],
        )
        for run in answer["runs"]
    ]
    say_table(
        rows, ("RUN", "STARTED (UTC)", "WATCHER", "OUTCOME", "COST", "WHY"), nothing="No run yet."
    )
    return 0


def _one_run(options: Namespace) -> int:
    run = ask("GET", f"/api/runs/{quoted(options.run_name)}")
    if options.json:
        return say_json(run)
    model = f" with {run['model']}" if run["model"] else ""
    say(f"{run['id']}: {run['outcome']} - {run['reason']}")
    say(
        f"watcher  {run['watcher']}, by {run['agent']} ({run['backend']}{model}), "
        f"{when(run['started'])} UTC"
    )
    say(
        f"cost     ${run['cost_usd']:.4f}, {run['input_tokens']} tokens in, "
        f"{run['output_tokens']} out"
    )
    for cause in run["causes"]:
        say(f"cause    {_cause(cause)}")
    for parent in run["parents"]:
        say(f"follows  {parent}")
    for note in run["reviewed"]:
        say(f"reviewed {note['path']}: {note['kind']} {', '.join(note['units'])}".rstrip())
    for step in run.get("steps", []):
        if "called" in step:
            say(f"did      {_step(step)}")
    for wrote in run["wrote"]:
        say(f"wrote    {wrote['path']}")
        say_diff(wrote["diff"])
    if run["undone"]:
        say(f"undone   {when(run['undone']['at'])} UTC, with {run['undone']['with']}")
    return 0


def _step(step: Json) -> str:
    """A tool call with what names its subject, so that a run shows what it read; its texts are left
    to --json.
    """
    given = step["arguments"] if isinstance(step["arguments"], dict) else {}
    subject = next((str(given[name]) for name in _SUBJECTS if given.get(name)), "")
    words = " ".join(subject.split())
    return f"{step['called']}({words[:_STEP]}{'...' if len(words) > _STEP else ''}){', which failed' if step['error'] else ''}"  # noqa: E501


BUBBLE = group(
    "bubble", "what a change sets off", "See what a change of a file would set off, or set it off."
)


@command("bubble plan", "print who would wake, in order, and the most it can cost", _FILE, JSON)
def bubble_plan(options: Namespace) -> int:
    """Print who would wake, in order, and the most it can cost."""
    plan = ask("POST", "/api/bubble/plan", {"path": in_vault(options.file)})
    if options.json:
        say_json(plan)
    else:
        _say_plan(plan)
    return 0


@command(
    "bubble run",
    "let those who watch FILE look at it now, and FILE at what it watches",
    _FILE,
    JSON,
)
def bubble_run(options: Namespace) -> int:
    """Let those who watch FILE look at it now, and FILE at what it watches."""
    answer = ask("POST", "/api/bubble/run", {"path": in_vault(options.file)})
    if options.json:
        return say_json(answer)
    _say_plan(answer, "A look at")
    say(
        f"Asked: {count(len(answer['tasks']), 'task')} queued as {answer['cause']}. `parachute "
        "runs` shows what comes of them."
    )
    return 0


@command("pause", "start no more runs")
def pause(_options: Namespace) -> int:
    """Start no more runs until `resume`. Changes are still noticed, and wait."""
    ask("POST", "/api/pause", {})
    say("Paused. Changes are still noticed; no run begins until `parachute resume`.")
    return 0


@command("resume", "start runs again")
def resume(_options: Namespace) -> int:
    """Start runs again."""
    ask("POST", "/api/resume", {})
    say("Resumed. Agents run again.")
    return 0


@command(
    "why",
    "who wrote a line, and why",
    argument("file", metavar="FILE[:LINE]", help="a note, by its path in the vault or on the disk"),
    JSON,
)
def why(options: Namespace) -> int:
    """Say who wrote each line of a file and what led to it."""
    file, line = _file_and_line(options.file)
    answer = ask(
        "GET", f"/api/why?path={quoted(in_vault(file))}" + ("" if line is None else f"&line={line}")
    )
    if options.json:
        return say_json(answer)
    for origin in answer["lines"]:
        who = _WHO.get(origin["by"], origin["by"]) + (
            f" {when(origin['at'])}" if origin["at"] is not None else ""
        )
        say(f"{origin['number']:>5}  {who:<28}  {origin['text']}")
    for name, run in answer["runs"].items():
        if run is not None:
            _say_reason(run, answer["chains"].get(name, []))
    return 0


@command(
    "undo",
    "take a run back",
    argument("run_name", metavar="RUN", help="as `parachute runs` lists it"),
    flag("--session", help="RUN is a conversation's id: take back all that it led to"),
    flag("--yes", help="do it without showing the plan"),
    JSON,
)
def undo(options: Namespace) -> int:
    """Show what would be taken back, and do it when you agree: a run and every run that followed
    from it. What people wrote since is kept. Exits with 1 when nothing was done.
    """
    name = quoted(options.run_name)
    if options.session:
        body = _session_body(name)
        method, plan_at, undo_at = "POST", "/api/sessions/undo/plan", "/api/sessions/undo"
    else:
        body = None
        method, plan_at, undo_at = "GET", f"/api/runs/{name}/undo", f"/api/runs/{name}/undo"
    if not options.yes:
        plan = ask(method, plan_at, body)
        if options.json:
            say_json({"plan": plan})
            return 1
        if not plan["runs"]:
            say("Its runs changed nothing that is not taken back already.")
            return 1
        _say_undo_plan(plan)
        if not agrees("Take this back?"):
            return 1
    answer = ask("POST", undo_at, body or {})
    if options.json:
        return say_json(answer)
    _say_undone(answer)
    return 0


def _session_body(name: str) -> Json:
    """What the daemon needs to know of a conversation whose id is `name`."""
    try:
        response = ask("GET", f"/api/chat/{name}/runs")
    except NotFoundError as error:  # also where the module Chat is not there
        raise NotFoundError(
            f"there is no conversation {name}; the frontmatter of its file in Chat/sessions/ has "
            "its id"
        ) from error
    return {"note": response["path"], "recorded": response["recorded"]}


def _say_undo_plan(plan: Json) -> None:
    rows = [
        (run["id"], run["agent"] or "", ", ".join(run["wrote"]), run["reason"] or "")
        for run in plan["runs"]
    ]
    say_table(rows, ("RUN", "BY", "WROTE", "WHY"), nothing="")
    say(f"This is in {count(len(plan['paths']), 'file')}. What people wrote there since is kept.")


def _say_undone(answer: Json) -> None:
    say(
        f"Taken back: {count(len(answer['runs']), 'run')}; changed "
        f"{', '.join(answer['paths']) or 'nothing'}."
    )
    if answer["paths"]:
        say(f"Do it again with: parachute undo {answer['undo']}")
    for path, texts in answer["kept"].items():
        say(f"Kept in {path}, which was written to later:")
        for text in texts:
            say_text("  " + text.rstrip().replace("\n", "\n  "))


@command(
    "doctor",
    "what is wrong, and what to do",
    flag("--accept-missing", help="files are missing because you deleted them"),
    JSON,
)
def doctor(options: Namespace) -> int:
    """Check the daemon, the vault and every note."""
    from parachuted.cli.setup import find_differences

    # wrong settings would come to light at the next start, so they are refused now
    differences = find_differences(daemon_record(), current_settings())
    if options.accept_missing:
        ask("POST", "/api/scan", {"accept_missing": True})
    answer = ask("GET", "/api/doctor")
    code = 1 if answer["problems"] else 0
    if options.json:
        say_json({**answer, "daemon": differences})
        return code
    for subject, problem in answer["problems"].items():
        say(f"problem  {subject}: {problem}")
    for difference in differences:
        say(f"note     {difference}")
    for note in answer["notes"]:
        say(f"note     {note['path']}: {note['message']}")
    _say_findings(answer["modules"])
    if answer["history"] is not None:
        size = answer["history"]
        taken = (size["text_bytes"] + size["seen_bytes"] + size["record_bytes"]) / 1e6
        since = f" since {when(size['since'])} UTC" if size["since"] is not None else ""
        say(
            f"history  {count(size['writes'], 'write')}{since} and "
            f"{count(size['texts'], 'earlier text')} take {taken:.1f} MB"
        )
    if answer["databases"] is not None:
        say(f"sqlite   {answer['databases']['sqlite']}")
        for file in answer["databases"]["files"]:
            say(f"database {file['file']}: {_database_state(file)}")
    if not any(answer[part] for part in ("problems", "notes", "modules")):
        say("All is well: the daemon answers, the vault is watched, every note can be read.")
    return code


def _say_findings(found: list[Json]) -> None:
    for one in found:
        line = f":{one['line']}" if one["line"] else ""
        place = f"{one['path']}{line}: " if one["path"] else ""
        advice = f"; {one['advice']}" if one["advice"] else ""
        say(f"module   {one['module']}: {place}{one['problem']}{advice}")


def _database_state(file: Json) -> str:
    if file["version"] is None:
        return "not open"
    state = f"version {file['version']}, {file['size'] / 1e6:.1f} MB"
    return f"{state}; {file['problem']}" if file["problem"] else f"{state}, open"


def _say_plan(plan: Json, what: str = "A change of") -> None:
    most = (
        f"leads to at most {count(plan['most_runs'], 'run')} and costs at most "
        f"${plan['most_cost_usd']:.2f}"
    )
    say(f"{what} {plan['path']} {most if plan['runs'] else 'wakes no note and costs nothing'}.")
    rows = [
        (str(number), run["watcher"], run["because"], ", ".join(run["patterns"]))
        for number, run in enumerate(plan["runs"], 1)
    ]
    if rows:
        say_table(rows, ("", "WAKES", "BECAUSE OF", "BY ITS PATTERN"), nothing="")
    for ring in plan["loops"]:
        say(f"loop     {' -> '.join([*ring, ring[0]])}: each wakes once, then it halts")


def _say_reason(run: Json, chain: Json) -> None:
    by = f"{run['agent']} ({run['backend']}{' with ' + run['model'] if run['model'] else ''})"
    say(f"\n{run['id']}: {by}, {run['reason']}, ${run['cost_usd']:.4f}")
    for note in run["reviewed"]:
        if note["kind"] == "unchanged":
            say(
                "  it looked at "
                f"{'all that it watches' if note['path'] == run['watcher'] else note['path']}, "
                "which was asked for"
            )
        else:
            say(
                f"  since {note['path']} was "
                f"{note['kind']}{': ' + ', '.join(note['units']) if note['units'] else ''}"
            )
    for earlier in chain:
        say(
            f"  which followed from {earlier['id']} on {earlier['watcher']} by "
            f"{earlier['agent']}: {earlier['reason']}"
        )
    for cause in run["causes"]:
        say(f"  started by {_cause(cause)}")
    if run.get("suggestion"):
        suggestion = run["suggestion"]
        say(
            f"  suggested by {suggestion['source_agent']} as {suggestion['id']}, approved by "
            f"{suggestion['resolved_by']}"
        )
    for taken in run.get("takes_back") or []:
        say(f"  took back {taken}")
    if run["undone"]:
        say(f"  taken back {when(run['undone']['at'])} UTC; what is still here was kept")
    else:
        say(f"  take it back with: parachute undo {run['id']}")


def _cause(cause: Json) -> str:
    if "path" not in cause:
        return str(cause["id"])
    did = "your request to look at" if cause["kind"] == "request" else "your change of"
    return f"{did} {cause['path']} at {when(cause['at'])} UTC ({cause['id']})"


def _file_and_line(text: str) -> tuple[str, int | None]:
    file, _, line = text.rpartition(":")
    return (file, int(line)) if file and line.isascii() and line.isdigit() else (text, None)
