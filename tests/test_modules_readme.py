"""modules/README and its tutorial: every table is held against the code, and its modules are
run.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import parachuted.modules
from parachuted.cli.parser import make_parser
from parachuted.modules import AgentConfig, Module, SandboxConfig, VaultAccess
from parachuted.modules.registry.manifest import Manifest
from parachuted.modules.registry.skeleton import new_module
from parachuted.testing import ModuleHarness, running_module
from tests.modules.small_modules import StubServices

ROOT = Path(__file__).resolve().parent.parent
README = "\n".join(
    (ROOT / page).read_text("utf-8")
    for page in ("modules/README.md", "docs/modules-tutorial.md", "docs/modules-testing.md")
)


def table(head: str) -> list[list[str]]:
    """The rows of the table whose first head that is."""
    lines = README.partition(f"\n| {head} |")[2].splitlines()[2:]
    rows = lines[: next(number for number, line in enumerate(lines) if not line.startswith("|"))]
    assert rows
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def named(head: str) -> list[str]:
    return [re.findall(r"`([A-Za-z_]+)", row[0])[0] for row in table(head)]


def block(language: str, beginning: str) -> str:
    found = [
        one
        for one in re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
        if one.startswith(beginning)
    ]
    assert len(found) == 1, beginning
    return found[0]


def functions(code: str) -> dict[str, str]:
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.AsyncFunctionDef)]
    return {node.name: ast.dump(node) for node in nodes}


@pytest.fixture
def shopping(tmp_path: Path) -> Path:
    new_module(tmp_path / "shopping-list", "shopping-list")
    return tmp_path / "shopping-list"


def test_the_public_names_are_reported_and_no_others():
    members = inspect.getmembers(parachuted.modules, lambda one: not inspect.ismodule(one))
    assert sorted(named("name")) == [name for name, _ in members if not name.startswith("_")]


def test_what_is_inside_a_method_is_reported_and_nothing_else():
    has = {name for name in dir(Module(StubServices())) if not name.startswith("_")}

    inside = [re.findall(r"`(?:self\.)?([a-z_.]+)", row[0])[0] for row in table("inside a method")]
    of_class = {"name", "version", "description", "permissions", "agents", "provides", "Settings"}

    assert sorted(inside) == sorted(has - of_class)


def test_every_field_of_the_manifest_is_reported_and_whether_it_is_needed():
    needed = {
        field.name
        for field in fields(Manifest)
        if field.default is MISSING and field.default_factory is MISSING
    }

    assert [row[0].strip("`") for row in table("field")] == [
        *(field.name for field in fields(Manifest) if field.name in {"name", "version", "module"}),
        *(
            field.name
            for field in fields(Manifest)
            if field.name not in {"name", "version", "module", "notes"}
        ),
    ]
    assert {row[0].strip("`") for row in table("field") if row[1] == "yes"} == needed


@pytest.mark.parametrize(
    ("head", "kind"),
    [("field of `AgentConfig`", AgentConfig), ("field of `SandboxConfig`", SandboxConfig)],
)
def test_every_field_of_an_agent_is_reported(head, kind):
    assert named(head) == [field.name for field in fields(kind)]


def test_every_call_of_the_vault_is_reported_with_its_parameters():
    reported = {re.findall(r"`(\w+)\((.*)\)`", row[0])[0] for row in table("call")}
    asked = {
        name: function
        for name, function in vars(VaultAccess).items()
        if inspect.isfunction(function) and not name.startswith("_")
    }

    assert reported == {
        (name, ", ".join(list(inspect.signature(function).parameters)[1:]))
        for name, function in asked.items()
    }


def test_the_first_module_is_what_the_command_makes(shopping: Path):
    assert block("yaml", "# What this module is") == (shopping / "manifest.yaml").read_text()
    made = functions((shopping / "module.py").read_text())
    shown = functions(block("python", "class ShoppingListModule"))
    assert {name: made.get(name) for name in shown} == shown
    assert {"list_items", "add_item", "search"} == set(shown)
    tests = functions((shopping / "tests/test_shopping_list.py").read_text())
    assert set(functions(block("python", "import tempfile"))) <= set(tests)


def test_the_commands_can_be_typed():
    lines = [
        line
        for one in re.findall(r"^```(?:sh|bash)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
        for line in one.splitlines()
    ]
    lines = [line for line in lines if line.startswith("parachute ")]
    lines += re.findall(r"`(parachute [^`]+)`", README)

    for line in lines:
        assert make_parser().parse_args(shlex.split(line)[1:]).run
    assert len(lines) > 6


async def test_the_whole_module_works(tmp_path: Path):
    folder, vault = tmp_path / "quotes", tmp_path / "vault"
    folder.mkdir()
    (vault / "Quotes").mkdir(parents=True)
    (folder / "module.py").write_text(block("python", '"""Quotes'))
    (folder / "manifest.yaml").write_text(block("yaml", "name: quotes"))
    async with running_module(folder, vault=vault) as quotes:
        assert (await quotes.request("GET", "/today")).status == 404

        for text in "AB":
            (vault / f"Quotes/{text}.md").write_text(text)
        days = ("2026-01-05", "2026-01-06")
        found = [await quotes.request("GET", "/today", query={"day": day}) for day in days]
        assert {quote["text"] for quote in found} == {"A", "B"}
        assert [quote["text"] for quote in await quotes.request("GET", "/all")] == ["A", "B"]
        assert await quotes.tool("quotes-search", query="A") == ["Quotes/A.md"]
        await quotes.event("file.created", path="Quotes/c.md")
        await quotes.tick("morning")
        assert quotes.published == [("quotes.quote.added", {"path": "Quotes/c.md"})]


def test_what_a_test_can_do_is_reported():
    reported = {
        found[0]: found[1]
        for row in table("of what `running_module` gives")
        if (found := re.findall(r"`(\w+)\(?([^)`]*)", row[0])[0])
    }
    methods = {
        name: function
        for name, function in vars(ModuleHarness).items()
        if inspect.isfunction(function) and not name.startswith("_")
    }

    assert {name: parameters for name, parameters in reported.items() if name in methods} == {
        name: ", ".join(list(inspect.signature(function).parameters)[1:])
        for name, function in methods.items()
    }
    assert reported.keys() - methods.keys() == {
        "published",
        "asked",
        "state",
        "problem",
    }
    options = [
        name
        for name, one in inspect.signature(running_module).parameters.items()
        if one.default is None
    ]
    assert (
        re.findall(r"`(\w+)`,", README.partition("`running_module` takes ")[2].partition("\n\n")[0])
        == options
    )


def test_its_test_passes(shopping: Path):
    (shopping / "tests/test_shopping_list.py").write_text(block("python", "import tempfile"))
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "discover", "-s", str(shopping / "tests")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, "Ran 1 test" in done.stderr) == (0, True), done.stderr
