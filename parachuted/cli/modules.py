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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parachuted.bundled import bundled_folder
from parachuted.cli.client import ask, current_vault, is_running
from parachuted.cli.commands import JSON, argument, command, flag, group
from parachuted.cli.show import agrees, say, say_diff, say_json, say_lines, say_table
from parachuted.errors import ParachuteError
from parachuted.visible import quoted_lines

if TYPE_CHECKING:
    from parachuted.modules.actions import ModuleActions
    from parachuted.modules.registry.approved import TrustLevel

_MOST_PROBLEM = 100
_NONE = "No module. `parachute modules new NAME` makes one."
_OFFICIAL = "parachute://"
_NAME = argument("name", help="as `parachute modules list` names it")
_TRUST = ("trusted", "untrusted")
_CONSENT = (
    flag("--yes", help="agree without asking"),
    argument("--trust", choices=_TRUST, help="untrusted: in a container, with Docker"),
    JSON,
)


MODULES = group(
    "modules",
    "what extends the daemon",
    "Modules: folders of code that add routes, tools and agents.",
)


@command("modules list", "list the modules", JSON)
def modules_list(options: Namespace) -> int:
    """List the modules, and whether they run."""
    found = _listing()
    if options.json:
        return say_json({"modules": found})
    rows = [(one["name"], one["version"], _trust(one), _is(one), one["source"]) for one in found]
    say_table(rows, ("MODULE", "VERSION", "TRUST", "IS", "FROM"), nothing=_NONE)
    return 0


@command(
    "modules status",
    "the state of modules",
    argument("name", nargs="?", help="only that module"),
    JSON,
)
def modules_status(options: Namespace) -> int:
    """Show what modules serve, where they run, and what is wrong. Exits with 1 when one that should
    run does not.
    """
    found = [one for one in _listing() if options.name in {None, one["name"]}]
    if options.name is not None and not found:
        raise ParachuteError(f"unknown module {options.name}; `parachute modules list` lists them")
    code = int(any(one["status"] in {"failed", "starting"} for one in found))
    if options.json:
        say_json({"modules": found})
        return code
    if not is_running():
        say("No daemon is running, so no module is.")
    for one in found:
        _say_status(one)
    if not found:
        say(_NONE)
    return code


@command(
    "modules install",
    "install a module",
    argument(
        "source", help="a git address, a folder, or parachute://NAME for one of parachuted's own"
    ),
    flag("--dev", help="run it from that folder, and again at each edit"),
    argument("--path", metavar="SUB", help="the folder inside the source that holds manifest.yaml"),
    *_CONSENT,
)
def modules_install(options: Namespace) -> int:
    """Copy a module into the vault, show what it asks for, and ask whether it may run."""
    source = (
        options.source
        if "://" in options.source or options.source.startswith("git@")
        else str(Path(options.source).resolve())
    )
    how = {"path": options.path, "dev": options.dev, "trust": options.trust}
    return _install(source, how, options)


def _install(source: str, how: dict[str, Any], options: Namespace) -> int:
    body = {"source": source, **how}
    installed = _do("POST", "install", body, lambda actions: actions.install(source, **how))
    return _consented(options, installed["module"]["name"], installed)


def official_modules() -> tuple[str, ...]:
    manifests = bundled_folder("modules").glob("*/manifest.yaml")
    return tuple(sorted(manifest.parent.name for manifest in manifests))


def install_official(names: Iterable[str], *, yes: bool) -> int:
    """Install modules that come with parachuted, each after its consent screen.

    1 when one of them was not approved; raises ParachuteError for an unknown name, before any is
    installed.
    """
    wanted = tuple(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in official_modules()]
    if unknown:
        raise ParachuteError(
            f"parachuted has no module {unknown[0]!r}; it has {', '.join(official_modules())}"
        )
    options = Namespace(yes=yes, trust="trusted", json=False)
    how = {"path": None, "dev": False, "trust": "trusted"}
    return max((_install(f"{_OFFICIAL}{name}", how, options) for name in wanted), default=0)


@command("modules approve", "let a changed one run", _NAME, *_CONSENT)
def modules_approve(options: Namespace) -> int:
    """Show what changed and what it would be allowed, and ask."""
    shown = _consent(options.name, options.trust)
    if shown["state"] == "approved" and not options.trust:
        say(f"{options.name} is approved as it is.")
        return 0
    return _consented(options, options.name, shown)


@command("modules diff", "what changed since", _NAME, JSON)
def modules_diff(options: Namespace) -> int:
    """Show how a module's folder differs from what was approved."""
    shown = _consent(options.name)
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


@command("modules enable", "enable a module", _NAME)
def modules_enable(options: Namespace) -> int:
    """Enable the module."""
    return _switched(options.name, "enable")


@command("modules disable", "disable a module", _NAME)
def modules_disable(options: Namespace) -> int:
    """Disable the module."""
    return _switched(options.name, "disable")


@command("modules restart", "restart a module", _NAME)
def modules_restart(options: Namespace) -> int:
    """Restart the module."""
    return _changed(ask("POST", f"/api/modules/{options.name}/restart", {}))


