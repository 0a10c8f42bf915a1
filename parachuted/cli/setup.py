"""Setup: vault, settings, login, completion; and where a running daemon differs from them."""

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
from parachuted.agents.backends import SEE_STATUS, choose_backend
from parachuted.agents.credentials import (
    LOGIN_FILE,
    describe_credentials,
    find_credential,
    find_login_environment,
    keep_login,
)
from parachuted.cli import module_commands as of_modules
from parachuted.cli.client import ask, current_settings, found_daemon
from parachuted.cli.commands import Command, Json, Steps, command, verb
from parachuted.cli.parser import make_parser
from parachuted.cli.service import this_supervisor
from parachuted.cli.show import agrees, say, say_each, say_table
from parachuted.config import Settings, describe_settings, home_folder, set_setting, setting_text
from parachuted.errors import ConfigError, ParachuteError
from parachuted.home_files.bundled import make_vault
from parachuted.home_files.private import real_path
from parachuted.home_files.vault_state import adopt, separate, was_vault
from parachuted.processes.presence import home_of, refuse_second

_LOGINS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_VARIABLE = "the environment variable "
_FIRST_MODULES = ("brain", "chat", "daily")  # bots need an account elsewhere
_SETTING = "key  as `parachute config` lists it"
_UNCLEAR = "path  the vault that is unclear"


@command("init", "create a vault")
def init(options: Namespace) -> int:
    """Create a vault from the template, and use it from now on.

    path?  where (default: the setting `vault`, ~/Parachute)
    --with* NAMES  install these of parachuted's own modules, such as daily,brain,chat, after
        showing what each may do
    --yes  with --with: do it without asking
    """
    if options.path is None:
        say(make_vault(current_settings().vault))
        say("`parachute start` watches it.")
    else:
        vault = real_path(Path(options.path).expanduser())
        say(make_vault(vault))
        set_setting(home_folder(os.environ), "vault", os.fspath(vault))
        say("It is your vault from now on. `parachute start` watches it.")
        _mention_service(home_folder(os.environ))
    names = ",".join(vars(options)["with"] or ()).split(",")
    modules = [name.strip() for name in names if name.strip()]
    if not modules:
        return 0
    from parachuted.cli.modules import install_official

    if not (options.yes or sys.stdin.isatty()):
        how = "read what follows, then run `parachute modules approve NAME` for each"
        say(f"Nothing is approved without a terminal or --yes: {how}.")
    return install_official(modules, yes=options.yes)


def make_default_vault(vault: Path) -> None:
    """For `make run`."""
    is_default = vault == Settings().vault.expanduser()
    if not is_default or vault.exists() or was_vault(home_folder(os.environ), vault):
        return
    from parachuted.cli.modules import install_official

    say(make_vault(vault))
    names = ", ".join(_FIRST_MODULES)
    question = f"Install the modules that come with parachuted ({names})? Each is shown first."
    if sys.stdin.isatty() and agrees(question):
        install_official(_FIRST_MODULES, yes=False)


@verb("vault", "the vault in use")
def vault(_options: Namespace) -> Steps:
    """Show which folder of notes is used, or choose another."""
    chosen = current_settings().vault
    record = found_daemon()
    used = chosen if record is None else Path(str(record["vault"]))
    places = {"vault": os.fspath(used), "exists": used.is_dir()}
    yield {**places, "settings": os.fspath(chosen)}
    say(f"{used}{'' if used.is_dir() else ' (not there yet; `parachute init` makes it)'}")
    if used != chosen:
        say(f"The daemon that is running was started on it; the settings say {chosen}.")


@command("vault set", "use another vault")
def vault_set(options: Namespace) -> None:
    """Use another vault from the next start on.

    path  a folder that is there; `parachute init PATH` makes a new one
    """
    chosen = real_path(Path(options.path).expanduser())
    if not chosen.is_dir():
        how = f"`parachute init {shlex.quote(os.fspath(chosen))}` makes a vault there"
        raise ParachuteError(f"there is no folder {chosen}; {how}")
    set_setting(home_folder(os.environ), "vault", os.fspath(chosen))
    say(f"The vault is {chosen} from the next start on.")
    _mention_service(home_folder(os.environ))


def _mention_service(home: Path) -> None:
    if sys.platform.startswith("linux") and this_supervisor(home).file.is_file():
        say("The service may write the vault that it was installed with alone.")
        say("`parachute service install` once more tells it of this one.")


@command("vault separate", "make a copied vault independent, without a history", _UNCLEAR)
def vault_separate(options: Namespace) -> None:
    """Where `parachute start` cannot tell which vault it is: make a copied vault independent,
    without a history.
    """
    separate(home_folder(os.environ), Path(options.path).expanduser())
    say("It is a vault of its own, with a history that begins now.")


@command("vault adopt", "give a vault its history back", _UNCLEAR)
def vault_adopt(options: Namespace) -> None:
    """Where `parachute start` cannot tell which vault it is: give a vault its history back."""
    home, place = home_folder(os.environ), Path(options.path).expanduser()
    refuse_second(os.fspath(home), os.fspath(place))
    adopt(home, place)
    say("It has its history back. `parachute start` uses it.")


@verb("config", "the settings")
def config(_options: Namespace) -> Steps:
    """Show every setting, its value and what it means, or change one."""
    settings = current_settings()
    rows = [
        {"key": key, "value": setting_text(settings, key), "default": str(default), "means": means}
        for key, _type, default, means in describe_settings()
    ]
    rows += of_modules.module_settings()
    yield rows
    say_table(rows, {"SETTING": "key", "VALUE": "value", "DEFAULT": "default", "MEANS": "means"})
    say_each(f"note  {note}" for note in settings.notes)


