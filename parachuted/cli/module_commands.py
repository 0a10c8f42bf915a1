"""Commands of modules: `parachute daily add ...`, carried out by the daemon; and modules' settings.

A command of parachuted's own that has the name of a module comes first.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

from parachuted.cli.client import ask, is_running, quoted
from parachuted.cli.commands import CommandFunction, CommandParser, Json
from parachuted.cli.show import lines_of, say_json, say_lines
from parachuted.config import home_folder
from parachuted.errors import ConfigError, NoDaemonError, NotFoundError, ParachuteError
from parachuted.home_files.bundled import bundled_folder
from parachuted.modules.registry.approved import ModuleRegistry

_START_S, _LOOK_S = 15.0, 0.1
_AS_TEXT = "as_text"
_TYPES: dict[str, Callable[[str], object]] = {"integer": int, "number": float}


def find_module_command(
    arguments: Sequence[str],
) -> tuple[CommandFunction, argparse.Namespace] | None:
    """What these words ask of a module; None where there is none of that name. Exits with 2 when
    they make no sense. NotFoundError: it has no commands, or is not installed.
    """
    name = arguments[0]
    is_official = (bundled_folder("modules") / name / "manifest.yaml").is_file()
    if not is_running():
        if is_official or name in ModuleRegistry(home_folder(os.environ)).records():
            raise NoDaemonError
        return None
    module = _started(name)
    if module is None and is_official:
        how = f"`parachute modules install parachute://{name} --trust trusted` installs it"
        raise NotFoundError(f"the module {name} is not installed; {how}")
    if module is None:
        return None
    if module["status"] == "unapproved":
        how = f"`parachute modules approve {name}` shows what it may do, and asks"
        raise NotFoundError(f"the module {name} waits for your approval, and does not run; {how}")
    if not module.get("commands"):
        how = f"has no commands; `parachute modules status {name}` shows what it serves"
        problem = f"does not run: {module['problem']}" if module["problem"] else how
        raise NotFoundError(f"the module {name} {problem}")
    parser = _parser(module)
    usual = [spec["name"] for spec in module["commands"] if spec["name"] == "status"]
    options = parser.parse_args(arguments[1:] or usual)
    if not hasattr(options, "spec"):
        parser.error("a command is missing; --help lists them")
    return partial(_run, module["name"]), options


def _started(name: str) -> Json | None:
    deadline = time.monotonic() + _START_S
    while True:
        modules = {module["name"]: module for module in ask("GET /api/modules")["modules"]}
        module = modules.get(name)
        if module is None or module["status"] != "starting" or time.monotonic() > deadline:
            return module
        time.sleep(_LOOK_S)


def _run(module: str, options: argparse.Namespace) -> int:
    spec, names = options.spec, _properties(options.spec)
    values = {key: vars(options)[key] for key in names if vars(options).get(key) is not None}
    for name in spec["schema"].get("required", ()):
        if values.get(name) == "-":
            values[name] = sys.stdin.read()
    if _AS_TEXT in names:
        values[_AS_TEXT] = not options.as_json
    result = ask(f"POST /api/modules/{module}/commands/{spec['name']}", values)["result"]
    if options.as_json:
        return say_json(result)
    say_lines(lines_of(result))
    return 0


def _parser(module: Json) -> CommandParser:
    parser = CommandParser(
        prog=f"parachute {module['name']}", description=_escaped(module["description"])
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for spec in module["commands"]:
        short = _escaped(spec["help"]).partition("\n")[0]
        made = commands.add_parser(spec["name"], help=short, description=short)
        made.set_defaults(spec=spec)
        required = set(spec["schema"].get("required", ()))
        for name, schema in _properties(spec).items():
            if name != _AS_TEXT:
                _add(made, name, schema, is_required=name in required)
        made.add_argument("--json", dest="as_json", action="store_true", help="print JSON")
    return parser


def _properties(spec: Json) -> Mapping[str, Any]:
    found = spec["schema"].get("properties", {})
    return found if isinstance(found, dict) else {}


def _add(parser: argparse.ArgumentParser, name: str, schema: Json, *, is_required: bool) -> None:
    """What is required is a word, all else an option; `is_word` marks what may be either."""
    known, option = _known(schema), f"--{name.replace('_', '-')}"
    options: dict[str, Any] = {"help": _escaped(str(known.get("description", ""))) or None}
    if known.get("type") == "boolean":
        action = argparse.BooleanOptionalAction
        parser.add_argument(option, dest=name, action=action, **options)
        return
    if known.get("type") == "array":
        known = _known(known.get("items", {}))
        options["nargs"] = "+" if is_required else "*"
    kind = _day if known.get("format") == "date" else _TYPES.get(known.get("type", ""))
    if kind is not None:
        options["type"] = kind
    if "enum" in known:
        options["choices"] = [value for value in known["enum"] if value is not None]
    options["metavar"] = name.upper()
    if is_required:
        parser.add_argument(name, **options)
        return
    if _known(schema).get("is_word") is True:
        parser.add_argument(name, nargs="?", default=argparse.SUPPRESS, **options)
    parser.add_argument(option, dest=name, **options)


def _known(schema: Json) -> Json:
    some = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    outer = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**outer, **_known(some[0])} if some else schema


def _day(text: str) -> str:
    try:
        # argparse gives the default of a word too
        return text if text == argparse.SUPPRESS else date.fromisoformat(text).isoformat()
    except ValueError as error:
        how = f"{text!r} is not a day; write it as YYYY-MM-DD, such as 2026-10-01"
        raise argparse.ArgumentTypeError(how) from error


def _escaped(text: str) -> str:
    return text.replace("%", "%%")  # argparse formats its help


MODULES_KEY = "modules."
_PARTS = 3


def is_of_module(key: str) -> bool:
    return key.startswith(MODULES_KEY) and len(key.split(".")) == _PARTS


def module_settings() -> list[dict[str, str]]:
    if not is_running():
        return []
    return [
        {
            "key": f"{MODULES_KEY}{module['name']}.{setting['key']}",
            "value": _shown(setting["value"]),
            "default": _shown(setting["default"]),
            "means": f"{setting['description']} ({setting['kind']})".lstrip(),
        }
        for module in ask("GET /api/modules")["modules"]
        if module["settings"]
        for setting in ask(f"GET /api/modules/{quoted(module['name'])}/settings")["settings"]
    ]


def get_module_setting(key: str) -> str:
    """Its value. Raises ConfigError where the module lacks it, or does not run."""
    return _shown(_setting(key)["value"])


def set_module_setting(key: str, text: str) -> int:
    """Have the daemon write it, or take it away where the text is empty; 1: the module fails."""
    kind, (_, name, setting) = _setting(key)["kind"], key.split(".", 2)
    body = {"value": _value(text, kind)}
    try:
        ask(f"PUT /api/modules/{quoted(name)}/settings/{quoted(setting)}", body)
    except NoDaemonError:
        raise
    except ParachuteError as error:
        raise ConfigError([error.message]) from error
    return int(ask(f"GET /api/modules/{quoted(name)}")["status"] == "failed")


def _setting(key: str) -> Json:
    _, name, wanted = key.split(".", 2)
    found = ask(f"GET /api/modules/{quoted(name)}/settings")["settings"]
    for setting in found:
        if setting["key"] == wanted:
            return setting
    names = ", ".join(setting["key"] for setting in found) or "none"
    raise ConfigError([f"the module {name} has no setting {wanted}; it has {names}"])


def _value(text: str, kind: str) -> object:
    """The text as modules.yaml has it: only a text is in quotes."""
    if not text or "text" in kind.split(" | "):
        return text or None
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, Mapping) else "{...}"
