"""Shape: the rules about the tree that no linter knows.

The layers are import-linter's, run here.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

from parachuted.processes.heavy import HEAVY

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "parachuted"
OF_MODULES = sorted((ROOT / "modules").rglob("*.py"))
LATE = PACKAGE / "processes/heavy.py"
FILES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted(
    folder for folder in PACKAGE.iterdir() if folder.is_dir() and any(folder.glob("*.py"))
)
MOST_ARGUMENTS = 8
BUDGET_SLACK = 100  # lines that a room may shrink before its budget has to follow
LONGEST_TEST_NAME = 70
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, HOMES = SETTINGS["project"], SETTINGS["tool"]["parachuted"]["homes"]
BUDGETS = SETTINGS["tool"]["parachuted"]["budgets"]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedFile:
    """What the rules look at. `imported` and `by_name` are the first names of what it imports, at
    any depth of nesting, and of what it finds or imports while it runs, where they are written out.
    """

    says: str
    top: frozenset[type[ast.stmt]]
    imported: frozenset[str]
    by_name: frozenset[str]
    classes: Sequence[tuple[str, int]]


@cache
def parsed(file: Path) -> ParsedFile:
    """Each file is parsed once."""
    module = ast.parse(file.read_bytes())
    nodes = list(ast.walk(module))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [
        node.module
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
    ]
    by_name = [
        str(call.args[0].value)
        for call in nodes
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in {"find_spec", "import_module"}
        and isinstance(call.args[0], ast.Constant)
    ]
    classes = [(one.name, arguments_of(one)) for one in nodes if isinstance(one, ast.ClassDef)]
    return ParsedFile(
        says=(ast.get_docstring(module) or "").partition("\n\n")[0],
        top=frozenset(map(type, module.body)),
        imported=frozenset(name.partition(".")[0] for name in names),
        by_name=frozenset(name.partition(".")[0] for name in by_name),
        classes=classes,
    )


def imported_late() -> set[str]:
    """The same for the one table that names what is loaded at its first use."""
    return {module.partition(".")[0] for module in HEAVY.values()}


def foreign(file: Path) -> set[str]:
    """What a file imports that is neither Python's nor ours."""
    names = parsed(file).imported | (imported_late() if file == LATE else set())
    return names - set(sys.stdlib_module_names) - {"parachuted"}


def lies_in(file: str, home: str) -> bool:
    return f"{file}.".startswith(f"{home}.")


