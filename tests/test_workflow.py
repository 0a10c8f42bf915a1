"""Workflow: .github/workflows/ci.yml runs what is there, in a form that GitHub takes; its steps are
run in order in a clean clone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
JOBS = WORKFLOW["jobs"].items()
STEPS = [(name, step) for name, job in JOBS for step in job["steps"]]
STAND_IN = """#!/bin/sh
echo "{version} ${0##*/} $*" >>"$RECORD"
[ "$1 $2" != "-m venv" ] || {
  mkdir -p "$3/bin"
  for name in python uv ruff mypy lint-imports; do cp "$0" "$3/bin/$name"; done
}
"""
ON = True  # how YAML 1.1 reads the key `on`


def test_it_runs_on_pushes_and_proposals_and_may_only_read():
    assert set(WORKFLOW[ON]) == {"push", "pull_request"}
    assert WORKFLOW["permissions"] == {"contents": "read"}


def test_each_job_names_its_machine_and_its_longest_time():
    for name, job in JOBS:
        assert set(job) - {"strategy"} == {"runs-on", "timeout-minutes", "steps"}, name
        assert re.fullmatch(r"(ubuntu|macos)-\d+(\.\d+)?", job["runs-on"]), name


def test_the_gate_runs_on_each_python_that_the_makefile_takes():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    matrix = WORKFLOW["jobs"]["linux"]["strategy"]["matrix"]

    assert {f"python{version}" for version in matrix["python"]} == set(
        re.findall(r"python3\.1[1-9]\b", makefile.partition("for python in ")[2].partition(";")[0])
    )


def test_both_ends_of_the_allowed_versions_are_tested():
    matrix = WORKFLOW["jobs"]["ranges"]["strategy"]["matrix"]

    assert {entry["deps"] for entry in matrix["include"]} == {"lowest", "newest"}


def test_each_step_is_a_pinned_action_or_a_command_that_a_shell_reads():
    for name, step in STEPS:
        assert set(step) in ({"uses"}, {"uses", "with"}, {"run"}), name
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]), name
        else:
            command = re.sub(r"\$\{\{ [\w.]+ \}\}", "value", step["run"])
            subprocess.run(["bash", "-n", "-c", command], check=True)


def test_what_it_runs_is_there():
    commands = " ".join(step["run"] for _name, step in STEPS if "run" in step)
    makefile = (ROOT / "Makefile").read_text("utf-8")

    assert [
        path
        for path in re.findall(r"(?:\.ci|tests)/[\w./]+", commands)
        if not (ROOT / path).exists()
    ] == []
    assert all(f"\n{target}:" in makefile for target in re.findall(r"make (\w+)", commands))


def entries(job: Mapping[str, Any]) -> list[dict[str, str]]:
    """What its matrix makes of a job: values by name."""
    matrix = dict(job.get("strategy", {}).get("matrix", {}))
    included = matrix.pop("include", [])
    if not matrix:
        return included or [{}]
    return [dict(zip(matrix, values, strict=True)) for values in product(*matrix.values())]


ENTRIES = [
    pytest.param(name, entry, id="-".join([name, *entry.values()]))
    for name, job in JOBS
    for entry in entries(job)
]


class Runner:
    """Runs the steps of a job one after another, with programs of its own before all others."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.clone, self._programs = folder / "clone", folder / "programs"
        self.record = folder / "record"
        self._programs.mkdir()
        self._path = [self._programs]
        self._environ = {"HOME": str(folder), "RECORD": str(self.record), **environ}
        self.program("apt-get", "#!/bin/sh\n")  # system packages stay as they are

    def program(self, name: str, script: str, folder: Path | None = None) -> None:
        file = (folder or self._programs) / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(script)
        file.chmod(0o755)

    def step(self, step: Mapping[str, Any], values: Mapping[str, str], python: str) -> None:
        """Do a step; `python` is the program that `setup-python` puts in front of all others."""
        action = step.get("uses", "").partition("@")[0]
        if action == "actions/checkout":
            subprocess.run(["git", "clone", "-q", "--shared", ROOT, self.clone], check=True)
            changed = subprocess.check_output(["git", "diff", "--binary", "HEAD"], cwd=ROOT)
            git = ["git", "apply", "--allow-empty"]  # what is not committed yet belongs to it
            subprocess.run(git, input=changed, cwd=self.clone, check=True)
        elif action == "actions/setup-python":
            front = self.clone.parent / "front"
            version = filled(step["with"]["python-version"], values)
            for name in ("python", "python3", f"python{version}"):
                self.program(name, python.replace("{version}", version), front)
            self._path.insert(0, front)
        else:
            assert not action, step
            subprocess.run(
                ["bash", "-e", "-c", filled(step["run"], values)],
                cwd=self.clone,
                env={
                    **self._environ,
                    "PATH": os.pathsep.join([*map(str, self._path), os.environ["PATH"]]),
                },
                check=True,
            )


def filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda found: values[found[1]], text)


def selection(name: str, folder: Path) -> dict[str, str]:
    """The environment in which a job's own program is run on a part of what it is for."""
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    (folder / "coverage.toml").write_text(re.sub(r"fail_under = \d+", "fail_under = 0", settings))
    return {
        **{
            one: value
            for one, value in os.environ.items()
            if one.startswith(("PIP_", "UV_", "SSL_"))
        },
        "ARGS": "schedules" if name == "mutations" else "tests/test_errors.py",
        "COVERAGE_RCFILE": str(folder / "coverage.toml"),
        "PYTEST_ADDOPTS": "--collect-only -q" if name == "macos" else "-q -n0",
    }


def real_python(version: str) -> str:
    """A program that is that Python of this machine."""
    program = shutil.which(f"python{version}") or "false"
    where = [program, "-c", "import sys; print(sys.executable)"]
    found = subprocess.run(where, capture_output=True, text=True, check=False)
    if found.returncode or not found.stdout:
        pytest.skip(f"there is no Python {version}")
    return f'#!/bin/sh\nexec {found.stdout.strip()} "$@"\n'


@pytest.mark.skipif(sys.platform != "linux", reason="the gate looks at /proc")
@pytest.mark.parametrize(("name", "values"), ENTRIES)
def test_the_steps_of_a_job_run_in_order_with_its_python_and_no_other(
    name: str, values: dict[str, str], tmp_path: Path, torture
):
    """Python and what it installs are stand-ins, which record how they are called; in torture they
    are real, with a small selection of tests.
    """
    steps = WORKFLOW["jobs"][name]["steps"]
    wanted = filled(steps[1]["with"]["python-version"], values)
    runner = Runner(tmp_path, selection(name, tmp_path) if torture else {})
    python = real_python(wanted) if torture else STAND_IN
    for number in () if torture else range(11, 15):  # a host has other Pythons too
        runner.program(f"python3.{number}", STAND_IN.replace("{version}", f"3.{number}"))
    for step in steps:
        runner.step(step, values, python)
    if torture:
        return

    called = [line.split(" ", 2) for line in runner.record.read_text().splitlines()]
    ran = [f"{program} {words}" for _, program, words in called]
    assert {version for version, _, _ in called} == {wanted}
    assert any(re.match(r"python -m (pytest|tests\.mutations)", one) for one in ran), called
    if name == "linux":
        assert {"ruff check .", "mypy ", "lint-imports --no-cache"} <= set(ran)
    if "deps" in values:
        install = {"newest": "--upgrade", "lowest": "--resolution lowest-direct"}[values["deps"]]
        assert any(install in one for one in ran), called
