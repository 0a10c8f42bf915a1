"""Past: what a file was, what a run changed, and a file brought back as it was."""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path

from parachuted.cli.client import ask, in_vault, quoted
from parachuted.cli.commands import Columns, Json, Steps, verb
from parachuted.cli.show import count, say, say_diff, say_table, when
from parachuted.errors import ParachuteError

_SHORT = 12
_MOST = 1000
_SHORTEST = 4
_HEXADECIMAL = frozenset("0123456789abcdef")


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
        came = f", which was {file['source']}" if file["source"] is not None else ""
        say(f"{file['path']}{came}: {_lines(file) or 'changed'}, by {', '.join(file['runs'])}")
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
