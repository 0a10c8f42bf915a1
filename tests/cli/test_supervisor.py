"""Supervisors: what systemd and launchd get, whatever the paths are called, checked by
systemd's and Python's own readers.
"""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.bundled import bundled_folder
from parachuted.cli.supervisor import ServiceTarget, find_supervisor, render_plist, render_unit
from parachuted.errors import DaemonError

UNIT = (bundled_folder("systemd") / "parachute.service").read_bytes()
PLIST = (bundled_folder("launchd") / "parachuted.plist").read_bytes()

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"),
    reason="there is no systemd-analyze here; .ci/run installs it",
)
names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="/"),
    min_size=1,
)
ALSO_WRITTEN = " -%h/.claude"


def wanted(folder: Path, **more) -> ServiceTarget:
    return ServiceTarget(vault=folder / "vault", home=folder / "home", **more)


def analyze(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"XDG_RUNTIME_DIR": str(folder)}
    return subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, env=environment, check=False
    )


def rendered(folder: Path, unit: bytes) -> Path:
    file = folder / "parachute.service"
    file.write_bytes(unit)
    return file


def line(unit: bytes, key: str) -> str:
    return next(
        found for found in unit.decode().splitlines() if found.startswith(f"{key}=")
    ).removeprefix(f"{key}=")


