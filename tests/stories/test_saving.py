"""Saving: each way in which editors and people change files is one change, no more, whether the
daemon runs or not.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import IN_MEMORY, ON_DISK
from tests.stories.daemon_rig import DaemonRig, Live, save
from tests.stories.listing import assert_index_equals_disk, kinds

NEW = "# Note\n\nnew text, and more of it\n"


def old(vault: Path, name: str = "note.md") -> str:
    """What each file held before; no other file holds the same."""
    return f"# {vault.name}\n\nold text of {name}\n"


def outside(vault: Path, name: str) -> Path:
    """A place that no daemon looks at."""
    return vault.parents[1] / f"{name} of {vault.name}"


def in_place(vault: Path) -> None:
    with (vault / "note.md").open("r+") as file:
        file.write(NEW)


def truncate_and_write(vault: Path) -> None:
    (vault / "note.md").write_text(NEW)


def truncate_then_write_in_two_opens(vault: Path) -> None:
    (vault / "note.md").open("w").close()
    with (vault / "note.md").open("a") as file:
        file.write(NEW)


def append(vault: Path) -> None:
    with (vault / "note.md").open("a") as file:
        file.write("more\n")


def hidden_temporary_and_rename(vault: Path) -> None:
    save(vault / "note.md", NEW)


def ordinary_temporary_and_rename(vault: Path) -> None:
    (vault / "note new.md").write_text(NEW)
    (vault / "note new.md").rename(vault / "note.md")


def backup_rename_then_write(vault: Path) -> None:
    (vault / "note.md").rename(vault / "note.md~")
    (vault / "note.md").write_text(NEW)
    (vault / "note.md~").unlink()


def ordinary_backup_rename_then_write(vault: Path) -> None:
    (vault / "note.md").rename(vault / "note.md.orig")
    (vault / "note.md").write_text(NEW)
    (vault / "note.md.orig").unlink()


def vim(vault: Path, *settings: str) -> None:
    commands = [
        *(f"set {setting}" for setting in settings),
        "normal ggdG",
        "normal i# Note",
        "normal oby vim",
        "wq",
    ]
    words = [word for command in commands for word in ("-c", command)]
    edit(vault, "vim", "-es", "-u", "NONE", "-i", "NONE", *words, "note.md")


def edit(vault: Path, *words: str) -> None:
    """Run an editor. Below the folder for temporary files editors save otherwise."""
    is_temporary = vault.is_relative_to(tempfile.gettempdir())
    subprocess.run(
        words,
        cwd=vault,
        env={**os.environ, "TMPDIR": str(vault.parents[1] if is_temporary else IN_MEMORY)},
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=20,
    )


def vim_that_writes_in_place(vault: Path) -> None:
    vim(vault, "swapfile", "backup", "writebackup", "backupcopy=yes")


def vim_that_renames(vault: Path) -> None:
    vim(vault, "swapfile", "nobackup", "writebackup", "backupcopy=no")


def vim_that_leaves_a_backup(vault: Path) -> None:
    vim(vault, "swapfile", "backup", "writebackup", "backupcopy=no", "undofile")


def emacs(vault: Path, *settings: str) -> None:
    """Emacs, whose first save keeps the old file as a backup, and which locks what it edits."""
    edits = ["(goto-char (point-max))", '(insert "by emacs\\n")', "(save-buffer)"]
    words = [*(f"(setq {setting})" for setting in settings), '(find-file "note.md")', *edits]
    edit(vault, "emacs", "-Q", "--batch", "--eval", f"(progn {' '.join(words)})")


def emacs_that_copies(vault: Path) -> None:
    emacs(vault, "backup-by-copying t")


def emacs_that_renames_into_place(vault: Path) -> None:
    emacs(vault, "file-precious-flag t")


def sed(vault: Path) -> None:
    subprocess.run(["sed", "-i", "s/old/sed/", "note.md"], cwd=vault, check=True)


def delete(vault: Path) -> None:
    (vault / "note.md").unlink()


def delete_and_recreate(vault: Path) -> None:
    (vault / "note.md").unlink()
    (vault / "note.md").write_text(NEW)


def delete_and_recreate_the_same(vault: Path) -> None:
    (vault / "note.md").unlink()
    (vault / "note.md").write_text(old(vault))


def delete_and_create_another(vault: Path) -> None:
    """File systems may give the new file the old one's number."""
    (vault / "note.md").unlink()
    (vault / "new.md").write_text(NEW)


def rename(vault: Path) -> None:
    (vault / "note.md").rename(vault / "named.md")


