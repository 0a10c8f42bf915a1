"""Notes: found by their words, read and made from the command line; and the context folders."""

from __future__ import annotations

import html
import re
import shlex
import sys
from argparse import Namespace

from parachuted.cli.client import ask, fetch, in_vault, quoted
from parachuted.cli.commands import Columns, Command, Json, Steps, verb
from parachuted.cli.show import count, escape, say, say_table
from parachuted.errors import NotFoundError, ParachuteError

_SUFFIXES = (".md", ".markdown")
_CONTEXT_NAMES = ("AGENTS.md", "CLAUDE.md")  # `vault` names them too, but takes long to import
_MARK = re.compile(r"</?mark>")


@verb("search", "find notes")
def search(options: Namespace) -> Steps:
    """Find notes by what they say, the likeliest first.

    words+  words, a 'phrase in "quotes"', begin*, tag:x, key:value; -without goes after --
    --in FOLDER  only notes in this folder of the vault
    -n/--limit N=20..100  how many (default: 20, at most 100)
    """
    words, folder = quoted(" ".join(options.words)), quoted(vars(options)["in"] or "")
    answer = yield ask(f"GET /api/search?q={words}&in={folder}&limit={options.limit}")
    for hit in answer["results"]:
        path, title = hit["path"], hit["title"]
        is_named_so = title in {path, path.rpartition("/")[2].rpartition(".")[0]}
        say(path if is_named_so else f"{path}  ({title})")
        snippet = " ".join(html.unescape(_MARK.sub("", hit["snippet"])).split())
        if snippet:
            say(f"    {snippet}")
    if answer["indexing"]:
        say("The vault is still being indexed, so there may be more.")
    elif not answer["results"]:
        say("No note was found.")


@verb("read", "print a note")
def read(options: Namespace) -> Steps:
    """Print a note, or one section of it.

    --section NAME  the section of that heading, with those below it
    file  a note, by its path in the vault or on the disk; .md may be left out
    """
    file = options.file.rstrip("/") or "/"
    address = f"/api/notes/{quoted(_path(file), b'/')}"
    try:
        if options.json or options.section:
            note = yield ask(f"GET {address}?as=json")
            text = _section(note, options.section)
        else:
            text = fetch(f"{address}?as=raw")
    except NotFoundError as error:
        raise ParachuteError(_folder_problem(in_vault(file)) or str(error)) from error
    if sys.stdout.isatty():
        say(escape(text.decode("utf-8", "replace")).removesuffix("\n"))
    else:  # a program gets each byte
        sys.stdout.flush()
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()


@verb("new", "create a note")
def new(options: Namespace) -> Steps:
    """Create a note. Fails if it exists.

    file  a note, by its path in the vault or on the disk; .md may be left out
    text?  its text; - is stdin (default: its name as a heading)
    """
    path = _path(options.file)
    text = sys.stdin.read() if options.text == "-" else options.text
    if text is None:
        text = f"# {path.rpartition('/')[2].rpartition('.')[0]}"
    body: dict[str, object] = {"content": text if text.endswith("\n") else f"{text}\n"}
    answer = yield ask(f"PUT /api/notes/{quoted(path, b'/')}", body, only_new=True)
    say(f"Made {answer['path']}.")


def _folder_problem(folder: str) -> str | None:
    try:
        entries = ask(f"GET /api/ls?path={quoted(folder)}")["entries"]
    except ParachuteError:  # the path is not a folder either, and is known not to be a note
        return None
    names = {entry["name"] for entry in entries}
    for name in _CONTEXT_NAMES:
        if name in names:
            how = f"`parachute read {shlex.quote(f'{folder}/{name}')}`"
            return f"{folder} is a folder; {how} shows its context file"
    return (
        f"{folder} is a folder and has no context file ({' or '.join(_CONTEXT_NAMES)}); "
        f"`parachute search WORDS --in {shlex.quote(folder)}` finds the notes in it"
    )


def _path(file: str) -> str:
    path = in_vault(file)
    return path if path.endswith(_SUFFIXES) else f"{path}.md"


def _section(note: Json, name: str) -> bytes:
    wanted = name.strip().lstrip("#").strip().casefold()
    found: list[Json] = []
    for section in note["sections"]:
        if found and section["level"] <= found[0]["level"]:
            break
        if found or section["title"].casefold() == wanted:
            found.append(section)
    if not found:
        titles = [section["title"] for section in note["sections"]]
        there = f"; it has {count(len(titles), 'section')}: {', '.join(titles)}" if titles else ""
        raise ParachuteError(f"{note['path']} has no section {name}{there}")
    texts = (f"{'#' * part['level']} {part['title']}\n{part['content']}" for part in found)
    return "".join(texts).encode("utf-8", "replace")


CONTEXTS = Command(
    "contexts",
    "the context files of agents",
    "The context files that become part of agents' prompts.",
)


@verb("contexts migrate", "move old context files into folders")
def migrate(options: Namespace) -> Steps:
    """Show what would become of an older program's context files (Chat/contexts/*.md), or move them
    into the folders they are about. Exits with 1 when something could not be moved.

    --apply  do it; `parachute undo` takes it back
    """
    answer = ask(f"{'POST' if options.apply else 'GET'} /api/contexts/migration")
    is_refused = any(move["action"] == "refuse" for move in answer["moves"])
    yield answer, "run" in answer and is_refused
    columns: Columns = {
        "OLD FILE": "file",
        "": "action",
        "CONTEXT FILE": "target",
        "WHY": "reason",
    }
    nothing = "There are no context files in Chat/contexts."
    say_table(answer["moves"], columns, nothing=nothing)
    if options.apply and answer["run"]:
        followed = f"{count(answer['sessions'], 'choice')} of sessions followed"
        say(f"\nDone; {followed}. Take it back with: parachute undo {answer['run']}")
    elif not options.apply and answer["moves"]:
        say("\nNothing was changed. `parachute contexts migrate --apply` does it.")
