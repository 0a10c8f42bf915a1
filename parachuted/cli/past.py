"""Past: what a file was, what a run changed, and a file brought back as it was."""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path

from parachuted.cli.ask import in_vault, quoted
from parachuted.cli.client import ask
from parachuted.cli.commands import Commands, add_command, add_json
from parachuted.cli.show import count, say, say_diff, say_json, say_table, when
from parachuted.errors import ParachuteError

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import Any

_SHORT = 12
_MOST = 1000
_SHORTEST = 4
_HEXADECIMAL = frozenset("0123456789abcdef")


def add_parsers(commands: Commands) -> None:
    """Add these commands to the parser."""
    says = (
        "List the versions of a file: when, who, in which run, and how many lines came and "
        "went. Moves are followed."
    )
    history_parser = add_command(commands, "history", history, "the versions of a file", says)
    history_parser.add_argument(
        "file",
        metavar="FILE",
        help="a note, by its path in the vault or on the disk, or one that is gone",
    )
    history_parser.add_argument(
        "-n",
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="how many (default: 20, at most 1000)",
    )
    add_json(history_parser)
    diff_parser = add_command(
        commands,
        "diff",
        diff,
        "what a run changed",
        "Show what a run, and all that followed from it, changed in every file.",
    )
    diff_parser.add_argument("run_name", metavar="RUN", help="as `parachute runs` lists it")
    diff_parser.add_argument(
        "--only", action="store_true", help="this run alone, without what followed from it"
    )
    add_json(diff_parser)
    says = (
        "Bring a file back as it was before a run, or in a version. It can be undone, as any run; "
        "a file that was deleted comes back.\n"
        "With the archive that `parachute backup` wrote: bring back the whole vault and home, "
        "while no daemon runs."
    )
    restore_parser = add_command(
        commands, "restore", restore, "bring a file, or a backup, back as it was", says
    )
    restore_parser.add_argument(
        "file",
        metavar="FILE@RUN",
        help="or FILE@VERSION, as `parachute history FILE` lists it; or a backup's .tar.gz",
    )
    restore_parser.add_argument(
        "--after", action="store_true", help="as it was after the run, not before it"
    )
    restore_parser.add_argument(
        "--vault", metavar="PATH", help="of a backup: where the vault goes (default: where it was)"
    )
    restore_parser.add_argument(
        "--replace",
        action="store_true",
        help="of a backup: move a vault and a home that are there aside first",
    )
    add_json(restore_parser)


def history(options: Namespace) -> int:
    """`parachute history FILE`."""
    limit = max(1, min(options.limit, _MOST))
    answer = ask("GET", f"/api/history?path={quoted(in_vault(options.file))}&limit={limit}")
    if options.json:
        say_json(answer)
        return 0
    say_table(
        [_row(one) for one in answer["versions"]],
        ("VERSION", "WHEN (UTC)", "WHO", "LINES", "RUN", "WHAT"),
        nothing="Nothing is known.",
    )
    if answer["count"] > len(answer["versions"]):
        more = f"parachute history {shlex.quote(options.file)} -n {min(answer['count'], _MOST)}"
        say(f"{answer['count'] - len(answer['versions'])} older: {more}")
    if answer["since"] is not None:
        say(
            f"What was before {when(answer['since'])} UTC is no longer kept (settings "
            "history.keep_days and history.keep_mb)."
        )
    if any(one["kept"] for one in answer["versions"][1:]):
        say(f"Bring one back with: parachute restore {shlex.quote(options.file)}@VERSION")
    return 0


def diff(options: Namespace) -> int:
    """`parachute diff RUN`."""
    answer = ask(
        "GET",
        f"/api/runs/{quoted(options.run_name)}/diff?cascade={'false' if options.only else 'true'}",
    )
    if options.json:
        say_json(answer)
        return 0
    for file in answer["files"]:
        came = f", which was {file['source']}" if file["source"] is not None else ""
        say(f"{file['path']}{came}: {_lines(file) or 'changed'}, by {', '.join(file['runs'])}")
        say_diff(file["diff"])
    runs, files = (
        count(len(answer["runs"]), "run"),
        count(len({file["path"] for file in answer["files"]}), "file"),
    )
    say(
        f"{runs}, {files}. Take it back with: parachute undo {options.run_name}"
        if answer["files"]
        else f"{runs}; nothing was changed."
    )
    return 0


def restore(options: Namespace) -> int:
    """`parachute restore FILE@RUN` or `FILE@VERSION`, or an archive that `parachute backup`
    wrote.
    """
    if options.file.endswith(".tar.gz") and Path(options.file).is_file():
        from parachuted.cli.backup import restore_backup

        return restore_backup(options)
    if options.vault or options.replace:
        raise ParachuteError(
            "--vault and --replace go with a backup, a file such as parachute.tar.gz; there is "
            f"none at {options.file}"
        )
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
    answer = ask("POST", "/api/history/restore", {**body, "after": True} if options.after else body)
    if options.json:
        say_json(answer)
        return 0
    if answer["run"] is None:
        say(f"{answer['path']} is so already.")
        return 0
    merged = "; what was written meanwhile was kept" if answer["merged"] else ""
    say(f"{answer['path']} is as it was in version {answer['version'][:_SHORT]}{merged}.")
    say(f"Take that back with: parachute undo {answer['run']}")
    return 0


def _row(one: Any) -> tuple[str, ...]:  # noqa: ANN401  JSON
    version = (one["version"] or "")[:_SHORT] + (
        "" if one["kept"] or one["version"] is None else " (text gone)"
    )
    what = f"{one['kind']} from {one['source']}" if one["source"] else one["kind"]
    who = "you" if one["by"] == "person" else one["by"]
    return (
        version or "(no file)",
        when(one["at"]) or "(unseen)",
        who,
        _lines(one),
        one["run"] or "",
        what,
    )


def _lines(one: Any) -> str:  # noqa: ANN401  JSON
    return "" if one["added"] is None else f"+{one['added']} -{one['removed']}"
