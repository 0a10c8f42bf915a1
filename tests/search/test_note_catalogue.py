from __future__ import annotations

import json

import pytest

from parachuted.search import CatalogueLink, NoteQuery
from parachuted.vault import links_in, parse_note
from tests.search.search_rig import SearchRig


def test_a_note_is_reported_with_all_that_is_known_of_it(rig: SearchRig):
    matter = "title: Beans\ntags: [x, y]\npeople: [Ann, Bo]\nmore: {deep: 1}\n"
    rig.save("a/b.md", f"---\n{matter}---\ntext")
    row, entry = rig.catalogue.note("a/b.md"), rig.index.get("a/b.md")

    assert (row.path, row.title, row.tags) == ("a/b.md", "Beans", ("x", "y"))
    assert (row.digest, row.size) == (entry.digest, entry.size)
    assert row.modified == entry.mtime_ns / 1e9
    lists = {"tags": ["x", "y"], "people": ["Ann", "Bo"]}
    frontmatter = {"title": "Beans", **lists, "more": {"deep": "1"}}
    assert json.loads(row.matter) == frontmatter
    assert row.typed == {**frontmatter, "more": {"deep": 1}}
    assert rig.catalogue.note("a/none.md") is None
    assert rig.catalogue.notes_at(["a/b.md", "a/none.md"]) == {"a/b.md": row}


def test_a_page_leads_to_the_next_whatever_comes_meanwhile(rig: SearchRig):
    for number in range(10):
        rig.save(f"{number}.md", f"---\nrank: {number % 3}\n---\n")
    found, after = [], None
    while after is not None or not found:
        query = NoteQuery(sort="-rank", limit=3, after=after)
        page = rig.catalogue.notes(query, lambda path: path != "5.md")
        found += [row.path for row in page.rows]
        rig.save(f"new{len(found)}.md", "---\nrank: 9\n---\n")
        after = page.next

    assert found == ["8.md", "2.md", "7.md", "4.md", "1.md", "9.md", "6.md", "3.md", "0.md"]


@pytest.mark.parametrize("cursor", ["x", "WyJ0aXRsZSJd", ""])
def test_a_cursor_that_is_none_is_refused(rig: SearchRig, cursor):
    with pytest.raises(ValueError, match="cursor"):
        rig.catalogue.notes(NoteQuery(after=cursor), lambda _path: True)


def test_links_are_distinguished_from_both_ends(rig: SearchRig):
    source = "Projects/a.md"
    rig.save(source, "one\n[[B]] and [x](../c.md#top)\n![[pic.png|100]] and [[nowhere]]\n")
    rig.save("Notes/b.md", "[back](/Projects/a.md)")
    rig.save("c.md", "")
    rig.save("pic.png", b"png")

    for target, text, kind, line in (
        ("Notes/b.md", "B", "wiki", 2),
        ("c.md", "../c.md", "markdown", 2),
        ("pic.png", "pic.png", "embed", 3),
    ):
        link = CatalogueLink(source=source, target=target, text=text, kind=kind, line=line)
        assert rig.catalogue.links_to(target) == (link,)
    assert rig.linking(source) == ["Notes/b.md"]


def test_what_comes_and_goes_changes_where_links_lead(rig: SearchRig):
    rig.save("a.md", "[[b]]")
    rig.save("deep/b.md", "")
    assert rig.linking("deep/b.md") == ["a.md"]
    rig.save("b.md", "")
    assert (rig.linking("b.md"), rig.linking("deep/b.md")) == (["a.md"], [])
    rig.delete("b.md")
    assert rig.linking("deep/b.md") == ["a.md"]


def test_links_of_a_text_lead_where_there_is_nothing_but_what_is_seen(rig: SearchRig):
    rig.save("a/near.md", "x")
    rig.save("b/near.md", "x")
    links = links_in(parse_note(b"[[near]] [x](../b/near.md) [[none]]"))
    resolved = rig.catalogue.resolved

    assert resolved(links, "a/note.md", bool) == ["a/near.md", "b/near.md", None]
    assert resolved(links, "a/note.md", "b/near.md".__eq__) == ["b/near.md", "b/near.md", None]
