"""Generate: writes docs/reference/ from the command line's parser, the settings, the catalogue of
events and a daemon's OpenAPI document.

Run `python docs/generate.py` after a change to one of these; tests/test_docs.py fails until that is
done.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parachuted.cli.parser import make_parser
from parachuted.config import describe_settings
from parachuted.events import CATALOG
from parachuted.events.fields import HOLDS
from parachuted.modules.registry.manifest import read_manifest

REFERENCE = Path(__file__).resolve().parent / "reference"
MODULES = Path(__file__).resolve().parent.parent / "modules"
_GENERATED = "<!-- Made by docs/generate.py; do not edit. -->"
_MODULES = {
    "vault": "Notes and files",
    "curator": "Agents, runs and what they wrote",
    "system": "The daemon, keys, hooks, modules and the audit",
}


def references(openapi: Mapping[str, Any]) -> dict[str, str]:
    """The text of every page below docs/reference/, by file name.

    `openapi` is what GET /api/openapi.json answers without modules.
    """
    pages = {
        "commands.md": _commands(),
        "settings.md": _settings(),
        "events.md": _events(),
        "api.md": "\n".join(_http_api(openapi)),
    }
    return {name: f"{_GENERATED}\n\n{text.rstrip()}\n" for name, text in pages.items()}


def _text(text: str) -> str:
    """The same words in markdown: nothing outside code spans is markup, and no bar ends a table's
    cell.
    """
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    parts = [
        part.replace("|", "\\|")
        if part.startswith("`")
        else re.sub(r"([*_<>|\[\]])", r"\\\1", part)
        for part in parts
    ]
    return "".join(parts)


def _table(heads: list[str], rows: Iterator[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _settings() -> str:
    rows = (
        [f"`{name}`", _text(kind), f"`{default}`" if default else "", _text(means)]
        for name, kind, default, means in describe_settings()
    )
    about = (
        "# Settings\n\nThey are in `$PARACHUTE_HOME/config.yaml` (`~/.parachute/config.yaml`). An "
        "environment variable, such as\n"
        "`PARACHUTE_BUBBLE_QUIET_S` for `bubble.quiet_s`, overrides the file, and a flag "
        "overrides both.\n"
        "`parachute config` shows them with their values, `parachute config set KEY VALUE` "
        "changes one; `parachute restart`\n"
        "makes the daemon use it.\n\n"
    )
    return about + _table(["setting", "kind", "default", "meaning"], rows)


def _events() -> str:
    def rows(*, blocks: bool) -> Iterator[list[str]]:
        for kind in CATALOG.values():
            if kind.blocks == blocks:
                names = ", ".join(f"`{name}: {field}`" for name, field in kind.fields.items())
                yield [
                    f"`{kind.name}`",
                    _text(kind.tells),
                    names,
                    f"`{kind.claude}`" if kind.claude else "",
                    f"`{kind.scope}`",
                ]

    heads = ["event", "meaning", "`data`", "in Claude Code", "key's scope"]
    return (
        '# Events\n\nEach event is a JSON object `{"event", "timestamp", "vault_path", "module", '
        '"data"}`; `module` is the module that\n'
        "published it, or `core`. `GET /api/events` streams the events of the first table, and "
        "[hooks](../hooks.md) are run on both.\n"
        "A key hears an event if it may read in the scope named in the last column; a key with "
        "paths hears of the files\nthere, and of nothing else. `data` names "
        "each field with its kind; any of\nthem may be null. GET /api/openapi.json has the JSON "
        "schema of each event, those of the modules that run too, as `x-events`.\n\n"
        f"## What has happened\n\n{_table(heads, rows(blocks=False))}\n\n"
        "## What is about to happen\n\nOnly hooks receive these, and can stop them.\n\n"
        + _table(heads[:4], (row[:4] for row in rows(blocks=True)))
        + "\n\n## Of the official modules\n\nBeside those above, while such a module runs. What "
        "a module of your own\npublishes stands in [its manifest](../../modules/README.md).\n\n"
        + _table(["event", "`data`", "key's scope"], _modules_events())
        + "\n\n## Kinds of fields\n\n"
        + "\n".join(f"- `{kind}`: {_text(says)}" for kind, says in HOLDS.items())
    )


def _modules_events() -> Iterator[list[str]]:
    for file in sorted(MODULES.glob("*/manifest.yaml")):
        manifest = read_manifest(file.read_bytes())
        for event, fields in manifest.publishes.items():
            named = ", ".join(f"`{name}: {kind}`" for name, kind in fields.items())
            yield [f"`{event}`", named, f"`{manifest.name}`"]


def _commands() -> str:
    parser = make_parser()
    about = (
        "# Commands\n\nEach listing takes `--json`. Settings come from "
        "[config.yaml](settings.md).\n\n"
    )
    codes = re.search(r"Exit codes: .*", parser.epilog or "")
    return (
        about
        + (f"{_text(codes[0])}\n\n" if codes else "")
        + "\n".join(_command(parser, "parachute"))
    )


def _command(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    options = [
        action
        for action in parser._actions  # noqa: SLF001  argparse has no public list
        if not isinstance(action, argparse._SubParsersAction)  # noqa: SLF001  the same
    ]
    shown = [
        option
        for option in options
        if option.help != argparse.SUPPRESS and option.dest not in {"help", "version"}
    ]
    if parser.get_default("run"):
        yield f"## `{name}`\n"
        yield f"```text\n{' '.join([name, *map(_usage, shown)])}\n```\n"
        yield from _description(parser.description or "")
        if shown:
            yield (
                "\n".join(
                    f"- `{_spelling(one)}`: {_text((one.help or '') % vars(one))}" for one in shown
                )
                + "\n"
            )
    for below in parser._actions:  # noqa: SLF001  the same
        if isinstance(below, argparse._SubParsersAction):  # noqa: SLF001  the same
            for word, inner in below.choices.items():
                yield from _command(inner, f"{name} {word}")


def _description(text: str) -> Iterator[str]:
    if "\n" in text.strip():
        yield f"```text\n{text.strip()}\n```\n"
    else:
        yield f"{_text(text)}\n"


def _spelling(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if not action.option_strings:
        return metavar
    takes = "" if action.nargs == 0 else f" {metavar}"
    return ", ".join(action.option_strings) + takes


def _usage(action: argparse.Action) -> str:
    word = _spelling(action)
    if action.option_strings:
        return f"[{word.split(', ')[-1]}]"
    many = {"*": f"[{word} ...]", "?": f"[{word}]", "+": f"{word} ..."}
    return many.get(str(action.nargs), word)


def _http_api(openapi: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "# HTTP API\n\nEvery call of the daemon itself; [the API](../api.md) says how to use "
        "them. `/api/docs` of a running daemon has\n"
        "all of this with the shapes of answers and the calls of your modules. *Scope* is what a "
        "key must be allowed to do; a key with paths\n"
        "makes the calls marked *or paths of it*, and no other. The errors are:\n"
    )
    errors = {
        name.removeprefix("Error"): error["description"]
        for name, error in openapi["components"]["responses"].items()
    }
    rows = ([status, _text(says)] for status, says in sorted(errors.items()))
    yield _table(["status", "meaning"], rows) + "\n"
    for module, title in _MODULES.items():
        yield f"## {title}\n"
        for path, calls in openapi["paths"].items():
            for method, call in calls.items():
                if call["tags"] == [module]:
                    yield from _call(openapi, f"{method.upper()} {path}", call)
    yield "## Shapes\n\nThe fields of what is sent and answered.\n"
    for name, shape in openapi["components"]["schemas"].items():
        fields = (f"`{key}` ({_type(said)})" for key, said in shape.get("properties", {}).items())
        yield f"- `{name}`: {', '.join(fields) or _type(shape)}"


def _call(openapi: Mapping[str, Any], name: str, call: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{name}`\n"
    yield "  \n".join(filter(None, [_text(call["summary"]), _scope(call)])) + "\n"
    rows = [
        (
            parameter["name"],
            f"in {parameter['in']}",
            parameter["schema"],
            parameter["required"],
            parameter.get("description", ""),
        )
        for parameter in call.get("parameters", [])
    ]
    body = _resolve(
        openapi,
        call.get("requestBody", {})
        .get("content", {})
        .get("application/json", {})
        .get("schema", {}),
    )
    needed = body.get("required", [])
    rows += [
        (key, "in body", schema, key in needed, schema.get("description", ""))
        for key, schema in body.get("properties", {}).items()
    ]
    if rows:
        yield (
            "\n".join(
                f"- `{key}` "
                f"({', '.join([where, _kind(openapi, schema), *['required'] * required])}){': ' * bool(says)}{_text(says)}"  # noqa: E501
                for key, where, schema, required, says in rows
            )
            + "\n"
        )
    yield f"Answers {'; '.join(_answers(call))}.\n"


def _scope(call: Mapping[str, Any]) -> str:
    if not call.get("x-capability"):
        return "*Scope:* none, no key is needed."
    paths = ", or paths of it" if call.get("x-for-path-keys") else ""
    return f"*Scope:* `{call['x-module']}:{call['x-capability']}`{paths}."


def _answers(call: Mapping[str, Any]) -> Iterator[str]:
    for status, answer in call["responses"].items():
        if int(status) < 400:  # noqa: PLR2004  the statuses of errors
            kinds = answer.get("content", {})
            names = [_body(kind, content.get("schema", {})) for kind, content in kinds.items()]
            yield f"{status}{' with ' * bool(names)}{' or '.join(names)}"


def _body(kind: str, schema: Mapping[str, Any]) -> str:
    fields = schema.get("properties", {}).items()
    if fields:
        return " and ".join(f"`{name}` ({_type(field)})" for name, field in fields)
    return _type(schema) if "$ref" in schema else f"`{kind}`"


def _type(schema: Mapping[str, Any]) -> str:
    """The type of a field, with the names of other shapes."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{one}`" for one in schema.get("enum", [schema.get("const")]))
    if schema.get("items"):
        return f"list of {_type(schema['items'])}"
    values = schema.get("additionalProperties")
    return f"map of {_type(values)}" if isinstance(values, dict) else schema.get("type", "any")


