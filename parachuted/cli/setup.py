"""Setup: the commands that need no daemon: vault, settings, login, completion; and where a running
daemon differs from them.
"""

from __future__ import annotations

import getpass
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import shtab

from parachuted import __version__
from parachuted.agents import SEE_STATUS, choose_backend, describe_credentials, find_credential
from parachuted.agents.credentials import LOGIN_FILE, find_login_environment, keep_login
from parachuted.bundled import make_vault
from parachuted.cli.client import ask, current_settings, home_of
from parachuted.cli.commands import JSON, Json, argument, command, flag, group
from parachuted.cli.module_commands import (
    get_module_setting,
    is_of_module,
    module_settings,
    set_module_setting,
)
from parachuted.cli.parser import make_parser
from parachuted.cli.service import this_supervisor
from parachuted.cli.show import agrees, say, say_json, say_table
from parachuted.config import (
    Settings,
    describe_settings,
    home_folder,
    set_setting,
    setting_text,
)
from parachuted.errors import ConfigError, NotFoundError, ParachuteError
from parachuted.home_files.vault_state import adopt, separate, was_vault
from parachuted.processes.presence import refuse_second, running_daemon

_LOGINS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_VARIABLE = "the environment variable "
_SETTING = argument("key", help="as `parachute config` lists it")
_UNCLEAR = argument("path", help="the vault that is unclear")


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",") if name.strip()]


@command(
    "init",
    "create a vault",
    argument("path", nargs="?", help="where (default: the setting `vault`, ~/Parachute)"),
    argument(
        "--with",
        dest="modules",
        metavar="NAMES",
        action="extend",
        type=_names,
        help="install these of parachuted's own modules, such as daily,brain,chat, after showing "
        "what each may do",
    ),
    flag("--yes", help="with --with: do it without asking"),
)
def init(options: Namespace) -> int:
    """Create a vault from the template, and use it from now on."""
    if options.path is None:
        say(make_vault(current_settings().vault))
        say("`parachute start` watches it.")
        return _install(options)
    vault = Path(options.path).expanduser().resolve()
    say(make_vault(vault))
    set_setting(home_folder(os.environ), "vault", os.fspath(vault))
    say("It is your vault from now on. `parachute start` watches it.")
    _mention_service(home_folder(os.environ))
    return _install(options)


def _install(options: Namespace) -> int:
    if options.modules is None:
        return 0
    from parachuted.cli.modules import install_official

    if not (options.yes or sys.stdin.isatty()):
        say(
            "Nothing is approved without a terminal or --yes: read what follows, then run "
            "`parachute modules approve NAME` for each."
        )
    return install_official(options.modules, yes=options.yes)


def make_default_vault(vault: Path) -> None:
    """What `make run` does besides: make the vault if it is the default one, and was never
    there.
    """
    if (
        vault == Settings().vault.expanduser()
        and not vault.exists()
        and not was_vault(home_folder(os.environ), vault)
    ):
        say(make_vault(vault))
        _offer_modules()


_FIRST_MODULES = ("brain", "chat", "daily")  # bots need an account elsewhere


def _offer_modules() -> None:
    from parachuted.cli.modules import install_official

    if sys.stdin.isatty() and agrees(
        f"Install the modules that come with parachuted ({', '.join(_FIRST_MODULES)})? Each is "
        "shown first."
    ):
        install_official(_FIRST_MODULES, yes=False)


@command("vault", "the vault in use", JSON)
def vault(options: Namespace) -> int:
    """Show which folder of notes is used, or choose another."""
    chosen = current_settings().vault
    record = running_daemon(home_of(os.environ))
    used = chosen if record is None else Path(str(record["vault"]))
    if options.json:
        return say_json(
            {"vault": os.fspath(used), "exists": used.is_dir(), "settings": os.fspath(chosen)}
        )
    say(f"{used}{'' if used.is_dir() else ' (not there yet; `parachute init` makes it)'}")
    if used != chosen:
        say(f"The daemon that is running was started on it; the settings say {chosen}.")
    return 0


@command(
    "vault set",
    "use another vault",
    argument("path", help="a folder that is there; `parachute init PATH` makes a new one"),
)
def vault_set(options: Namespace) -> int:
    """Use another vault from the next start on."""
    chosen = Path(options.path).expanduser().resolve()
    if not chosen.is_dir():
        raise ParachuteError(
            f"there is no folder {chosen}; `parachute init {shlex.quote(os.fspath(chosen))}` "
            "makes a vault there"
        )
    set_setting(home_folder(os.environ), "vault", os.fspath(chosen))
    say(f"The vault is {chosen} from the next start on.")
    _mention_service(home_folder(os.environ))
    return 0


