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

from parachuted.cli.service import ServiceTarget, find_supervisor, render_plist, render_unit
from parachuted.errors import DaemonError
from parachuted.home_files.bundled import bundled_folder

UNIT = (bundled_folder("systemd") / "parachute.service").read_bytes()
PLIST = (bundled_folder("launchd") / "parachuted.plist").read_bytes()
ALSO_WRITTEN = " -%h/.claude"  # the login may be renewed where it is

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"),
    reason="there is no systemd-analyze here; .ci/run installs it",
)
# XML has no place for U+FFFE and U+FFFF
CHARACTERS = st.characters(
    codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="/\ufffe\uffff"
)
NAMES = st.text(CHARACTERS, min_size=1).filter(lambda name: name not in {".", ".."})


def wanted(folder: Path, **more) -> ServiceTarget:
    return ServiceTarget(vault=folder / "vault", home=folder / "home", **more)


def analyze(folder: Path, unit: bytes, *words: str) -> subprocess.CompletedProcess[str]:
    file = folder / "parachute.service"
    file.write_bytes(unit)
    environment = os.environ | {"XDG_RUNTIME_DIR": str(folder)}
    command = ["systemd-analyze", *words, str(file)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def line(unit: bytes, key: str) -> str:
    found = (text for text in unit.decode().splitlines() if text.startswith(f"{key}="))
    return next(found).removeprefix(f"{key}=")


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
def test_systemd_finds_nothing_wrong_with_the_unit_and_little_exposed(tmp_path: Path):
    for unit in (UNIT, render_unit(UNIT, wanted(tmp_path))):
        done = analyze(tmp_path, unit, "--user", "verify")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    words = ("security", "--offline=true", "--threshold=20", "--no-pager")
    done = analyze(tmp_path, render_unit(UNIT, wanted(tmp_path)), *words)
    assert done.returncode == 0, done.stdout


@needs_systemd
def test_systemd_reads_an_odd_program_path_as_it_is(tmp_path: Path):
    program = tmp_path / "my 100%h $HOME ünï" / "parachute"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = render_unit(UNIT, wanted(tmp_path, program=(str(program),)))

    there = analyze(tmp_path, unit, "--user", "verify")
    program.unlink()
    gone = analyze(tmp_path, unit, "--user", "verify")

    assert (there.returncode, there.stderr) == (0, "")
    assert f"Command {program} is not executable" in gone.stderr


@given(name=NAMES)
def test_any_path_comes_back_from_both_files(name: str):
    plan = wanted(Path("/") / name)

    unit = render_unit(UNIT, plan)
    # without the colon systemd would put the environment's values in the place of `$NAME`
    assert line(unit, "ExecStart").startswith(":")
    assert read_as_systemd_does(line(unit, "ExecStart")) == list(plan.command)
    assert read_as_systemd_does(line(unit, "Environment")) == [f"PARACHUTE_HOME={plan.home}"]
    written = line(unit, "ReadWritePaths").removesuffix(ALSO_WRITTEN)
    assert read_as_systemd_does(written) == [str(plan.vault), str(plan.home)]

    content, log = plistlib.loads(render_plist(PLIST, plan)), f"{plan.home}/logs/service.log"
    assert content["ProgramArguments"] == [*plan.program, "start", "--foreground"]
    assert content["EnvironmentVariables"] == {"PARACHUTE_HOME": str(plan.home)}
    assert (content["StandardOutPath"], content["StandardErrorPath"]) == (log, log)


def test_all_but_the_paths_is_as_in_the_templates(tmp_path: Path):
    unit = render_unit(UNIT, wanted(tmp_path))
    pairs = zip(UNIT.splitlines(), unit.splitlines(), strict=True)
    differing = [old.partition(b"=")[0] for old, new in pairs if old != new]
    assert differing == [b"ExecStart", b"Environment", b"ReadWritePaths"]
    assert all(line(text, "ReadWritePaths").endswith(ALSO_WRITTEN) for text in (UNIT, unit))
    with pytest.raises(DaemonError, match="has 0 lines ReadWritePaths="):
        render_unit(UNIT.replace(b"\nReadWritePaths=", b"\n#"), wanted(tmp_path))

    content = plistlib.loads(render_plist(PLIST, wanted(tmp_path)))
    told = [content[name] for name in ("Label", "RunAtLoad", "KeepAlive", "Umask")]
    assert told == ["parachuted", True, {"SuccessfulExit": False}, 0o77]


@pytest.mark.parametrize(("render", "template"), [(render_unit, UNIT), (render_plist, PLIST)])
@pytest.mark.parametrize("name", ["two\nlines", "bell\x07", os.fsdecode(b"latin-\xe9")])
def test_a_path_that_no_service_can_be_given_is_refused(render, template: bytes, name: str):
    with pytest.raises(DaemonError, match="control characters or is not UTF-8"):
        render(template, wanted(Path("/") / name))


@pytest.mark.parametrize("char", ["'", '"', "\\"])
def test_a_program_path_that_systemd_refuses_is_refused_beforehand(tmp_path: Path, char: str):
    with pytest.raises(DaemonError, match="quotes or backslashes"):
        render_unit(UNIT, wanted(tmp_path, program=(f"/opt/a{char}b/python",)))


def test_each_system_has_its_own_supervisor():
    me = Path("/home/me")
    unit = me / ".config/systemd/user/parachute.service"
    assert find_supervisor("linux", me, 1000).file == unit
    assert find_supervisor("linux", me, 1000, me / ".parachute").file == unit
    plist = me / "Library/LaunchAgents/parachuted.plist"
    assert find_supervisor("darwin", me, 501).file == plist
    with pytest.raises(DaemonError, match="win32"):
        find_supervisor("win32", me, 0)


@pytest.mark.parametrize(("platform", "template"), [("linux", UNIT), ("darwin", PLIST)])
@given(name=NAMES)
def test_a_service_knows_its_home_by_a_name_of_its_own_and_by_its_file(
    platform: str, template: bytes, name: str
):
    home = Path("/srv/a home") / name
    supervisor = find_supervisor(platform, Path("/home/me"), 1000, home)

    written = supervisor.render(template, ServiceTarget(vault=Path("/v"), home=home))
    assert supervisor.home_of(written) == home
    pattern = r"parachuted?-[a-z0-9-]+-[0-9a-f]{6}\.(service|plist)"
    assert re.fullmatch(pattern, supervisor.file.name)
    for command in (supervisor.enabled, supervisor.running, *supervisor.unload):
        assert supervisor.file.stem in " ".join(command)
