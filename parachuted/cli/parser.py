"""Parser: the commands, their words and what they say of themselves.

Each command's code is imported when it is chosen, so that `parachute status` costs little more than
Python itself.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence

from parachuted import __version__
from parachuted.visible import one_line

TYPE_CHECKING = False  # as in client.py
if TYPE_CHECKING:
    from typing import NoReturn

AUDIT_TYPES = (
    "api_call",
    "mcp_call",
    "module_call",
    "agent_start",
    "agent_end",
    "suggestion",
    "write",
    "audit",
)
LOGINS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
CommandFunction = Callable[[argparse.Namespace], int]

_ABOUT = """\
parachuted makes a folder of markdown come alive: notes say what they watch, and when
something they watch changes, an agent brings them up to date. Every line it writes can
be explained (`parachute why`) and taken back (`parachute undo`).

Try `parachute demo` first: ten seconds, no account, in a folder of its own.
"""
_END = """\
Settings: `parachute config` lists them with what they mean. The folder for settings and state is ~/.parachute,
or $PARACHUTE_HOME. Exit codes: 0 done, 1 failed, 2 wrong use, 3 no daemon is running where one is needed.
"""  # noqa: E501


COMPLETION = """\
Print what makes your shell complete parachute's commands with the Tab key. Once:
  bash   parachute completion bash > ~/.local/share/bash-completion/completions/parachute
  zsh    parachute completion zsh > ~/.zfunc/_parachute, with `fpath+=~/.zfunc` before compinit in ~/.zshrc
  fish   parachute completion fish > ~/.config/fish/completions/parachute.fish
Make that folder first where there is none (`mkdir -p`), and open a new terminal afterwards.
"""  # noqa: E501


class _Parser(argparse.ArgumentParser):
    """Help that keeps the text's own lines, and error messages that name the nearest command and
    show each control character.

    A shell may take the words that are refused from a stranger's file name.
    """

    def __init__(self, **options: object) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Refuses a value that is not among the choices, as argparse does, but names the nearest
        before the whole list.
        """
        if action.choices is None or value in action.choices:
            return
        import difflib

        near = difflib.get_close_matches(str(value), map(str, action.choices), n=1)
        hint = (
            f"did you mean {near[0]}?"
            if near
            else f"choose from {', '.join(map(str, action.choices))}"
        )
        what = (
            "there is no command"
            if isinstance(action, argparse._SubParsersAction)  # noqa: SLF001
            else "there is no choice"
        )
        raise argparse.ArgumentError(action, f"{what} {str(value)!r}; {hint}")


