"""Notes: found by their words, read and made from the command line; and the context folders."""

from __future__ import annotations

import html
import re
import shlex
import sys
from argparse import Namespace

from parachuted.cli.client import ask, fetch, in_vault, quoted
from parachuted.cli.commands import JSON, argument, command, flag, group, limit
from parachuted.cli.show import count, escape, say, say_json, say_table
from parachuted.errors import NotFoundError, ParachuteError

_MOST = 100
_SUFFIXES = (".md", ".markdown")
_CONTEXT_NAMES = ("AGENTS.md", "CLAUDE.md")  # `vault` names them too, but takes long to import
_MARK = re.compile(r"</?mark>")


@command(
    "search",
    "find notes",
    argument(
        "words",
        nargs="+",
        help="words, a 'phrase in \"quotes\"', begin*, tag:x, key:value; -without goes after --",
    ),
    argument(
        "--in",
        dest="folder",
        default="",
        metavar="FOLDER",
        help="only notes in this folder of the vault",
    ),
    limit(20, ", at most 100"),
    JSON,
)
def search(options: Namespace) -> int:
    """Find notes by what they say, the likeliest first."""
    limit = max(1, min(options.limit, _MOST))
    answer = ask(
        "GET",
        f"/api/search?q={quoted(' '.join(options.words))}&in={quoted(options.folder)}&limit={limit}",  # noqa: E501
    )
    if options.json:
        return say_json(answer)
    for hit in answer["results"]:
        title = (
            f"  ({hit['title']})"
            if hit["title"] not in {hit["path"], hit["path"].rpartition("/")[2].rpartition(".")[0]}
            else ""
        )
        say(f"{hit['path']}{title}")
        snippet = " ".join(html.unescape(_MARK.sub("", hit["snippet"])).split())
        if snippet:
            say(f"    {snippet}")
    if answer["indexing"]:
        say("The vault is still being indexed, so there may be more.")
    elif not answer["results"]:
        say("No note was found.")
    return 0


@command(
    "read",
    "print a note",
    argument("--section", metavar="NAME", help="the section of that heading, with those below it"),
    argument("file", help="a note, by its path in the vault or on the disk; .md may be left out"),
    JSON,
)
def read(options: Namespace) -> int:
    """Print a note, or one section of it."""
    file = options.file.rstrip("/") or "/"
    address = f"/api/notes/{_named(file)}"
    try:
        if options.json:
            return say_json(ask("GET", f"{address}?as=json"))
        text = (
            _section(ask("GET", f"{address}?as=json"), options.section)
            if options.section
            else fetch(f"{address}?as=raw")
        )
    except NotFoundError as error:
        raise ParachuteError(_folder_problem(in_vault(file)) or str(error)) from error
    if (
        sys.stdout.isatty()
    ):  # a program gets each byte; a terminal nothing that would move its cursor
        say(escape(text.decode("utf-8", "replace")).removesuffix("\n"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    return 0


@command(
    "new",
    "create a note",
    argument("file", help="a note, by its path in the vault or on the disk; .md may be left out"),
    argument("text", nargs="?", help="its text; - is stdin (default: its name as a heading)"),
    JSON,
)
def new(options: Namespace) -> int:
    """Create a note. Fails if it exists."""
    path = _path(options.file)
    text = sys.stdin.read() if options.text == "-" else options.text
    if text is None:
        text = f"# {path.rpartition('/')[2].rpartition('.')[0]}\n"
    answer = ask(
        "PUT",
        f"/api/notes/{_named(options.file)}",
        {"content": text if text.endswith("\n") else f"{text}\n"},
        only_new=True,
    )
    if options.json:
        say_json(answer)
    else:
        say(f"Made {answer['path']}.")
    return 0


def _folder_problem(folder: str) -> str | None:
    """What to read instead of a folder; None where the folder is missing."""
    try:
        entries = ask("GET", f"/api/ls?path={quoted(folder)}")["entries"]
    except ParachuteError:  # the path is not a folder either, and is known not to be a note
        return None
    names = {entry["name"] for entry in entries}
    for name in _CONTEXT_NAMES:
        if name in names:
            return (
                f"{folder} is a folder; `parachute read {shlex.quote(f'{folder}/{name}')}` "
                "shows its context file"
            )
    return (
        f"{folder} is a folder and has no context file ({' or '.join(_CONTEXT_NAMES)}); "
        f"`parachute search WORDS --in {shlex.quote(folder)}` finds the notes in it"
    )


def _path(file: str) -> str:
    path = in_vault(file)
    return path if path.endswith(_SUFFIXES) else f"{path}.md"


def _named(file: str) -> str:
    return quoted(_path(file), b"/")


def _section(note: dict[str, object], name: str) -> bytes:
    sections: list[dict[str, object]] = note["sections"]  # type: ignore[assignment]
    wanted = name.strip().lstrip("#").strip().casefold()
    start = next(
        (number for number, one in enumerate(sections) if str(one["title"]).casefold() == wanted),
        None,
    )
    if start is None:
        titles = ", ".join(str(one["title"]) for one in sections)
        raise ParachuteError(
            f"{note['path']} has no section {name}"
            + (f"; it has {count(len(sections), 'section')}: {titles}" if titles else "")
        )
    level = int(str(sections[start]["level"]))
    below = next(
        (
            number
            for number, one in enumerate(sections[start + 1 :], start + 1)
            if int(str(one["level"])) <= level
        ),
        len(sections),
    )
    return "".join(
        f"{'#' * int(str(one['level']))} {one['title']}\n{one['content']}"
        for one in sections[start:below]
    ).encode("utf-8", "replace")


_DOES = {"create": "make", "append": "add to", "keep": "is in", "refuse": "leave"}


CONTEXTS = group(
    "contexts",
    "the context files of agents",
    "The context files that become part of agents' prompts.",
)


@command(
    "contexts migrate",
    "move old context files into folders",
    flag("--apply", help="do it; `parachute undo` takes it back"),
    JSON,
)
def migrate(options: Namespace) -> int:
    """Show what would become of an older program's context files (Chat/contexts/*.md), or move them
    into the folders they are about. Exits with 1 when something could not be moved.
    """
    answer = ask("POST" if options.apply else "GET", "/api/contexts/migration")
    code = int(options.apply and any(move["action"] == "refuse" for move in answer["moves"]))
    if options.json:
        say_json(answer)
        return code
    rows = [
        (
            move["file"],
            _DOES[move["action"]],
            move["target"],
            ", ".join(move["sections"]) or move["reason"],
        )
        for move in answer["moves"]
    ]
    say_table(
        rows,
        ("OLD FILE", "", "CONTEXT FILE", "SECTIONS ADDED, OR WHY"),
        nothing="There are no context files in Chat/contexts.",
    )
    if not options.apply and rows:
        say(
            "\nNothing was changed. `parachute contexts migrate --apply` does it; the old files "
            "are kept in Chat/contexts/migrated."
        )
    elif options.apply and answer["run"]:
        say(
            f"\nDone; {count(answer['sessions'], 'choice')} of sessions followed. Take it back "
            f"with: parachute undo {answer['run']}"
        )
    return code
