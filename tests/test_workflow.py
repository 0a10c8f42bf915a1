"""Workflow: .github/workflows/ci.yml runs what is there, in a form that GitHub takes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))
JOBS = WORKFLOW["jobs"].items()
STEPS = [(name, step) for name, job in JOBS for step in job["steps"]]
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