@command("config set", "change a setting")
def config_set(options: Namespace) -> int:
    """Change one setting in config.yaml, which the daemon takes up at its next start; or one of a
    module's, such as modules.daily.layout, in modules.yaml, which it takes up at once.

    key  as `parachute config` lists it, such as agent.backend
    value  the new value; '' restores the default
    """
    return _set(options.key, options.value)


@command("config get", "the value of a setting", _SETTING)
def config_get(options: Namespace) -> None:
    """Print the value of one setting, alone."""
    if of_modules.is_of_module(options.key):
        say(of_modules.get_module_setting(options.key))
    else:
        say(_text(current_settings(), options.key))


@command("config unset", "restore a default", _SETTING)
def config_unset(options: Namespace) -> int:
    """Restore the default of one setting."""
    return _set(options.key, "")


def _set(key: str, value: str) -> int:
    if of_modules.is_of_module(key):
        code = of_modules.set_module_setting(key, value)
        say(f"{key} is {value or 'its default'} now.")
        return code
    text = _text(set_setting(home_folder(os.environ), key, value), key)
    default = "" if value else ", its default,"
    when = "from the next start of the daemon on (`parachute restart`)"
    say(f"{key} is {text or 'nothing'}{default} {when}.")
    return 0


def _text(settings: Settings, key: str) -> str:
    if key not in {described.key for described in describe_settings()}:
        raise ConfigError([f"{key} is not a setting; `parachute config` lists them"])
    return setting_text(settings, key)


AUTH = Command("auth", "the login for the model", "Which login for Claude was found.")


@verb("auth status", "what was found")
def auth_status(_options: Namespace) -> Steps:
    """Say where a login was looked for and found. Never shows it."""
    settings, record = current_settings(), found_daemon()
    logins = _logins_here(settings) if record is None else ask("GET /api/auth/logins")
    yield {"daemon": record["pid"] if record is not None else None, **logins}
    if record is not None:
        say(f"The daemon (pid {record['pid']}, watching {record['vault']}):")
    for login in logins["looked"]:
        say(f"{'found  ' if login['found'] else 'nothing'}  {login['place']}: {login['why']}")
    say(f"Agent: {logins['agent'].removesuffix(SEE_STATUS)}.")
    if logins["agent"].endswith(SEE_STATUS):
        how = "log in with Claude Code, `parachute auth set ANTHROPIC_API_KEY`"
        say(f"To use a model: {how}, or `parachute config set agent.base_url`")
        say("with the address of a local model; then `parachute restart`.")
    if record is not None:
        say_each(f"note  {difference}" for difference in _other_logins(record, logins))


@command(
    "auth set", "keep a login for a service", f"name NAME={'|'.join(_LOGINS)}  {', '.join(_LOGINS)}"
)
def auth_set(options: Namespace) -> None:
    """Keep a login in the home for a daemon that has no terminal's environment, as a service.
    It is typed, or piped in, and not shown.
    """
    home, question = home_folder(os.environ), f"{options.name} (nothing removes it): "
    typed = getpass.getpass(question) if sys.stdin.isatty() else sys.stdin.readline()
    secret = typed.strip()
    if secret and not secret.isprintable():
        raise ParachuteError("a login is one line of printable characters")
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    keep_login(home, options.name, secret)
    kept = f"{'kept' if secret else 'no longer kept'} in {home / LOGIN_FILE}"
    say(f"{options.name} is {kept}; `parachute restart` makes that count.")


def find_differences(record: dict[str, object], settings: Settings) -> list[str]:
    found = []
    if record["version"] != __version__:
        versions = f"the daemon is version {record['version']}, this command is {__version__}"
        found.append(f"{versions}; `parachute restart` starts the newer one")
    if record["vault"] != os.fspath(settings.vault):
        vaults = f"the daemon was started on {record['vault']}; the settings say {settings.vault}"
        found.append(vaults)
    file = Path(home_of(os.environ), "config.yaml")
    started = datetime.fromisoformat(str(record["started"]))
    if file.exists() and datetime.fromtimestamp(file.stat().st_mtime, UTC) > started:
        changed = "config.yaml was changed after the daemon started"
        found.append(f"{changed}; `parachute restart` reads it")
    return [*found, *_other_logins(record, ask("GET /api/auth/logins"))]


def _other_logins(record: dict[str, object], logins: Json) -> Iterator[str]:
    env = find_login_environment(os.environ, Path(home_of(os.environ)))
    looked = describe_credentials(env, Path(str(record["vault"])), Path.home())
    here = {login.place: login.found for login in looked}
    flags, advice = record.get("flags"), "`parachute restart`"
    if isinstance(flags, dict) and flags.get("foreground"):
        how = "docs/operating.md says how for a service"
        advice = f"start the daemon again where it has it; {how}"
    for login in logins["looked"]:
        place, found = login["place"], login["found"]
        name = place.removeprefix(_VARIABLE)
        if name == place or found == here.get(place, found):
            continue
        if found:
            yield f"the daemon was started with {name}, which this terminal does not have"
        else:
            without = f"{name}, which the daemon was started without"
            yield f"this terminal has {without}; to use it: {advice}"


def _logins_here(settings: Settings) -> Json:
    env = find_login_environment(os.environ, home_folder(os.environ))
    place = (env, settings.vault, Path.home())
    agent = settings.agent
    _name, reason = choose_backend(agent.backend, find_credential(*place), agent.base_url)
    looked = [
        {"place": login.place, "found": login.found, "why": login.why}
        for login in describe_credentials(*place)
    ]
    return {"agent": reason, "looked": looked}


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
    "shell =bash|zsh|fish  bash, zsh or fish",
    long=_ABOUT,
)
def completion(options: Namespace) -> None:
    """Print the script of a shell."""
    sys.stdout.write(shtab.complete(make_parser(), options.shell) + "\n")