def rename_and_back(vault: Path) -> None:
    (vault / "note.md").rename(vault / "named.md")
    (vault / "named.md").rename(vault / "note.md")


def rename_into_a_new_folder(vault: Path) -> None:
    (vault / "deep/er").mkdir(parents=True)
    (vault / "note.md").rename(vault / "deep/er/note.md")


def rename_and_edit(vault: Path) -> None:
    (vault / "note.md").rename(vault / "named.md")
    with (vault / "named.md").open("a") as file:
        file.write("edited\n")


def rename_over_another(vault: Path) -> None:
    (vault / "note.md").rename(vault / "other.md")


def swap(vault: Path) -> None:
    (vault / "note.md").rename(vault / "between.md")
    (vault / "other.md").rename(vault / "note.md")
    (vault / "between.md").rename(vault / "other.md")


def rename_a_folder(vault: Path) -> None:
    (vault / "folder").rename(vault / "renamed")


def move_a_folder_out(vault: Path) -> None:
    (vault / "folder").rename(outside(vault, "folder"))


def remove_a_folder(vault: Path) -> None:
    shutil.rmtree(vault / "folder")


def touch(vault: Path) -> None:
    (vault / "note.md").touch()


def change_the_mode(vault: Path) -> None:
    (vault / "note.md").chmod(0o600)


def write_the_same(vault: Path) -> None:
    (vault / "note.md").write_text(old(vault))


def replace_with_the_same(vault: Path) -> None:
    save(vault / "note.md", old(vault))


def leave_scrap(vault: Path) -> None:
    for name in (
        ".note.md.swp",
        "note.md~",
        "#note.md#",
        "4913",
        "sedAbC123",
        "~$note.md",
        "note.md.tmp",
        ".#note.md",
    ):
        (vault / name).write_text("scrap")


def make_and_remove(vault: Path) -> None:
    (vault / "scrap.md").write_text("scrap")
    (vault / "scrap.md").unlink()


def new_file(vault: Path) -> None:
    (vault / "new.md").write_text(NEW)


def new_file_by_rename(vault: Path) -> None:
    save(vault / "new.md", NEW)


def new_file_in_two_opens(vault: Path) -> None:
    (vault / "new.md").touch()
    (vault / "new.md").write_text(NEW)


def new_folders_with_a_file(vault: Path) -> None:
    (vault / "a/b").mkdir(parents=True)
    (vault / "a/b/new.md").write_text(NEW)


TREE = [f"{number % 7}/{number % 3}/note {number}.md" for number in range(300)]


def tree(folder: Path) -> None:
    for path in TREE:
        save(folder / path, f"# {path}\n")


def copy_a_tree(vault: Path) -> None:
    tree(outside(vault, "tree"))
    subprocess.run(["cp", "-r", outside(vault, "tree"), vault / "tree"], check=True)


def move_a_tree_in(vault: Path) -> None:
    tree(outside(vault, "tree"))
    outside(vault, "tree").rename(vault / "tree")


def link_a_file(vault: Path) -> None:
    os.link(vault / "note.md", vault / "second name.md")


FOLDER = ["folder/one.md", "folder/two.md", "folder/inner/three.md"]
MODIFIED = {"note.md": ["modified"]}
NEW_FILE = {"new.md": ["created"]}
NEW_TREE = {f"tree/{path}": ["created"] for path in TREE}

Style = Callable[[Path], None]
STYLES: dict[Style, dict[str, list[str]]] = {
    in_place: MODIFIED,
    truncate_and_write: MODIFIED,
    truncate_then_write_in_two_opens: MODIFIED,
    append: MODIFIED,
    hidden_temporary_and_rename: MODIFIED,
    ordinary_temporary_and_rename: MODIFIED,
    backup_rename_then_write: MODIFIED,
    ordinary_backup_rename_then_write: MODIFIED,
    vim_that_writes_in_place: MODIFIED,
    vim_that_renames: MODIFIED,
    vim_that_leaves_a_backup: MODIFIED,
    emacs: MODIFIED,
    emacs_that_copies: MODIFIED,
    emacs_that_renames_into_place: MODIFIED,
    sed: MODIFIED,
    delete: {"note.md": ["deleted"]},
    delete_and_recreate: MODIFIED,
    delete_and_recreate_the_same: {},
    delete_and_create_another: {"note.md": ["deleted"], "new.md": ["created"]},
    rename: {"named.md": ["moved from note.md"]},
    rename_and_back: {},
    rename_into_a_new_folder: {"deep/er/note.md": ["moved from note.md"]},
    rename_and_edit: {"named.md": ["moved from note.md"]},
    rename_over_another: {"note.md": ["deleted"], "other.md": ["modified"]},
    swap: {"note.md": ["modified"], "other.md": ["modified"]},
    rename_a_folder: {path.replace("folder", "renamed"): [f"moved from {path}"] for path in FOLDER},
    move_a_folder_out: {path: ["deleted"] for path in FOLDER},
    remove_a_folder: {path: ["deleted"] for path in FOLDER},
    touch: {},
    change_the_mode: {},
    write_the_same: {},
    replace_with_the_same: {},
    leave_scrap: {},
    make_and_remove: {},
    new_file: NEW_FILE,
    new_file_by_rename: NEW_FILE,
    new_file_in_two_opens: NEW_FILE,
    new_folders_with_a_file: {"a/b/new.md": ["created"]},
    copy_a_tree: NEW_TREE,
    move_a_tree_in: NEW_TREE,
    link_a_file: {"second name.md": ["created"]},
}


