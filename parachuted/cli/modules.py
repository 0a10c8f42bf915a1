"""Modules: the commands that install, approve, switch, show, make and test modules.

`install` and `approve` work on the files where no daemon runs, so that a vault can be set up first.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parachuted.cli.client import ask, current_vault, is_running, quoted
from parachuted.cli.commands import Columns, Command, Json, Steps, carry_out, command, verb
from parachuted.cli.show import agrees, say, say_diff, say_each, say_lines, say_table
from parachuted.errors import ParachuteError
from parachuted.home_files.bundled import bundled_folder
from parachuted.texts.visible import quoted_lines

if TYPE_CHECKING:
    from parachuted.modules.registry.approvals import ModuleApprovals

_MOST_PROBLEM = 100
_NONE = (
    "No module. `parachute modules install parachute://NAME` installs one of parachuted's own: "
    "daily, brain, chat or bots; `parachute modules new NAME` makes one of yours."
)
_NAME = "name  as `parachute modules list` names it"
_CONSENT = """
    --yes  agree without asking
    --trust =trusted|untrusted  trusted: inside the daemon, with all that it may do; untrusted: in a
        container, with Docker (default, but for parachuted's own)
"""

MODULES = Command(
    "modules",
    "what extends the daemon",
    "Modules: folders of code that add routes, tools and agents.",
)


_SERVED = ("routes", "tools", "events", "schedules", "agents")


def _trust(module: Json) -> str:
    return f"{module['trust_level']}{', dev' if module['dev'] else ''}"


@verb("modules list", "list the modules")
def modules_list(_options: Namespace) -> Steps:
    """List the modules, and whether they run."""
    answer = yield {"modules": ask("GET /api/modules")["modules"]}
    columns: Columns = {
        "MODULE": "name",
        "VERSION": "version",
        "TRUST": _trust,
        "IS": lambda module: (
            module["status"] + (f" ({module['notes'][0]})" if module["state"] == "changed" else "")
        ),
        "FROM": "source",
    }
    say_table(answer["modules"], columns, nothing=_NONE)


@verb("modules status", "the state of modules")
def modules_status(options: Namespace) -> Steps:
    """Show how much modules serve, where they run, and what is wrong. Exits with 1 when one that
    should run does not.

    name?  only that module, with each route, tool, event, schedule and agent
    """
    modules = ask("GET /api/modules")["modules"]
    found = [module for module in modules if options.name in {None, module["name"]}]
    if options.name is not None and not found:
        raise ParachuteError(f"unknown module {options.name}; `parachute modules list` lists them")
    failed = any(module["status"] in {"failed", "starting"} for module in found)
    yield {"modules": found}, failed
    for module in found:
        _say_status(module, is_whole=options.name is not None)
    if not found:
        say(_NONE)


def _say_status(module: Json, *, is_whole: bool = False) -> None:
    title = f"{module['name']} {module['version']}".rstrip()
    where = f", {module['where']}" if module["where"] else ""
    say(f"{title}: {module['status']}, {_trust(module)}{where}")
    if module["limits"]:
        say(f"  limits    {module['limits']}")
    served = {name: module[name] for name in _SERVED if module[name]}
    if is_whole:
        for name, texts in served.items():
            say_each(f"  {name.removesuffix('s'):<9} {text}" for text in texts)
        say_each(f"  interface {name}" for name in module["provides"])
    elif served:
        counts = (f"{name}: {len(texts)}" for name, texts in served.items())
        say(f"  serves    {', '.join(counts)}")
    if module["problem"]:
        say("  problem")
        say_lines(quoted_lines(str(module["problem"]).rstrip(), _MOST_PROBLEM))
    command = f"parachute modules {{}} {module['name']}"
    if module["status"] == "unapproved":
        say(f"  next      `{command.format('approve')}` shows what it may do, and asks")
    say_lines(f"  note      {note}" for note in module["notes"])
    if module["state"] == "changed":
        say(f"  next      `{command.format('diff')}` shows what changed")


@verb("modules install", "install a module", _CONSENT)
def modules_install(options: Namespace) -> Steps:
    """Copy a module into the vault, show what it asks for, and ask whether it may run.

    source  a git address, a folder, or parachute://NAME for one of parachuted's own
    --dev  refer to that folder instead of copying it, and trust its code
    --path SUB  the folder inside the source that holds manifest.yaml
    """
    is_address = "://" in options.source or options.source.startswith("git@")
    source = options.source if is_address else os.path.realpath(options.source)
    return (yield from _install(source, options))


def _install(source: str, options: Namespace) -> Steps:
    how = {"path": options.path, "dev": options.dev, "trust": options.trust}
    if is_running():
        named = {name: value for name, value in how.items() if value is not None}
        installed = ask("POST /api/modules/install", {"source": source, **named})
    else:
        installed = _alone(lambda acts, approvals: acts.install_module(approvals, source, **how))
    return (yield from _consented(options, installed["module"]["name"], installed))


def official_modules() -> tuple[str, ...]:
    manifests = bundled_folder("modules").glob("*/manifest.yaml")
    return tuple(sorted(manifest.parent.name for manifest in manifests))


def install_official(names: Iterable[str], *, yes: bool) -> int:
    """Each after its consent screen; 1 when one was not approved. ParachuteError: an unknown name,
    before any is installed.
    """
    wanted, known = tuple(dict.fromkeys(names)), official_modules()
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ParachuteError(f"parachuted has no module {unknown[0]!r}; it has {', '.join(known)}")
    options = Namespace(path=None, dev=False, trust="trusted", yes=yes, json=False)
    installs = (_install(f"parachute://{name}", options) for name in wanted)
    return max((carry_out(steps, as_json=False) for steps in installs), default=0)


@verb("modules approve", "let a changed one run", _NAME + _CONSENT)
def modules_approve(options: Namespace) -> Steps:
    """Show what changed and what it would be allowed, and ask."""
    if is_running():
        wanted = f"?trust={options.trust}" if options.trust else ""
        consent = ask(f"GET /api/modules/{quoted(options.name)}/diff{wanted}")
    else:
        asked = options.name, options.trust
        consent = _alone(lambda acts, approvals: acts.review_module(approvals, *asked))
    if consent["state"] == "approved" and not options.trust:
        say(f"{options.name} is approved as it is.")
        return 0
    return (yield from _consented(options, options.name, consent))


def _consented(options: Namespace, name: str, consent: Json) -> Steps:
    if not options.yes:
        yield consent
    if not options.json:
        if consent.get("diff"):
            say_diff(consent["diff"])
        say_lines(consent["consent"]["text"].rstrip("\n").split("\n"))
    if not options.yes and not agrees(f"Approve {name} and let it run?"):
        again = f"`parachute modules approve {name}` asks again"
        say(f"These files are not approved, and do not run. {again}.")
        return 1
    digest, trust = consent["hash"], options.trust
    if not is_running():
        approved = yield _alone(
            lambda acts, approvals: acts.status_of(approvals.approve(name, digest, trust=trust))
        )
        say(f"{name} is enabled, and runs from the next start of the daemon on.")
        return int(approved["problem"] is not None)
    body = {"hash": digest, **({"trust": trust} if trust else {})}
    approved = yield ask(f"POST /api/modules/{name}/approve", body)
    _say_status(approved)
    return int(approved["status"] == "failed")


@verb("modules diff", "what changed since", _NAME)
def modules_diff(options: Namespace) -> Steps:
    """Show how a module's folder differs from what was approved."""
    answer = yield ask(f"GET /api/modules/{quoted(options.name)}/diff")
    if answer["diff"]:
        say_diff(answer["diff"])
    else:
        is_approved = answer["state"] == "approved"
        say(f"{options.name} {'is what was' if is_approved else 'was never'} approved.")


def _switch(how: str, options: Namespace) -> int:
    module = ask(f"POST /api/modules/{quoted(options.name)}/{how}")
    _say_status(module)
    return int(module["status"] == "failed")


modules_enable, modules_disable, modules_restart = (
    command(f"modules {how}", f"{how} a module", _NAME, long=f"{how.capitalize()} the module.")(
        partial(_switch, how)
    )
    for how in ("enable", "disable", "restart")
)


@command("modules remove", "remove a module", _NAME)
def modules_remove(options: Namespace) -> int:
    """Forget a module; its folder is deleted unless it was changed, its data only with --data.

    --data  delete what it keeps outside the vault, too
    --yes  do not ask
    """
    what = "its approval and its data" if options.data else "its approval"
    if not options.yes and not agrees(f"Remove {options.name} and {what}?"):
        say("Nothing was removed.")
        return 1
    more = "?data=true" if options.data else ""
    removed = ask(f"DELETE /api/modules/{quoted(options.name)}{more}")
    stays = "; its folder stays in the vault: it was made there, or changed after it was installed"
    say(f"{options.name} is removed{'' if removed['folder_removed'] else stays}.")
    if removed["has_data"]:
        say("What it keeps outside the vault stays; with --data it is deleted, too.")
    return 0


@command("modules new", "create one")
def modules_new(options: Namespace) -> None:
    """Write a working module with a test, to start from.

    name  small letters, digits and dashes
    --folder PATH  where (default: the vault's Modules/NAME)
    """
    from parachuted.modules.registry.skeleton import new_module

    usual = Path(current_vault()) / "Modules" / options.name
    folder = Path(options.folder).expanduser() if options.folder else usual
    new_module(folder, options.name)
    place = shlex.quote(str(folder))
    say(f"Made {folder}: manifest.yaml, module.py and a test. Next:")
    say(f"  parachute modules test {place if options.folder else options.name}")
    next_step = f"install {place} --dev" if options.folder else f"approve {options.name}"
    say(f"  parachute modules {next_step}")


@command("modules test", "run its tests")
def modules_test(options: Namespace) -> int:
    """Run the module's own tests. Exits with 1 when one fails or there is none.

    name  a module of the vault, or a folder
    """
    folder = Path(options.name).expanduser()
    if not (folder / "manifest.yaml").is_file():
        folder = Path(current_vault()) / "Modules" / options.name
    if not folder.is_dir():
        raise ParachuteError(f"unknown module {options.name}: there is no folder {folder}")
    tests = folder / "tests"
    if not tests.is_dir():
        how = "`parachute modules new` shows how one looks"
        raise ParachuteError(f"{folder} has no folder tests; {how}")
    # -P: of the folder in which the person stands nothing is imported
    discover = [sys.executable, "-P", "-B", "-m", "unittest", "discover"]
    done = subprocess.run([*discover, "-s", str(tests), "-t", str(tests)], check=False)  # noqa: S603  the person's own tests, on their word
    return int(done.returncode != 0)


def _alone(act: Callable[[Any, ModuleApprovals], object]) -> Json:
    from parachuted.config import home_folder
    from parachuted.modules import actions
    from parachuted.modules.registry.approvals import ModuleApprovals

    home, vault = home_folder(os.environ), Path(current_vault())
    return actions.as_document(act(actions, ModuleApprovals(home, vault, env=os.environ)))
