"""Packaging: the wheel holds what a person needs besides code, and it is found from there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("hooks", "modules", "vault-template", "systemd", "launchd")
FIND = (
    "import sys; from parachuted.home_files.bundled import bundled_folder as f; print(*map(f, "
    "sys.argv[1:]), sep='\\n')"
)

READ = """
import json, sys
from pathlib import Path
from parachuted.vault.note import parse_note
vault = Path(sys.argv[1])
notes = {path.relative_to(vault).as_posix(): parse_note(path.read_bytes()) for path in vault.rglob("*.md")}
found = {name: [note.title, [problem.code for problem in note.problems], note.values.get("watch")] for name, note in notes.items()}
print(json.dumps(found, default=list))
"""  # noqa: E501


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel that was built from that."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip installed the wheel, far from the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    wheel = next(built.glob("*.whl"))
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--target",
        str(folder),
        str(wheel),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def source_files(folder: str) -> set[str]:
    return {
        path.relative_to(ROOT / folder).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.mark.parametrize("name", FOLDERS)
def test_the_wheel_has_every_file_of_the_folder(installed: Path, name: str):
    shipped = installed / "parachuted/bundle" / name

    assert source_files(name) == {
        path.relative_to(shipped).as_posix() for path in shipped.rglob("*") if path.is_file()
    }
    assert all(
        (shipped / file).read_bytes() == (ROOT / name / file).read_bytes()
        for file in source_files(name)
    )


def test_the_wheel_has_the_hidden_file_of_a_new_vault(installed: Path):
    assert (installed / "parachuted/bundle/vault-template/.parachuteignore").is_file()


def test_the_wheel_has_all_of_the_package_and_nothing_else_of_the_checkout(installed: Path):
    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} == {
        "parachuted",
        "bin",
    }
    assert {file for file in source_files("parachuted") if file.endswith(".py")} == {
        path.relative_to(installed / "parachuted").as_posix()
        for path in (installed / "parachuted").rglob("*.py")
        if "bundle" not in path.parts
    }


def test_the_installed_package_finds_its_own_folders(installed: Path, tmp_path: Path):
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", FIND, *FOLDERS],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )

    assert done.stdout.splitlines() == [
        str(installed / "parachuted/bundle" / name) for name in FOLDERS
    ]


def test_a_vault_copied_from_the_wheel_has_a_watcher_and_what_it_watches(
    installed: Path, tmp_path: Path
):
    vault = shutil.copytree(installed / "parachuted/bundle/vault-template", tmp_path / "vault")
    environment = os.environ | {"PYTHONPATH": str(installed)}

    done = subprocess.run(
        [sys.executable, "-c", READ, vault],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )

    assert json.loads(done.stdout) == {
        "AGENTS.md": ["My vault", [], ["Projects/*", "Areas/*"]],
        "Areas/health/AGENTS.md": ["Health", [], None],
        "Projects/garden/AGENTS.md": ["Garden", [], None],
        "Welcome.md": ["Welcome", [], None],
    }


def without_agent_sdk(*arguments: str, cwd: Path, **variables: str) -> str:
    """What the command prints in an environment that has neither the agent SDK nor what only that
    needs.
    """
    (cwd / "sitecustomize.py").write_text(
        "import sys; sys.modules.update(claude_agent_sdk=None, mcp=None)"
    )
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PARACHUTE_", "ANTHROPIC_", "CLAUDE_"))
    }
    env |= {
        "HOME": str(cwd),
        "PARACHUTE_HOME": str(cwd / "home"),
        "PYTHONPATH": f"{cwd}:{ROOT}",
        **variables,
    }
    done = subprocess.run(
        [sys.executable, "-m", "parachuted", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=env,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("lock", "extras"),
    [("requirements.lock", ["claude"]), ("requirements-test.lock", ["claude", "docs", "test"])],
)
def test_a_lock_pins_what_the_package_requires_with_hashes(lock: str, extras: list[str]):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = [*project["dependencies"]]
    for extra in extras:
        required += project["optional-dependencies"][extra]
    versions: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / lock).read_text("utf-8").strip()):
        if not entry.startswith("#"):
            pinned = Requirement(entry.partition(" \\")[0])
            assert "--hash=sha256:" in entry, pinned
            (version,) = [spec.version for spec in pinned.specifier if spec.operator == "=="]
            versions.setdefault(canonicalize_name(pinned.name), []).append(version)

    for requirement in map(Requirement, required):
        if requirement.name != "parachuted":
            found = versions.get(canonicalize_name(requirement.name), [])
            assert any(map(requirement.specifier.contains, found)), (
                f"{requirement}: run `make lock`"
            )


def test_a_plain_installation_does_not_bring_the_agent_sdk(built: Path):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        metadata = next(
            wheel.read(name).decode() for name in wheel.namelist() if name.endswith("METADATA")
        )
    requirements = [
        line for line in metadata.splitlines() if line.startswith("Requires-Dist: claude-agent-sdk")
    ]

    assert requirements
    assert all("; extra == " in line for line in requirements)


def test_without_the_agent_sdk_the_offline_agent_still_works(tmp_path: Path):
    assert "Taken back: 1 run; changed AGENTS.md." in without_agent_sdk("demo", cwd=tmp_path)


def test_without_the_agent_sdk_a_login_is_told_what_to_install(
    tmp_path: Path,
):
    said = without_agent_sdk("auth", "status", cwd=tmp_path, ANTHROPIC_API_KEY="sk-ant-none")

    assert "Agent: offline" in said
    assert "pip install 'parachuted[claude]'" in said


def test_the_wheel_makes_the_parachute_command(installed: Path):
    assert os.access(installed / "bin/parachute", os.X_OK)
    assert "from parachuted.__main__ import main" in (installed / "bin/parachute").read_text()


def test_the_source_distribution_has_what_a_checkout_needs(built: Path):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {
        "Makefile",
        "pyproject.toml",
        "requirements.lock",
        "requirements-test.lock",
        "tests/test_packaging.py",
        "vault-template/AGENTS.md",
        "systemd/parachute.service",
    } <= names
    assert not any(name.startswith((".venv", "dist", ".hypothesis")) for name in names)


@pytest.mark.skipif(
    not shutil.which("systemd-analyze"),
    reason="there is no systemd-analyze here; .ci/run installs it",
)
def test_the_unit_of_the_wheel_works_when_copied_by_hand(installed: Path, tmp_path: Path):
    unit = shutil.copy(installed / "parachuted/bundle/systemd/parachute.service", tmp_path)
    environment = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}

    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", unit],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )

    assert (done.returncode, done.stderr) == (0, "")
