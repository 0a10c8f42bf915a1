from __future__ import annotations

import pytest

from parachuted.access.filter import AccessFilter, unknown
from parachuted.errors import NotFoundError
from parachuted.keys import AccessGrant, PathGlob
from parachuted.vault import VaultPath, VaultRoot

EVERYWHERE = AccessGrant(alternatives=None)
GARDEN = AccessGrant(alternatives=(((PathGlob("Projects/garden/**"),),),))


@pytest.fixture
def root(vault, tmp_path):
    """A vault with a note in scope, one beyond it, a program's settings, and links to each and to
    what is outside.
    """
    for name in (
        "Projects/garden/AGENTS.md",
        "Projects/kitchen/AGENTS.md",
        ".parachute/keys.md",
        "Daily/.agents/one.md",
    ):
        (vault / name).parent.mkdir(parents=True, exist_ok=True)
        (vault / name).write_text(name)
    (tmp_path / "outside.md").write_text("secret")
    for name, target in (
        ("in", "AGENTS.md"),
        ("beyond", "../kitchen/AGENTS.md"),
        ("hidden", "../../.parachute/keys.md"),
        ("out", tmp_path / "outside.md"),
    ):
        (vault / f"Projects/garden/{name}.md").symlink_to(target)
    return VaultRoot(vault)


@pytest.mark.parametrize(
    "path",
    [
        ".parachute/keys.md",
        "\u200b.parachute/keys.md",
        "PARACH~1/keys.md",
        "\uff0eparachute/keys.md",
    ],
)
def test_what_programs_keep_does_not_exist_in_any_lenient_spelling(root, path):
    access = AccessFilter(root, EVERYWHERE)

    assert not access.sees(path)
    assert not access.enters(path.partition("/")[0])


def test_a_link_within_reach_leads_to_its_file(root):
    assert (
        AccessFilter(root, GARDEN).find(VaultPath("Projects/garden/in.md"))
        == "Projects/garden/AGENTS.md"
    )
    assert (
        AccessFilter(root, EVERYWHERE).find(VaultPath("Projects/garden/beyond.md"))
        == "Projects/kitchen/AGENTS.md"
    )
    assert (
        AccessFilter(root, EVERYWHERE).find(VaultPath("Daily/.agents/one.md"))
        == "Daily/.agents/one.md"
    )


@pytest.mark.parametrize(
    "path",
    [
        "Projects/garden/beyond.md",
        "Projects/garden/hidden.md",
        "Projects/garden/out.md",
        "Projects/kitchen/AGENTS.md",
        ".parachute/keys.md",
    ],
)
def test_all_that_is_not_for_the_caller_is_missing_in_the_same_words(root, path):
    with pytest.raises(NotFoundError) as raised:
        AccessFilter(root, GARDEN).find(VaultPath(path))

    assert raised.value.message == unknown(path).message


def test_folders_are_entered_on_the_way_to_what_is_seen(root):
    access = AccessFilter(root, GARDEN)

    assert [
        access.enters(folder)
        for folder in ("", "Projects", "Projects/garden", "Projects/kitchen", ".git")
    ] == [
        True,
        True,
        True,
        False,
        False,
    ]
