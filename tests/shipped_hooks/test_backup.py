"""Backup to git: every state of the vault is kept outside it, one backup at a time."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from tests.shipped_hooks.conftest import ShippedHooks, write


def configure(shipped: ShippedHooks) -> None:
    shipped.put("backup-to-git.py")
    settings = shipped.home / "hooks.yaml"
    script = shipped.home / "hooks" / "backup-to-git.py"
    settings.write_text(
        f'hooks:\n  file.modified:\n    - {{type: command, command: python3 "{script}"}}\n'
    )
    settings.chmod(0o600)
    shipped.hooks.look()


def git(shipped: ShippedHooks, *words: str) -> str:
    command = ["git", f"--git-dir={shipped.home}/backup.git", *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=shipped.vault
    ).stdout


async def test_each_state_is_kept_but_not_what_is_a_program_s_own(shipped: ShippedHooks):
    configure(shipped)
    write(shipped.vault, "a.md", "one\n")
    write(shipped.vault, ".parachute/audit/x.jsonl", "{}\n")
    await shipped.happens("file.modified", path="a.md")
    shipped.ran()
    write(shipped.vault, "a.md", "two\n")
    (shipped.vault / "b ü.md").write_text("new\n")
    await shipped.happens("file.modified", path="a.md")
    await shipped.happens("file.modified", path="a.md")
    shipped.ran()

    assert git(shipped, "log", "--format=%s").split("\n") == [
        "file.modified a.md",
        "file.modified a.md",
        "",
    ]
    assert git(shipped, "-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", "HEAD").split(
        "\n"
    ) == ["a.md", "b ü.md", ""]
    assert git(shipped, "show", "HEAD~1:a.md") == "one\n"
    assert sorted(path.name for path in shipped.vault.iterdir()) == [".parachute", "a.md", "b ü.md"]


async def test_many_at_once_are_one_at_a_time_and_the_last_state_is_kept(shipped: ShippedHooks):
    configure(shipped)

    async def save(number: int) -> None:
        write(shipped.vault, f"{number}.md", f"{number}\n")
        await shipped.happens("file.modified", path=f"{number}.md")

    async with asyncio.timeout(60):
        await asyncio.gather(*(save(number) for number in range(6)))

    assert {record.exit_code for record in shipped.hooks.recorder.last(6)} == {0}
    assert len(git(shipped, "ls-tree", "-r", "--name-only", "HEAD").split()) == 6


async def test_what_the_vault_says_about_git_is_not_obeyed(shipped: ShippedHooks):
    configure(shipped)
    write(shipped.vault, ".gitattributes", "*.md filter=evil\n")
    write(shipped.vault, ".gitconfig", f'[filter "evil"]\n  clean = touch {shipped.home}/owned\n')
    write(shipped.vault, "a.md", "one\n")
    await shipped.happens("file.modified", path="$(touch owned)`touch owned`.md")
    shipped.ran()

    assert not (shipped.home / "owned").exists()
    assert not (shipped.vault / "owned").exists()
    assert "a.md" in git(shipped, "ls-tree", "--name-only", "HEAD")


async def test_a_backup_inside_of_the_vault_is_refused(shipped: ShippedHooks):
    configure(shipped)
    script, settings = shipped.home / "hooks/backup-to-git.py", shipped.home / "hooks.yaml"
    settings.write_text(
        f"hooks:\n  file.modified:\n    - {{type: command, command: "
        f"'PARACHUTE_BACKUP=\"$PARACHUTE_VAULT/.backup\" python3 {script}'}}\n"
    )
    os.utime(settings, (1, 1))
    shipped.hooks.look()
    write(shipped.vault, "a.md", "one\n")
    await shipped.happens("file.modified", path="a.md")

    assert "inside of what it backs up" in shipped.hooks.errors[-1].message
    assert [path.name for path in shipped.vault.iterdir()] == ["a.md"]


def listed(shipped: ShippedHooks) -> list[str]:
    return git(
        shipped, "-c", "core.quotePath=false", "ls-tree", "-r", "-z", "--name-only", "HEAD"
    ).split("\0")[:-1]


def in_vault(folder: Path, *words: str) -> None:
    settings = (
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@localhost",
        "-c",
        "protocol.file.allow=always",
    )
    subprocess.run(["git", *settings, "-C", str(folder), *words], check=True, capture_output=True)


def kept(shipped: ShippedHooks, name: str) -> bytes:
    command = ["git", f"--git-dir={shipped.home}/backup.git", "cat-file", "blob", f"HEAD:{name}"]
    return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a mark beside it, `ran`, wherever it is run."""
    program = tmp_path / "trap"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\ncat 2>/dev/null\n")
    program.chmod(0o700)
    return program


async def test_a_repository_inside_the_vault_runs_nothing_and_its_notes_are_kept(
    shipped: ShippedHooks, trap: Path
):
    configure(shipped)
    inner = shipped.vault / "Projects" / "site"
    write(shipped.vault, "Projects/site/AGENTS.md", "its note\n")
    in_vault(shipped.vault, "init", "--quiet", "Projects/site")
    in_vault(inner, "add", "--all")
    in_vault(inner, "commit", "--quiet", "-m", "one")
    write(shipped.vault, "Projects/site/new.md", "not committed there\n")
    write(shipped.vault, "Projects/site/.gitignore", "*.md\n")
    write(shipped.vault, "Projects/site/.gitattributes", "*.md filter=evil diff=evil merge=evil\n")
    for setting in (
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.process",
        "diff.evil.textconv",
        "core.sshCommand",
        "gpg.program",
    ):
        in_vault(inner, "config", setting, str(trap))
    in_vault(inner, "config", "core.hooksPath", str(trap.parent / "hooks"))
    for hook in (
        "pre-commit",
        "post-index-change",
        "reference-transaction",
        "post-commit",
        "pre-auto-gc",
    ):
        for folder in (trap.parent / "hooks", inner / ".git" / "hooks"):
            folder.mkdir(exist_ok=True)
            (folder / hook).unlink(missing_ok=True)
            (folder / hook).symlink_to(trap)
    for number in range(2):
        write(shipped.vault, "a.md", f"{number}\n")
        await shipped.happens("file.modified", path="a.md")
        shipped.ran()

    assert not (trap.parent / "ran").exists()
    inside = ("AGENTS.md", "new.md", ".gitignore", ".gitattributes")
    assert listed(shipped) == sorted(["a.md", *(f"Projects/site/{name}" for name in inside)])
    assert git(shipped, "show", "HEAD:Projects/site/new.md") == "not committed there\n"


