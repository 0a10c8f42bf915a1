"""Restart rig: a vault that a daemon knows, which can be put back to how it was; and a program in
which daemons live and die.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.home_files.vault_state import state_folder
from parachuted.modules.registry.copies import remove_tree
from parachuted.vault import WriteJournal
from tests.stories.life_span import LifeSpan

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class RestartRig:
    """Its vault and home are below `here`."""

    here: Path
    template: Path
    program: subprocess.Popen[bytes]
    began: float = field(default_factory=time.monotonic)

    @property
    def vault(self) -> Path:
        return self.here / "vault"

    @property
    def home(self) -> Path:
        return self.here / "home"

    def put_back(self) -> None:
        """How it was."""
        if self.template.exists():
            remove_tree(self.here)  # copies of modules cannot be written
            shutil.copytree(self.template, self.here)
        self.began = time.monotonic()

    def keep(self) -> None:
        """This is how it was."""
        remove_tree(self.template)
        shutil.copytree(self.here, self.template)

    def live(self, dies_at: int = 0, *, does: str = "") -> tuple[bool, int]:
        """One daemon's life: whether it died, and of how many steps it was. `does` is what is asked
        of it, from which on the steps count.
        """
        places = {"vault": str(self.vault), "home": str(self.home)}
        span = LifeSpan(**places, began=self.began, dies_at=dies_at, does=does)
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        self.program.stdin.write(span.line())
        self.program.stdin.flush()
        reported = json.loads(self.program.stdout.readline())
        assert reported["problem"] is None, reported["problem"]
        return reported["died"], reported["steps"]

    def files(self) -> dict[str, bytes]:
        files = (
            path
            for path in self.vault.rglob("*")
            if path.is_file() and ".parachute" not in path.parts
        )
        return {path.relative_to(self.vault).as_posix(): path.read_bytes() for path in files}

    @contextmanager
    def history(self) -> Iterator[WriteJournal]:
        """What the last daemon left."""
        with closing(WriteJournal(state_folder(self.home, self.vault) / "history.db")) as history:
            yield history

    def runs(self) -> list[tuple[str, str]]:
        """Each run's watcher with its outcome."""
        with self.history() as history:
            return sorted(
                (str(run["watcher"]), str(run["outcome"])) for run in history.runs(limit=1000)
            )


@contextmanager
def crashing_program() -> Iterator[subprocess.Popen[bytes]]:
    """The program that lives are lived in: each of them is forked from it."""
    command = [sys.executable, "-m", "tests.stories.crashing"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe) as program:
        yield program
        assert program.stdin is not None
        program.stdin.close()


def restart_rig(folder: Path, program: subprocess.Popen[bytes]) -> RestartRig:
    """One with an empty vault, below that folder."""
    here = folder / "here"
    (here / "home").mkdir(parents=True)
    (here / "vault").mkdir()
    return RestartRig(here=here, template=folder / "template", program=program)
