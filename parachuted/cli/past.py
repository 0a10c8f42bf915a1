"""Past: what a file was, what a run changed, and a file brought back as it was."""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path

from parachuted.cli.client import ask, in_vault, quoted
from parachuted.cli.commands import JSON, Json, argument, command, flag, limit
from parachuted.cli.show import count, say, say_diff, say_json, say_table, when
from parachuted.errors import ParachuteError

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    pass

_SHORT = 12
_MOST = 1000
_SHORTEST = 4
_HEXADECIMAL = frozenset("0123456789abcdef")


@command(
    "history",
    "the versions of a file",
    argument("file", help="a note, by its path in the vault or on the disk, or one that is gone"),
    limit(20, ", at most 1000"),
    JSON,
)
def history(options: Namespace) -> int:
    """List the versions of a file: when, who, in which run, and how many lines came and went.
    Moves are followed.
    """
    limit = max(1, min(options.limit, _MOST))
    answer = ask("GET", f"/api/history?path={quoted(in_vault(options.file))}&limit={limit}")
    if options.json:
        return say_json(answer)
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


@command(
    "diff",
    "what a run changed",
    argument("run_name", metavar="RUN", help="as `parachute runs` lists it"),
    flag("--only", help="this run alone, without what followed from it"),
    JSON,
)
def diff(options: Namespace) -> int:
    """Show what a run, and all that followed from it, changed in every file."""
    answer = ask(
        "GET",
        f"/api/runs/{quoted(options.run_name)}/diff?cascade={'false' if options.only else 'true'}",
    )
    if options.json:
        return say_json(answer)
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


def _is_archive(path: Path) -> bool:
    """Whether there is such a file, and its name or its first bytes are a compressed archive's."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return path.name.endswith(".tar.gz") or file.read(2) == b"\x1f\x8b"


@command(
    "restore",
    "bring a file, or a backup, back as it was",
    argument(
        "file",
        metavar="FILE@RUN",
        help="or FILE@VERSION, as `parachute history FILE` lists it; or a backup's .tar.gz",
    ),
    flag("--after", help="as it was after the run, not before it"),
    argument(
        "--vault", metavar="PATH", help="of a backup: where the vault goes (default: where it was)"
    ),
    flag("--replace", help="of a backup: move a vault and a home that are there aside first"),
    JSON,
)
def restore(options: Namespace) -> int:
    """Bring a file back as it was before a run, or in a version. It can be undone, as any run; a
    file that was deleted comes back. With the archive that `parachute backup` wrote: bring back the
    whole vault and home, while no daemon runs.
    """
    if _is_archive(Path(options.file)):
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
        return say_json(answer)
    if answer["run"] is None:
        say(f"{answer['path']} is so already.")
        return 0
    merged = "; what was written meanwhile was kept" if answer["merged"] else ""
    say(f"{answer['path']} is as it was in version {answer['version'][:_SHORT]}{merged}.")
    say(f"Take that back with: parachute undo {answer['run']}")
    return 0


def _row(one: Json) -> tuple[str, ...]:
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


def _lines(one: Json) -> str:
    return "" if one["added"] is None else f"+{one['added']} -{one['removed']}"
