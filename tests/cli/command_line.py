"""CommandLine: commands as a person types them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.forked import forking

TIMEOUT_S = 120
PARACHUTE = (sys.executable, "-m", "parachuted")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """Types commands for one home. `started` finds the daemon by the record that it leaves.

    `forks_daemon`: a daemon is forked with all that it needs imported, and no interpreter started.
    """

    home: Path
    vault: Path
    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    forks_daemon: bool = True

    def env(self, **more: str) -> dict[str, str]:
        """What the command has in its environment: no one's login, this home."""
        return {
            **os.environ,
            "PARACHUTE_HOME": str(self.home),
            "HOME": str(self.folder),
            **self.environ,
            **more,
        }

    def __call__(
        self, *words: str, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        environ = self.env(**env)
        if forking().is_fit_for(words, environ):
            where = cwd or self.folder
            return forking().run(words, environ, where, TIMEOUT_S, forks_daemon=self.forks_daemon)
        return subprocess.run(
            [*PARACHUTE, *words],
            env=environ,
            cwd=cwd or self.folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def does(self, *words: str, cwd: Path | None = None, **env: str) -> str:
        """What it prints; it must succeed and complain of nothing."""
        done = self(*words, cwd=cwd, **env)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def start(self, *words: str, **env: str) -> str:
        """Start a daemon on the vault; what that prints."""
        return self.does("start", "--vault", str(self.vault), "--port", "0", *words, **env)

    def fails(self, code: int, *words: str, cwd: Path | None = None, **env: str) -> str:
        """What it complains of; it must end with this code, in sentences."""
        done = self(*words, cwd=cwd, **env)
        assert done.returncode == code, done
        assert "Traceback" not in done.stderr
        return done.stderr

    def json(self, *words: str) -> Any:
        """What it prints with --json."""
        return json.loads(self.does(*words, "--json"))

    async def types(self, *words: str, **env: str) -> tuple[int, str]:
        """Beside a daemon of this very process: the code, and all that it says."""
        done = await asyncio.to_thread(self, *words, **env)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    async def tells(self, *words: str, **env: str) -> str:
        """Beside a daemon of this very process: what it prints, having succeeded."""
        return await asyncio.to_thread(self.does, *words, **env)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Begin it, and do not wait."""
        return subprocess.Popen(
            [*PARACHUTE, *words],
            env=self.env(),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def save(self, path: str, old: str, new: str) -> None:
        """Save a note as most editors do."""
        file = self.vault / path
        temporary = file.with_name(f".{file.name}.save")
        temporary.write_text(file.read_text("utf-8").replace(old, new), "utf-8")
        temporary.replace(file)

    def until(self, condition: Callable[[], object], seconds: float = 90) -> None:
        """Wait for a condition, at most so long."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def started(self) -> list[int]:
        """The daemon that lives, if one does."""
        try:
            pid = int(json.loads((self.home / "run" / "daemon.json").read_bytes())["pid"])
            named = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError, KeyError):
            return []
        return [pid] if b"parachuted" in named else []
