"""A module's class comes from the approved copy and from nothing else, and goes without a trace."""

from __future__ import annotations

import compileall
import importlib
import py_compile
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.in_process import load_class, package_name, unload
from parachuted.modules.module import Module
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.copies import read_tree
from tests.modules.small_modules import approve
from tests.modules.stranger import nothing_of_modules_is_left

PLAIN = "name: stranger\nversion: 1.0.0\nmodule: module.py\n"


@pytest.fixture(autouse=True)
def _tidy():
    before = list(sys.path)
    yield
    for loaded in [name for name in sys.modules if name.startswith("parachute_modules.stranger")]:
        del sys.modules[loaded]
    sys.path[:] = before


def make(folder: Path, *import_paths: Path, **files: str) -> ApprovedModule:
    for path, text in {"manifest.yaml": PLAIN, **files}.items():
        file = folder / (path if path.endswith((".md", ".yaml")) else f"{path}.py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return approve(folder, import_paths=import_paths)


def load(folder: Path, *import_paths: Path, **files: str) -> type[Module]:
    return load_class(make(folder, *import_paths, **files))


HEAD = "from parachuted.modules import Module\n"
CLASS = HEAD + "class Stranger(Module):\n    said = 'hello'\n"


def test_it_imports_its_own_files_relatively_and_reads_its_data(tmp_path):
    code = """
import importlib.resources, pathlib
from . import SAID, tools
from .base import Base
from .deep.inner import SAID as INNER
class _Half(Base): pass
class Stranger(_Half):
    said = SAID + tools.SAID + INNER
    prompt = (pathlib.Path(__file__).parent / 'ask.md').read_text()
    resource = importlib.resources.files(__package__).joinpath('ask.md').read_text()
"""
    cls = load(
        tmp_path / "m",
        __init__="SAID = 'front '\n",
        module=code,
        base=HEAD + "class Base(Module):\n    base = 'base'\n",
        tools="SAID = 'a'\n",
        **{"deep/inner": "from ..tools import SAID as S\nSAID = S + 'b'\n", "ask.md": "?"},
    )

    assert (cls.__name__, cls.base, cls.said) == ("Stranger", "base", "front aab")
    assert (cls.prompt, cls.resource) == ("?", "?")
    assert cls.__module__.startswith("parachute_modules.stranger_")


def test_unloading_leaves_nothing_and_loading_again_runs_it_again(tmp_path):
    site, path = tmp_path / "site", list(sys.path)
    one, two = (make(tmp_path / name, site, module=f"{CLASS}# {name}\n") for name in ("a", "b"))
    first = load_class(one)
    assert sys.path == [*path, str(site)]
    assert load_class(one) is not first
    load_class(two)
    unload(one)
    assert str(site) in sys.path, "another module's too"
    unload(two)

    assert nothing_of_modules_is_left()
    assert sys.path == path
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(package_name(one))


def test_what_it_depends_on_shadows_nothing_of_the_daemon(tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    (site / "yaml.py").write_text("EVIL = True\n")
    (site / "only_here_m2.py").write_text("SAID = 'here'\n")
    said = CLASS.replace("'hello'", "only_here_m2.SAID + yaml.__version__")
    cls = load(tmp_path / "m", site, module="import yaml, only_here_m2\n" + said)
    assert cls.said.startswith("here")
    sys.modules.pop("only_here_m2")

    (tmp_path / "words.py").write_text("raise SystemExit('evil')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleFailedError, match="cannot import name 'words'"):
        load(tmp_path / "other", module="from . import words\n" + CLASS)


def test_no_bytecode_is_read_or_written(tmp_path):
    copy = make(tmp_path / "m", module=CLASS.replace("'hello'", "'evil'")).copy
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(copy, quiet=2, invalidation_mode=unchecked)
    (copy / "module.py").write_text(CLASS)
    approved = approve(copy)

    assert load_class(approved).said == "hello"
    assert read_tree(copy).digest == approved.tree


def test_what_was_not_approved_does_not_begin_to_run(tmp_path):
    approved = make(tmp_path / "m", module=CLASS)
    copy = approved.copy
    (copy / "module.py").write_text("raise SystemExit('evil')\n")
    with pytest.raises(ModuleFailedError, match="not what was approved"):
        load_class(approved)
    (copy / "link.py").symlink_to("module.py")
    with pytest.raises(ModuleFailedError, match="is a link"):
        load_class(approved)
    with pytest.raises(ModuleFailedError):
        load_class(replace(approved, copy=tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("code", "reported"),
    [
        ("1 / 0\n", "ZeroDivisionError"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("class X(\n", "SyntaxError"),
        ("x = '\0'\n", "null bytes"),
        ("import no_such_thing_at_all\n", "no_such_thing_at_all"),
        ("x = 1\n", "one class that inherits from Module in its file; it has none"),
        (CLASS + "class Other(Module): pass\n", "it has Other, Stranger"),
    ],
)
def test_a_failure_at_import_is_the_modules_own_with_its_traceback(tmp_path, code, reported):
    with pytest.raises(ModuleFailedError, match=reported) as failed:
        load(tmp_path / "m", module=code)

    assert nothing_of_modules_is_left()
    if "Zero" in reported:
        assert f'{tmp_path / "m" / "module.py"}", line 1' in str(failed.value)
        assert "1 / 0" in str(failed.value)
