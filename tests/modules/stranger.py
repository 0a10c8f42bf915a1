"""Stranger: a module from somewhere, the home and the vault that it comes to, and a payload that
tells whether it ever ran.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from parachuted.modules.hosting.in_process import load_class, unload
from parachuted.modules.module import Module
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import ApprovedModule

MANIFEST = """\
name: stranger
version: 1.2.3
description: A module from somewhere
module: module.py
permissions:
  read: [Notes/**]
  write: [Notes/stranger/**]
"""
CODE = """\
from pathlib import Path

from parachuted.modules import Module

from . import words
from .deep import inner


class Stranger(Module):
    said = words.SAID + inner.SAID
    prompt = (Path(__file__).parent / "prompts" / "ask.md").read_text()
"""
FILES = {
    "manifest.yaml": MANIFEST,
    "module.py": CODE,
    "words.py": "SAID = 'as '\n",
    "deep/__init__.py": "",
    "deep/inner.py": "SAID = 'approved'\n",
    "prompts/ask.md": "Ask kindly.\n",
    "data.json": "{}\n",
    "run.sh": "#!/bin/sh\n",
}
SAID = "as approved"


@dataclass(kw_only=True)
class UntrustedRig:
    """A home, a vault, and the trust of both.

    `payload` is Python that leaves a mark where the attacker is told that it ran.
    """

    base: Path
    home: Path
    vault: Path
    trust: ModuleApprovals = field(init=False)

    def __post_init__(self) -> None:
        self.trust = self.again()

    def again(self) -> ModuleApprovals:
        """As after a restart."""
        return ModuleApprovals(self.home, self.vault, env=os.environ)

    @property
    def folder(self) -> Path:
        return self.vault / "Modules" / "stranger"

    @property
    def mark(self) -> Path:
        return self.base / "it ran"

    @property
    def payload(self) -> str:
        return f"import pathlib; pathlib.Path({str(self.mark)!r}).write_text('x')\nSAID = 'evil'\n"

    def write(self, folder: Path | None = None, **changed: str) -> Path:
        folder = folder or self.folder
        for path, text in {
            **FILES,
            **{name.replace("__", "/"): text for name, text in changed.items()},
        }.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (folder / "run.sh").chmod(0o755)
        return folder

    def approve(self, name: str = "stranger") -> ApprovedModule:
        self.trust.approve(name, self.trust.consent(name).digest)
        return self.ready(name)

    def ready(self, name: str = "stranger") -> ApprovedModule:
        found = {one.name: one for one in self.trust.ready()}
        assert name in found, self.trust.entry(name).problem
        return found[name]

    def run(self) -> list[str]:
        """What every module that may run says when it is loaded, after a restart."""
        said = []
        for one in self.again().ready():
            with loaded(one) as cls:
                said.append(str(cls.said))
        return said


@contextmanager
def loaded(one: ApprovedModule) -> Iterator[type[Module]]:
    try:
        yield load_class(one)
    finally:
        unload(one)


def nothing_of_modules_is_left() -> bool:
    return not any(name.startswith("parachute_modules.") for name in sys.modules)
