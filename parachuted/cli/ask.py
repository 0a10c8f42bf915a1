"""Ask: what the daemon watches, what waits, what was done and why; and what a file or run is taken
back to.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path

from parachuted.cli.client import ask, current_settings, daemon_record, in_vault, quoted
from parachuted.cli.commands import JSON, Columns, Command, Json, Steps, command, verb
from parachuted.cli.show import agrees, count, say, say_diff, say_each, say_table, say_text, when
from parachuted.cli.status import tell_status
from parachuted.errors import NotFoundError, ParachuteError

_SUBJECTS = ("path", "file_path", "command", "url", "pattern", "query", "folder")
_STEP = 100
_SHORT = 12
_MOST = 1000
_SHORTEST = 4
_HEXADECIMAL = frozenset("0123456789abcdef")
_WHO = {"person": "you", "earlier": "(older than the history)"}
_FILE = "file  a note, by its path in the vault or on the disk"


@command("status", "the state of the daemon", JSON)
def status(options: Namespace) -> None:
    """Show what the daemon watches, what waits, what it may spend, and what is wrong."""
    tell_status(as_json=options.json)


@verb("watches", "who watches what")
def watches(_options: Namespace) -> Steps:
    """List the notes that watch others, and what they have not seen yet."""
    answer = yield ask("GET /api/watches")
    columns: Columns = {
        "WATCHER": "watcher",
        "WATCHES": "patterns",
        "FILES": lambda watch: len(watch["watched"]),
        "UNSEEN": lambda watch: len(watch["unseen"]) or "",
    }
    nothing = "Nothing watches. Give a note a `watch:` list in its frontmatter."
    say_table(answer["watches"], columns, nothing=nothing)
    for watch in answer["watches"]:
        problems = (*watch["problems"], *watch["unmatched"])
        say_each(f"problem  {watch['watcher']}: {problem}" for problem in problems)


@verb("tasks", "what waits for an agent")
def tasks(_options: Namespace) -> Steps:
    """List the tasks that wait or are being worked on, and why they wait."""
    answer = yield ask("GET /api/tasks")
    columns: Columns = {
        "TASK": "id",
        "WATCHER": "watcher",
        "STATE": "state",
        "TO REVIEW": "paths",
        "WHY IT WAITS": lambda task: task["reason"] or f"due {when(task['due'])} UTC",
    }
    say_table(answer["tasks"], columns, nothing="No task waits.")
    if answer["paused"]:
        say("Paused: no run begins until `parachute resume`.")


@verb("runs", "what agents did")
def runs(options: Namespace) -> Steps:
    """List the latest runs, or show one with what it read, wrote and cost.

    run_name? RUN  show this run whole
    --all  also the bookkeeping of modules
    -n/--limit N=20..500  how many (default: 20)
    """
    if options.run_name:
        _say_run((yield ask(f"GET /api/runs/{quoted(options.run_name)}")))
        return
    more = "&all=true" if options.all else ""
    answer = yield ask(f"GET /api/runs?limit={options.limit}{more}")
    columns: Columns = {
        "RUN": "id",
        "STARTED (UTC)": lambda run: when(run["started"]),
        "WATCHER": "watcher",
        "OUTCOME": lambda run: run["outcome"] + (" (undone)" if run["undone"] else ""),
        "COST": lambda run: f"${run['cost_usd']:.4f}",
        "WHY": "reason",
    }
    say_table(answer["runs"], columns, nothing="No run yet.")


def _say_run(run: Json) -> None:
    model = f" with {run['model']}" if run["model"] else ""
    by = f"by {run['agent']} ({run['backend']}{model})"
    tokens = f"{run['input_tokens']} tokens in, {run['output_tokens']} out"
    say(f"{run['id']}: {run['outcome']} - {run['reason']}")
    say(f"watcher  {run['watcher']}, {by}, {when(run['started'])} UTC")
    say(f"cost     ${run['cost_usd']:.4f}, {tokens}")
    say_each(f"cause    {_cause(cause)}" for cause in run["causes"])
    say_each(f"follows  {parent}" for parent in run["parents"])
    for note in run["reviewed"]:
        say(f"reviewed {note['path']}: {note['kind']} {', '.join(note['units'])}".rstrip())
    say_each(f"did      {_step(step)}" for step in run.get("steps", []) if "called" in step)
    for wrote in run["wrote"]:
        say(f"wrote    {wrote['path']}")
        say_diff(wrote["diff"])
    if run["undone"]:
        say(f"undone   {when(run['undone']['at'])} UTC, with {run['undone']['with']}")


def _step(step: Json) -> str:
    """A tool call with what names its subject; its texts are left to --json."""
    arguments = step["arguments"] if isinstance(step["arguments"], dict) else {}
    subject = next((str(arguments[name]) for name in _SUBJECTS if arguments.get(name)), "")
    words = " ".join(subject.split())
    cut = f"{words[:_STEP]}..." if len(words) > _STEP else words
    return f"{step['called']}({cut}){', which failed' if step['error'] else ''}"


BUBBLE = Command(
    "bubble", "what a change sets off", "See what a change of a file would set off, or set it off."
)


@verb("bubble plan", "print who would wake, in order, and the most it can cost", _FILE)
def bubble_plan(options: Namespace) -> Steps:
    _say_plan((yield ask("POST /api/bubble/plan", {"path": in_vault(options.file)})), "A change of")


@verb("bubble run", "let those who watch FILE look at it now, and FILE at what it watches", _FILE)
def bubble_run(options: Namespace) -> Steps:
    answer = yield ask("POST /api/bubble/run", {"path": in_vault(options.file)})
    _say_plan(answer, "A look at")
    queued = f"{count(len(answer['tasks']), 'task')} queued as {answer['cause']}"
    say(f"Asked: {queued}. `parachute runs` shows what comes of them.")


def _say_plan(plan: Json, what: str) -> None:
    runs, cost = count(plan["most_runs"], "run"), f"${plan['most_cost_usd']:.2f}"
    most = f"leads to at most {runs} and costs at most {cost}"
    say(f"{what} {plan['path']} {most if plan['runs'] else 'wakes no note and costs nothing'}.")
    columns: Columns = {
        "": lambda run: plan["runs"].index(run) + 1,
        "WAKES": "watcher",
        "BECAUSE OF": "because",
        "BY ITS PATTERN": "patterns",
    }
    if plan["runs"]:
        say_table(plan["runs"], columns)
    for ring in plan["loops"]:
        say(f"loop     {' -> '.join([*ring, ring[0]])}: each wakes once, then it halts")


@command("pause", "start no more runs")
def pause(_options: Namespace) -> None:
    """Start no more runs until `resume`. Changes are still noticed, and wait."""
    ask("POST /api/pause")
    say("Paused. Changes are still noticed; no run begins until `parachute resume`.")


@command("resume", "start runs again")
def resume(_options: Namespace) -> None:
    ask("POST /api/resume")
    say("Resumed. Agents run again.")


@verb("why", "who wrote a line, and why")
def why(options: Namespace) -> Steps:
    """Say who wrote each line of a file and what led to it.

    file FILE[:LINE]  a note, by its path in the vault or on the disk
    """
    file, _, line = options.file.rpartition(":")
    if not (file and line.isascii() and line.isdigit()):
        file, line = options.file, ""
    only = f"&line={int(line)}" if line else ""
    answer = yield ask(f"GET /api/why?path={quoted(in_vault(file))}{only}")
    for origin in answer["lines"]:
        at = f" {when(origin['at'])}" if origin["at"] is not None else ""
        who = _WHO.get(origin["by"], origin["by"]) + at
        say(f"{origin['number']:>5}  {who:<28}  {origin['text']}")
    for name, run in answer["runs"].items():
        if run is not None:
            _say_reason(run, answer["chains"].get(name, []))


def _say_reason(run: Json, chain: Json) -> None:
    by = f"{run['agent']} ({run['backend']}{' with ' + run['model'] if run['model'] else ''})"
    say(f"\n{run['id']}: {by}, {run['reason']}, ${run['cost_usd']:.4f}")
    for note in run["reviewed"]:
        if note["kind"] == "unchanged":
            is_all = note["path"] == run["watcher"]
            looked_at = "all that it watches" if is_all else note["path"]
            say(f"  it looked at {looked_at}, which was asked for")
        else:
            units = f": {', '.join(note['units'])}" if note["units"] else ""
            say(f"  since {note['path']} was {note['kind']}{units}")
    for earlier in chain:
        who = f"{earlier['id']} on {earlier['watcher']} by {earlier['agent']}"
        say(f"  which followed from {who}: {earlier['reason']}")
    first = chain[-1] if chain else run
    written = first["watcher"] if chain or run["agent"].startswith("module:") else None
    say_each(f"  started by {_cause(cause, written)}" for cause in run["causes"])
    if found := run.get("suggestion"):
        who = f"{found['source_agent']} as {found['id']}, approved by {found['resolved_by']}"
        say(f"  suggested by {who}")
    say_each(f"  took back {taken}" for taken in run.get("takes_back") or [])
    if run["undone"]:
        say(f"  taken back {when(run['undone']['at'])} UTC; what is still here was kept")
    else:
        say(f"  take it back with: parachute undo {run['id']}")


def _cause(cause: Json, written: str | None = None) -> str:
    """What began it. `written` is what the first run after it wrote: where that stands in the
    cause, the file that a person changed is not known, as nothing watches it.
    """
    if "path" not in cause:
        return str(cause["id"])
    is_request, is_known = cause["kind"] == "request", cause["path"] != written
    did = "your request" if is_request else "your change"
    if is_known:
        did += f" {'to look at' if is_request else 'of'} {cause['path']}"
    return f"{did} at {when(cause['at'])} UTC ({cause['id']})"


@verb("undo", "take a run back")
def undo(options: Namespace) -> Steps:
    """Show what would be taken back, and do it when you agree: a run and every run that followed
    from it. What people wrote since is kept. Exits with 1 when nothing was done.

    run_name RUN  as `parachute runs` lists it
    --session  RUN is a conversation's id: take back all that it led to
    --yes  do it without showing the plan
    """
    if options.session:
        plan_at, undo_at = "POST /api/sessions/undo/plan", "POST /api/sessions/undo"
        body = _conversation(options.run_name)
    else:
        path, body = f"/api/runs/{quoted(options.run_name)}/undo", None
        plan_at, undo_at = f"GET {path}", f"POST {path}"
    if not options.yes:
        plan = ask(plan_at, body)
        yield {"plan": plan}, True
        if not plan["runs"]:
            say("Its runs changed nothing that is not taken back already.")
            return
        say_table(plan["runs"], {"RUN": "id", "BY": "agent", "WROTE": "wrote", "WHY": "reason"})
        files = count(len(plan["paths"]), "file")
        say(f"This is in {files}. What people wrote there since is kept.")
        if not agrees("Take this back?"):
            return
    answer = yield ask(undo_at, body)
    changed = ", ".join(answer["paths"]) or "nothing"
    say(f"Taken back: {count(len(answer['runs']), 'run')}; changed {changed}.")
    if answer["paths"]:
        say(f"Do it again with: parachute undo {answer['undo']}")
    for path, texts in answer["kept"].items():
        say(f"Kept in {path}, which was written to later:")
        for text in texts:
            say_text("  " + text.rstrip().replace("\n", "\n  "))


def _conversation(name: str) -> Json:
    try:
        response = ask(f"GET /api/chat/{quoted(name)}/runs")
    except NotFoundError as error:  # also where the module Chat is not there
        raise NotFoundError(
            f"there is no conversation {name}; the frontmatter of its file in Chat/sessions/ has "
            "its id"
        ) from error
    return {"note": response["path"], "recorded": response["recorded"]}


@verb("doctor", "what is wrong, and what to do")
def doctor(options: Namespace) -> Steps:
    """Check the daemon, the vault and every note.

    --accept-missing  files are missing because you deleted them
    """
    from parachuted.cli.setup import find_differences

    # wrong settings would come to light at the next start, so they are refused now
    differences = find_differences(daemon_record(), current_settings())
    if options.accept_missing:
        ask("POST /api/scan", {"accept_missing": True})
    answer = {**ask("GET /api/doctor"), "daemon": differences}
    yield answer, any(found["is_problem"] for found in answer["findings"])
    say_each(f"note     {difference}" for difference in differences)
    for found in answer["findings"]:
        kind, place = "problem", found["about"]
        if not found["is_problem"]:
            kind, line = "note   ", f":{found['line']}" if found["line"] else ""
            place = f"{found['path']}{line}" if found["path"] else place
        say(f"{kind}  {place}: {'; '.join(filter(None, (found['problem'], found['advice'])))}")
    if (size := answer["history"]) is not None:
        taken = (size["text_bytes"] + size["seen_bytes"] + size["record_bytes"]) / 1e6
        since = f" since {when(size['since'])} UTC" if size["since"] is not None else ""
        texts = count(size["texts"], "earlier text")
        say(f"history  {count(size['writes'], 'write')}{since} and {texts} take {taken:.1f} MB")
    if (databases := answer["databases"]) is not None:
        say(f"sqlite   {databases['sqlite']}")
        say_each(f"database {file['file']}: {_database_state(file)}" for file in databases["files"])
    if not answer["findings"]:
        say("All is well: the daemon answers, the vault is watched, every note can be read.")


def _database_state(file: Json) -> str:
    if file["version"] is None:
        return "not open"
    state = f"version {file['version']}, {file['size'] / 1e6:.1f} MB"
    return f"{state}; {file['problem']}" if file["problem"] else f"{state}, open"


@verb("history", "the versions of a file")
def history(options: Namespace) -> Steps:
    """List the versions of a file: when, who, in which run, and how many lines came and went.
    Moves are followed.

    file  a note, by its path in the vault or on the disk, or one that is gone
    -n/--limit N=20..1000  how many (default: 20, at most 1000)
    """
    path = quoted(in_vault(options.file))
    answer = yield ask(f"GET /api/history?path={path}&limit={options.limit}")
    versions, file = answer["versions"], shlex.quote(options.file)
    latest = next((version["version"] for version in versions), None)
    columns: Columns = {
        "VERSION": lambda version: _version(version, latest),
        "WHEN (UTC)": lambda version: when(version["at"]) or "(unseen)",
        "WHO": lambda version: "you" if version["by"] == "person" else version["by"],
        "LINES": _lines,
        "RUN": "run",
        "WHAT": lambda version: (
            version["kind"] + (f" from {version['source']}" if version["source"] else "")
        ),
    }
    say_table(versions, columns, nothing="Nothing is known.")
    if answer["count"] > len(versions):
        more = f"parachute history {file} -n {min(answer['count'], _MOST)}"
        say(f"{answer['count'] - len(versions)} older: {more}")
    if answer["since"] is not None:
        settings = "(settings history.keep_days and history.keep_mb)"
        say(f"What was before {when(answer['since'])} UTC is no longer kept {settings}.")
    if any(version["kept"] for version in versions[1:]):
        say(f"Bring one back with: parachute restore {file}@VERSION")


def _version(version: Json, latest: str | None) -> str:
    """The text that the file has now is there, though only texts that were replaced are kept."""
    if version["version"] is None:
        return "(no file)"
    is_gone = not version["kept"] and version["version"] != latest
    return f"{version['version'][:_SHORT]}{' (text gone)' if is_gone else ''}"


def _lines(change: Json) -> str:
    return "" if change["added"] is None else f"+{change['added']} -{change['removed']}"


@verb("diff", "what a run changed")
def diff(options: Namespace) -> Steps:
    """Show what a run, and all that followed from it, changed in every file.

    run_name RUN  as `parachute runs` lists it
    --only  this run alone, without what followed from it
    """
    cascade = "false" if options.only else "true"
    answer = yield ask(f"GET /api/runs/{quoted(options.run_name)}/diff?cascade={cascade}")
    for file in answer["files"]:
        say(f"{file['path']}, by {', '.join(file['runs'])}")
        say_diff(file["diff"])
    runs = count(len(answer["runs"]), "run")
    if answer["files"]:
        files = count(len({file["path"] for file in answer["files"]}), "file")
        say(f"{runs}, {files}. Take it back with: parachute undo {options.run_name}")
    else:
        say(f"{runs}; nothing was changed.")


@verb("restore", "bring a file, or a backup, back as it was")
def restore(options: Namespace) -> Steps:
    """Bring a file back as it was before a run, or in a version. It can be undone, as any run; a
    file that was deleted comes back. With the archive that `parachute backup` wrote: bring back the
    whole vault and home, while no daemon runs.

    file FILE@RUN  or FILE@VERSION, as `parachute history FILE` lists it; or a backup's .tar.gz
    --after  as it was after the run, not before it
    --vault PATH  of a backup: where the vault goes (default: where it was)
    --replace  of a backup: move a vault and a home that are there aside first
    """
    if _is_archive(Path(options.file)):
        from parachuted.cli.backup import restore_backup

        yield from restore_backup(options)
        return
    if options.vault or options.replace:
        raise ParachuteError(f"--vault and --replace go with a backup; {options.file} is none")
    if options.file.endswith(".tar.gz") and "@" not in options.file:
        raise ParachuteError(f"{options.file} is not there")
    file, at, name = options.file.rpartition("@")
    if not (file and at and name):
        raise ParachuteError(
            "say which version: FILE@VERSION as `parachute history FILE` lists it, or FILE@RUN as "
            "`parachute runs` does"
        )
    is_version = len(name) >= _SHORTEST and _HEXADECIMAL.issuperset(name)
    if is_version and options.after:
        raise ParachuteError("--after goes with a run, not with a version")
    body: dict[str, object] = {"path": in_vault(file), "version" if is_version else "run": name}
    answer = yield ask(
        "POST /api/history/restore", {**body, "after": True} if options.after else body
    )
    if answer["run"] is None:
        say(f"{answer['path']} is so already.")
        return
    merged = "; what was written meanwhile was kept" if answer["merged"] else ""
    say(f"{answer['path']} is as it was in version {answer['version'][:_SHORT]}{merged}.")
    say(f"Take that back with: parachute undo {answer['run']}")


def _is_archive(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return path.name.endswith(".tar.gz") or file.read(2) == b"\x1f\x8b"
