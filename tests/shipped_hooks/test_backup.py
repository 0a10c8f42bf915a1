"""Backup to git: every state of the vault is kept outside it, one backup at a time."""

from __future__ import annotations

import asyncio
import os
import subprocess

from tests.shipped_hooks.conftest import Shipped, write


def configure(shipped: Shipped) -> None:
    shipped.put("backup-to-git.py")
    settings = shipped.home / "hooks.yaml"
    script = shipped.home / "hooks" / "backup-to-git.py"
    settings.write_text(f"hooks:\n  file.modified:\n    - {{type: command, command: python3, args: ['{script}']}}\n")
    settings.chmod(0o600)
    shipped.hooks.look()


def git(shipped: Shipped, *words: str) -> str:
    command = ["git", f"--git-dir={shipped.home}/backup.git", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=shipped.vault).stdout


async def test_each_state_is_kept_but_not_what_is_a_program_s_own(shipped: Shipped):
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

    assert git(shipped, "log", "--format=%s").split("\n") == ["file.modified a.md", "file.modified a.md", ""]
    assert git(shipped, "-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", "HEAD").split("\n") == ["a.md", "b ü.md", ""]
    assert git(shipped, "show", "HEAD~1:a.md") == "one\n"
    assert sorted(path.name for path in shipped.vault.iterdir()) == [".parachute", "a.md", "b ü.md"]


async def test_many_at_once_are_one_at_a_time_and_the_last_state_is_kept(shipped: Shipped):
    configure(shipped)

    async def save(number: int) -> None:
        write(shipped.vault, f"{number}.md", f"{number}\n")
        await shipped.happens("file.modified", path=f"{number}.md")

    async with asyncio.timeout(60):
        await asyncio.gather(*(save(number) for number in range(6)))

    assert {record.exit_code for record in shipped.recorder.last(6)} == {0}
    assert len(git(shipped, "ls-tree", "-r", "--name-only", "HEAD").split()) == 6


async def test_what_the_vault_says_about_git_is_not_obeyed(shipped: Shipped):
    configure(shipped)
    write(shipped.vault, ".gitattributes", "*.md filter=evil\n")
    write(shipped.vault, ".gitconfig", f'[filter "evil"]\n  clean = touch {shipped.home}/owned\n')
    write(shipped.vault, "a.md", "one\n")
    await shipped.happens("file.modified", path="$(touch owned)`touch owned`.md")
    shipped.ran()

    assert not (shipped.home / "owned").exists()
    assert not (shipped.vault / "owned").exists()
    assert "a.md" in git(shipped, "ls-tree", "--name-only", "HEAD")


async def test_a_backup_inside_of_the_vault_is_refused(shipped: Shipped):
    configure(shipped)
    script = shipped.home / "hooks" / "backup-to-git.py"
    settings = shipped.home / "hooks.yaml"
    settings.write_text(
        f"hooks:\n  file.modified:\n    - {{type: command, command: 'PARACHUTE_BACKUP=\"$PARACHUTE_VAULT/.backup\" python3 {script}'}}\n"
    )
    os.utime(settings, (1, 1))
    shipped.hooks.look()
    write(shipped.vault, "a.md", "one\n")
    decision = await shipped.happens("file.modified", path="a.md")

    assert any("inside of what it backs up" in failure for failure in decision.failures)
    assert [path.name for path in shipped.vault.iterdir()] == ["a.md"]
