"""`.parachuteignore` means what git means by the same lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.vault.ignore import GitIgnoreLines
from tests.vault.ignore_cases import IgnoreCase, ignore_cases, ignored_by_git


def ignored(case: IgnoreCase) -> set[str]:
    """What the lines ignore, entering no folder that they ignore, as the scanner does."""
    lines, found = GitIgnoreLines(case.rules), set()
    for path in sorted((*case.folders, *case.files), key=lambda path: path.count("/")):
        folder, _, name = path.rpartition("/")
        if folder in found or lines.ignore(folder, name, is_folder=path in case.folders):
            found.add(path)
    return found


def test_random_rules_ignore_what_git_ignores(tmp_path: Path, torture: bool):  # noqa: FBT001
    cases = ignore_cases(20261128, 2000 if torture else 200)
    by_git = ignored_by_git(tmp_path, cases)

    assert sum(map(bool, by_git)) > len(cases) / 3
    differing = [
        (case.rules, found ^ of_git)
        for case, of_git in zip(cases, by_git, strict=True)
        if (found := ignored(case)) != of_git
    ]
    assert differing == []


FILES = (
    "A.md",
    "a.md",
    "é.md",
    "notesx.md",
    "tab\t",
    "notes/x.md",
    "notes/deep/x.md",
    "notes/x.txt",
)
FOLDERS = ("notes", "notes/deep")


UNDERSTOOD = {
    "[[:upper:]].md": {"A.md"},
    "*\n!*/\n!*.md": {"tab\t", "notes/x.txt"},
    "[[:alpha:]]*.md": {"A.md", "a.md", "notesx.md", "notes/x.md", "notes/deep/x.md"},
    "notes**/x.md": {"notesx.md", "notes/x.md", "notes/deep/x.md"},
    "tab\t": {"tab\t"},
    "\ufeffa.md": {"a.md"},
    "?.md": {"A.md", "a.md", "notes/x.md", "notes/deep/x.md"},
    "??.md": {"é.md"},
    "[^Ax].md": {"a.md"},
    "[!Ax].md": {"a.md"},
    "notes\n!notes/x.md": {"notes", *(path for path in FILES + FOLDERS if "notes/" in path)},
    "notes/*\n!notes/x.md": {"notes/deep", "notes/deep/x.md", "notes/x.txt"},
}


def test_lines_that_were_understood_otherwise(tmp_path: Path):
    cases = [IgnoreCase(rules, FILES, FOLDERS) for rules in UNDERSTOOD]

    assert {case.rules: ignored(case) for case in cases} == UNDERSTOOD
    assert ignored_by_git(tmp_path, cases) == list(UNDERSTOOD.values())


@pytest.mark.parametrize("rule", ["T\u00fcr.md", "Tu\u0308r.md"])
@pytest.mark.parametrize("name", ["T\u00fcr.md", "Tu\u0308r.md"])
def test_an_accent_is_the_same_however_a_disk_stores_it(rule: str, name: str):
    assert GitIgnoreLines(rule).ignore("", name, is_folder=False)


@pytest.mark.parametrize(
    "line",
    [
        *("*a" * 2000 + "b", "**/" * 1300 + "b", "**/a*/" * 600 + "b", "**/" + "*/" * 100 + "b"),
        *(
            "*a*a*a*a*a*a*a*b",
            "**/*a*a*b/**/*a*a*a*b",
            "*" * 4095 + "b",
            "[!b]" * 1000,
            "[a" * 2000,
        ),
        *("[[:" * 1300, " " * 4000 + "x", "\\" * 4001, "*a" * 1_000_000, "[" * 1_000_000),
    ],
)
@pytest.mark.timeout(60)  # each takes milliseconds; one that is matched by backtracking never ends
def test_no_line_holds_the_daemon(line: str):
    lines = GitIgnoreLines(line)

    assert not lines.ignore("/".join(["a" * 33] * 119), "a" * 255, is_folder=False)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("!", "it names nothing"),
        ("/", "it names nothing"),
        ("a\\", "nothing follows its last `\\`"),
        ("[a", "a `[` is not closed"),
        ("[[:vowel:]]", "there is no [:vowel:]"),
        ("x" * 4097, "it has more than 4096 bytes"),
    ],
)
def test_a_line_that_can_mean_no_file_is_named_and_the_others_hold(line: str, reason: str):
    lines = GitIgnoreLines(f"*.pdf\n{line}\n*.log\n")

    assert lines.problem == f"line 2 of .parachuteignore is passed over: {reason}"
    assert all(lines.ignore("", name, is_folder=False) for name in ("x.pdf", "x.log"))
