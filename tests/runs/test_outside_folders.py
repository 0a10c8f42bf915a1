"""Outside: folders beside the vault are copied for reading, and what is private stays so."""

from __future__ import annotations

import os
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from parachuted.access.own_folders import OwnFolders
from parachuted.agents.sandbox.archive import ArchiveWriter
from parachuted.runs.outside_folders import OutsideCopies, copy_outside
from tests.tools.checkout_rig import extract

pytestmark = pytest.mark.on_disk


@pytest.fixture
def user(tmp_path: Path) -> Path:
    home = tmp_path / "user"
    for path, text in {
        "Work/client/a.txt": "a",
        "Work/client/deep/b.txt": "b",
        "Work/client/.env": "secret",
        "Work/client/.git/config": "secret",
        ".ssh/id": "secret",
        "vault/note.md": "note",
    }.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    (home / "Work/client/link").symlink_to(home / ".ssh/id")
    (home / "Keys").symlink_to(home / ".ssh")
    (tmp_path / "into").mkdir()
    return home


def copy_into(
    folder: Path,
    asked: tuple[str, ...],
    user_home: Path,
    never: tuple[Path, ...] = (),
    own: OwnFolders | None = None,
) -> OutsideCopies:
    archive = folder.parent / "outside.tar"
    with closing(ArchiveWriter(archive, None)) as writer:
        copies = copy_outside(asked, writer, user_home=user_home, never=never, own=own)
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            member.mode |= 0o700  # to be removed afterwards
        extract(packed, folder)
    return copies


def copied(user: Path, *asked: str) -> OutsideCopies:
    return copy_into(user.parent / "into", asked, user, (user / "vault",))


def test_a_folder_is_copied_without_what_is_hidden_links_and_pipes(user: Path):
    os.mkfifo(user / "Work/client/pipe")
    outside = copied(user, "~/Work/client/", "~/Work/client/a.txt")

    into = user.parent / "into"
    assert outside.copied == [("~/Work/client/", "1"), ("~/Work/client/a.txt", "2")]
    files = {path.relative_to(into).as_posix() for path in into.rglob("*") if path.is_file()}
    assert files == {"1/a.txt", "1/deep/b.txt", "2/a.txt"}
    assert (into / "2/a.txt").read_text() == "a"
    assert sorted(Path(path).name for path, _ in outside.left_out) == ["link", "pipe"]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "~",
        "~/",
        "~/.ssh",
        "~/Keys",
        "~/vault",
        "{user}",
        "{user}/..",
        "/proc",
        "/proc/self",
        "/etc",
        "/sys",
        "/dev",
        "~/nowhere",
        "~root",
    ],
)
def test_what_holds_machines_secrets_or_notes_is_refused_in_words(user: Path, path: str):
    asked = path.format(user=user)
    outside = copied(user, asked)
    ((place, why),) = outside.left_out

    assert (outside.copied, place, why != "") == ([], asked, True)
    assert list((user.parent / "into").iterdir()) == []


def test_a_folder_that_is_not_the_persons_own_is_strange(user: Path):
    (user / "Mine").mkdir()
    (user / "Mine/link").symlink_to(user / "Work")
    own = OwnFolders(("~/Mine",), user)
    asked = ("~/Mine", "~/Mine/link", "~/Work/client")
    into = user.parent / "into"
    outside = copy_into(into, asked, user, own=own)

    assert outside.strange == ["~/Mine/link", "~/Work/client"]
