"""Docs: the references are what the code says, the names in the pages are those of the code, and
the site builds with no dead link.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from parachuted.cli.parser import make_parser
from parachuted.config import describe_settings
from parachuted.events import CATALOG
from parachuted.modules.registry.manifest import read_manifest
from tests.stories.daemon_rig import Live
from tests.test_readme import commands_of

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "hooks/README.md",
    ROOT / "modules/README.md",
    *sorted(DOCS.rglob("*.md")),
]
NAMES_OF_CODE = [DOCS / "design.md"]  # the page whose code spans are names of the code


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def prose_of(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def names_defined() -> set[str]:
    """The classes, functions and methods of the package: `Store`, `make_app`, `Front.answer`."""
    defined = re.compile(r"^( *)(?:async def|def|class) (\w+)", re.MULTILINE)
    found = set()
    for file in (ROOT / "parachuted").rglob("*.py"):
        above = ""
        for indent, name in defined.findall(file.read_text("utf-8")):
            found |= {name, f"{above}.{name}"}
            above = above if indent else name
    return found


def build_site(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    places = ["--config-file", str(root / "mkdocs.yml"), "--site-dir", str(folder)]
    command = [sys.executable, "-m", "mkdocs", "build", *places]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


async def test_the_references_are_what_the_code_says(live: Live):
    async with live() as daemon_rig:
        openapi = await asyncio.to_thread(generator().read_openapi_at, daemon_rig.daemon.port)
    made = generator().references(openapi)

    assert sorted(made) == sorted(page.name for page in (DOCS / "reference").iterdir())
    for name, text in made.items():
        assert (DOCS / "reference" / name).read_text("utf-8") == text, (
            f"docs/reference/{name} is out of date; run `python docs/generate.py`"
        )


def test_every_call_command_setting_and_event_is_in_the_references():
    reference = {page.name: page.read_text("utf-8") for page in (DOCS / "reference").iterdir()}

    assert set(
        re.findall(r"^## `parachute (.+)`$", reference["commands.md"], re.MULTILINE)
    ) == commands_of(make_parser())
    assert re.findall(r"^\| `([\w.]+)`", reference["settings.md"], re.MULTILINE) == [
        setting[0] for setting in describe_settings()
    ]
    official = [
        event
        for file in (ROOT / "modules").glob("*/manifest.yaml")
        for event in read_manifest(file.read_bytes()).publishes
    ]
    named = re.findall(r"^\| `([\w.]+)`", reference["events.md"], re.MULTILINE)
    assert sorted(named) == sorted([*CATALOG, *official])


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_path_that_a_page_names_exists(page: Path):
    named = re.findall(
        r"`((?:parachuted|tests|docs|hooks|benchmarks|systemd|launchd|vault-template)/[\w./-]*)`",
        prose_of(page),
    )

    assert [
        path for path in named if not (ROOT / path).exists() and "X" not in path.split("/")
    ] == []


@pytest.mark.parametrize("page", NAMES_OF_CODE, ids=name_of)
def test_every_name_of_the_code_that_a_page_names_exists(page: Path):
    named = set(
        re.findall(r"`([A-Z][a-z]+[A-Za-z]*(?:\.[a-z_]+)?|[a-z]+(?:_[a-z]+)+)`", prose_of(page))
    )

    assert sorted(named - names_defined() - set(dir(builtins)) - {"update_context"}) == []
    assert len(named) > 30


@pytest.mark.parametrize(
    "room",
    sorted(
        path.name for path in (ROOT / "parachuted").iterdir() if (path / "__init__.py").is_file()
    ),
)
def test_every_room_is_on_the_map(room: str):
    assert f"| `parachuted/{room}/` |" in (DOCS / "design.md").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_of_the_repository(page: Path):
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", prose_of(page))

    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path):
    done = build_site(ROOT, tmp_path)

    assert done.returncode == 0, done.stderr
    for page in (
        "index.html",
        "security.html",
        "design.html",
        "reference/api.html",
        "reference/hooks.html",
        "reference/modules.html",
    ):
        assert (tmp_path / page).is_file(), page
    sources = [
        found
        for page in tmp_path.rglob("*.html")
        for found in re.findall(r'<(?:script|link|img)[^>]*"(https?:[^"]*)"', page.read_text())
    ]
    assert sources == []


def test_each_dead_link_fails_the_build(tmp_path: Path):
    for name in ("docs", "hooks", "modules"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("mkdocs.yml", "README.md", "SECURITY.md"):
        shutil.copy(ROOT / name, tmp_path)
    with (tmp_path / "docs/quickstart.md").open("a") as page:
        for link in ("no-page.md", "watching.md#no-such-heading", "../hooks/nothing.md"):
            page.write(f"\n[dead]({link})\n")

    done = build_site(tmp_path, tmp_path / "site")

    assert done.returncode != 0
    warned = [line for line in done.stderr.splitlines() if "WARNING" in line]
    for name in ("no-page.md", "no-such-heading", "nothing.md"):
        assert [line for line in warned if name in line and "quickstart.md" in line], done.stderr