def parse(arguments: Sequence[str]) -> tuple[CommandFunction, argparse.Namespace]:
    """The command that the words name, and its options. Exits with 2 when they make no sense."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if not hasattr(options, "run"):
        getattr(options, "group", parser).print_help(sys.stderr)
        sys.exit(2)
    return _load(options.run), options


def make_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(prog="parachute", description=_ABOUT, epilog=_END)
    parser.add_argument("--version", action="version", version=f"parachuted {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_daemon(commands)
    _add_settings(commands)
    _add_keys(commands)
    _add_hooks(commands)
    _add_loop(commands)
    _add_notes(commands)
    _add_explaining(commands)
    _add_contexts(commands)
    _add_audit(commands)
    _add_modules(commands)
    _add_suggestions(commands)
    _add_sandbox(commands)
    return parser


def _add_daemon(commands: argparse._SubParsersAction[_Parser]) -> None:
    start = _add(
        commands,
        "start",
        "daemon:start",
        "start the daemon",
        "Start watching the vault, in the background unless --foreground.",
    )
    for parser in (
        start,
        _add(
            commands,
            "restart",
            "daemon:restart",
            "stop, then start again",
            "Stop the daemon if it runs, and start it again.",
        ),
    ):
        parser.add_argument(
            "--vault", metavar="PATH", help="the folder of notes (default: the setting `vault`)"
        )
        parser.add_argument(
            "--port",
            type=int,
            metavar="N",
            help="the port on 127.0.0.1; 0 takes a free one (default: the setting `port`)",
        )
    start.add_argument(
        "--foreground", action="store_true", help="stay here, and show what happens; Ctrl-C ends it"
    )
    start.add_argument(
        "--make-default", action="store_true", help=argparse.SUPPRESS
    )  # for `make run`
    start.add_argument(
        "--quiet", action="store_true", help="with --foreground: show nothing; the log has it"
    )
    start.add_argument(
        "--detached", action="store_true", help=argparse.SUPPRESS
    )  # how `start` starts itself in the background
    _add(
        commands,
        "stop",
        "daemon:stop",
        "stop the daemon",
        "Stop the daemon. Agents at work are ended; their tasks are done again at the next start.",
    )
    status = _add(
        commands,
        "status",
        "ask:status",
        "how the daemon is",
        "Show what the daemon watches, what waits, what it may spend, and what is wrong.",
    )
    _json(status)
    logs = _add(
        commands, "logs", "daemon:logs", "the daemon's log", "Show the end of the daemon's log."
    )
    logs.add_argument("-f", "--follow", action="store_true", help="go on showing what comes")
    logs.add_argument(
        "-n", "--lines", type=int, default=50, metavar="N", help="how many lines (default: 50)"
    )
    _json(logs)
    service = _add(
        commands,
        "service",
        None,
        "run at login",
        "Let systemd (Linux) or launchd (macOS) start the daemon at login and keep it running.",
    )
    parts = service.add_subparsers(metavar="COMMAND")
    _add(
        parts,
        "install",
        "setup:service_install",
        "install and start the service",
        "Install the service for you alone, and start it.",
    )
    _add(
        parts,
        "uninstall",
        "setup:service_uninstall",
        "stop and remove the service",
        "Stop the service and remove exactly what was installed.",
    )
    _json(
        _add(
            parts,
            "status",
            "setup:service_status",
            "how the service is",
            "Say whether the service is installed, enabled and running.",
        )
    )
    backup = _add(
        commands,
        "backup",
        "backup:backup",
        "the vault and the home in one file",
        "Write the vault, the settings, the keys and the history into one archive, while the "
        "daemon works; `restore` brings it back.",
    )
    backup.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="where (default: parachute-DATE-TIME.tar.gz in this folder)",
    )
    _json(backup)
    completion = _add(
        commands, "completion", "completion:completion", "words completed by your shell", COMPLETION
    )
    completion.add_argument(
        "shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish"
    )
    demo = _add(
        commands,
        "demo",
        "demo:demo",
        "see it work, in ten seconds",
        "Run the whole loop in a temporary vault: change, run, diff, why, undo.",
    )
    demo.add_argument(
        "--keep", action="store_true", help="keep the demo's vault, and say where it is"
    )


def _add_settings(commands: argparse._SubParsersAction[_Parser]) -> None:
    init = _add(
        commands,
        "init",
        "setup:init",
        "make a vault",
        "Make a new vault from the template, and remember it as yours.",
    )
    init.add_argument(
        "path", nargs="?", metavar="PATH", help="where (default: the setting `vault`, ~/Parachute)"
    )
    init.add_argument(
        "--from",
        dest="older",
        metavar="FOLDER",
        help="an older server's vault, or the .parachute in it: take over its settings and keys, "
        "after showing which",
    )
    init.add_argument("--yes", action="store_true", help="with --from: do it without being asked")
    vault = _add(
        commands,
        "vault",
        "setup:vault",
        "which vault",
        "Show which folder of notes is used, or choose another.",
    )
    _json(vault)
    chosen = vault.add_subparsers(metavar="COMMAND")
    setter = _add(
        chosen,
        "set",
        "setup:vault_set",
        "use another vault",
        "Use another vault from the next start on.",
    )
    setter.add_argument(
        "path", metavar="PATH", help="a folder that is there; `parachute init PATH` makes a new one"
    )
    for name, does in (
        ("separate", "make a copied vault one of its own, without a history"),
        ("adopt", "give a vault its history back"),
    ):
        answer = _add(
            chosen,
            name,
            f"setup:vault_{name}",
            does,
            f"Where `parachute start` cannot tell which vault it is: {does}.",
        )
        answer.add_argument("path", metavar="PATH", help="the vault that is unclear")
    config = _add(
        commands,
        "config",
        "setup:config",
        "the settings",
        "Show every setting, its value and what it means, or change one.",
    )
    _json(config)
    changed = config.add_subparsers(metavar="COMMAND")
    change = _add(
        changed,
        "set",
        "setup:config_set",
        "change a setting",
        "Change one setting in config.yaml; the daemon takes it up at its next start.",
    )
    change.add_argument(
        "key", metavar="KEY", help="as `parachute config` lists it, such as agent.backend"
    )
    change.add_argument(
        "value", metavar="VALUE", help="what it shall be; '' brings the default back"
    )
    for name, short, long in (
        ("get", "the value of a setting", "Print the value of one setting, and nothing else."),
        ("unset", "take a setting back", "Bring the default of one setting back."),
    ):
        _add(changed, name, f"setup:config_{name}", short, long).add_argument(
            "key", metavar="KEY", help="as `parachute config` lists it"
        )
    auth = _add(
        commands, "auth", None, "the login for the model", "Which login for Claude was found."
    )
    parts = auth.add_subparsers(metavar="COMMAND")
    _json(
        _add(
            parts,
            "status",
            "setup:auth_status",
            "what was found",
            "Say where a login was looked for and found. Never shows it.",
        )
    )
    says = (
        "Keep a login in the home for a daemon that has no terminal's environment, as a "
        "service. It is typed, or piped in, and not shown."
    )
    keep = _add(parts, "set", "setup:auth_set", "keep a login for a service", says)
    keep.add_argument("name", choices=LOGINS, metavar="NAME", help=", ".join(LOGINS))


def _add_keys(commands: argparse._SubParsersAction[_Parser]) -> None:
    keys = _add(
        commands,
        "keys",
        None,
        "who may use the API",
        "The keys that open the API to other devices and programs.",
    )
    parts = keys.add_subparsers(metavar="COMMAND")
    _json(
        _add(
            parts,
            "list",
            "keys:keys_list",
            "the keys there are",
            "List the keys: what each may do, when it was last used and when it ends.",
        )
    )
    create = _add(
        parts,
        "create",
        "keys:keys_create",
        "make a key",
        "Make a key and show it, this once. Unless --scope says otherwise it may read and write "
        "everything, and administer nothing.",
    )
    create.add_argument("name", metavar="NAME", help="what it is for, such as 'my phone'")
    create.add_argument(
        "--scope",
        action="append",
        metavar="MODULE:MAY",
        help="such as daily:read,write or '*:read' (may be given more than once)",
    )
    create.add_argument(
        "--path",
        action="append",
        metavar="PATTERN",
        help="only files such as 'Projects/**' (may be given more than once)",
    )
    create.add_argument(
        "--expires",
        metavar="WHEN",
        help="a span such as 90d (h, d, w, y) or a time; without it, never",
    )
    _json(create)
    revoke = _add(
        parts,
        "revoke",
        "keys:keys_revoke",
        "end a key",
        "End a key, and what it has opened, at once.",
    )
    revoke.add_argument("key", metavar="KEY", help="its id, or its name when no other key has it")


def _add_hooks(commands: argparse._SubParsersAction[_Parser]) -> None:
    about = "Programs of your own that are told what happens, and may object to what is about to."
    hooks = _add(commands, "hooks", None, "programs of your own that are told what happens", about)
    parts = hooks.add_subparsers(metavar="COMMAND")
    _json(
        _add(
            parts,
            "list",
            "hooks:hooks_list",
            "the hooks there are",
            "List the hooks, and say which of them do not run and why.",
        )
    )
    test = _add(
        parts,
        "test",
        "hooks:hooks_test",
        "try hooks on a sample",
        "Run the hooks of an event on a sample, and show what goes in, what comes out, what it "
        "would decide and how long it took.",
    )
    test.add_argument(
        "event",
        metavar="EVENT",
        help="as `parachute hooks docs` lists it, such as file.modified, or PreToolUse",
    )
    test.add_argument(
        "--data",
        metavar="FILE",
        help="JSON for the sample: some of the event's data, or all that a hook reads; - is stdin",
    )
    test.add_argument(
        "--hook", metavar="HOOK", help="run this one alone, whatever its matcher says"
    )
    _json(test)
    history = _add(
        parts,
        "history",
        "hooks:hooks_history",
        "what hooks did",
        "List the latest runs of hooks, or show one whole.",
    )
    history.add_argument(
        "run_name",
        nargs="?",
        metavar="RUN",
        help="show this run, with what went in and what came out",
    )
    history.add_argument(
        "-n",
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="how many (default: 20; 200 are kept)",
    )
    _json(history)
    replay = _add(
        parts,
        "replay",
        "hooks:hooks_replay",
        "run a hook again",
        "Run a hook again on what it was given then.",
    )
    replay.add_argument("run_name", metavar="RUN", help="as `parachute hooks history` lists it")
    _json(replay)
    docs = _add(
        parts,
        "docs",
        "hooks:hooks_docs",
        "the events, and what hooks read",
        "List the events, or show what a hook of one reads.",
    )
    docs.add_argument(
        "event",
        nargs="?",
        metavar="EVENT",
        help="such as write.before, or Claude Code's name for it",
    )
    _json(docs)
    approve = _add(
        parts,
        "approve",
        "hooks:hooks_approve",
        "let changed scripts run",
        "Let hooks whose scripts have changed since they were approved run as they are now.",
    )
    approve.add_argument(
        "names", nargs="*", metavar="HOOK", help="as `parachute hooks list` names it (default: all)"
    )
    _json(approve)


def _add_loop(commands: argparse._SubParsersAction[_Parser]) -> None:
    _json(
        _add(
            commands,
            "watches",
            "ask:watches",
            "who watches what",
            "List the notes that watch others, and what they have not seen yet.",
        )
    )
    _json(
        _add(
            commands,
            "tasks",
            "ask:tasks",
            "what waits for an agent",
            "List the tasks that wait or are being worked on, and why they wait.",
        )
    )
    runs = _add(
        commands,
        "runs",
        "ask:runs",
        "what agents did",
        "List the latest runs, or show one with what it read, wrote and cost.",
    )
    runs.add_argument("run_name", nargs="?", metavar="RUN", help="show this run whole")
    runs.add_argument(
        "-n", "--limit", type=int, default=20, metavar="N", help="how many (default: 20)"
    )
    _json(runs)
    bubble = _add(
        commands,
        "bubble",
        None,
        "what a change sets off",
        "See what a change of a file would set off, or set it off.",
    )
    parts = bubble.add_subparsers(metavar="COMMAND")
    for name, says in (
        ("plan", "print who would wake, in order, and the most it can cost"),
        ("run", "let those who watch FILE look at it now, and FILE itself at what it watches"),
    ):
        part = _add(parts, name, f"ask:bubble_{name}", says, f"{says[0].upper()}{says[1:]}.")
        part.add_argument(
            "file", metavar="FILE", help="a note, by its path in the vault or on the disk"
        )
        _json(part)
    _add(
        commands,
        "pause",
        "ask:pause",
        "begin no more runs",
        "Begin no more runs until `resume`. Changes are still noticed, and wait.",
    )
    _add(commands, "resume", "ask:resume", "begin runs again", "Begin runs again.")
    _add_agent_runs(commands)
    _add_permissions(commands)
    _add_agents(commands)


def _add_agent_runs(commands: argparse._SubParsersAction[_Parser]) -> None:
    stop = _add(
        commands,
        "stop-agents",
        "agent_runs:stop_agents",
        "end all agents at once",
        "End every agent that is at work, and start none until `resume`. What a curator was doing "
        "is taken back, and done again then.",
    )
    stop.add_argument("--go-on", action="store_true", help="end them, and let new runs begin")
    _json(stop)
    maintenance = _add(
        commands,
        "maintenance",
        "agent_runs:maintenance",
        "ask the agent that mends things",
        "Ask an agent to find out what is wrong with the installation, and to mend notes in "
        "Chat/, Daily/ and Brain/. It has no network.",
    )
    maintenance.add_argument(
        "prompt",
        nargs="+",
        metavar="PROMPT",
        help="what to look after, such as 'why is search slow?'; - is stdin",
    )
    maintenance.add_argument("--session", metavar="ID", help="go on with an earlier conversation")
    _json(maintenance)


def _add_permissions(commands: argparse._SubParsersAction[_Parser]) -> None:
    about = (
        "What agents ask for while they work, beyond what they were given. What nobody "
        "answers is denied."
    )
    parts = _add(commands, "permissions", None, "what agents ask you for", about).add_subparsers(
        metavar="COMMAND"
    )
    listed = _add(
        parts,
        "list",
        "permissions:permissions_list",
        "those that wait",
        "List what agents ask for, and what is always denied.",
    )
    allow = _add(
        parts,
        "allow",
        "permissions:permissions_allow",
        "say yes",
        "Allow what an agent asks for, this once.",
    )
    allow.add_argument(
        "--session", action="store_true", help="for as long as the agent's session lasts"
    )
    deny = _add(
        parts,
        "deny",
        "permissions:permissions_deny",
        "say no",
        "Deny what an agent asks for; it is not asked again.",
    )
    forget = _add(
        parts,
        "forget",
        "permissions:permissions_forget",
        "let it ask again",
        "Let an agent ask again what you denied it.",
    )
    forget.add_argument("agent", metavar="AGENT", help="as `parachute permissions list` names it")
    for parser in (allow, deny):
        parser.add_argument("id", metavar="ID", help="as `parachute permissions list` names it")
    for parser in (listed, allow, deny, forget):
        _json(parser)


def _add_agents(commands: argparse._SubParsersAction[_Parser]) -> None:
    about = (
        "The agents that there are, what each may do, and which of them a stranger's text "
        "could misuse."
    )
    parts = _add(
        commands, "agents", None, "which there are, and what they may", about
    ).add_subparsers(metavar="COMMAND")
    _json(
        _add(
            parts,
            "list",
            "agents:agents_list",
            "all agents",
            "List the agents, and whether each can run here.",
        )
    )
    says = "Say of each agent whether it has private data, strangers' text and a way out at once."
    _json(_add(parts, "audit", "agents:agents_audit", "which are exposed", says))
    trust = _add(
        parts,
        "trust",
        "agents:agents_trust",
        "trust a note",
        "Trust a note's text as it is now, until it is another.",
    )
    trust.add_argument("file", metavar="FILE", help="a note, by its path in the vault")
    _json(trust)
    run = _add(
        parts,
        "run",
        "agent_runs:agents_run",
        "ask one",
        "Let an agent answer, and show what it did; `undo` takes it back.",
    )
    run.add_argument("agent", metavar="AGENT", help="as `parachute agents list` names it")
    run.add_argument("prompt", nargs="+", metavar="PROMPT", help="what it is asked; - is stdin")
    run.add_argument("--folder", metavar="FOLDER", help="the folder of the vault that it works in")
    run.add_argument("--session", metavar="ID", help="go on with an earlier conversation")
    _json(run)


def _add_explaining(commands: argparse._SubParsersAction[_Parser]) -> None:
    why = _add(
        commands,
        "why",
        "ask:why",
        "who wrote a line, and why",
        "Say who wrote each line of a file and what led to it.",
    )
    why.add_argument(
        "file", metavar="FILE[:LINE]", help="a note, by its path in the vault or on the disk"
    )
    _json(why)
    undo = _add(
        commands,
        "undo",
        "ask:undo",
        "take a run back",
        "Take back a run and every run that followed from it. What people wrote since is kept.",
    )
    undo.add_argument("run_name", metavar="RUN", help="as `parachute runs` lists it")
    _json(undo)
    _add_past(commands)
    usage = _add(
        commands,
        "usage",
        "usage:usage",
        "what the model cost",
        "Show what the model cost: by day, agent, model, change and run, and what may still be "
        "spent.",
    )
    usage.add_argument(
        "--days",
        type=int,
        default=7,
        metavar="N",
        help="over how many days, today among them (default: 7, at most 90)",
    )
    _json(usage)
    doctor = _add(
        commands,
        "doctor",
        "ask:doctor",
        "what is wrong, and what to do",
        "Check the daemon, the vault and every note.",
    )
    doctor.add_argument(
        "--accept-missing",
        action="store_true",
        help="files that are gone were meant to go: take them as deleted",
    )
    _json(doctor)


def _add_past(commands: argparse._SubParsersAction[_Parser]) -> None:
    says = (
        "List the versions of a file: when, who, in which run, and how many lines came and "
        "went. Moves are followed."
    )
    history = _add(commands, "history", "past:history", "the versions of a file", says)
    history.add_argument(
        "file",
        metavar="FILE",
        help="a note, by its path in the vault or on the disk, or one that is gone",
    )
    history.add_argument(
        "-n",
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="how many (default: 20, at most 1000)",
    )
    _json(history)
    diff = _add(
        commands,
        "diff",
        "past:diff",
        "what a run changed",
        "Show what a run, and all that followed from it, changed in every file.",
    )
    diff.add_argument("run_name", metavar="RUN", help="as `parachute runs` lists it")
    diff.add_argument(
        "--only", action="store_true", help="this run alone, without what followed from it"
    )
    _json(diff)
    says = (
        "Bring a file back as it was before a run, or in a version. It can be undone, as any run; "
        "a file that was deleted comes back.\n"
        "With the archive that `parachute backup` wrote: bring back the whole vault and home, "
        "while no daemon runs."
    )
    restore = _add(
        commands, "restore", "past:restore", "bring a file, or a backup, back as it was", says
    )
    restore.add_argument(
        "file",
        metavar="FILE@RUN",
        help="or FILE@VERSION, as `parachute history FILE` lists it; or a backup's .tar.gz",
    )
    restore.add_argument(
        "--after", action="store_true", help="as it was after the run, not before it"
    )
    restore.add_argument(
        "--vault", metavar="PATH", help="of a backup: where the vault goes (default: where it was)"
    )
    restore.add_argument(
        "--replace",
        action="store_true",
        help="of a backup: move a vault and a home that are there aside first",
    )
    _json(restore)


def _add_audit(commands: argparse._SubParsersAction[_Parser]) -> None:
    audit = _add(
        commands,
        "audit",
        "audit:audit",
        "what was done, by whom",
        "Show every call of the API, call of a tool, run of an agent and write, the latest last.",
    )
    audit.add_argument("-f", "--follow", action="store_true", help="go on showing what comes")
    audit.add_argument(
        "-n", "--limit", type=int, default=50, metavar="N", help="how many (default: 50)"
    )
    _audit_filters(audit, since=None)
    parts = audit.add_subparsers(metavar="COMMAND")
    verify = (
        "Find every line that was changed, removed, added or moved. Exits with 1 when there is one."
    )
    _json(
        _add(
            parts, "verify", "audit:audit_verify", "whether the audit is as it was written", verify
        )
    )
    graph = _add(
        parts,
        "graph",
        "audit:audit_graph",
        "who called whom",
        "Draw who called whom in the last day, how often and how slowly.",
    )
    _audit_filters(graph, since="24h")


def _audit_filters(parser: _Parser, *, since: str | None) -> None:
    parser.add_argument(
        "--since",
        default=since,
        metavar="WHEN",
        help="such as 24h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z",
    )
    parser.add_argument("--until", metavar="WHEN", help="the same")
    parser.add_argument("--type", choices=AUDIT_TYPES, metavar="TYPE", help=", ".join(AUDIT_TYPES))
    parser.add_argument(
        "--source",
        metavar="WHO",
        help="a kind of source, such as agent or api_key, or the name of one",
    )
    parser.add_argument("--module", metavar="MODULE", help="which was called, such as vault")
    parser.add_argument(
        "--path", metavar="PATH", help="a file of the vault, or a folder and all below it"
    )
    parser.add_argument("--failed", action="store_true", help="only what failed")
    _json(parser)


def _add_modules(commands: argparse._SubParsersAction[_Parser]) -> None:
    modules = _add(
        commands,
        "modules",
        None,
        "what extends the daemon",
        "Modules: folders of code that add routes, tools and agents.",
    )
    parts = modules.add_subparsers(metavar="COMMAND")
    _json(
        _add(
            parts,
            "list",
            "modules:modules_list",
            "the modules there are",
            "List the modules, and whether they run.",
        )
    )
    status = _add(
        parts,
        "status",
        "modules:modules_status",
        "how they run",
        "Show what modules serve, where they run, and what is wrong.",
    )
    status.add_argument("name", nargs="?", metavar="NAME", help="only that module")
    _json(status)
    install = _add(
        parts,
        "install",
        "modules:modules_install",
        "install a module",
        "Put a module into the vault, show what it would be allowed, and ask whether it may run.",
    )
    install.add_argument(
        "source",
        metavar="SOURCE",
        help="a git address, a folder, or parachute://NAME for one of parachuted's own",
    )
    install.add_argument(
        "--dev", action="store_true", help="run it from that folder, and again at each edit"
    )
    install.add_argument(
        "--path", metavar="SUB", help="the folder inside the source that holds manifest.yaml"
    )
    approve = _add(
        parts,
        "approve",
        "modules:modules_approve",
        "let a changed one run",
        "Show what changed and what it would be allowed, and ask.",
    )
    approve.add_argument("name", metavar="NAME", help="as `parachute modules list` names it")
    for parser in (install, approve):
        parser.add_argument("--yes", action="store_true", help="agree without being asked")
        parser.add_argument(
            "--trust", choices=("trusted", "untrusted"), help="untrusted: in a process of its own"
        )
        _json(parser)
    diff = _add(
        parts,
        "diff",
        "modules:modules_diff",
        "what changed since",
        "Show how a module's folder differs from what was approved.",
    )
    diff.add_argument("name", metavar="NAME", help="as `parachute modules list` names it")
    _json(diff)
    for word, does in (
        ("enable", "let it run"),
        ("disable", "let it run no more"),
        ("restart", "begin it anew, and nothing else"),
    ):
        _add(parts, word, f"modules:modules_{word}", does, f"{does.capitalize()}.").add_argument(
            "name", metavar="NAME", help="as `parachute modules list` names it"
        )
    remove = _add(
        parts,
        "remove",
        "modules:modules_remove",
        "remove a module",
        "Forget a module; its folder goes if nobody changed it.",
    )
    remove.add_argument("name", metavar="NAME", help="as `parachute modules list` names it")
    remove.add_argument("--yes", action="store_true", help="do not ask")
    new = _add(
        parts,
        "new",
        "modules:modules_new",
        "make one",
        "Write a working module with a test, to begin from.",
    )
    new.add_argument("name", metavar="NAME", help="small letters, digits and dashes")
    new.add_argument("--folder", metavar="PATH", help="where (default: the vault's Modules/NAME)")
    test = _add(
        parts, "test", "modules:modules_test", "run its tests", "Run the module's own tests."
    )
    test.add_argument("name", metavar="NAME", help="a module of the vault, or a folder")


def _add_suggestions(commands: argparse._SubParsersAction[_Parser]) -> None:
    about = (
        "Changes that agents and modules would make and may not. They are files in "
        "Suggestions/ too: ticking a box there is the same."
    )
    parts = _add(commands, "suggestions", None, "what agents would change", about).add_subparsers(
        metavar="COMMAND"
    )
    listed = _add(
        parts,
        "list",
        "suggestions:suggestions_list",
        "those that wait",
        "List the suggestions that wait for you.",
    )
    listed.add_argument(
        "--all",
        action="store_true",
        help="earlier ones too, and how often each agent's were accepted",
    )
    show = _add(
        parts,
        "show",
        "suggestions:suggestions_show",
        "one of them",
        "Show what a suggestion would change, and why.",
    )
    approve = _add(
        parts,
        "approve",
        "suggestions:suggestions_approve",
        "do it",
        "Do what it suggests; `parachute undo` takes it back.",
    )
    reject = _add(
        parts,
        "reject",
        "suggestions:suggestions_reject",
        "let it be",
        "Reject a suggestion; nothing changes.",
    )
    reject.add_argument("--reason", metavar="TEXT", help="why not, for the record")
    edit = _add(
        parts,
        "edit",
        "suggestions:suggestions_edit",
        "do it otherwise",
        "Change its text in $EDITOR, and do that.",
    )
    edit.add_argument(
        "--payload",
        metavar="FILE",
        help="take this payload, as JSON, in place of asking your editor; - is stdin",
    )
    everything = _add(
        parts,
        "approve-all",
        "suggestions:suggestions_approve_all",
        "do all",
        "Do all that wait, the oldest first.",
    )
    for parser in (show, edit):
        parser.add_argument("id", metavar="ID", help="as `parachute suggestions list` names it")
    for parser in (approve, reject):
        parser.add_argument(
            "ids", nargs="+", metavar="ID", help="as `parachute suggestions list` names it"
        )
    for parser in (listed, show, approve, reject, edit, everything):
        _json(parser)


def _add_sandbox(commands: argparse._SubParsersAction[_Parser]) -> None:
    about = (
        "Agents with a shell run in containers, which Docker makes. They need no daemon to be "
        "looked at."
    )
    parts = _add(commands, "sandbox", None, "where agents with a shell run", about).add_subparsers(
        metavar="COMMAND"
    )
    build = _add(
        parts,
        "build",
        "sandbox:sandbox_build",
        "make their image",
        "Make the image that agents with a shell run in.",
    )
    build.add_argument(
        "--offline",
        action="store_true",
        help="of this machine's own programs, mounted read only; needs no network",
    )
    doctor = _add(
        parts,
        "doctor",
        "sandbox:sandbox_doctor",
        "try it all",
        "Try each part that sandboxes stand on, and say what to do.",
    )
    _json(doctor)
    says = "Say exactly what an agent could see and do if it ran now, and whether it would."
    explain = _add(parts, "explain", "agents:sandbox_explain", "what an agent could do", says)
    explain.add_argument("agent", metavar="AGENT", help="as `parachute agents list` names it")
    explain.add_argument(
        "--folder", metavar="FOLDER", help="the folder of the vault that it would work in"
    )
    _json(explain)


def _add_notes(commands: argparse._SubParsersAction[_Parser]) -> None:
    search = _add(
        commands,
        "search",
        "notes:search",
        "find notes",
        "Find notes by what they say, the likeliest first.",
    )
    search.add_argument(
        "words",
        nargs="+",
        metavar="WORDS",
        help="words, a 'phrase in \"quotes\"', begin*, tag:x, key:value; -without goes after --",
    )
    search.add_argument(
        "--in",
        dest="folder",
        default="",
        metavar="FOLDER",
        help="only notes in this folder of the vault",
    )
    search.add_argument(
        "-n",
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="how many (default: 20, at most 100)",
    )
    read = _add(
        commands, "read", "notes:read", "print a note", "Print a note, or one section of it."
    )
    read.add_argument(
        "--section", metavar="NAME", help="the section of that heading, with those below it"
    )
    new = _add(
        commands, "new", "notes:new", "make a note", "Make a note, which must not be there yet."
    )
    for parser in (read, new):
        parser.add_argument(
            "file",
            metavar="FILE",
            help="a note, by its path in the vault or on the disk; .md may be left out",
        )
    new.add_argument(
        "text",
        nargs="?",
        metavar="TEXT",
        help="what it says; - is stdin (default: its name as a heading)",
    )
    for parser in (search, read, new):
        _json(parser)


def _add_contexts(commands: argparse._SubParsersAction[_Parser]) -> None:
    contexts = _add(
        commands,
        "contexts",
        None,
        "what agents are told",
        "The context files that agents are told of.",
    )
    parts = contexts.add_subparsers(metavar="COMMAND")
    migrate = _add(
        parts,
        "migrate",
        "contexts:migrate",
        "move old context files into folders",
        "Show what would become of an older program's context files (Chat/contexts/*.md), or move "
        "them into the folders they are about.",
    )
    migrate.add_argument(
        "--apply", action="store_true", help="do it; `parachute undo` takes it back"
    )
    _json(migrate)


def _add(
    commands: argparse._SubParsersAction[_Parser], name: str, run: str | None, short: str, long: str
) -> _Parser:
    parser = commands.add_parser(name, help=short, description=long)
    parser.set_defaults(**({"group": parser} if run is None else {"run": run}))
    return parser


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _load(run: str) -> CommandFunction:
    module, _, name = run.partition(":")
    command: CommandFunction = getattr(importlib.import_module(f"parachuted.cli.{module}"), name)
    return command
