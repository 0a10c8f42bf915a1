"""Setup: the commands that need no daemon: the vault, the settings, the login, the service."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from parachuted.agents import SEE_STATUS, choose_backend, describe_credentials, find_credential
from parachuted.agents.credentials import LOGIN_FILE, find_login_environment, keep_login
from parachuted.bundled import bundled_folder
from parachuted.cli.client import home_of
from parachuted.cli.commands import Commands, add_command, add_json
from parachuted.cli.running import ask_logins, find_login_differences
from parachuted.cli.service import (
    ServiceOutcome,
    find_state,
    install,
    status,
    this_supervisor,
    uninstall,
)
from parachuted.cli.show import say, say_json, say_table, say_text
from parachuted.cli.supervisor import ServiceTarget
from parachuted.config import Settings, describe_settings, home_folder, load_settings, set_setting
from parachuted.errors import ConfigError, ParachuteError
from parachuted.presence import refuse_second, running_daemon
from parachuted.vault_state import adopt, no_vault, separate, was_vault

LOGINS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")


def add_parsers(commands: Commands) -> None:
    """Add these commands to the parser."""
    service = add_command(
        commands,
        "service",
        None,
        "run at login",
        "Let systemd (Linux) or launchd (macOS) start the daemon at login and keep it running.",
    )
    parts = service.add_subparsers(metavar="COMMAND")
    add_command(
        parts,
        "install",
        service_install,
        "install and start the service",
        "Install the service for you alone, and start it.",
    )
    add_command(
        parts,
        "uninstall",
        service_uninstall,
        "stop and remove the service",
        "Stop the service and remove exactly what was installed.",
    )
    add_json(
        add_command(
            parts,
            "status",
            service_status,
            "the state of the service",
            "Say whether the service is installed, enabled and running.",
        )
    )
    init_parser = add_command(
        commands,
        "init",
        init,
        "create a vault",
        "Create a vault from the template, and use it from now on.",
    )
    init_parser.add_argument(
        "path", nargs="?", metavar="PATH", help="where (default: the setting `vault`, ~/Parachute)"
    )
    init_parser.add_argument(
        "--from",
        dest="older",
        metavar="FOLDER",
        help="an older server's vault, or the .parachute in it: take over its settings and keys, "
        "after showing which",
    )
    init_parser.add_argument("--yes", action="store_true", help="with --from: do it without asking")
    vault_parser = add_command(
        commands,
        "vault",
        vault,
        "the vault in use",
        "Show which folder of notes is used, or choose another.",
    )
    add_json(vault_parser)
    chosen = vault_parser.add_subparsers(metavar="COMMAND")
    setter = add_command(
        chosen,
        "set",
        vault_set,
        "use another vault",
        "Use another vault from the next start on.",
    )
    setter.add_argument(
        "path", metavar="PATH", help="a folder that is there; `parachute init PATH` makes a new one"
    )
    for name, run, does in (
        ("separate", vault_separate, "make a copied vault independent, without a history"),
        ("adopt", vault_adopt, "give a vault its history back"),
    ):
        answer = add_command(
            chosen,
            name,
            run,
            does,
            f"Where `parachute start` cannot tell which vault it is: {does}.",
        )
        answer.add_argument("path", metavar="PATH", help="the vault that is unclear")
    config_parser = add_command(
        commands,
        "config",
        config,
        "the settings",
        "Show every setting, its value and what it means, or change one.",
    )
    add_json(config_parser)
    changed = config_parser.add_subparsers(metavar="COMMAND")
    change = add_command(
        changed,
        "set",
        config_set,
        "change a setting",
        "Change one setting in config.yaml; the daemon takes it up at its next start.",
    )
    change.add_argument(
        "key", metavar="KEY", help="as `parachute config` lists it, such as agent.backend"
    )
    change.add_argument("value", metavar="VALUE", help="the new value; '' restores the default")
    for name, run, short, long in (
        (
            "get",
            config_get,
            "the value of a setting",
            "Print the value of one setting, alone.",
        ),
        ("unset", config_unset, "restore a default", "Restore the default of one setting."),
    ):
        add_command(changed, name, run, short, long).add_argument(
            "key", metavar="KEY", help="as `parachute config` lists it"
        )
    auth = add_command(
        commands, "auth", None, "the login for the model", "Which login for Claude was found."
    )
    parts = auth.add_subparsers(metavar="COMMAND")
    add_json(
        add_command(
            parts,
            "status",
            auth_status,
            "what was found",
            "Say where a login was looked for and found. Never shows it.",
        )
    )
    says = (
        "Keep a login in the home for a daemon that has no terminal's environment, as a "
        "service. It is typed, or piped in, and not shown."
    )
    keep = add_command(parts, "set", auth_set, "keep a login for a service", says)
    keep.add_argument("name", choices=LOGINS, metavar="NAME", help=", ".join(LOGINS))


def load(flags: Mapping[str, object]) -> Settings:
    """The settings of this home, this environment and these flags (None: not given).

    Raises ConfigError.
    """
    return load_settings(
        home_folder(os.environ),
        os.environ,
        {key: value for key, value in flags.items() if value is not None},
    )


def init(options: Namespace) -> int:
    """`parachute init [PATH]`."""
    if options.older is not None:
        return _init_from(options)
    if options.path is None:
        say(make_vault(load({}).vault))
        say("`parachute start` watches it.")
        return 0
    vault = Path(options.path).expanduser().resolve()
    say(make_vault(vault))
    set_setting(home_folder(os.environ), "vault", os.fspath(vault))
    say("It is your vault from now on. `parachute start` watches it.")
    _mention_service(home_folder(os.environ))
    return 0


def _init_from(options: Namespace) -> int:
    from parachuted.cli.older_server import plan, tell_and_take

    if options.path is not None:
        raise ParachuteError(
            "--from FOLDER says which vault it is; leave PATH out, and choose another with "
            "`parachute vault set` afterwards"
        )
    home = home_folder(os.environ)
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    steps = plan(Path(options.older).expanduser().resolve(), home)
    if tell_and_take(steps, may_act=lambda: options.yes or (sys.stdin.isatty() and _agrees())):
        say("Done. `parachute start` watches the vault; the older server's folder is as it was.")
    else:
        say("Nothing was done; --yes does it.")
    return 0


def _agrees() -> bool:
    return input("Do this? [y/N] ").strip().lower() in {"y", "yes"}


def make_vault(vault: Path) -> str:
    """Make a vault from the template; what is there already is left as it is.

    Raises ParachuteError when it cannot be made.
    """
    if vault.is_dir() and any(vault.iterdir()):
        return f"{vault} is there already, and is left as it is."
    try:
        shutil.copytree(
            bundled_folder("vault-template"),
            vault,
            copy_function=shutil.copyfile,
            dirs_exist_ok=True,
        )
    except OSError as error:
        raise ParachuteError(
            f"the vault {vault} cannot be made: {error.strerror or error}"
        ) from error
    return f"Made {vault}, with a few notes to begin with."


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


def vault(options: Namespace) -> int:
    """`parachute vault`: the one that the running daemon watches, else the one of the settings."""
    chosen = load({}).vault
    record = running_daemon(home_of(os.environ))
    used = chosen if record is None else Path(str(record["vault"]))
    if options.json:
        say_json({"vault": os.fspath(used), "exists": used.is_dir(), "settings": os.fspath(chosen)})
        return 0
    say(f"{used}{'' if used.is_dir() else ' (not there yet; `parachute init` makes it)'}")
    if used != chosen:
        say(f"The daemon that is running was started on it; the settings say {chosen}.")
    return 0


def vault_set(options: Namespace) -> int:
    """`parachute vault set PATH`."""
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


def vault_separate(options: Namespace) -> int:
    """`parachute vault separate PATH`."""
    separate(home_folder(os.environ), Path(options.path).expanduser())
    say("It is a vault of its own, with a history that begins now.")
    return 0


def vault_adopt(options: Namespace) -> int:
    """`parachute vault adopt PATH`."""
    home, place = home_folder(os.environ), Path(options.path).expanduser()
    refuse_second(os.fspath(home), os.fspath(place))
    adopt(home, place)
    say("It has its history back. `parachute start` uses it.")
    return 0


def config(options: Namespace) -> int:
    """`parachute config`."""
    settings = load({})
    rows = [
        (key, _value(settings, key), str(default), means)
        for key, _type, default, means in describe_settings()
    ]
    if options.json:
        say_json(
            [
                {"key": key, "value": value, "default": default, "means": means}
                for key, value, default, means in rows
            ]
        )
        return 0
    say_table(rows, ("SETTING", "VALUE", "DEFAULT", "MEANS"), nothing="")
    for note in settings.notes:
        say(f"note  {note}")
    return 0


def config_set(options: Namespace) -> int:
    """`parachute config set KEY VALUE`."""
    settings = set_setting(home_folder(os.environ), options.key, options.value)
    say(
        f"{options.key} is {_value(settings, options.key)} from the next start of the daemon on "
        "(`parachute restart`)."
    )
    return 0


def config_get(options: Namespace) -> int:
    """`parachute config get KEY`: the value alone, for programs too."""
    say(_value(load({}), _known(options.key)))
    return 0


def config_unset(options: Namespace) -> int:
    """`parachute config unset KEY`."""
    settings = set_setting(home_folder(os.environ), options.key, "")
    say(
        f"{options.key} is {_value(settings, options.key) or 'nothing'}, its default, from the "
        "next start of the daemon on."
    )
    return 0


def _known(key: str) -> str:
    if key not in {described.key for described in describe_settings()}:
        raise ConfigError([f"{key} is not a setting; `parachute config` lists them"])
    return key


def auth_status(options: Namespace) -> int:
    """`parachute auth status`: what the running daemon found, else what one that is started here
    would find.
    """
    settings = load({})
    record, logins = running_daemon(home_of(os.environ)), ask_logins()
    if record is None or logins is None:
        logins = _logins_here(settings)
    if options.json:
        say_json({"daemon": record["pid"] if record is not None else None, **logins})
        return 0
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


def auth_set(options: Namespace) -> int:
    """`parachute auth set NAME`: the login is typed or piped, so that no list of processes shows
    it.
    """
    home = home_folder(os.environ)
    typed = (
        getpass.getpass(f"{options.name} (nothing removes it): ")
        if sys.stdin.isatty()
        else sys.stdin.readline()
    )
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


def _logins_here(settings: Settings) -> dict[str, Any]:
    place = (
        find_login_environment(os.environ, home_folder(os.environ)),
        settings.vault,
        Path.home(),
    )
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


def service_install(_options: Namespace) -> int:
    """`parachute service install`."""
    settings = load({})
    if not settings.vault.is_dir():
        raise ParachuteError(no_vault(settings.vault))
    home = home_folder(os.environ)
    if load_settings(home, {"HOME": os.fspath(Path.home())}, {}).vault != settings.vault:
        set_setting(home, "vault", os.fspath(settings.vault))
        say(f"The vault {settings.vault} is in config.yaml now, where the service looks for it.")
    return _say(install(ServiceTarget(vault=settings.vault, home=home), this_supervisor(home)))


def service_uninstall(_options: Namespace) -> int:
    """`parachute service uninstall`."""
    return _say(uninstall(this_supervisor(home_folder(os.environ))))


def service_status(options: Namespace) -> int:
    """`parachute service status`."""
    supervisor = this_supervisor(home_folder(os.environ))
    if options.json:
        state = find_state(supervisor)
        say_json({**asdict(state), "file": os.fspath(state.file)})
        return status(supervisor).code
    return _say(status(supervisor))


def _say(outcome: ServiceOutcome) -> int:
    say_text(outcome.text.rstrip("\n"))
    return outcome.code


def _value(settings: Settings, key: str) -> str:
    value: object = settings
    for name in key.split("."):
        value = getattr(value, name)
    return (
        "" if value is None else re.sub(r"(://)[^/\s@]+@", r"\1[secret]@", str(value))
    )  # a login in an address is shown to nobody
