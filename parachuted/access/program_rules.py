"""Program rules: the most common ways in which a listed program would run one that is not listed.

Pure.

No list of such ways is whole: git runs what a repository's settings, hooks and aliases name, npm
the scripts of a package, and an interpreter is a shell of its own. So this keeps honest agents to
what was meant, and the container bounds the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parachuted.access.shell_words import ShellRefusedError, Word

_SHOWN = 80
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
        "filter-branch",
        "difftool",
        "mergetool",
        "instaweb",
        "daemon",
        "shell",
        "send-email",
        "p4",
        "svn",
        "gui",
        "citool",
        "hook",
        "maintenance",
        "for-each-repo",
        "credential",
        "upload-pack",
        "receive-pack",
        "fast-import",
        "remote-ext",
        "remote-fd",
        "web--browse",
        "http-backend",
    }
)
_GIT_OPTIONS = (
    "--exec",
    "--upload-pack",
    "--receive-pack",
    "--open-files-in-pager",
    "--extcmd",
    "--ext-diff",
    "--textconv",
    "--config",
    "--template",
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
        "exec",
        "x",
        "dlx",
        "explore",
        "init",
        "create",
        "innit",
        "edit",
        "config",
        "c",
        "set",
        "get",
        "bugs",
        "docs",
        "repo",
    }
)
_PACKAGERS_OPTIONS = (
    "--script-shell",
    "--node-options",
    "--call",
    "--userconfig",
    "--globalconfig",
    "--git",
    "--shell",
    "--editor",
    "-c",
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
        raise ShellRefusedError(
            f"up to the subcommand of {name}, everything must stand there as it is"
        )
    return word.text


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