def _kind(openapi: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    schema = _resolve(openapi, schema)
    if "anyOf" in schema:
        return " or ".join(
            _kind(openapi, one) for one in schema["anyOf"] if one.get("type") != "null"
        )
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    kind = str(schema.get("type", "any"))
    if kind == "object" and schema.get("properties"):
        return f"object with {', '.join(f'`{name}`' for name in schema['properties'])}"
    return (
        f"list of {_kind(openapi, schema['items'])}"
        if kind == "array" and "items" in schema
        else kind
    )


def _resolve(openapi: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    resolved: Mapping[str, Any] = openapi["components"]["schemas"][
        schema["$ref"].rpartition("/")[2]
    ]
    return resolved


def read_openapi_at(port: int) -> Mapping[str, Any]:
    """What the daemon at this port of this machine answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}/api/openapi.json") as answer:
        document: Mapping[str, Any] = json.load(answer)
        return document


def read_openapi() -> Mapping[str, Any]:
    """What a daemon of its own, in a temporary home and vault, answers."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        env = {**os.environ, "HOME": folder, "PARACHUTE_HOME": str(home)}
        parachute = [sys.executable, "-m", "parachuted"]
        subprocess.run(
            [*parachute, "init", str(Path(folder, "vault"))],
            env=env,
            check=True,
            stdout=subprocess.PIPE,
        )
        subprocess.run(
            [*parachute, "start", "--port", "0"], env=env, check=True, stdout=subprocess.PIPE
        )
        try:
            return read_openapi_at(json.loads((home / "run/daemon.json").read_text())["port"])
        finally:
            subprocess.run([*parachute, "stop"], env=env, check=True, stdout=subprocess.PIPE)


if __name__ == "__main__":
    REFERENCE.mkdir(exist_ok=True)
    for page, text in references(read_openapi()).items():
        (REFERENCE / page).write_text(text, "utf-8")
