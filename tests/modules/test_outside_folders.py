"""Outside folders: what the manifest names is read, and nothing else of a person's disk."""

from __future__ import annotations

import contextlib

import pytest

from parachuted.access.caller import Caller, WorkRequest
from parachuted.access.grant import CallerGrant
from parachuted.access.own_folders import OwnFolders
from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError, PathRefusedError
from parachuted.keys import AccessGrant, PathGlob
from parachuted.modules.outside_folders import FolderAccess
from tests.modules.module_rig import outside
from tests.tools.test_checkout_races import swapping


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    for path, text in {
        "Projects/garden/AGENTS.md": "# Garden\n",
        "Projects/garden/beds/one.md": "one\n",
        "Projects/garden/.env": "KEY=1\n",
        "Projects/garden/.git/config": "url\n",
        "Projects/vault/diary.md": "mine\n",
        "Secret/plan.md": "plan\n",
        "Projects-old/x.md": "x\n",
    }.items():
        file = home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return home


@pytest.fixture
def caller():
    return Caller()


@pytest.fixture
def folders(home, caller):
    excluded = (home / "Projects/vault",)
    access = outside(home, excluded=excluded)
    return FolderAccess("garden", ["~/Projects"], access, lambda: caller)


async def test_what_is_read_counts_as_a_strangers_outside_of_the_persons_own(home, folders, caller):
    """No command is advised that would name other folders."""
    (home / "Projects/a,~/Secret").mkdir(parents=True)
    (home / "Projects/a,~/Secret/AGENTS.md").write_text("# A\n")
    await folders.read("~/Projects/a,~/Secret/AGENTS.md")
    assert caller.taint
    assert "config set" not in caller.taint.why()
    assert await folders.read(f"{home}/Projects/garden/beds/one.md") == "one\n"

    caller = Caller()
    access = outside(home, own=["~/Projects/garden/beds"])
    folders = FolderAccess("garden", ["~/Projects"], access, lambda: caller)
    assert await folders.read(f"{home}/Projects/garden/beds/one.md") == "one\n"
    assert not caller.taint
    assert await folders.read("~/Projects/garden/AGENTS.md") == "# Garden\n"
    assert (
        "parachute config set agent.own_folders '~/Projects/garden/beds, ~/Projects/garden'"
        in caller.taint.why()
    )


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("~/Secret/plan.md", ActRefusedError),
        ("~/Projects-old/x.md", ActRefusedError),
        ("~/Projects/vault/diary.md", ActRefusedError),
        ("~/Projects/../Secret/plan.md", PathRefusedError),
        ("~/Projects/./garden/AGENTS.md", PathRefusedError),
        ("~/Projects//garden/AGENTS.md", PathRefusedError),
        ("~other/Projects/x", PathRefusedError),
        ("Projects/garden/AGENTS.md", PathRefusedError),
        ("", PathRefusedError),
        ("~/Projects/a\0b", PathRefusedError),
        ("~/Projects/garden/.env", PathRefusedError),
        ("~/Projects/garden/.git/config", PathRefusedError),
        ("~/Projects/garden/link.md", PathRefusedError),
        ("~/Projects/garden/away/plan.md", PathRefusedError),
        ("~/Projects/garden/beds", PathRefusedError),
        ("~/Projects/garden/none.md", NotFoundError),
        ("~/Projects/none/none.md", NotFoundError),
        ("~/Projects/garden/photo.md", EditRefusedError),
        ("~/Projects/garden/large.md", EditRefusedError),
    ],
)
async def test_all_else_is_refused_and_nothing_of_it_is_shown(home, folders, caller, path, error):
    garden = home / "Projects/garden"
    (garden / "link.md").symlink_to(home / "Secret/plan.md")
    (garden / "away").symlink_to(home / "Secret")
    (garden / "photo.md").write_bytes(b"\xff")
    with (garden / "large.md").open("wb") as file:
        file.truncate(5 << 20)

    with pytest.raises(error) as refused:
        await folders.read(path)
    assert "Secret" not in str(refused.value) or "Secret" in path
    assert bool(caller.taint) is (path == "~/Projects/garden/photo.md")


async def test_the_vault_is_kept_out_however_a_folder_reaches_it(home, caller):
    (home / "Alias").symlink_to(home / "Projects/vault")
    (home / "Above").symlink_to(home / "Projects")
    access = outside(home, excluded=(home / "Projects/vault",))
    named = ["~/Alias", "~/Above", "~/None"]
    folders = FolderAccess("garden", named, access, lambda: caller)

    for path in ("~/Alias/diary.md", "~/Above/vault/diary.md"):
        with pytest.raises(ActRefusedError, match="lies in the vault"):
            await folders.read(path)
    with pytest.raises(NotFoundError):
        await folders.read("~/None/a.md")


async def test_without_a_named_folder_or_for_a_limited_caller_nothing_is_read(home, folders):
    grant = AccessGrant(alternatives=(((PathGlob("**"),),),))
    for mine, caller, match in (
        ([], Caller(), "permissions.folders does not name it"),
        (["~/Projects"], Caller(grant=CallerGrant(reads=grant)), "limited to some paths"),
        (["~/Projects"], Caller(request=WorkRequest(is_valid=lambda: False)), "have ended"),
    ):
        folders = FolderAccess("garden", mine, outside(home), lambda kept=caller: kept)
        with pytest.raises(ActRefusedError, match=match):
            await folders.read("~/Projects/garden/AGENTS.md")


def test_a_link_put_there_after_a_read_makes_no_file_the_persons_own(home):
    own = OwnFolders(["~/Projects"], home)
    (home / "Downloads").symlink_to(home / "Projects")
    assert own.hold(home / "Projects/garden/AGENTS.md")
    assert not own.hold(home / "Downloads/garden/AGENTS.md")


async def test_links_swapped_in_lead_no_module_to_what_is_kept_out(tmp_path, home, torture):
    (home / "Projects/garden/diary.md").write_text("garden\n")
    access = outside(home, excluded=(home / "Projects/vault",))
    folders = FolderAccess("garden", ["~/Projects/garden"], access, Caller)
    read = set()
    with swapping(tmp_path / "swaps", (home / "Projects/garden", home / "Projects/vault")):
        for _ in range(20_000 if torture else 400):
            with contextlib.suppress(ActRefusedError, NotFoundError, PathRefusedError):
                read.add(await folders.read("~/Projects/garden/diary.md"))
    assert read == {"garden\n"}
