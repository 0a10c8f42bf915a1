from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.errors import ConflictError, NotFoundError
from parachuted.tools.move import LinkScope, MoveResult, move_file
from parachuted.vault import (
    Author,
    FileNames,
    LinkRewrites,
    VaultPath,
    digest_of,
    links_in,
    parse_note,
    resolve,
)
from tests.tools.conftest import ToolsRig

ME = Author(by="person", causes=("c-1",))


def files(tools_rig: ToolsRig) -> list[str]:
    vault = tools_rig.vault
    return [str(path.relative_to(vault)) for path in vault.rglob("*") if path.is_file()]


def move(
    tools_rig: ToolsRig,
    source: str,
    target: str,
    *,
    base: str | None = None,
    forbidden: str = "-",
    gone: str = "",
) -> MoveResult:
    known = files(tools_rig)
    names = FileNames(known)

    def linking(file: str) -> set[str]:
        notes = {
            path: parse_note((tools_rig.vault / path).read_bytes())
            for path in known
            if path.endswith(".md")
        }
        return {gone} - {""} | {
            path
            for path, note in notes.items()
            if any(resolve(link, path, names) == file for link in links_in(note))
        }

    return move_file(
        tools_rig.store,
        VaultPath(source),
        VaultPath(target),
        ME,
        LinkScope(
            files=known,
            linking=linking,
            may_write=lambda path: not path.startswith(forbidden),
        ),
        base=base,
    )


@pytest.fixture
def tools_rig(tmp_path: Path) -> Iterator[ToolsRig]:
    tools_rig = ToolsRig(tmp_path)
    yield tools_rig
    tools_rig.close()


OLD = "# Old\r\n[[Old#x]] [o](other.md) ![[p.png]]\r\n"
OTHER = "\ufeff[[Old|b]] [t](Old.md 'x')\r\n`[[Old]]`"
TWO = "[[A/Old]] [t](<../A/Old.md#h>)\n[r]: ../A/Old.md"
MINE, HERS = "[[Old]] [t](Old.md)", "[[Old]] [[Old]] [[else]]"
MOVES = {
    "links follow it": (
        {"A/Old.md": OLD, "A/other.md": OTHER, "p.md": "", "B/two.md": TWO},
        "B/New name.md",
        {
            "A/other.md": "\ufeff[[New name|b]] [t](../B/New%20name.md 'x')\r\n`[[Old]]`",
            "B/two.md": "[[B/New name]] [t](<New name.md#h>)\n[r]: New%20name.md",
            "B/New name.md": "# Old\r\n[[New name#x]] [o](../A/other.md) ![[p.png]]\r\n",
        },
        0,
    ),
    "a link that would lead to it now still leads where it did": (
        {"Old.md": "y", "C/Name.md": "x", "a.md": "[[Name]] [t](C/Name.md)"},
        "Name.md",
        {"a.md": "[[C/Name]] [t](C/Name.md)"},
        0,
    ),
    "a link that the caller may not write is left": (
        {"Old.md": "x", "Hers/a.md": HERS, "b.md": MINE},
        "New.md",
        {"b.md": "[[New]] [t](New.md)"},
        2,
    ),
    "a link whose form cannot hold the name is left": (
        {"Old.md": "x", "Hers/a.md": HERS, "b.md": MINE},
        "C#.md",
        {"b.md": "[[Old]] [t](C%23.md)"},
        3,
    ),
}


@pytest.mark.parametrize("kind", MOVES)
def test_links_follow_a_note_that_moves(tools_rig: ToolsRig, kind: str):
    before, target, rewritten, left = MOVES[kind]
    for path, text in before.items():
        tools_rig.save(path, text)
    source = next(iter(before))

    moved = move(tools_rig, source, target, forbidden="Hers/")

    texts = {path: tools_rig.text(path) for path in files(tools_rig)}
    kept = {path: text for path, text in before.items() if path != source}
    assert texts == {target: before[source], **kept, **rewritten}
    itself_first = sorted(rewritten, key=lambda path: (path != target, path))
    assert [written.path for written in moved.rewritten] == itself_first
    assert moved.left == left


def test_a_taken_target_or_another_text_is_a_conflict_and_nothing_moves(tools_rig: ToolsRig):
    before = {"Old.md": "x", "Taken.md": "y", "a.md": "[[Old]]"}
    for path, said in before.items():
        tools_rig.save(path, said)

    with pytest.raises(ConflictError) as raised:
        move(tools_rig, "Old.md", "Taken.md")
    assert raised.value.theirs == b"y"
    with pytest.raises(ConflictError):
        move(tools_rig, "Old.md", "New.md", base=digest_of(b"y"))
    with pytest.raises(NotFoundError):
        move(tools_rig, "None.md", "New.md")

    assert {path: tools_rig.text(path) for path in files(tools_rig)} == before
    assert move(tools_rig, "Old.md", "New.md", base=digest_of(b"x")).written.path == "New.md"
    for path in ("Old.md", "New.md", "a.md"):
        assert tools_rig.history.writes_of(path)[-1].author == ME


def test_a_note_that_is_gone_by_then_is_passed_over(tools_rig: ToolsRig):
    tools_rig.save("Old.md", "x")
    tools_rig.save("b.md", "[[Old]]")

    moved = move(tools_rig, "Old.md", "New.md", gone="gone.md")

    assert tools_rig.text("b.md") == "[[New]]"
    assert moved.left == 0


NAMES = st.sampled_from(["a", "b", "A", "note", "a b", "é", "v1.2"])
FOLDERS = st.sampled_from(["", "X/", "Y/", "X/Z/"])
PATHS = st.builds("{}{}.md".format, FOLDERS, NAMES)
TARGETS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "./", "../", "/", "X/", "Y/", "Z/", "../X/"]),
    NAMES,
    st.sampled_from(["", ".md"]),
)
LINKS = st.one_of(
    st.builds("[[{}]]".format, TARGETS),
    st.builds("![[{}#h|l]]".format, TARGETS),
    st.builds("[t]({} 'x')".format, TARGETS.map(lambda target: target.replace(" ", "%20"))),
    st.builds("[t](<{}#h>)".format, TARGETS),
    st.sampled_from(["`[[a]]`", "plain text", "\r\n", "<!-- [[a]] -->", "[[nothing]]"]),
)


@given(
    st.dictionaries(PATHS, st.lists(LINKS, max_size=4).map(" ".join), min_size=1, max_size=6),
    PATHS,
    st.data(),
)
def test_every_link_means_the_same_note_and_no_other_byte_changes(
    notes: dict[str, str], target: str, data: st.DataObject
):
    source = data.draw(st.sampled_from(sorted(notes)))
    if target in notes:
        return
    before = FileNames(notes)
    rewriting = LinkRewrites(
        source=source, target=target, before=before, after=before.moved(source, target)
    )
    for path, old in notes.items():
        note = parse_note(old.encode())
        new, left = rewriting.rewritten(note, path)
        assert left == 0
        links, again = links_in(note), links_in(parse_note(new))
        assert [link.kind for link in again] == [link.kind for link in links]
        here = target if path == source else path
        for link, now in zip(links, again, strict=True):
            was = resolve(link, path, before)
            if was is not None:
                assert resolve(now, here, rewriting.after) == (target if was == source else was), (
                    path,
                    link.target,
                    now.target,
                )
        assert _without(old.encode(), links) == _without(new, again)


def _without(data: bytes, links: tuple) -> bytes:
    parts, at = [], 0
    for link in links:
        parts.append(data[at : link.span.start])
        at = link.span.stop
    return b"\0".join([*parts, data[at:]])
