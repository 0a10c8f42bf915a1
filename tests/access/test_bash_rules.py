"""Bash rules: what is not one simple command of a listed program is refused, and real bash is asked
whether that is true.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parachuted.access.bash_rules import check_command

ALLOWED = ("git", "npm", "ls", "cat", "grep")


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "  git   log --oneline -5",
        "'git' log",
        'g"i"t log',
        "git commit -m 'a; rm -rf / | b && c'",
        "git log --format='%h %s' -- 'a b.md'",
        "git log HEAD~1..HEAD",
        "git stash apply stash@{0}",
        "ls *.md ?.txt [ab].md {a,b}.md ~",
        'grep -r "a\\|b" .',
        "npm test -- --watch=false",
        "git log # all of it",
    ],
)
def test_one_command_of_a_listed_program_runs(command):
    assert check_command(command, ALLOWED) is None


@pytest.mark.parametrize(
    "command",
    [
        "",
        "   ",
        "rm -rf /",
        "/usr/bin/git log",
        "./git log",
        "git status; git log",
        "git status && npm test",
        "git log | cat",
        "git log > out.txt",
        "cat < in.txt",
        "git add . & git log",
        "(git log)",
        "{ git log; }",
        "! git log",
        "if git log; then ls; fi",
        "git log $(rm x)",
        'git log "$(rm x)"',
        "git log `rm x`",
        'git log "`rm x`"',
        "git log $x",
        "$x log",
        "g*t log",
        "{git,rm} log",
        "~/git log",
        "PATH=. git log",
        "eval git log",
        "exec git log",
        "env git log",
        "git status\nrm x",
        "git log\rrm x",
        "git log\0rm x",
        "git\u00a0log",
        "git log 'a",
        "git log \\",
        "cat <<EOF",
        "cat <(git log)",
    ],
)
def test_whatever_else_is_refused_with_words(command):
    assert "You may run git, npm, ls, cat, grep" in str(check_command(command, ALLOWED))


@pytest.mark.parametrize("command", ["git log", "rm -rf /", ""])
def test_any_shell_and_no_shell_are_what_they_say(command):
    assert check_command(command, allowed=True) is None
    assert "no shell" in str(check_command(command, allowed=False))
    assert "no shell" in str(check_command(command, ()))


_WORDS = (
    "git npm evil log x PATH = /tmp . ./ $ $x ${x} ${ } { ( ) $( $(( ` ; & && | || |& # < > << "
    "<<< EOF <( >( &> 2> /dev/null fi done esac * ? [ ] ~ , -c -- exit true $@ f() x=$("
)
_KEYWORDS = "if then for in do while ! case eval echo cd [ a=1 . env [[ time {"
_PIECES = st.sampled_from(
    [
        *_WORDS.split(),
        *(f"{word} " for word in _KEYWORDS.split()),
        *("'", '"', "\\", "\n", " ", " ", " ", "\t", " ]", "; }", "$'", '$"', "\u00a0"),
        *("\nEOF\n", "<<'EOF'\n"),
    ]
)
_PROGRAMS = "git npm evil log x xgit gitx EOF env EOFgit a in PATH -c tmp case esac"
_LINES = st.lists(_PIECES, min_size=1, max_size=14).map("".join)


@pytest.fixture(scope="session")
def programs(tmp_path_factory) -> Path:
    """A folder of programs that note that they were run.

    `git` and `npm` are listed; `evil` and the others are not.
    """
    folder = tmp_path_factory.mktemp("programs")
    for name in _PROGRAMS.split():
        script = folder / name
        script.write_text(f"#!/bin/sh\necho {name} >> '{folder}/ran.txt'\n")
        script.chmod(0o755)
    return folder


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is what is asked")
@settings(max_examples=4 * settings.default.max_examples)
@given(line=st.one_of(_LINES, _LINES.map("git {}".format)))
@example(line="git a';'b;evil")
@example(line='git "a\\";evil"')
def test_real_bash_runs_nothing_else_of_what_is_allowed(line, programs, tmp_path):
    if check_command(line, ("git", "npm")) is not None:
        return
    ran = programs / "ran.txt"
    ran.unlink(missing_ok=True)
    shell = shutil.which("bash") or ""
    env = {"PATH": str(programs), "x": "evil"}
    subprocess.run(
        [shell, "-c", line],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )

    assert set(ran.read_text().split() if ran.exists() else []) <= {"git", "npm"}, line


@given(text=st.text(max_size=200))
def test_any_text_is_answered(text):
    answer = check_command(text, ("git",))
    assert answer is None or "You may run git" in answer
