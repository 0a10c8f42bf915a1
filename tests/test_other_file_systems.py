"""File systems that we do not have: what is decided about folders holds on disks that ignore letter
case, of macOS and Windows too.

pyfakefs stands in for the disk. On Windows no folder can be opened by descriptor, so what walks or
syncs folders is tested on disks that Linux and macOS mount.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyfakefs.fake_filesystem import FakeFilesystem, OSType

from parachuted.config import load_settings, set_setting
from parachuted.config.load import config_file, read_file
from parachuted.errors import ConfigError
from parachuted.home_files.private import is_in
from parachuted.hooks.loading import load_hooks
from parachuted.vault.ignore import IgnoreRules
from parachuted.vault.index import VaultIndex
from parachuted.vault.root import VaultRoot
from parachuted.vault.scanner import ScanFindings, VaultWalk
from tests.runs.test_outside_folders import copy_into

HOOKS = "hooks: {Stop: [{type: command, command: x}]}\n"


@pytest.fixture(params=["ext4", "exfat", "macos"])
def disk(request: pytest.FixtureRequest, fs: FakeFilesystem) -> str:
    """A disk in place of ours; `ext4` alone tells letter case apart."""
    fs.os = {"macos": OSType.MACOS, "windows": OSType.WINDOWS}.get(request.param, OSType.LINUX)
    fs.is_case_sensitive = request.param == "ext4"
    return request.param


def write(path: Path, text: str, *, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def walked(vault: Path, ignore: str = "") -> tuple[VaultIndex, ScanFindings]:
    """What one walk finds, and the index that knows it."""
    index, scan = VaultIndex(), ScanFindings()
    VaultWalk(
        root=VaultRoot(vault),
        index=index,
        ignore=IgnoreRules(ignore),
        scan=scan,
        enter=lambda _: None,
        settle_ns=0,
        is_strict=True,
    ).below("")
    for seen in scan.seen:
        index.set(seen.path, seen.new)
    return index, scan


def test_a_home_that_is_in_the_vault_by_other_letters_has_no_hooks(disk):
    write(Path("/users/me/Notes/.parachute/hooks.yaml"), HOOKS)
    found = load_hooks(Path("/users/me/notes/.parachute"), vault=Path("/users/me/Notes"), places={})

    assert found.hooks == []
    assert any("lies in the vault" in problem for problem in found.problems) == (disk != "ext4")


@pytest.mark.parametrize("disk", ["ext4", "exfat", "macos", "windows"], indirect=True)
def test_whether_a_folder_is_in_another_is_a_question_of_the_disk(disk):
    for folder in ("/users/me/Notes/Brain", "/users/me/Notes2"):
        Path(folder).mkdir(parents=True)
    vault = Path("/users/me/Notes")

    assert is_in(Path("/users/ME/notes/brain"), vault) == (disk != "ext4")
    assert is_in(Path("/users/ME/notes/not/yet/there"), vault) == (disk != "ext4")
    assert is_in(vault, vault)
    assert not is_in(Path("/users/me/notes2"), vault)
    assert not is_in(Path("/users/me"), vault)


@pytest.mark.parametrize(
    "asked", ["/users/ME", "/Users/me/NOTES", "/users/me/notes/Brain", "/ETC", "/users"]
)
def test_an_agent_is_given_no_home_and_no_vault_by_other_letters(disk, asked):
    for folder in ("/users/me/Notes/Brain", "/etc", "/into"):
        Path(folder).mkdir(parents=True, exist_ok=True)
    found = copy_into(Path("/into"), (asked,), Path("/users/me"), (Path("/users/me/Notes"),))

    assert found.copied == []
    assert found.left_out[0][1] != "it is not there" or (disk == "ext4" and asked != "/users")


def test_a_context_file_has_the_name_that_stands_in_the_folder(disk):
    for name in ("A/AGENTS.md", "B/Agents.md", "C/claude.md", "D/CLAUDE.md"):
        write(Path("/notes", name), "x\n")
    index, _ = walked(Path("/notes"))

    assert index.context_folders() == ["A", "D"]
    assert (index.context_file("A"), index.context_file("B")) == ("A/AGENTS.md", None)


def test_folders_of_programs_are_ignored_however_they_are_written(
    disk,
):
    for name in (
        ".Parachute/history.md",
        ".GIT/config.md",
        ".Agents/helper.md",
        "Private/a.md",
        "b.TMP",
        "note.md",
    ):
        write(Path("/notes", name), "x\n")
    index, scan = walked(Path("/notes"), "Private/\n")

    assert [str(seen.path) for seen in scan.seen] == ["note.md"]
    assert set(index.folders("")) == set()


def test_a_change_of_settings_leaves_one_file_however_it_was_named(disk):
    home = Path("/users/me/.parachute")
    write(home / "Config.yaml", "port: 1\n")
    assert read_file(home) == ("" if disk == "ext4" else "port: 1\n")
    config_file(home).change(lambda _before: "port: 2\n")

    assert read_file(home) == "port: 2\n"
    assert len(list(home.glob("*.yaml"))) == (2 if disk == "ext4" else 1)


SETTINGS = "\ufeff---\r\nport: 4000\r\nagent:\r\n  model: a-model\r\n"


@pytest.mark.parametrize("disk", ["ext4", "exfat", "macos", "windows"], indirect=True)
def test_settings_are_read_whole_on_every_disk(disk):
    home = Path("/users/me/.parachute")
    write(home / "config.yaml", SETTINGS)
    env = {"HOME": "/users/me", "PARACHUTE_AGENT_MAX_TURNS": "3"}
    settings = load_settings(home, env, {"log_level": "debug"})

    assert (settings.port, settings.agent.model, settings.agent.max_turns, settings.log_level) == (
        4000,
        "a-model",
        3,
        "debug",
    )
    assert settings.vault == Path("/users/me/Parachute").absolute()


def test_a_setting_is_changed_by_line_on_every_disk(disk):
    home, env = Path("/users/me/.parachute"), {"HOME": "/users/me"}
    write(home / "config.yaml", SETTINGS)

    assert set_setting(home, "port", "4001").port == load_settings(home, env, {}).port == 4001
    with (home / "config.yaml").open(newline="") as file:
        assert file.read() == SETTINGS.replace("4000", "4001")


@pytest.mark.parametrize("disk", ["ext4", "exfat", "macos", "windows"], indirect=True)
def test_a_vault_that_holds_the_home_by_other_letters_is_refused(
    disk,
):
    home = Path("/users/me/Notes/.parachute")
    write(home / "config.yaml", "vault: /users/me/notes\n")
    Path("/users/me/Notes").mkdir(exist_ok=True)

    if disk == "ext4":
        assert load_settings(home, {"HOME": "/users/me"}, {}).vault == Path("/users/me/notes")
    else:
        with pytest.raises(ConfigError, match="may not hold the folder of settings"):
            load_settings(home, {"HOME": "/users/me"}, {})
