"""Migration: what becomes of old context files, planned without touching them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.context.migration import added_to, plan_moves, target_of
from parachuted.errors import EditRefusedError, NotFoundError
from parachuted.vault import IndexEntry, VaultIndex, VaultPath, parse_note

OLD = VaultPath("Chat/contexts/garden-context.md")
FROM = "From Chat/contexts/garden-context.md"


def index_of(*paths: str) -> VaultIndex:
    index = VaultIndex()
    for path in paths:
        index.set(path, IndexEntry(0, 0, 10, 1, "d"))
    return index


@pytest.mark.parametrize(
    ("file", "paths", "target"),
    [
        ("general-context.md", (), "AGENTS.md"),
        ("General-Context.md", ("CLAUDE.md",), "CLAUDE.md"),
        ("general.md", ("AGENTS.md",), "AGENTS.md"),
        ("parachute-context.md", ("Projects/parachute/AGENTS.md",), "Projects/parachute/AGENTS.md"),
        ("parachute-context.md", ("Projects/parachute/CLAUDE.md",), "Projects/parachute/CLAUDE.md"),
        ("parachute-context.md", (), "Projects/parachute/AGENTS.md"),
        ("tai_chi-context.md", ("Areas/Tai Chi/notes.md",), "Areas/Tai Chi/AGENTS.md"),
        ("garden.md", ("Areas/garden/a.md", "Projects/Garden/a.md"), "Projects/Garden/AGENTS.md"),
        ("garden.md", ("z/y/garden/a.md", "z/garden/a.md"), "z/garden/AGENTS.md"),
        (
            "garden.md",
            (".trash/garden/a.md", "Chat/garden/a.md", "x/.old/garden/a.md"),
            "Projects/garden/AGENTS.md",
        ),
        ("-context.md", (), "Projects/-context/AGENTS.md"),
    ],
)
def test_an_old_file_belongs_to_the_folder_with_its_name(file, paths, target):
    assert target_of(VaultPath(f"Chat/contexts/{file}"), index_of(*paths)) == target


def test_missing_sections_are_added_and_those_that_are_there_left_alone():
    odd = b"\xef\xbb\xbf---\r\nwatch: x\r\n---\r\n# Odd \xff\r\n"
    for present in (None, b"", b" \n"):  # the old text becomes it byte for byte
        addition = added_to(present, odd, OLD)
        assert (addition.data, addition.sections) == (odd, ())

    present = b"# Garden\n\n## Facts\n- the person's own\n"
    old = b"# Garden\n\n## Facts\n- the person's own\n\n## Plans\n- beans\n### When\n- May\n"
    addition = added_to(present, old, OLD)
    assert addition.sections == ("Plans",)
    assert addition.data == present + b"\n## Plans\n\n- beans\n### When\n- May\n"


def test_what_differs_under_the_same_name_stands_in_a_section_of_its_own():
    present = b"# Garden\n\n## Facts\n- one\n\n## History\n- then\n"
    old = b"# My garden\n\n> Old words.\n\n## Facts\n- two\n\nTitle\n---\n- three\n"
    addition = added_to(present, old, OLD)

    assert addition.sections == ("Title", FROM)
    assert addition.data.startswith(present)
    note = parse_note(addition.data)
    assert [(section.level, section.title) for section in note.sections] == [
        (1, "Garden"),
        (2, "Facts"),
        (2, "History"),
        (2, "Title"),
        (2, FROM),
        (3, "My garden"),
        (4, "Facts"),
    ]
    assert "> Old words." in note.text(note.section(FROM).body)
    assert "- two" in note.text(note.section(FROM).body)


def test_frontmatter_is_kept_as_a_block_and_declares_nothing_there():
    addition = added_to(b"# A\n", b"---\nwatch: [\"**\"]\nx: '```'\n---\n# A\n\ntext\n", OLD)
    note = parse_note(addition.data)

    assert note.frontmatter is None
    assert "watch: [\"**\"]\nx: '```'\n" in note.text(note.section(FROM).body)


def test_a_text_that_is_there_already_adds_nothing():
    old = b"# Garden\n\n> Words.\n\n## Facts\n- one\n\n## Plans\n- beans\n"
    first = added_to(b"# Mine\n\n## Facts\n- other\n", old, OLD)

    assert added_to(first.data, old, OLD).data == first.data


@pytest.mark.parametrize("old", [b"# A \xff\n", b"# A\n\n```\nopen\n", b"a" * (17 << 20)])
def test_what_cannot_be_added_without_harm_is_refused(old):
    with pytest.raises(EditRefusedError):
        added_to(b"# B\n\n## Facts\n- x\n", old, OLD)


PIECES = [
    *("# A\n", "## Facts\n", "## Plans\n", "### Deep\n", "- one\n", "- two\n"),
    *("\n", "text\n---\n", "```\n", "> q\n", "## Facts ##\n", "<!--\n"),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@given(TEXTS, TEXTS)
def test_no_line_of_either_text_is_ever_lost(present: str, old: str):
    try:
        data = added_to(present.encode(), old.encode(), OLD).data.decode()
    except EditRefusedError:
        return
    lines = {line.strip("#-=> ").strip() for line in data.splitlines()}

    assert {line.strip("#-=> ").strip() for line in f"{present}{old}".splitlines()} <= lines | {""}
    assert not present.strip() or data.startswith(present.rstrip())


def test_the_plan_names_each_old_file_and_counts_on_those_before():
    contexts = "Chat/contexts/"
    texts = {
        f"{contexts}a-context.md": b"# A\n",
        f"{contexts}a.md": b"# A\n\n## More\n- x\n",
        f"{contexts}general-context.md": b"# All\n\n## New\n- y\n",
        "AGENTS.md": b"# All\n",
        **{f"{contexts}{name}": b"" for name in ("big.md", "gone.md", "migrated/a.md")},
        **{f"{contexts}{name}": b"" for name in (".hidden.md", "picture.png")},
    }
    index = index_of(*texts)
    index.set(f"{contexts}big.md", IndexEntry(0, 0, 2 << 20, 1, "d"))

    def read(path: VaultPath) -> bytes:
        if path.name == "gone.md":
            raise NotFoundError(f"{path} is not in the vault")
        return texts[path]

    moves = list(plan_moves(index, read))
    assert [
        (one.file.name, one.target, one.action, one.sections, one.kept_as.removeprefix(contexts))
        for one in moves
    ] == [
        ("a-context.md", "Projects/a/AGENTS.md", "create", (), "migrated/a-context.md"),
        ("a.md", "Projects/a/AGENTS.md", "append", ("More",), "migrated/a-2.md"),
        ("big.md", "Projects/big/AGENTS.md", "refuse", (), "migrated/big.md"),
        ("general-context.md", "AGENTS.md", "append", ("New",), "migrated/general-context.md"),
        ("gone.md", "Projects/gone/AGENTS.md", "refuse", (), "migrated/gone.md"),
    ]
    assert "larger than 1 MB" in moves[2].reason
