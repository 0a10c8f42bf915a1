"""Loading: what a person writes, pastes or drops becomes hooks, and all that is wrong is said at
once, with its line. The home is trust, the vault is not, and what could be anybody's is not read.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from parachuted.hooks.loading import HookFile, load_hooks, look

ONE = "hooks: {Stop: [{type: command, command: x}]}\n"


def write(path: Path, text: str, *, mode: int = 0o600) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def load(home: Path) -> HookFile:
    return load_hooks(home, vault=home.parent / "vault", places={})


def test_settings_come_before_dropped_scripts_and_these_by_their_names(home: Path):
    write(home / "hooks.yaml", ONE)
    for name in ("on-session-start.py", "on-session-end.sh", "helpers.py"):
        write(home / "hooks" / name, "")

    assert [hook.id for hook in load(home).hooks] == [
        "Stop[0]",
        "on-session-end.sh",
        "on-session-start.py",
    ]


def test_nothing_is_read_from_the_vault_through_a_link(home: Path, vault: Path):
    write(vault / "h.yaml", ONE)
    (home / "hooks.yaml").symlink_to(vault / "h.yaml")
    (home / "hooks").mkdir()
    write(vault / "s.py", "")
    (home / "hooks" / "on-session-start.py").symlink_to(vault / "s.py")
    found = load(home)

    assert found.hooks == []
    assert [("lies in the vault" in problem) for problem in found.problems] == [True, True]


def test_a_folder_of_scripts_that_is_the_vaults_is_refused(home: Path, vault: Path):
    write(vault / "mine" / "on-session-start.py", "")
    (home / "hooks").symlink_to(vault / "mine")
    found = load(home)

    assert found.hooks == []
    assert found.problems == [
        (
            f"no script in hooks/ runs: {home / 'hooks'} lies in the vault, and what is there is "
            "never a hook"
        ),
    ]


def test_a_link_to_a_place_of_the_persons_own_is_followed(home: Path, vault: Path, tmp_path: Path):
    (home / "hooks.yaml").symlink_to(write(tmp_path / "dotfiles.yaml", ONE))

    assert [hook.id for hook in load(home).hooks] == ["Stop[0]"]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
@pytest.mark.on_disk
def test_settings_that_others_may_change_are_refused_in_words(home: Path, mode: int):
    write(home / "hooks.yaml", ONE, mode=mode)
    write(home / "hooks" / "on-session-start.py", "")
    found = load(home)

    assert [hook.id for hook in found.hooks] == ["on-session-start.py"]
    assert found.problems == [
        (
            f"no hook of hooks.yaml runs: others may change {home / 'hooks.yaml'}; `chmod go-w "
            f"{home / 'hooks.yaml'}` mends that"
        ),
    ]


def test_a_folder_or_script_that_others_may_change_is_refused(home: Path):
    script = write(home / "hooks" / "on-session-start.py", "", mode=0o666)
    assert f"chmod go-w {script}" in load(home).problems[0]

    script.chmod(0o600)
    (home / "hooks").chmod(0o777)
    found = load(home)
    assert found.hooks == []
    assert f"chmod go-w {home / 'hooks'}" in found.problems[0]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"hooks: [a: b", "line 2: it is not YAML"),
        (b"\xff\xfe", "not UTF-8"),
        (b"#" * 70_000, "larger than 64 KB"),
        (b"- x\n", "it should hold `hooks:`"),
    ],
)
def test_settings_that_cannot_be_read_are_a_problem_and_scripts_run(
    home: Path, data: bytes, words: str
):
    (home / "hooks.yaml").write_bytes(data)
    (home / "hooks.yaml").chmod(0o600)
    write(home / "hooks" / "on-session-start.py", "")
    found = load(home)

    assert [hook.id for hook in found.hooks] == ["on-session-start.py"]
    assert len(found.problems) == 1
    assert words in found.problems[0]
    assert "write.before" in found.closed


@pytest.mark.on_disk
def test_a_folder_or_a_pipe_in_the_place_of_the_settings_holds_no_one_up(home: Path):
    os.mkfifo(home / "hooks.yaml", 0o600)
    assert "is not a file" in load(home).problems[0]

    (home / "hooks.yaml").unlink()
    (home / "hooks.yaml").mkdir()
    assert "write.before" in load(home).closed


def test_all_hooks_off_means_scripts_too(home: Path):
    write(home / "hooks.yaml", "disableAllHooks: true\n")
    write(home / "hooks" / "on-session-start.py", "")
    found = load(home)

    assert found.hooks == []
    assert not found.closed


def test_a_look_sees_every_kind_of_change(home: Path):
    seen = [look(home)]

    def is_new() -> bool:
        seen.append(look(home))
        return seen[-1] not in seen[:-1]

    settings = write(home / "hooks.yaml", ONE)
    assert is_new()
    assert look(home) == seen[-1]
    settings.write_text(ONE + "\n")
    assert is_new()
    settings.chmod(0o666)
    assert is_new()
    script = write(home / "hooks" / "on-session-start.sh", "")
    assert is_new()
    script.write_text("echo\n")
    assert is_new()
    script.chmod(0o755)
    assert is_new()
    script.unlink()
    assert is_new()
