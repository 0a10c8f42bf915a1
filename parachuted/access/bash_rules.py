"""Bash rules: whether a line of shell provably runs only listed programs.

What cannot is refused, in words. Pure.

The line is walked as bash would read it, and each simple command in it is asked for its program,
which must stand there as it is: a plain name of the list, no path to another file of that name, no
variable, pattern or substitution. Set variables may not be ones that change what a program does. Of
the shell's own commands those are free that run and open nothing.

What a listed program does itself is not the shell's: git runs aliases and hooks of a repository,
npm the scripts of a package, an interpreter whatever it is given. The plainest of these ways are
refused here, which keeps honest agents to what was meant; the container bounds the others. The
shell must be bash: zsh reads some of this otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from parachuted.access.shell_word import ShellRefusedError, Word
from parachuted.access.shell_words import Shell

_GIT_FIRST = frozenset(
    {
        "--no-pager",
        "-P",
        "--version",
        "--help",
        "--no-optional-locks",
        "--literal-pathspecs",
        "--bare",
    }
)
_GIT_NEVER = frozenset(
    {
        *("filter-branch", "difftool", "mergetool", "instaweb", "daemon", "shell", "send-email"),
        *("p4", "svn", "gui", "citool", "hook", "maintenance", "for-each-repo", "credential"),
        *("upload-pack", "receive-pack", "fast-import", "remote-ext", "remote-fd"),
        *("web--browse", "http-backend"),
    }
)
_GIT_OPTIONS = (
    *("--exec", "--upload-pack", "--receive-pack", "--open-files-in-pager", "--extcmd"),
    *("--ext-diff", "--textconv", "--config", "--template"),
)
_GIT_SHORT: Mapping[str, tuple[str, ...]] = {
    "rebase": ("-x",),
    "grep": ("-O",),
    "clone": ("-c", "-u"),
}
_GIT_RUNS: Mapping[str, str] = {"bisect": "run", "submodule": "foreach"}
_GIT_SETTINGS = frozenset(
    {"user.name", "user.email", "init.defaultbranch", "core.autocrlf", "pull.rebase"}
)
_GIT_ASKS = frozenset({"--get", "--get-all", "--list", "-l", "list", "get"})
_PACKAGERS = frozenset({"npm", "pnpm", "yarn", "bun"})
_PACKAGERS_NEVER = frozenset(
    {
        *("exec", "x", "dlx", "explore", "init", "create", "innit", "edit", "config", "c", "set"),
        *("get", "bugs", "docs", "repo"),
    }
)
_PACKAGERS_OPTIONS = (
    *("--script-shell", "--node-options", "--call", "--userconfig", "--globalconfig", "--git"),
    *("--shell", "--editor", "-c"),
)
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "find": ("-exec", "-execdir", "-ok", "-okdir"),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "tar": (
        "--to-command",
        "--checkpoint-action",
        "--use-compress-program",
        "--info-script",
        "--new-volume-script",
        "--rsh-command",
        "-I",
        "-F",
    ),
    "sort": ("--compress-program",),
    "rg": ("--pre", "--hostname-bin"),
    "rsync": ("--rsh", "--rsync-path", "-e"),
    "zip": ("--unzip-command", "-T"),
    "split": ("--filter",),
}


def check_program(name: str, words: Sequence[Word]) -> None:
    """Refuse a listed program whose arguments plainly run another.

    Raises ShellRefusedError.
    """
    if name == "git":
        _check_git(words)
    elif name in _PACKAGERS:
        _check_packager(name, words)
    elif name in _OPTIONS:
        _check_all(name, words, _OPTIONS[name])


def _check_git(words: Sequence[Word]) -> None:
    """Up to the subcommand, everything must be literal."""
    at = 0
    while at < len(words) and (text := _sure("git", words[at])).startswith("-"):
        if text != "-C" and text not in _GIT_FIRST:
            raise ShellRefusedError(f"git {_cut(text)} may change what git runs")
        at += 2 if text == "-C" else 1
    if at < len(words):
        _check_git_subcommand(_sure("git", words[at]), words[at + 1 :])


def _check_git_subcommand(subcommand: str, rest: Sequence[Word]) -> None:
    if subcommand in _GIT_NEVER:
        raise ShellRefusedError(f"git {subcommand} runs other programs")
    texts = [word.text for word in rest]
    if subcommand in _GIT_RUNS and (_GIT_RUNS[subcommand] in texts or (texts and texts[0] is None)):
        raise ShellRefusedError(f"git {subcommand} {_GIT_RUNS[subcommand]} runs other programs")
    if subcommand == "config" and not (texts and texts[0] in _GIT_ASKS):
        named = [text for text in texts if text is None or not text.startswith("-")]
        if len(named) > 1 and (named[0] or "").lower() not in _GIT_SETTINGS:
            raise ShellRefusedError(f"git config {_cut(named[0] or '')} may change what git runs")
    if any("ext::" in word.begins for word in rest):
        raise ShellRefusedError("an address that begins with ext:: runs a program")
    _check_options(f"git {subcommand}", rest, (*_GIT_OPTIONS, *_GIT_SHORT.get(subcommand, ())))


def _check_packager(name: str, words: Sequence[Word]) -> None:
    for word in words:
        text = _sure(name, word)
        if text in _PACKAGERS_NEVER:
            raise ShellRefusedError(
                f"{name} {text} may run programs that are not of the list, or change which are run"
            )
        if not text.startswith("-"):
            break
    _check_options(name, words, _PACKAGERS_OPTIONS)


def _check_all(name: str, words: Sequence[Word], never: Sequence[str]) -> None:
    """For programs where any argument may be such an option: none may start with what only the
    shell knows.
    """
    if any(word.text is None and not word.begins for word in words):
        raise ShellRefusedError(
            f"what {name} is given must not begin with a variable; write ./ before it"
        )
    if (
        name == "tar"
        and words
        and not words[0].begins.startswith("-")
        and not {"I", "F"}.isdisjoint(words[0].begins)
    ):
        raise ShellRefusedError("tar I and F run other programs")
    _check_options(name, words, never)


def _check_options(name: str, words: Sequence[Word], never: Sequence[str]) -> None:
    for word in words:
        if word.text == "--":
            return
        found = next((option for option in never if _may_be(option, word)), None)
        if found is not None:
            raise ShellRefusedError(
                f"{name} {found} runs other programs, or may change which are run"
            )


def _may_be(option: str, word: Word) -> bool:
    """Whether a word may be that option: long options may be abbreviated and take a value after =,
    short ones may be combined, as in -ix.
    """
    given, is_sure = word.begins, word.text is not None
    if not given.startswith("-"):
        return False
    if option.startswith("--"):
        named, equals, _ = given.partition("=")
        if is_sure or equals:
            return named.startswith("--") and len(named) > len("--") and option.startswith(named)
        return option.startswith(given) or given.startswith(option)
    if len(option) > len("-x"):
        return given == option or (not is_sure and option.startswith(given))
    return not given.startswith("--") and (option[1] in given[1:] or (not is_sure and given == "-"))


def _sure(name: str, word: Word) -> str:
    if word.text is None:
        raise ShellRefusedError(f"up to the subcommand of {name}, everything must be written out")
    return word.text


_SHOWN = 80
_OWN_VARIABLE = re.compile(r"(?!npm_config|.*proxy)[a-z][a-z0-9_]{0,40}")
_HARMLESS_VARIABLES = frozenset({"LC_ALL", "LC_CTYPE", "LANG", "TZ", "NO_COLOR", "CI"})
_NEVER = frozenset(
    {
        *("eval", "source", ".", "exec", "command", "builtin", "alias", "unalias", "trap", "hash"),
        *("enable", "export", "declare", "typeset", "local", "readonly", "set", "shopt", "read"),
        *("mapfile", "readarray", "let", "getopts", "complete", "compgen", "compopt", "bind", "fc"),
        *("jobs", "unset", "coproc", "time", "caller", "dirs", "pushd", "popd", "disown", "fg"),
        *("bg", "logout", "suspend"),
    }
)
_RUN_OTHERS = frozenset(
    {
        *("env", "xargs", "sudo", "doas", "su", "nice", "ionice", "nohup", "timeout", "stdbuf"),
        *("setsid", "chroot", "unshare", "nsenter", "flock", "watch", "parallel", "script"),
        *("strace", "ltrace", "busybox", "toybox", "runuser", "setpriv", "chrt", "taskset", "npx"),
        *("bunx", "uvx", "pipx", "entr", "ssh", "at", "batch", "crontab"),
        *("systemd-run", "start-stop-daemon"),
    }
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "csh", "tcsh", "rbash"})
_UNARY = re.compile(r"-[abcdefghkLnprsStuwxzGNO]")
_BINARY = frozenset(
    {"=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"}
)


def check_command(command: str, allowed: bool | tuple[str, ...]) -> str | None:  # noqa: FBT001  no shell, any command, or these programs
    """The objection to a command, in words for the agent; None: it may run."""
    if allowed is True:
        return None
    if not allowed:
        return "you have no shell, so this was not run"
    rules = _Rules(frozenset(allowed))
    try:
        Shell(command, command=rules.command, variable=rules.variable, target=rules.target).walk()
    except ShellRefusedError as refused:
        return (
            f"this was not run: {refused}. You may run {', '.join(allowed)}, and whatever is "
            "not plainly that is refused"
        )
    return None


class _Rules:
    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed

    def command(self, words: Sequence[Word]) -> None:
        name, rest = words[0].text, words[1:]
        if name is None:
            raise ShellRefusedError(
                "the name of a program must be written out, and not come from what begins "
                f"with {_cut(words[0].begins)!r}"
            )
        if "/" in name:
            raise ShellRefusedError(f"programs are named without a path, and not {_cut(name)!r}")
        if name in _OWN:
            _OWN[name](rest)
            return
        self._check_listed(name)
        check_program(name, rest)

    def _check_listed(self, name: str) -> None:
        if name in _NEVER:
            raise ShellRefusedError(f"{name} changes what the shell does, or runs what it is given")
        if name in _RUN_OTHERS:
            raise ShellRefusedError(f"{name} runs other programs; name the program itself")
        if name not in self._allowed:
            raise ShellRefusedError(f"{_cut(name)!r} is not among your programs")
        if name in _SHELLS:
            raise ShellRefusedError(
                f"{name} runs whatever it is given; write the commands themselves"
            )

    def variable(self, name: str, is_for_command: bool) -> None:  # noqa: FBT001  the seam's shape
        """A variable that is set: for one command, whose environment it changes, or in
        the shell.
        """
        if name in _HARMLESS_VARIABLES or (not is_for_command and _OWN_VARIABLE.fullmatch(name)):
            return
        raise ShellRefusedError(
            f"the variable {_cut(name)} may change what programs do"
            + ("" if is_for_command else "; use small letters")
        )

    def target(self, word: Word) -> None:
        if word.begins.startswith("/dev/") and word.text not in {
            "/dev/null",
            "/dev/stdout",
            "/dev/stderr",
            "/dev/stdin",
            "/dev/tty",
        }:
            raise ShellRefusedError(f"{_cut(word.begins)} is not a file to read or write")
        if word.text is None and not word.begins:
            raise ShellRefusedError(
                "the file that is opened must be named, or at least its beginning"
            )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _free(_words: Sequence[Word]) -> None:
    """Runs nothing, whatever its arguments are."""


def _plain(words: Sequence[Word]) -> None:
    if any(word.text is None or not re.fullmatch(r"\d{0,3}", word.text) for word in words):
        raise ShellRefusedError("exit, break and continue take a number")


def _printf(words: Sequence[Word]) -> None:
    if not words or not words[0].begins or words[0].begins.startswith("-"):
        raise ShellRefusedError("printf takes a format that does not begin with - or a variable")


def _test(words: Sequence[Word]) -> None:
    """`test` evaluates some arguments, so only these forms: one thing, `-f thing`, `thing = thing`,
    and ! before them.
    """
    texts = [word.text for word in words]
    while texts and texts[0] == "!":
        words, texts = words[1:], texts[1:]
    sure = all(word.is_one for word in words)
    one = len(words) == 1
    unary = len(words) == 2 and _UNARY.fullmatch(texts[0] or "") is not None  # noqa: PLR2004  an operator and a thing
    binary = len(words) == 3 and texts[1] in _BINARY  # noqa: PLR2004  a thing, an operator and a thing
    if not (sure and (one or unary or binary)):
        raise ShellRefusedError(
            'of test, [ "$a" ], [ -f "$a" ] and [ "$a" = "$b" ] are followed here, with quotes '
            "around variables"
        )


def _bracket(words: Sequence[Word]) -> None:
    if not words or words[-1].text != "]":
        raise ShellRefusedError("[ takes a ] at its end")
    _test(words[:-1])


_OWN: Mapping[str, Callable[[Sequence[Word]], None]] = {
    **dict.fromkeys(("cd", "pwd", "echo", "true", "false", ":"), _free),
    **dict.fromkeys(("exit", "break", "continue"), _plain),
    "printf": _printf,
    "test": _test,
    "[": _bracket,
}
"""The shell's own commands that run and open nothing."""