async def test_a_vault_that_is_a_repository_itself_is_read_as_files_too(
    shipped: ShippedHooks, trap: Path
):
    configure(shipped)
    in_vault(shipped.vault, "init", "--quiet")
    write(shipped.vault, "a.md", "one\n")
    write(shipped.vault, "sub/b.md", "two\n")
    in_vault(shipped.vault, "config", "core.fsmonitor", str(trap))
    (shipped.vault / "sub" / ".git").write_text("gitdir: ../elsewhere\n")  # as of a submodule
    write(shipped.vault, "elsewhere/config", f"[core]\n\tfsmonitor = {trap}\n\tworktree = ../sub\n")
    write(shipped.vault, "elsewhere/HEAD", "ref: refs/heads/main\n")
    for folder in ("objects", "refs"):
        (shipped.vault / "elsewhere" / folder).mkdir()
    await shipped.happens("file.modified", path="a.md")
    shipped.ran()

    assert not (trap.parent / "ran").exists()
    assert listed(shipped) == ["a.md", "elsewhere/HEAD", "elsewhere/config", "sub/b.md"]


async def test_what_the_person_set_for_git_is_not_used_on_the_vault(
    shipped: ShippedHooks, trap: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    configure(shipped)
    settings = tmp_path / "person" / ".gitconfig"
    settings.parent.mkdir()
    settings.write_text(
        f'[filter "lfs"]\n\tclean = {trap}\n\trequired = true\n[core]\n\tfsmonitor = {trap}\n'
    )
    monkeypatch.setitem(shipped.hooks._env, "HOME", str(settings.parent))
    write(
        shipped.vault,
        ".gitattributes",
        "*.md filter=lfs text eol=crlf working-tree-encoding=UTF-16\n",
    )
    write(shipped.vault, "a.md", "as it is\n")
    await shipped.happens("file.modified", path="a.md")
    shipped.ran()

    assert not (trap.parent / "ran").exists()
    assert git(shipped, "show", "HEAD:a.md") == "as it is\n"


async def test_an_earlier_backup_goes_on_and_notes_that_it_lacked_are_added(
    shipped: ShippedHooks,
):
    configure(shipped)
    inner = shipped.vault / "inner"
    write(shipped.vault, "inner/note.md", "its note\n")
    write(shipped.vault, "a.md", "one\n")
    in_vault(shipped.vault, "init", "--quiet", "inner")
    in_vault(inner, "add", "--all")
    in_vault(inner, "commit", "--quiet", "-m", "one")
    for words in (
        ("init", "--quiet"),
        ("add", "--all", "."),
        ("commit", "--quiet", "-m", "earlier"),
    ):
        in_vault(
            shipped.vault,
            f"--git-dir={shipped.home}/backup.git",
            f"--work-tree={shipped.vault}",
            *words,
        )
    assert listed(shipped) == ["a.md", "inner"]
    await shipped.happens("file.modified", path="a.md")
    shipped.ran()

    assert listed(shipped) == ["a.md", "inner/note.md"]
    assert git(shipped, "log", "--format=%s").split("\n") == ["file.modified a.md", "earlier", ""]
    assert git(shipped, "diff", "--cached", "--name-only") == ""


async def test_names_links_modes_and_bytes_are_kept_as_they_are(shipped: ShippedHooks):
    configure(shipped)
    (shipped.vault / 'q"uo\\te\nline.md').write_text("odd\n")
    (shipped.vault / "tool.sh").write_bytes(b"\r\n\0\xff")
    (shipped.vault / "tool.sh").chmod(0o755)
    (shipped.vault / "link").symlink_to("/etc")
    (shipped.vault / "large.bin").write_bytes(os.urandom(17 << 20))
    os.mkfifo(shipped.vault / "pipe")
    await shipped.happens("file.modified", path="a.md")
    shipped.ran()
    modes = {
        line.split("\t", 1)[1]: line[:6]
        for line in git(shipped, "ls-tree", "-r", "-z", "HEAD").split("\0")[:-1]
    }

    assert modes == {
        "large.bin": "100644",
        "link": "120000",
        'q"uo\\te\nline.md': "100644",
        "tool.sh": "100755",
    }
    assert [
        kept(shipped, name) == (shipped.vault / name).read_bytes()
        for name in ("large.bin", "tool.sh")
    ] == [True, True]


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
async def test_what_cannot_be_read_now_stays_in_the_backup(shipped: ShippedHooks):
    configure(shipped)
    for name in ("a.md", "folder/b.md"):
        write(shipped.vault, name, "kept\n")
    await shipped.happens("file.modified", path="a.md")
    for name in ("a.md", "folder"):
        (shipped.vault / name).chmod(0)
    write(shipped.vault, "c.md", "new\n")
    await shipped.happens("file.modified", path="a.md")
    (shipped.vault / "folder").chmod(0o700)

    assert listed(shipped) == ["a.md", "c.md", "folder/b.md"]
