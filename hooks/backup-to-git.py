#!/usr/bin/env python3
"""Keep every state of the vault in a git repository outside it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

NAME = "backup.git"  # in the home, or wherever PARACHUTE_BACKUP says
LEFT_OUT = "/.parachute/\n/.git/\n.DS_Store\n*.tmp\n"
ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


def main() -> None:
    """One at a time: whoever comes while another is at work leaves word, and that one goes through the vault once more."""
    event = json.load(sys.stdin)
    vault = Path(event["vault_path"]).resolve()
    home = Path(os.environ.get("PARACHUTE_HOME") or Path.home() / ".parachute")
    repository = Path(os.environ.get("PARACHUTE_BACKUP") or home / NAME)
    if repository.resolve().is_relative_to(vault):
        sys.exit("the backup would be inside of what it backs up; choose another PARACHUTE_BACKUP")
    repository.mkdir(parents=True, exist_ok=True, mode=0o700)
    word = repository / "again"
    word.touch()
    while word.exists():
        with (repository / "one-at-a-time").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            while word.exists():
                word.unlink(missing_ok=True)
                back_up(vault, repository, event)


def back_up(vault: Path, repository: Path, event: dict[str, object]) -> None:
    """Commit what is there now, if it is not what was there last."""

    def git(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["git", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=500", f"--git-dir={repository}", f"--work-tree={vault}", *words]
        done = subprocess.run(command, env={**os.environ, **ALONE}, cwd=vault, capture_output=True, text=True, check=False)  # noqa: S603
        if check and done.returncode:
            sys.exit(f"git {words[0]}: {done.stderr.strip()}")
        return done

    if not (repository / "HEAD").exists():
        git("init", "--quiet")
    (repository / "info").mkdir(exist_ok=True)
    (repository / "info" / "exclude").write_text(LEFT_OUT)
    git("add", "--all", "--ignore-errors", ".", check=False)  # a file that cannot be read must not keep the others from being kept
    if git("diff", "--cached", "--quiet", check=False).returncode:
        data = event.get("data")
        path = data.get("path") if isinstance(data, dict) else None
        subject = " ".join(str(part) for part in (event.get("event"), path) if part)
        git("-c", "user.name=parachuted", "-c", "user.email=parachuted@localhost", "commit", "--quiet", "--no-verify", "-m", subject[:200])


if __name__ == "__main__":
    main()
