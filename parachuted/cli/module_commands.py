"""Commands of modules: `parachute daily add ...`, carried out by the daemon; and modules' settings.

Commands are known while the daemon runs; without it, only the names of modules are. A command of
parachuted's own that has the name of a module comes first.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parachuted.bundled import bundled_folder
from parachuted.cli.client import ask, current_vault, is_running
from parachuted.cli.commands import CommandFunction, CommandParser, Json
from parachuted.cli.show import say, say_json, say_lines
from parachuted.config import home_folder
from parachuted.errors import ConfigError, NoDaemonError, NotFoundError, ParachuteError
from parachuted.modules.registry.module_registry import ModuleRegistry

NOTHING = "(nothing)"
_INDENT = "  "
_EMPTY: tuple[object, ...] = (None, "", [], {})


def lines_of(answer: object) -> Iterator[str]:
    """The lines for any JSON value: a text as it is, a mapping as `key: value`, a list one after
    another. What is empty is left out of a mapping.
    """
    if answer is None:
        return
    if isinstance(answer, Mapping):
        yield from _fields(answer)
    elif isinstance(answer, list):
        yield from _items(answer) if answer else (NOTHING,)
    else:
        yield from _text(answer).split("\n")


def _fields(answer: Mapping[str, object]) -> Iterator[str]:
    for key, value in answer.items():
        name = key.replace("_", " ")
        if value in _EMPTY:
            continue
        lines = list(lines_of(value))
        if isinstance(value, Mapping | list) or len(lines) > 1:
            yield f"{name}:"
            yield from (f"{_INDENT}{line}".rstrip() for line in lines)
        else:
            yield f"{name}: {lines[0]}"


def _items(answer: list[object]) -> Iterator[str]:
    for number, item in enumerate(answer):
        if isinstance(item, Mapping | list) and number:
            yield ""
        yield from lines_of(item)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


_TIMEOUT_S = 120.0
_START_S, _LOOK_S = 15.0, 0.1
_AS_TEXT = "as_text"
_TYPES = {"integer": int, "number": float}


def find_module_command(
    arguments: Sequence[str],
) -> tuple[CommandFunction, argparse.Namespace] | None:
    """What these words ask of a module; None where there is no module of that name.

    Exits with 2 when they make no sense to it. Raises NoDaemonError, and NotFoundError for a
    module that has no commands or is not installed.
    """
    name = arguments[0]
    if not is_running():
        if name in _official() or name in ModuleRegistry(home_folder(os.environ)).load():
            raise NoDaemonError
        return None
    module = _started(name)
    if module is None and name in _official():
        raise NotFoundError(
            f"the module {name} is not installed; `parachute modules install parachute://{name} "
            "--trust trusted` installs it"
        )
    if module is None:
        return None
    if module["status"] == "unapproved":
        raise NotFoundError(
            f"the module {name} waits for your approval, and does not run; `parachute modules "
            f"approve {name}` shows what it may do, and asks"
        )
    if not module.get("commands"):
        raise NotFoundError(
            f"the module {name} does not run: {module['problem']}"
            if module["problem"]
            else f"the module {name} has no commands; `parachute modules status {name}` shows what "
            "it serves"
        )
    parser = _parser(module)
    usual = [one["name"] for one in module["commands"] if one["name"] == "status"]
    options = parser.parse_args(arguments[1:] or usual)
    if not hasattr(options, "spec"):
        parser.error("a command is missing; --help lists them")
    for name, schema in _properties(options.spec).items():
        value = getattr(options, name, None)
        if _known(schema).get("format") == "date" and isinstance(value, str) and not _is_day(value):
            parser.error(f"{value!r} is not a day; write it as YYYY-MM-DD, such as 2026-10-01")
    return partial(_run, module["name"]), options


def _started(name: str) -> Json | None:
    deadline = time.monotonic() + _START_S
    while True:
        found = (one for one in ask("GET", "/api/modules")["modules"] if one["name"] == name)
        module: Json | None = next(found, None)
        is_late = time.monotonic() > deadline
        if module is None or module["status"] != "starting" or is_late:
            return module
        time.sleep(_LOOK_S)


def _run(module: str, options: argparse.Namespace) -> int:
    spec = options.spec
    names = _properties(spec)
    given = {
        name: value for name, value in vars(options).items() if name in names and value is not None
    }
    given |= {
        name: sys.stdin.read()
        for name in spec["schema"].get("required", ())
        if given.get(name) == "-"
    }
    if _AS_TEXT in names:
        given[_AS_TEXT] = not options.as_json
    path = f"/api/modules/{module}/commands/{spec['name']}"
    result = ask("POST", path, given, timeout_s=_TIMEOUT_S)["result"]
    if options.as_json:
        return say_json(result)
    say_lines(lines_of(result))
    return 0


def _official() -> frozenset[str]:
    return frozenset(file.parent.name for file in bundled_folder("modules").glob("*/manifest.yaml"))


def _parser(module: Json) -> CommandParser:
    parser = CommandParser(
        prog=f"parachute {module['name']}", description=_escaped(module["description"])
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for spec in module["commands"]:
        said = _escaped(spec["help"])
        made = commands.add_parser(
            spec["name"], help=said.partition("\n")[0], description=said.partition("\n")[0]
        )
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
    """What must be there is a word, in the order of the parameters; all else is an option. What is
    marked `is_word` may be either.
    """
    one = _known(schema)
    is_word = one.get("is_word") is True
    options: dict[str, Any] = {"help": _escaped(str(one.get("description", ""))) or None}
    if one.get("type") == "boolean":
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            action=argparse.BooleanOptionalAction,
            **options,
        )
        return
    if one.get("type") == "array":
        one = _known(one.get("items", {}))
        options["nargs"] = "+" if is_required else "*"
    if (kind := _TYPES.get(one.get("type", ""))) is not None:
        options["type"] = kind
    if "enum" in one:
        options["choices"] = [value for value in one["enum"] if value is not None]
    options["metavar"] = name.upper()
    if is_required:
        parser.add_argument(name, **options)
    else:
        if is_word:
            parser.add_argument(name, nargs="?", default=argparse.SUPPRESS, **options)
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, **options)


def _known(schema: Json) -> Json:
    """The kind of a value that may also be missing."""
    some = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    outer = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**outer, **_known(some[0])} if some else schema


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _escaped(text: str) -> str:
    return text.replace("%", "%%")  # argparse formats its help


if TYPE_CHECKING:
    from parachuted.modules.registry.approvals import ModuleApprovals
    from parachuted.modules.settings import SettingValue

MODULES_KEY = "modules."
_PARTS = 3


def is_of_module(key: str) -> bool:
    """Whether the key is of a module's setting, and not of the daemon's own for all modules."""
    return key.startswith(MODULES_KEY) and len(key.split(".")) == _PARTS


def module_settings() -> list[tuple[str, str, str, str]]:
    """The settings of the modules that run: key, value, default and meaning."""
    if not is_running():
        return []
    rows = []
    for module in ask("GET", "/api/modules")["modules"]:
        if not module.get("settings"):
            continue
        written = _approvals().config(module["name"])
        for one in module["settings"]:
            default = _shown(json.loads(one["default"]))
            value = _shown(written[one["key"]]) if one["key"] in written else default
            means = f"{one['description']} ({one['kind']})".lstrip()
            rows.append((f"{MODULES_KEY}{module['name']}.{one['key']}", value, default, means))
    return rows


def get_module_setting(key: str) -> int:
    """Print it, alone."""
    name, setting = _parted(key)
    written = _approvals().config(name)
    if setting in written:
        say(_shown(written[setting]))
        return 0
    say(_shown(json.loads(_get_setting(name, setting)["default"])))
    return 0


def set_module_setting(key: str, text: str) -> int:
    """Write it, or take it away where the text is empty; say how the module is then."""
    name, setting = _parted(key)
    kind = _get_setting(name, setting)["kind"] if is_running() else ""
    value = _value(text, kind)
    if not is_running():
        _approvals().set_config(name, setting, value)
        say(f"{key} is {text or 'its default'} from the next start of the daemon on.")
        return 0
    try:
        ask("PUT", f"/api/modules/{name}/settings/{setting}", {"value": value})
    except ParachuteError as error:
        raise ConfigError([error.message]) from error
    say(f"{key} is {text or 'its default'} now.")
    return int(ask("GET", f"/api/modules/{name}")["status"] == "failed")


def _parted(key: str) -> tuple[str, str]:
    _, name, setting = key.split(".", 2)
    return name, setting


def _get_setting(name: str, setting: str) -> Json:
    """Raises ConfigError where the module lacks that setting, or does not run."""
    if not is_running():
        raise ConfigError(
            [f"{setting} is not set; its default is known while the daemon runs"],
        )
    found = ask("GET", f"/api/modules/{name}")["settings"]
    one = next((one for one in found if one["key"] == setting), None)
    if one is None:
        names = ", ".join(one["key"] for one in found) or "none"
        raise ConfigError([f"the module {name} has no setting {setting}; it has {names}"])
    return one


def _value(text: str, kind: str) -> SettingValue:
    """The text as modules.yaml has it: only a text is in quotes."""
    if not text:
        return None
    if "text" in kind.split(" | "):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, Mapping) else "{...}"


def _approvals() -> ModuleApprovals:
    from parachuted.modules.registry.approvals import ModuleApprovals

    return ModuleApprovals(home_folder(os.environ), Path(current_vault()), env=os.environ)
