"""Random rule files with folders that they speak of, and what git says of each path."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from random import Random

_NAMES = (
    *("a", "b", "ab", "abc", "x.md", "y.md", "X.md", "README.md", "notes", "Notes", "notesx.md"),
    *("a b", "a ", " a", "a\t", "#a", "!a", "a[b].md", "[a]", "a\\b", "a*", "a?b", "]", "-", "a-c"),
    *(
        "é",
        "é.md",
        "ünï",
        "日記.md",
        "🌱",
        "caf\udce9.md",
        "\udcff",
        "a\nb",
        "\x7f",
        "..a",
        ".hidden",
    ),
    *("x.tar.gz", "2026-11-28.md", "aaaaab", "a\r", "^a", "$", "(a|b)", "{a,b}", "\ufeffa"),
)
_PIECES = (
    *("a", "b", "c", "x", "A", "é", "日", ".", ".md", "notes", "-", "!", "#", " ", "\t", "^", "]"),
    *("*", "*", "*", "**", "**", "***", "?", "/", "/", "/", "/**", "**/", "/**/", "//", "**\\/"),
    *("\\", "\\*", "\\?", "\\[", "\\a", "\\/", "\\\\", "\\ ", "\\#", "\\!", "[", "[]", "[a", "[!"),
    *(
        "[ab]",
        "[!ab]",
        "[^ab]",
        "[a-c]",
        "[c-a]",
        "[!a-c]",
        "[]a]",
        "[!]a]",
        "[a-]",
        "[-a]",
        "[--/]",
    ),
    *(
        "[a\\]]",
        "[\\a-\\c]",
        "[a-c-e]",
        "[/]",
        "[.-0]",
        "[é]",
        "[a-é]",
        "[!é]",
        "[[]",
        "[[a]",
        "[*?]",
    ),
    *(
        "[[:alpha:]]",
        "[[:upper:]]",
        "[![:upper:]]",
        "[[:lower:]x]",
        "[[:digit:]-a]",
        "[a-[:alpha:]]",
    ),
    *("[[:punct:]]", "[[:space:]]", "[[:blank:]]", "[[:cntrl:]]", "[[:graph:]]", "[[:print:]]"),
    *("[[:xdigit:]]", "[[:alnum:]_]", "[[:nothing:]]", "[[:alpha]", "[[:alpha:]", "[[::]]", "[[:]"),
)
_CLASSES = tuple(piece for piece in _PIECES if piece.startswith("[") and piece.endswith("]"))


@dataclass(frozen=True)
class IgnoreCase:
    """`files` and `folders` are paths in the tree; each folder on the way is among `folders`."""

    rules: str
    files: tuple[str, ...]
    folders: tuple[str, ...]


def ignore_cases(seed: int, count: int) -> list[IgnoreCase]:
    random = Random(seed)  # noqa: S311
    return [_case(random) for _ in range(count)]


def _case(random: Random) -> IgnoreCase:
    names = random.sample(_NAMES, 8)
    files: set[str] = set()
    folders: set[str] = set()
    for _ in range(random.randint(3, 16)):
        path = ""
        for depth in range(random.choice((0, 0, 1, 1, 2, 3, 4))):
            name = random.choice(names).encode("utf-8", "ignore").decode().removeprefix("\ufeff")
            path += f"{name or depth}/"
            if path[:-1] in files:
                break
            folders.add(path[:-1])
        file = path + random.choice(names)
        if path[:-1] not in files and file not in folders:
            files.add(file)
    paths = sorted(files | folders)
    lines = [_line(random, paths) for _ in range(random.choice((1, 1, 2, 3, 4, 6)))]
    end = random.choice(("\n", "\n", "\n", "\r\n"))
    text = end.join(lines) + random.choice(("", end))
    return IgnoreCase(
        rules=("\ufeff" if random.random() < 0.1 else "") + text,
        files=tuple(sorted(files)),
        folders=tuple(sorted(folders)),
    )


def _line(random: Random, paths: list[str]) -> str:
    kind = random.random()
    if kind < 0.1:
        return random.choice(
            ("*", "!*/", "!*.md", "**", "/*", "!", "/", "", "# a", "*/", "**/", "!/**")
        )
    if kind < 0.3:
        line = "".join(random.choices(_PIECES, k=random.randint(1, 7)))
    else:
        line = _about(random, random.choice(paths))
    if random.random() < 0.25:
        line = f"!{line}"
    if random.random() < 0.2:
        line += random.choice((" ", "  ", "\t", "\\ ", " \\", "\r", "\x00a", "\\ \\  ", " \t "))
    return line


def _about(random: Random, path: str) -> str:
    """A line that may mean `path`."""
    names = path.split("/")
    if random.random() < 0.4:
        names = names[random.randrange(len(names)) :]
    if random.random() < 0.2:
        names = names[: random.randint(1, len(names))]
    line = "/".join(_name(random, name) for name in names)
    if random.random() < 0.2:
        line = random.choice(("/", "**/", "/**/", "*/", "\\/", "**")) + line
    if random.random() < 0.2:
        line += random.choice(("/", "/", "/**", "/*", "**", "/**/", "//", "\\/"))
    for old, new in (("/", "/**/"), ("/", "**/"), ("/", "/**"), ("/", "**\\/")):
        if random.random() < 0.07:
            line = line.replace(old, new, 1)
    return line


def _name(random: Random, name: str) -> str:
    at = random.randrange(len(name))
    begin, end = name[:at], name[at + 1 :]
    pieces = "*".join(random.choices(name, k=random.randint(1, 4)))
    (line,) = random.choices(
        (
            name,
            "".join(f"\\{letter}" if letter in "*?[]\\!# " else letter for letter in name),
            random.choice(("*", "*", "**", "***", "?", "?*", "*?")),
            begin + random.choice(("*", "**")) + name[at + random.randint(0, 2) :],
            pieces + random.choice(("", "*", name[-1:])),
            name.swapcase(),
            begin + random.choice(("?", *_CLASSES, f"[{name[at]}]", f"[!{name[at]}]")) + end,
        ),
        (8, 2, 2, 2, 2, 1, 3),
    )
    return line


def ignored_by_git(folder: Path, cases: list[IgnoreCase]) -> list[set[str]]:
    """What git ignores of each case, asked by one process: each case is a folder in one repository,
    and the rules in a folder's `.gitignore` hold for what is below it.
    """
    git = ("git", "-c", "core.ignoreCase=false", "-c", "core.precomposeUnicode=false")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    subprocess.run((*git, "init", "-q", "--template="), cwd=folder, env=environment, check=True)
    asked = []
    for number, case in enumerate(cases):
        place = folder / str(number)
        place.mkdir()
        (place / ".gitignore").write_bytes(case.rules.encode("utf-8", "surrogateescape"))
        for path in case.folders:
            (place / path).mkdir(parents=True, exist_ok=True)
        asked += [f"{number}/{path}" for path in (*case.folders, *case.files)]
    answer = subprocess.run(
        (*git, "check-ignore", "--no-index", "--stdin", "-z"),
        input=b"".join(os.fsencode(path) + b"\0" for path in asked),
        cwd=folder,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert answer.returncode in {0, 1}, answer.stderr
    ignored: list[set[str]] = [set() for _ in cases]
    for path in os.fsdecode(answer.stdout).split("\0")[:-1]:
        number, _, rest = path.partition("/")
        ignored[int(number)].add(rest)
    return ignored
