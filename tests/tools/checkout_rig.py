"""Desk: a vault and one agent's private copy of it, with what an agent's programs do there."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from parachuted.access.caller import Caller
from parachuted.access.grant import Grant
from parachuted.access.strangers import ProposedChange, RunGuard, Taint
from parachuted.agents.job import RunFolder
from parachuted.audit.chain import NullAuditRecorder
from parachuted.keys import AccessGrant, PathGlob
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.checkout import CheckinResult, Checkout, CheckoutResult
from parachuted.runs.granted_files import GrantedFiles, VaultUser
from parachuted.state import open_state
from parachuted.vault import (
    Author,
    IgnoreRules,
    ObjectStore,
    Recovery,
    Scanner,
    Store,
    VaultIndex,
    VaultRoot,
    WriteJournal,
)

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def paths(*patterns: str) -> AccessGrant:
    return (
        AccessGrant(alternatives=((tuple(map(PathGlob, patterns)),),))
        if patterns
        else AccessGrant(alternatives=())
    )


GARDENER = Grant(
    agent="gardener",
    reads=paths("**"),
    writes=paths("Projects/**", "Daily/**"),
    tainted_writes=paths("Daily/**"),
    native=("Read", "Edit", "Write", "Bash"),
    bash=True,
)


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """As `filter="tar"` does, which Python has since 3.11.4."""
    archive.extraction_filter = getattr(tarfile, "tar_filter", None)
    archive.extractall(folder)  # noqa: S202  of the product's own


@dataclass
class CheckoutRig:
    """`save` is a person's act, and `work` the folder in which the agent's programs do as they
    like.
    """

    folder: Path
    grant: Grant = GARDENER
    may_suggest: bool = True
    suggested: list[tuple[str, str, bytes | None]] = field(default_factory=list)
    audit: NullAuditRecorder = field(default_factory=NullAuditRecorder)

    def __post_init__(self) -> None:
        self.vault, self.work = self.folder / "vault", self.folder / "work"
        self.run_folder = RunFolder(self.folder / "run")
        for made in (self.vault, self.work, self.run_folder.path):
            made.mkdir(parents=True, exist_ok=True)
        self.root = VaultRoot(self.vault)
        self.objects = ObjectStore(self.folder / "objects")
        self.history = WriteJournal(self.folder / "history.db")
        self.store = Store(self.root, self.objects, self.history, lambda: NOON, notice=self.notice)
        self.index = VaultIndex()
        self.scanner = Scanner(self.root, self.index, IgnoreRules(), settle_s=0)
        self.state = open_state(self.folder / "state.json")
        self.taint = Taint()
        self.checkout: Checkout | None = None

    def save(self, path: str, text: str | bytes) -> None:
        place = self.vault / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        self.look()

    def look(self) -> None:
        scan = self.scanner.walk(finished=True)
        for folder in scan.new_folders:
            self.index.add_folder(folder)
        for seen in scan.seen:
            self.index.set(seen.path, seen.new)
        for folder in scan.gone_folders:
            self.index.drop_folder(folder)

    async def open(self, **changed: object) -> CheckoutResult:
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        self.grant = replace(self.grant, **changed)
        filled = await self.fill(self.run_folder, (os.getuid(), os.getgid()))
        with tarfile.open(self.run_folder.notes) as notes:
            extract(notes, self.work)
        return filled

    async def fill(self, folder: RunFolder, owner: tuple[int, int]) -> CheckoutResult:
        author = Author(by="module:gardener", run="r1", causes=("c1",))
        guard = RunGuard(
            grant=self.grant,
            taint=self.taint,
            put_forward=self.suggest if self.may_suggest else None,
        )
        user = VaultUser(
            caller=Caller,
            author=lambda _call: author,
            writing=lambda _path: nullcontext(lambda _written: None),
            run=guard,
        )
        bounds = ModuleBounds.of_agent("gardener", self.grant)
        files = GrantedFiles(self.store, bounds, user, self.audit)
        self.checkout = Checkout(files, self.index, self.grant, guard, folder=folder, owner=owner)
        return await self.checkout.fill()

    async def check_in(self) -> CheckinResult:
        """As when its container has ended, and the engine has packed what is in it."""
        with tarfile.open(self.run_folder.returned, "w") as returned:
            returned.add(self.work, "vault")
        return await self.take_over()

    async def take_over(self) -> CheckinResult:
        """As when the archive of a container has been read."""
        assert self.checkout is not None
        return await self.checkout.check_in()

    async def notice(self, _paths: Iterable[str]) -> None:
        self.look()

    async def suggest(self, change: ProposedChange, _why: str) -> str:
        self.suggested.append((change.action, change.path, change.data))
        return f"s{len(self.suggested)}"

    def texts(self, folder: Path | None = None) -> dict[str, str]:
        root = folder or self.vault
        return {
            os.fsencode(path.relative_to(root)).decode(
                "utf-8", "backslashreplace"
            ): path.read_bytes().decode("utf-8", "backslashreplace")
            for path in sorted(root.rglob("*"))
            if path.is_file() and not path.is_symlink()
        }

    def shell(self, path: str, text: str | bytes) -> None:
        place = self.work / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)

    def recover(self) -> list[str]:
        return Recovery(root=self.root, objects=self.objects, history=self.history, now=NOON).run()

    def close(self) -> None:
        self.store.close()
        self.history.close()
        self.objects.close()
        self.state.close()


@contextmanager
def at_desk(folder: Path) -> Iterator[CheckoutRig]:
    rig = CheckoutRig(folder=folder)
    rig.save("Projects/roof.md", "# Roof\n\none\n\ntwo\n\nthree\n\nfour\n")
    rig.save("Projects/garden.md", "# Garden\n")
    rig.save("Daily/monday.md", "# Monday\n")
    rig.save("Library/book.md", "# Book\n")
    try:
        yield rig
    finally:
        rig.close()
        shutil.rmtree(rig.work, ignore_errors=True)