def _mention_service(home: Path) -> None:
    if sys.platform.startswith("linux") and this_supervisor(home).file.is_file():
        say(
            "The service may write the vault that it was installed with alone: `parachute service "
            "install` once more tells it of this one."
        )


@command("vault separate", "make a copied vault independent, without a history", _UNCLEAR)
def vault_separate(options: Namespace) -> int:
    """Where `parachute start` cannot tell which vault it is: make a copied vault independent,
    without a history.
    """
    separate(home_folder(os.environ), Path(options.path).expanduser())
    say("It is a vault of its own, with a history that begins now.")
    return 0


@command("vault adopt", "give a vault its history back", _UNCLEAR)
def vault_adopt(options: Namespace) -> int:
    """Where `parachute start` cannot tell which vault it is: give a vault its history back."""
    home, place = home_folder(os.environ), Path(options.path).expanduser()
    refuse_second(os.fspath(home), os.fspath(place))
    adopt(home, place)
    say("It has its history back. `parachute start` uses it.")
    return 0


@command("config", "the settings", JSON)
def config(options: Namespace) -> int:
    """Show every setting, its value and what it means, or change one."""
    settings = current_settings()
    rows = [
        (key, setting_text(settings, key), str(default), means)
        for key, _type, default, means in describe_settings()
    ]
    rows += module_settings()
    if options.json:
        names = ("key", "value", "default", "means")
        return say_json([dict(zip(names, row, strict=True)) for row in rows])
    say_table(rows, ("SETTING", "VALUE", "DEFAULT", "MEANS"), nothing="")
    for note in settings.notes:
        say(f"note  {note}")
    return 0


@command(
    "config set",
    "change a setting",
    argument("key", help="as `parachute config` lists it, such as agent.backend"),
    argument("value", help="the new value; '' restores the default"),
)
def config_set(options: Namespace) -> int:
    """Change one setting in config.yaml, which the daemon takes up at its next start; or one of a
    module's, such as modules.daily.layout, in modules.yaml, which it takes up at once.
    """
    if is_of_module(options.key):
        return set_module_setting(options.key, options.value)
    settings = set_setting(home_folder(os.environ), options.key, options.value)
    say(
        f"{options.key} is {setting_text(settings, options.key)} from the next start of the "
        "daemon on (`parachute restart`)."
    )
    return 0


@command("config get", "the value of a setting", _SETTING)
def config_get(options: Namespace) -> int:
    """Print the value of one setting, alone."""
    if is_of_module(options.key):
        return get_module_setting(options.key)
    say(setting_text(current_settings(), _known(options.key)))
    return 0


@command("config unset", "restore a default", _SETTING)
def config_unset(options: Namespace) -> int:
    """Restore the default of one setting."""
    if is_of_module(options.key):
        return set_module_setting(options.key, "")
    settings = set_setting(home_folder(os.environ), options.key, "")
    say(
        f"{options.key} is {setting_text(settings, options.key) or 'nothing'}, its default, from "
        "the next start of the daemon on."
    )
    return 0


def _known(key: str) -> str:
    if key not in {described.key for described in describe_settings()}:
        raise ConfigError([f"{key} is not a setting; `parachute config` lists them"])
    return key


AUTH = group("auth", "the login for the model", "Which login for Claude was found.")


@command("auth status", "what was found", JSON)
def auth_status(options: Namespace) -> int:
    """Say where a login was looked for and found. Never shows it."""
    settings = current_settings()
    record, logins = running_daemon(home_of(os.environ)), ask_logins()
    if record is None or logins is None:
        logins = _logins_here(settings)
    if options.json:
        return say_json({"daemon": record["pid"] if record is not None else None, **logins})
    if record is not None:
        say(f"The daemon (pid {record['pid']}, watching {record['vault']}):")
    for one in logins["looked"]:
        say(f"{'found  ' if one['found'] else 'nothing'}  {one['place']}: {one['why']}")
    say(f"Agent: {logins['agent'].removesuffix(SEE_STATUS)}.")
    if logins["agent"].endswith(SEE_STATUS):
        say(
            "To use a model: log in with Claude Code, `parachute auth set ANTHROPIC_API_KEY`, or "
            "`parachute config set agent.base_url`"
        )
        say("with the address of a local model; then `parachute restart`.")
    for difference in find_login_differences(record, logins) if record is not None else ():
        say(f"note  {difference}")
    return 0