EDITORS = [style for style in STYLES if style.__name__.startswith(("vim", "emacs"))]
LEAVES_A_BACKUP = {
    vim_that_writes_in_place,
    vim_that_leaves_a_backup,
    emacs,
    emacs_that_copies,
    emacs_that_renames_into_place,
}


@dataclass(frozen=True, kw_only=True)
class SavingRig:
    """A vault with a folder of notes for each style, and those styles that can be tried here."""

    vault: Path
    styles: Sequence[Style]
    missing: Sequence[str]

    def act(self, style: Style) -> None:
        style(self.vault / style.__name__)

    def changes(self, *styles: Style) -> dict[str, list[str]]:
        """What is to be reported."""
        return {
            f"{style.__name__}/{path}": [
                kind.replace("moved from ", f"moved from {style.__name__}/") for kind in kinds
            ]
            for style in styles
            for path, kinds in STYLES[style].items()
        }

    def end(self) -> None:
        if self.missing:
            pytest.skip(f"all was well, but for {', '.join(self.missing)}, not found here")


@pytest.fixture(params=[None, ON_DISK], ids=["all", f"editors in {ON_DISK}"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SavingRig]:
    """In the test's folder, or where editors take no file for a temporary one."""
    wanted = EDITORS if request.param else [*STYLES]
    programs = {style: style.__name__.partition("_")[0] for style in wanted}
    needed = {*programs.values()} & {"vim", "emacs", "sed"}
    missing = [program for program in sorted(needed) if shutil.which(program) is None]
    styles = [style for style in wanted if programs[style] not in missing]
    with tempfile.TemporaryDirectory(dir=request.param or tmp_path, prefix="pd-") as made:
        for style in styles:
            folder = Path(made) / "vault" / style.__name__
            for path in ("note.md", "other.md", *FOLDER):
                save(folder / path, old(folder, path))
        yield SavingRig(vault=Path(made) / "vault", styles=styles, missing=missing)


@pytest.fixture
def vault(rig: SavingRig) -> Path:
    return rig.vault


async def test_each_way_of_saving_is_one_change(rig: SavingRig, live: Live):
    async with live() as daemon_rig:
        for style in rig.styles:
            daemon_rig.events.clear()
            await asyncio.to_thread(rig.act, style)
            await quiet(daemon_rig)
            assert kinds(daemon_rig) == rig.changes(style)
        assert_index_equals_disk(daemon_rig.daemon, rig.vault)
    rig.end()


async def test_what_was_done_while_the_daemon_was_off_is_one_change_too(rig: SavingRig, live: Live):
    async with live():
        pass
    is_outside = not rig.vault.is_relative_to(tempfile.gettempdir())
    for style in rig.styles:
        rig.act(style)
        if style in EDITORS:
            is_left = (rig.vault / style.__name__ / "note.md~").exists()
            assert is_left == (style in LEAVES_A_BACKUP and is_outside)
    async with live() as daemon_rig:
        await quiet(daemon_rig)

        assert kinds(daemon_rig) == rig.changes(*rig.styles)
        assert_index_equals_disk(daemon_rig.daemon, rig.vault)
    rig.end()


async def quiet(daemon_rig: DaemonRig) -> None:
    """Until what was done has been heard of and nothing is held back; no walk helps on."""
    daemon_rig.daemon.watched.detector._watcher.poll()
    await daemon_rig.until(lambda: not daemon_rig.daemon.watched.detector.busy)
