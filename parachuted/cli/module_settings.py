"""Settings of modules on the command line: `modules.NAME.KEY`, kept under `config:` in
modules.yaml.

Their kinds are known while the daemon runs; without it what is written is checked when the module
starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from parachuted.cli.client import ask, current_vault, is_running
from parachuted.cli.commands import Json
from parachuted.cli.show import say
from parachuted.config import home_folder
from parachuted.errors import ConfigError

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
    say(_shown(json.loads(_known(name, setting)["default"])))
    return 0


def set_module_setting(key: str, text: str) -> int:
    """Write it, or take it away where the text is empty; say how the module is then."""
    name, setting = _parted(key)
    kind = _known(name, setting)["kind"] if is_running() else ""
    value = _value(text, kind)
    take_back = _approvals().set_config(name, setting, value)
    if not is_running():
        say(f"{key} is {text or 'its default'} from the next start of the daemon on.")
        return 0
    module = ask("POST", f"/api/modules/{name}/restart", {})
    if module["status"] == "failed" and f"config.{setting}" in str(module["problem"]):
        take_back()
        ask("POST", f"/api/modules/{name}/restart", {})
        raise ConfigError([str(module["problem"]), f"{key} is as it was"])
    say(f"{key} is {text or 'its default'} now.")
    return int(module["status"] == "failed")


def _parted(key: str) -> tuple[str, str]:
    _, name, setting = key.split(".", 2)
    return name, setting


def _known(name: str, setting: str) -> Json:
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