@command(
    "auth set",
    "keep a login for a service",
    argument("name", choices=_LOGINS, help=", ".join(_LOGINS)),
)
def auth_set(options: Namespace) -> int:
    """Keep a login in the home for a daemon that has no terminal's environment, as a service.
    It is typed, or piped in, and not shown.
    """
    home = home_folder(os.environ)
    ask_for = f"{options.name} (nothing removes it): "
    typed = getpass.getpass(ask_for) if sys.stdin.isatty() else sys.stdin.readline()
    secret = typed.strip()
    if secret and not secret.isprintable():
        raise ParachuteError("a login is one line of printable characters")
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    keep_login(home, options.name, secret)
    say(
        f"{options.name} is {'kept' if secret else 'no longer kept'} in {home / LOGIN_FILE}; "
        "`parachute restart` makes that count."
    )
    return 0


def ask_logins() -> Json:
    """Where the running daemon looked for a login, and what follows; None where there is no daemon,
    or one of an earlier version.
    """
    if running_daemon(home_of(os.environ)) is None:
        return None
    try:
        return ask("GET", "/api/auth/logins")
    except NotFoundError:
        return None


def find_differences(record: dict[str, object], settings: Settings) -> list[str]:
    """What the running daemon has that one which starts now would not, and the reverse; a sentence
    each.
    """
    return [*_older(record, settings), *find_login_differences(record, ask_logins())]


def find_login_differences(record: dict[str, object], logins: Json) -> Iterator[str]:
    """Logins in this terminal's environment that the daemon does not have, and the reverse."""
    if logins is None:
        return
    env = find_login_environment(os.environ, Path(home_of(os.environ)))
    here = {
        one.place: one.found
        for one in describe_credentials(env, Path(str(record["vault"])), Path.home())
    }
    flags = record.get("flags")
    advice = (
        "start the daemon again where it has it; docs/operating.md says how for a service"
        if isinstance(flags, dict) and flags.get("foreground")
        else "`parachute restart`"
    )
    for place, found in ((login["place"], login["found"]) for login in logins["looked"]):
        name = place.removeprefix(_VARIABLE)
        if name == place or found == here.get(place, found):
            continue
        if found:
            yield f"the daemon was started with {name}, which this terminal does not have"
        else:
            without = f"{name}, which the daemon was started without"
            yield f"this terminal has {without}; to use it: {advice}"


def _older(record: dict[str, object], settings: Settings) -> Iterator[str]:
    if record["version"] != __version__:
        yield (
            f"the daemon is version {record['version']}, this command is {__version__}; "
            "`parachute restart` starts the newer one"
        )
    if record["vault"] != os.fspath(settings.vault):
        yield f"the daemon was started on {record['vault']}; the settings say {settings.vault}"
    file = Path(home_of(os.environ), "config.yaml")
    started = datetime.fromisoformat(str(record["started"]))
    if file.exists() and datetime.fromtimestamp(file.stat().st_mtime, UTC) > started:
        yield "config.yaml was changed after the daemon started; `parachute restart` reads it"


def _logins_here(settings: Settings) -> dict[str, object]:
    env = find_login_environment(os.environ, home_folder(os.environ))
    place = (env, settings.vault, Path.home())
    _name, reason = choose_backend(
        settings.agent.backend, find_credential(*place), settings.agent.base_url
    )
    return {
        "agent": reason,
        "looked": [
            {"place": one.place, "found": one.found, "why": one.why}
            for one in describe_credentials(*place)
        ],
    }


_ABOUT = """\
Print what makes your shell complete parachute's commands with the Tab key. Once:
  bash   parachute completion bash > ~/.local/share/bash-completion/completions/parachute
  zsh    parachute completion zsh > ~/.zfunc/_parachute, with `fpath+=~/.zfunc` before compinit in ~/.zshrc
  fish   parachute completion fish > ~/.config/fish/completions/parachute.fish
Make that folder first where there is none (`mkdir -p`), and open a new terminal afterwards.
"""  # noqa: E501


@command(
    "completion",
    "words completed by your shell",
    argument("shell", choices=("bash", "zsh", "fish"), help="bash, zsh or fish"),
    long=_ABOUT,
)
def completion(options: Namespace) -> int:
    """Print the script of a shell."""
    sys.stdout.write(shtab.complete(make_parser(), options.shell) + "\n")
    return 0