def read_as_systemd_does(text: str) -> list[str]:
    """The words of a quoted line: systemd.syntax(7), quoting and specifiers."""
    words, word, rest = [], None, iter(text.removeprefix(":"))
    for char in rest:
        if word is None:
            assert char in '" '
            word = "" if char == '"' else None
        elif char == '"':
            words.append(word)
            word = None
        elif char in "\\%":
            word += next(rest)
        else:
            word += char
    assert word is None
    return words


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path):
    done = analyze(
        tmp_path, "--user", "verify", str(rendered(tmp_path, render_unit(UNIT, wanted(tmp_path))))
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_unit_as_shipped(tmp_path: Path):
    done = analyze(tmp_path, "--user", "verify", str(rendered(tmp_path, UNIT)))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_systemd
def test_the_unit_is_exposed_at_most_2_0(tmp_path: Path):
    unit = rendered(tmp_path, render_unit(UNIT, wanted(tmp_path)))

    done = analyze(
        tmp_path, "security", "--offline=true", "--threshold=20", "--no-pager", str(unit)
    )

    assert done.returncode == 0, done.stdout


@needs_systemd
def test_systemd_reads_an_odd_program_path_as_it_is(tmp_path: Path):
    program = tmp_path / "my 100%h $HOME ünï" / "parachute"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = rendered(tmp_path, render_unit(UNIT, wanted(tmp_path, program=(str(program),))))

    there = analyze(tmp_path, "--user", "verify", str(unit))
    program.unlink()
    gone = analyze(tmp_path, "--user", "verify", str(unit))

    assert (there.returncode, there.stderr) == (0, "")
    assert f"Command {program} is not executable" in gone.stderr


@given(name=names)
def test_any_path_comes_back_from_the_unit(name: str):
    plan = wanted(Path("/") / name)

    unit = render_unit(UNIT, plan)

    assert line(unit, "ExecStart").startswith(
        ":"
    )  # or systemd would put the environment's values in the place of `$NAME`
    assert read_as_systemd_does(line(unit, "ExecStart")) == list(plan.command)
    assert read_as_systemd_does(line(unit, "Environment")) == [f"PARACHUTE_HOME={plan.home}"]
    assert read_as_systemd_does(line(unit, "ReadWritePaths").removesuffix(ALSO_WRITTEN)) == [
        str(plan.vault),
        str(plan.home),
    ]


@pytest.mark.parametrize("char", ["'", '"', "\\"])
def test_a_program_path_that_systemd_refuses_is_refused_beforehand(tmp_path: Path, char: str):
    with pytest.raises(DaemonError, match="quotes or backslashes"):
        render_unit(UNIT, wanted(tmp_path, program=(f"/opt/a{char}b/python",)))


def test_only_the_three_lines_of_paths_differ_from_the_template(tmp_path: Path):
    unit = render_unit(UNIT, wanted(tmp_path))

    differing = [
        old for old, new in zip(UNIT.splitlines(), unit.splitlines(), strict=True) if old != new
    ]
    assert [old.partition(b"=")[0] for old in differing] == [
        b"ExecStart",
        b"Environment",
        b"ReadWritePaths",
    ]


def test_the_login_may_be_renewed_where_it_is_kept(tmp_path: Path):
    assert line(UNIT, "ReadWritePaths").endswith(ALSO_WRITTEN)
    assert line(render_unit(UNIT, wanted(tmp_path)), "ReadWritePaths").endswith(ALSO_WRITTEN)


def test_a_template_without_its_lines_is_refused(tmp_path: Path):
    with pytest.raises(DaemonError, match="has 0 lines ReadWritePaths="):
        render_unit(UNIT.replace(b"\nReadWritePaths=", b"\n#"), wanted(tmp_path))


@pytest.mark.parametrize("render", [render_unit, render_plist])
@pytest.mark.parametrize("name", ["two\nlines", "bell\x07", os.fsdecode(b"latin-\xe9")])
def test_a_path_that_no_service_can_be_given_is_refused(render, name: str):
    template = UNIT if render is render_unit else PLIST

    with pytest.raises(DaemonError, match="control characters or is not UTF-8"):
        render(template, wanted(Path("/") / name))


@given(name=names.filter(lambda name: "\ufffe" not in name and "\uffff" not in name))
def test_any_path_comes_back_from_the_property_list(name: str):
    plan = wanted(Path("/") / name)

    content = plistlib.loads(render_plist(PLIST, plan))

    assert content["ProgramArguments"] == [*plan.program, "start", "--foreground"]
    assert content["EnvironmentVariables"] == {"PARACHUTE_HOME": str(plan.home)}
    assert (
        content["StandardOutPath"]
        == content["StandardErrorPath"]
        == f"{plan.home}/logs/service.log"
    )


def test_the_property_list_keeps_what_the_template_says(tmp_path: Path):
    content = plistlib.loads(render_plist(PLIST, wanted(tmp_path)))

    assert (content["Label"], content["RunAtLoad"], content["KeepAlive"]) == (
        "parachuted",
        True,
        {"SuccessfulExit": False},
    )
    assert content["Umask"] == 0o77


def test_each_system_has_its_own_supervisor():
    assert find_supervisor("linux", Path("/home/me"), 1000).file == Path(
        "/home/me/.config/systemd/user/parachute.service"
    )
    assert find_supervisor("darwin", Path("/Users/me"), 501).file == Path(
        "/Users/me/Library/LaunchAgents/parachuted.plist"
    )
    assert (
        find_supervisor("linux", Path("/home/me"), 1000, Path("/home/me/.parachute")).file.name
        == "parachute.service"
    )
    with pytest.raises(DaemonError, match="win32"):
        find_supervisor("win32", Path("/home/me"), 0)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@given(
    name=names.filter(
        lambda name: name not in {".", ".."} and "\ufffe" not in name and "\uffff" not in name
    )
)
def test_a_service_knows_its_home_by_a_name_of_its_own_and_by_its_file(platform: str, name: str):
    home = Path("/srv/a home") / name
    supervisor = find_supervisor(platform, Path("/home/me"), 1000, home)
    template = {"linux": UNIT, "darwin": PLIST}[platform]

    assert (
        supervisor.home_of(supervisor.render(template, ServiceTarget(vault=Path("/v"), home=home)))
        == home
    )
    assert re.fullmatch(
        r"parachuted?-[a-z0-9-]+-[0-9a-f]{6}\.(service|plist)", supervisor.file.name
    )
    assert all(
        supervisor.file.stem in " ".join(command)
        for command in (supervisor.enabled, supervisor.running, *supervisor.unload)
    )