def distribution(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower().replace("_", "-")


def test_every_room_has_a_front_that_only_passes_on_names():
    passing = {ast.Expr, ast.Import, ast.ImportFrom, ast.Assign}

    assert [name_of(room) for room in ROOMS if not (room / "__init__.py").is_file()] == []
    fronts = [
        file for file in FILES if file.name == "__init__.py" and file.parent.name != "cli"
    ]  # that one is the command
    assert [name_of(front) for front in fronts if not parsed(front).top <= passing] == []


def test_every_file_begins_by_saying_what_it_is():
    first = {name_of(file): parsed(file).says for file in FILES}
    line = re.compile(r"\S.{9,239}\.", re.DOTALL)

    assert {name: says for name, says in first.items() if not line.fullmatch(says)} == {}


def test_a_public_class_name_stands_once_in_the_package():
    places: dict[str, list[str]] = {}
    for file in FILES:
        for name, _arguments in parsed(file).classes:
            if not name.startswith("_"):
                places.setdefault(name, []).append(name_of(file))

    assert {name: files for name, files in places.items() if len(files) > 1} == {}


RECORDS = {
    "AgentConfig",
    "Grant",
    "ModuleDeclaration",
    "ModuleRecord",
    "Note",
    "RunAccount",
    "RunOptions",
    "RunRequest",
}
"""Values, though with a method: what one holds is its point."""


def arguments_of(cls: ast.ClassDef) -> int:
    """How many its constructor takes, if it does something; a dataclass that only holds values
    takes any.
    """
    methods = [one for one in cls.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    for method in methods:
        if method.name == "__init__":
            return len([*method.args.args, *method.args.kwonlyargs]) - 1
    passive = {"property", "classmethod", "staticmethod", "cached_property"}
    acts = any(
        not method.name.startswith("__")
        and passive.isdisjoint(map(ast.unparse, method.decorator_list))
        for method in methods
    )
    is_dataclass = any("dataclass" in ast.unparse(one) for one in cls.decorator_list)
    if not (is_dataclass and acts) or cls.name in RECORDS:
        return 0
    return sum(
        isinstance(one, ast.AnnAssign) and "init=False" not in ast.unparse(one) for one in cls.body
    )


def test_no_constructor_takes_more_than_eight_arguments():
    counts = dict(chain(*(parsed(file).classes for file in FILES)))

    assert {name: count for name, count in counts.items() if count > MOST_ARGUMENTS} == {}
    assert counts.keys() > RECORDS


def test_imports_keep_every_contract():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_library_is_imported_in_its_home_alone_and_in_each():
    found = {
        (library, file.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."))
        for file in FILES
        for library in foreign(file)
    }
    named = [(library, home) for library, homes in HOMES.items() for home in homes]

    assert [
        (library, file)
        for library, file in sorted(found)
        if not any(lies_in(file, home) for home in HOMES.get(library, ()))
    ] == []
    assert [
        pair
        for pair in named
        if not any(pair[0] == library and lies_in(file, pair[1]) for library, file in found)
    ] == []


def test_every_declared_library_is_used_and_every_used_one_declared():
    extras = PROJECT["optional-dependencies"]
    of_users = [extras[name] for name in sorted(extras.keys() - {"docs", "test"})]
    declared = {
        distribution(requirement) for requirement in chain(PROJECT["dependencies"], *of_users)
    }
    homes = {
        name: {distribution(found) for found in found}
        for name, found in packages_distributions().items()
    }
    files = map(parsed, [*FILES, *(ROOT / "hooks").glob("*.py"), *OF_MODULES])
    found = imported_late().union(*(file.imported for file in files))
    found = found.union(*(parsed(file).by_name for file in OF_MODULES))
    used = found - set(sys.stdlib_module_names) - {"parachuted"}

    assert {name for name in used if not homes.get(name, {distribution(name)}) & declared} == set()
    assert (
        declared
        - {distribution(name) for name in used}
        - set().union(*(homes.get(name, set()) for name in used))
        == set()
    )


def test_every_dependency_says_what_it_is_for():
    text = (ROOT / "pyproject.toml").read_text()

    for requirement in PROJECT["dependencies"]:
        assert re.search(rf'^  "{re.escape(requirement)}", +# .+', text, re.MULTILINE), requirement


def lines_of_rooms() -> dict[str, int]:
    """How many lines of Python each room has: a folder of `parachuted/`, `modules/` or `tests/`;
    the loose files of each count together.
    """
    found: dict[str, int] = {}
    for top in ("parachuted", "modules", "tests"):
        for file in sorted((ROOT / top).rglob("*.py")):
            parts = file.relative_to(ROOT / top).parts
            room = f"{top}/{parts[0]}" if len(parts) > 1 else f"{top}/*.py"
            found[room] = found.get(room, 0) + len(file.read_text().splitlines())
    return found


def test_no_room_outgrows_its_budget_and_a_budget_follows_its_room_down():
    lines = lines_of_rooms()

    assert lines.keys() == BUDGETS.keys()
    assert {room: lines[room] for room in lines if lines[room] > BUDGETS[room]} == {}
    assert {room: lines[room] for room in lines if lines[room] < BUDGETS[room] - BUDGET_SLACK} == {}


def test_the_name_of_a_test_has_at_most_seventy_characters():
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    names = [name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())]

    assert names
    assert [name for name in names if len(name) > LONGEST_TEST_NAME] == []
