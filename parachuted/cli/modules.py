"""Modules: the commands that install, approve, switch, show, make and test modules.

A running daemon does what is asked, so that it is recorded and followed at once; without one the
same is done to the files alone.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parachuted.cli.client import ask, daemon_record
from parachuted.cli.commands import Commands, add_command, add_json
from parachuted.cli.show import say, say_diff, say_json, say_lines, say_table
from parachuted.errors import NoDaemonError, ParachuteError
from parachuted.visible import quoted_lines

if TYPE_CHECKING:
    from parachuted.modules.actions import ModuleActions

_YES = {"y", "yes"}
_MOST_PROBLEM = 100


def add_parsers(commands: Commands) -> None:
    """Add these commands to the parser."""
    modules = add_command(
        commands,
        "modules",
        None,
        "what extends the daemon",
        "Modules: folders of code that add routes, tools and agents.",
    )
    parts = modules.add_subparsers(metavar="COMMAND")
    add_json(
        add_command(
            parts,
            "list",
            modules_list,
            "list the modules",
            "List the modules, and whether they run.",
        )
    )
    status = add_command(
        parts,
        "status",
        modules_status,
        "the state of modules",
        "Show what modules serve, where they run, and what is wrong.",
    )
    status.add_argument("name", nargs="?", metavar="NAME", help="only that module")
    add_json(status)
    install = add_command(
        parts,
        "install",
        modules_install,
        "install a module",
        "Copy a module into the vault, show what it asks for, and ask whether it may run.",
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
    approve = add_command(
        parts,
        "approve",
        modules_approve,
        "let a changed one run",
        "Show what changed and what it would be allowed, and ask.",
    )
    approve.add_argument("name", metavar="NAME", help="as `parachute modules list` names it")
    for parser in (install, approve):
        parser.add_argument("--yes", action="store_true", help="agree without asking")
        parser.add_argument(
            "--trust", choices=("trusted", "untrusted"), help="untrusted: in a process of its own"
        )
        add_json(parser)
    diff = add_command(
        parts,
        "diff",
        modules_diff,
        "what changed since",
        "Show how a module's folder differs from what was approved.",
    )
    diff.add_argument("name", metavar="NAME", help="as `parachute modules list` names it")
    add_json(diff)
    for run, word in (
        (modules_enable, "enable"),
        (modules_disable, "disable"),
        (modules_restart, "restart"),
    ):
        parser = add_command(
            parts, word, run, f"{word} a module", f"{word.capitalize()} the module."
        )
        parser.add_argument("name", metavar="NAME", help="as `parachute modules list` names it")
    remove = add_command(
        parts,
        "remove",
        modules_remove,
        "remove a module",
        "Forget a module; its folder is deleted unless it was changed.",
    )
    remove.add_argument("name", metavar="NAME", help="as `parachute modules list` names it")
    remove.add_argument("--yes", action="store_true", help="do not ask")
    new = add_command(
        parts,
        "new",
        modules_new,
        "create one",
        "Write a working module with a test, to start from.",
    )
    new.add_argument("name", metavar="NAME", help="small letters, digits and dashes")
    new.add_argument("--folder", metavar="PATH", help="where (default: the vault's Modules/NAME)")
    test = add_command(parts, "test", modules_test, "run its tests", "Run the module's own tests.")
    test.add_argument("name", metavar="NAME", help="a module of the vault, or a folder")


def modules_list(options: Namespace) -> int:
    """`parachute modules list`."""
    found = _listing()
    if options.json:
        say_json({"modules": found})
        return 0
    rows = [(one["name"], one["version"], _trust(one), _how(one), one["source"]) for one in found]
    say_table(
        rows,
        ("MODULE", "VERSION", "TRUST", "IS", "FROM"),
        nothing="No module. `parachute modules new NAME` makes one.",
    )
    return 0


def modules_status(options: Namespace) -> int:
    """`parachute modules status [NAME]`; 1 when one that should run does not."""
    found = [one for one in _listing() if options.name in {None, one["name"]}]
    if options.name is not None and not found:
        raise ParachuteError(f"unknown module {options.name}; `parachute modules list` lists them")
    code = int(any(one["status"] in {"failed", "starting"} for one in found))
    if options.json:
        say_json({"modules": found})
        return code
    if not _is_running():
        say("No daemon is running, so no module is.")
    for one in found:
        _say_status(one)
    if not found:
        say("No module. `parachute modules new NAME` makes one.")
    return code


def modules_install(options: Namespace) -> int:
    """`parachute modules install SOURCE`: shows what it would be allowed, and asks."""
    source = (
        options.source
        if "://" in options.source or options.source.startswith("git@")
        else str(Path(options.source).resolve())
    )
    body = {"source": source, "path": options.path, "dev": options.dev}
    installed = _do(
        "POST",
        "install",
        body,
        lambda actions: actions.install(source, dev=options.dev, path=options.path),
    )
    name = installed["module"]["name"]
    return _consented(options, name, installed)


def modules_approve(options: Namespace) -> int:
    """`parachute modules approve NAME`: shows what changed and what it would be allowed, and
    asks.
    """
    shown = _do("GET", f"{options.name}/diff", None, lambda actions: actions.consent(options.name))
    if shown["state"] == "approved" and not options.trust:
        say(f"{options.name} is approved as it is.")
        return 0
    return _consented(options, options.name, shown)


def modules_diff(options: Namespace) -> int:
    """`parachute modules diff NAME`."""
    shown = _do("GET", f"{options.name}/diff", None, lambda actions: actions.consent(options.name))
    if options.json:
        say_json(shown)
    elif shown["diff"]:
        say_diff(shown["diff"])
    else:
        say(
            f"{options.name} is what was approved."
            if shown["state"] == "approved"
            else f"{options.name} was never approved."
        )
    return 0


def modules_enable(options: Namespace) -> int:
    """`parachute modules enable NAME`."""
    return _changed(
        _do("POST", f"{options.name}/enable", {}, lambda actions: actions.enable(options.name))
    )


def modules_disable(options: Namespace) -> int:
    """`parachute modules disable NAME`."""
    return _changed(
        _do("POST", f"{options.name}/disable", {}, lambda actions: actions.disable(options.name))
    )


def modules_restart(options: Namespace) -> int:
    """`parachute modules restart NAME`: needs a daemon, and restarts nothing else."""
    return _changed(ask("POST", f"/api/modules/{options.name}/restart", {}))


def modules_remove(options: Namespace) -> int:
    """`parachute modules remove NAME`."""
    if not options.yes and not _agrees(f"Remove {options.name} and its approval?"):
        say("Nothing was removed.")
        return 1
    removed = _do("DELETE", options.name, None, lambda actions: actions.remove(options.name))
    stays = (
        ""
        if removed["folder_removed"]
        else "; its folder stays in the vault: it was made there, or changed after it was installed"
    )
    say(f"{options.name} is removed{stays}.")
    return 0


def modules_new(options: Namespace) -> int:
    """`parachute modules new NAME`: a working module with a test, in the vault or where one
    says.
    """
    from parachuted.modules.registry.skeleton import new_module

    folder = (
        Path(options.folder).expanduser() if options.folder else _vault() / "Modules" / options.name
    )
    new_module(folder, options.name)
    say(f"Made {folder}: manifest.yaml, module.py and a test. Next:")
    say(f"  parachute modules test {shlex.quote(str(folder)) if options.folder else options.name}")
    say(
        f"  parachute modules install {shlex.quote(str(folder))} --dev"
        if options.folder
        else f"  parachute modules approve {options.name}"
    )
    return 0


def modules_test(options: Namespace) -> int:
    """`parachute modules test NAME`: the module's own tests, in a process of their own; 1 when one
    fails or there is none.
    """
    folder = Path(options.name).expanduser()
    if not (folder / "manifest.yaml").is_file():
        folder = _vault() / "Modules" / options.name
    if not folder.is_dir():
        raise ParachuteError(
            f"unknown module {options.name}: neither a folder of that name nor {folder}; "
            "`parachute modules list`"
        )
    tests = folder / "tests"
    if not tests.is_dir():
        raise ParachuteError(
            f"{folder} has no folder tests; `parachute modules new` shows how one looks"
        )
    # -P: of the folder in which the person stands nothing is imported
    command = [
        sys.executable,
        "-P",
        "-B",
        "-m",
        "unittest",
        "discover",
        "-s",
        str(tests),
        "-t",
        str(tests),
    ]
    return int(subprocess.run(command, check=False).returncode != 0)  # noqa: S603  the person's own tests, on their word


def _consented(options: Namespace, name: str, shown: dict[str, Any]) -> int:
    """Show the consent screen; approve exactly what was shown, if the person agrees."""
    if options.json and not options.yes:
        say_json(shown)
        return 0
    if not options.json:
        if shown.get("diff"):
            say_diff(shown["diff"])
        say_lines(shown["consent"]["text"].rstrip("\n").split("\n"))
    if not options.yes and not _agrees(f"Approve {name} and let it run?"):
        say(
            f"These files are not approved, and do not run. `parachute modules approve {name}` "
            "asks again."
        )
        return 1
    body = {"hash": shown["hash"], "trust": options.trust}
    approved = _do(
        "POST",
        f"{name}/approve",
        body,
        lambda actions: actions.approve(name, shown["hash"], options.trust),
    )
    if options.json:
        say_json(approved)
        return 0
    return _changed(approved)


def _changed(told: dict[str, Any]) -> int:
    """Say how the module stands now; 1 when it should run and does not."""
    if _is_running():
        _say_status(told)
        return int(told["status"] == "failed")
    is_enabled = told["status"] != "disabled"
    say(
        f"{told['name']} is "
        f"{'enabled, and runs from the next start of the daemon on' if is_enabled else 'disabled'}."
    )
    return int(told["problem"] is not None)


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        say(f"{question} Say --yes to agree without being asked.")
        return False
    try:
        return input(f"{question} [y/N] ").strip().lower() in _YES
    except EOFError:
        return False


def _say_status(one: dict[str, Any]) -> None:
    title = f"{one['name']} {one['version']}".rstrip()
    say(f"{title}: {_how(one)}, {_trust(one)}{', ' + one['where'] if one['where'] else ''}")
    if one["limits"]:
        say(f"  limits    {one['limits']}")
    for name in ("routes", "tools", "events", "schedules", "agents"):
        for text in one[name]:
            say(f"  {name.removesuffix('s'):<9} {text}")
    for choice in one["interfaces"]:
        others = (
            f" (not {', '.join(choice['others'])}: {choice['reason']})" if choice["others"] else ""
        )
        say(f"  interface {choice['interface']}, served by {choice['provider']}{others}")
    if one["problem"]:
        say("  problem")
        say_lines(quoted_lines(str(one["problem"]).rstrip(), _MOST_PROBLEM))
    if one["status"] == "unapproved":
        say(f"  next      `parachute modules approve {one['name']}` shows what it may do, and asks")
    if one["state"] == "changed":
        say(
            f"  changed   `parachute modules diff {one['name']}` shows how; the approved version "
            "goes on"
        )


def _how(one: dict[str, Any]) -> str:
    if one["status"] == "starting" and not _is_running():
        return "enabled"
    return str(one["status"])


def _trust(one: dict[str, Any]) -> str:
    return f"{one['trust_level']}{', dev' if one['dev'] else ''}"


def _listing() -> list[dict[str, Any]]:
    if _is_running():
        return list(ask("GET", "/api/modules")["modules"])
    return _actions().listing()


def _do(method: str, path: str, body: dict[str, Any] | None, alone: Any) -> dict[str, Any]:  # noqa: ANN401  a function of Actions
    if _is_running():
        given = (
            None
            if body is None
            else {name: value for name, value in body.items() if value is not None}
        )
        return dict(ask(method, f"/api/modules/{path}", given))
    return dict(alone(_actions()))


def _is_running() -> bool:
    try:
        daemon_record()
    except NoDaemonError:
        return False
    return True


def _actions() -> ModuleActions:
    from parachuted.config import home_folder
    from parachuted.modules.actions import ModuleActions
    from parachuted.modules.registry.approvals import ModuleApprovals

    return ModuleActions(ModuleApprovals(home_folder(os.environ), _vault(), env=os.environ))


def _vault() -> Path:
    """The running daemon's; without one, that of the settings."""
    if _is_running():
        return Path(str(daemon_record()["vault"]))
    from parachuted.config import home_folder, load_settings

    return load_settings(home_folder(os.environ), os.environ, {}).vault
