"""Demo steps: what a person does in a demo: types commands, and looks at lines of files."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote

from parachuted.cli.demo_daemon import PATIENCE_S
from parachuted.cli.show import say, say_lines
from parachuted.errors import DaemonError


class DemoSteps:
    """A person with a vault."""

    def __init__(self, vault: Path, environment: dict[str, str]) -> None:
        self.vault, self.environment = vault, environment

    def show_lines(self, path: str, *wanted: str) -> None:
        """Show the lines of the file that hold one of the texts."""
        say(f"   {path}")
        for number, line in enumerate((self.vault / path).read_text("utf-8").splitlines(), 1):
            if any(text in line for text in wanted):
                say(f"   {number:4} {line}")

    def type_command(
        self, *words: str, last: int = 0, only: tuple[str, ...] = ("",), token: str = ""
    ) -> None:
        """Run a command of the person's, and show the last lines of it that begin as said. A
        `token` is what it reads.
        """
        typed = " ".join(_typed(word) for word in words)
        say(f"   $ parachute {typed}{' < token.txt' if token else ''}")
        done = subprocess.run(  # noqa: S603  our own program
            [sys.executable, "-P", "-m", "parachuted", *words],
            env=self.environment,
            input=token,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        if done.returncode:
            raise DaemonError(f"the demo's `parachute {words[0]}` failed: {done.stderr.strip()}")
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        say_lines(f"     {line}" for line in lines[-last:] if line.startswith(only))

    def until_it_says(self, path: str, text: str) -> None:
        self.until(
            lambda: text in (self.vault / path).read_text("utf-8"), f"{path} did not say {text}"
        )

    def until(self, is_so: Callable[[], bool], otherwise: str = "work did not end") -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                raise DaemonError(f"the demo waited, and {otherwise}")
            time.sleep(0.05)


def _typed(word: str) -> str:
    return word if re.fullmatch(r"[\w~:/.,=@%+-]+", word) else quote(word)