@command(
    "modules remove",
    "remove a module",
    _NAME,
    flag("--data", help="delete what it keeps outside the vault, too"),
    flag("--yes", help="do not ask"),
)
def modules_remove(options: Namespace) -> int:
    """Forget a module; its folder is deleted unless it was changed, its data only with --data."""
    name = options.name
    what = "its approval and its data" if options.data else "its approval"
    if not options.yes and not agrees(f"Remove {name} and {what}?"):
        say("Nothing was removed.")
        return 1

    def remove(actions: ModuleActions) -> dict[str, Any]:
        removed = actions.remove(name)
        if options.data:
            removed |= {"data_deleted": actions.delete_data(name), "has_data": False}
        return removed

    removed = _do("DELETE", f"{name}?data=true" if options.data else name, None, remove)
    stays = (
        ""
        if removed["folder_removed"]
        else "; its folder stays in the vault: it was made there, or changed after it was installed"
    )
    say(f"{name} is removed{stays}.")
    if removed.get("has_data"):
        say("What it keeps outside the vault stays; with --data it is deleted, too.")
    return 0


@command(
    "modules new",
    "create one",
    argument("name", help="small letters, digits and dashes"),
    argument("--folder", metavar="PATH", help="where (default: the vault's Modules/NAME)"),
)
def modules_new(options: Namespace) -> int:
    """Write a working module with a test, to start from."""
    from parachuted.modules.registry.skeleton import new_module

    folder = (
        Path(options.folder).expanduser()
        if options.folder
        else Path(current_vault()) / "Modules" / options.name
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


@command(
    "modules test", "run its tests", argument("name", help="a module of the vault, or a folder")
)
def modules_test(options: Namespace) -> int:
    """Run the module's own tests. Exits with 1 when one fails or there is none."""
    folder = Path(options.name).expanduser()
    if not (folder / "manifest.yaml").is_file():
        folder = Path(current_vault()) / "Modules" / options.name
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
    discover = [sys.executable, "-P", "-B", "-m", "unittest", "discover"]
    done = subprocess.run([*discover, "-s", str(tests), "-t", str(tests)], check=False)  # noqa: S603  the person's own tests, on their word
    return int(done.returncode != 0)


def _switched(name: str, how: str) -> int:
    return _changed(_do("POST", f"{name}/{how}", {}, lambda actions: getattr(actions, how)(name)))


def _consent(name: str, trust: TrustLevel | None = None) -> dict[str, Any]:
    asked = f"?trust={trust}" if trust else ""
    return _do("GET", f"{name}/diff{asked}", None, lambda actions: actions.consent(name, trust))


def _consented(options: Namespace, name: str, shown: dict[str, Any]) -> int:
    """Show the consent screen; approve exactly what was shown, if the person agrees."""
    if options.json and not options.yes:
        return say_json(shown)
    if not options.json:
        if shown.get("diff"):
            say_diff(shown["diff"])
        say_lines(shown["consent"]["text"].rstrip("\n").split("\n"))
    if not options.yes and not agrees(f"Approve {name} and let it run?"):
        say(
            f"These files are not approved, and do not run. `parachute modules approve {name}` "
            "asks again."
        )
        return 1
    digest, trust = shown["hash"], options.trust
    body = {"hash": digest, "trust": trust}
    approved = _do(
        "POST", f"{name}/approve", body, lambda actions: actions.approve(name, digest, trust)
    )
    if options.json:
        return say_json(approved)
    return _changed(approved)


def _changed(module: dict[str, Any]) -> int:
    """Say how the module is now; 1 when it should run and does not."""
    if is_running():
        _say_status(module)
        return int(module["status"] == "failed")
    is_enabled = module["status"] != "disabled"
    how = "enabled, and runs from the next start of the daemon on" if is_enabled else "disabled"
    say(f"{module['name']} is {how}.")
    return int(module["problem"] is not None)


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
    say_lines(f"  note      {note}" for note in one["notes"])
    if one["state"] == "changed":
        say(f"  next      `parachute modules diff {one['name']}` shows what changed")


def _is(one: dict[str, Any]) -> str:
    return f"{_how(one)} ({one['notes'][0]})" if one["state"] == "changed" else _how(one)


def _how(one: dict[str, Any]) -> str:
    is_idle = one["status"] == "starting" and not is_running()
    return "enabled" if is_idle else str(one["status"])


def _trust(one: dict[str, Any]) -> str:
    return f"{one['trust_level']}{', dev' if one['dev'] else ''}"


def _listing() -> list[dict[str, Any]]:
    if is_running():
        return list(ask("GET", "/api/modules")["modules"])
    return _actions().listing()


def _do(
    method: str,
    path: str,
    body: dict[str, Any] | None,
    alone: Callable[[ModuleActions], dict[str, Any]],
) -> dict[str, Any]:
    if not is_running():
        return alone(_actions())
    given = body and {name: value for name, value in body.items() if value is not None}
    return dict(ask(method, f"/api/modules/{path}", given))


def _actions() -> ModuleActions:
    from parachuted.config import home_folder
    from parachuted.modules.actions import ModuleActions
    from parachuted.modules.registry.approvals import ModuleApprovals

    return ModuleActions(
        ModuleApprovals(home_folder(os.environ), Path(current_vault()), env=os.environ)
    )
