from __future__ import annotations

import pytest

from parachuted.search import CatalogueLink, NoteQuery
from parachuted.vault import links_in, parse_note
from tests.search.search_rig import SearchRig


def test_a_note_is_reported_with_all_that_is_known_of_it(rig: SearchRig):
    rig.save(
        "a/b.md", "---\ntitle: Beans\ntags: [x, y]\npeople: [Ann, Bo]\nmore: {deep: 1}\n---\ntext"
    )
    rig.settled()

    row = rig.search.catalogue.note("a/b.md")

    entry = rig.index.get("a/b.md")
    assert (row.path, row.title, row.tags, row.digest, row.size) == (
        "a/b.md",
        "Beans",
        ("x", "y"),
        entry.digest,
        entry.size,
    )
    assert row.modified == entry.mtime_ns / 1e9
    assert row.frontmatter == {
        "title": "Beans",
        "tags": ["x", "y"],
        "people": ["Ann", "Bo"],
        "more": {"deep": "1"},
    }
    assert row.typed == {**row.frontmatter, "more": {"deep": 1}}
    assert rig.search.catalogue.note("a/none.md") is None
    assert rig.search.catalogue.notes_at(["a/b.md", "a/none.md"]) == {"a/b.md": row}


def test_a_page_leads_to_the_next_whatever_comes_meanwhile(rig: SearchRig):
    for number in range(10):
        rig.save(f"{number}.md", f"---\nrank: {number % 3}\n---\n")
    rig.settled()
    catalogue, found, after = rig.search.catalogue, [], None
    while True:
        page = catalogue.notes(
            NoteQuery(sort="-rank", limit=3, after=after), lambda path: path != "5.md"
        )
        found += [row.path for row in page.rows]
        rig.save(f"new{len(found)}.md", "---\nrank: 9\n---\n")
        rig.settled()
        after = page.next
        if after is None:
            break

    assert found == ["8.md", "2.md", "7.md", "4.md", "1.md", "9.md", "6.md", "3.md", "0.md"]


@pytest.mark.parametrize("cursor", ["x", "WyJ0aXRsZSJd", ""])
def test_a_cursor_that_is_none_is_refused(rig: SearchRig, cursor):
    rig.settled()
    with pytest.raises(ValueError, match="cursor"):
        rig.search.catalogue.notes(NoteQuery(after=cursor), lambda _path: True)
    with pytest.raises(ValueError, match="cursor"):
        rig.search.catalogue.unresolved(lambda _path: True, 10, cursor)


def test_links_are_distinguished_from_both_ends(rig: SearchRig):
    rig.save("Projects/a.md", "one\n[[B]] and [x](../c.md#top)\n![[pic.png|100]] and [[nowhere]]\n")
    rig.save("Notes/b.md", "[back](/Projects/a.md)")
    rig.save("c.md", "")
    rig.save("pic.png", b"png")
    rig.settled()
    catalogue = rig.search.catalogue

    assert catalogue.links_to("Notes/b.md") == (
        CatalogueLink(source="Projects/a.md", target="Notes/b.md", text="B", kind="wiki", line=2),
    )
    assert catalogue.links_to("c.md") == (
        CatalogueLink(
            source="Projects/a.md", target="c.md", text="../c.md", kind="markdown", line=2
        ),
    )
    assert catalogue.links_to("pic.png") == (
        CatalogueLink(
            source="Projects/a.md", target="pic.png", text="pic.png", kind="embed", line=3
        ),
    )
    assert [link.source for link in catalogue.links_to("Projects/a.md")] == ["Notes/b.md"]
    assert list(catalogue.unresolved(lambda _path: True, 10).links) == [
        CatalogueLink(source="Projects/a.md", target=None, text="nowhere", kind="wiki", line=3)
    ]


def test_what_comes_and_goes_changes_where_links_lead(rig: SearchRig):
    rig.save("a.md", "[[b]]")
    rig.settled()
    catalogue = rig.search.catalogue
    assert [link.source for link in catalogue.unresolved(lambda _path: True, 10).links] == ["a.md"]

    rig.save("deep/b.md", "")
    rig.settled()
    assert [link.source for link in catalogue.links_to("deep/b.md")] == ["a.md"]

    rig.save("b.md", "")
    rig.settled()
    assert [link.source for link in catalogue.links_to("b.md")] == ["a.md"]
    assert catalogue.links_to("deep/b.md") == ()

    rig.delete("b.md")
    rig.settled()
    assert [link.source for link in catalogue.links_to("deep/b.md")] == ["a.md"]


def test_unresolved_links_come_in_pages_of_notes_that_are_seen(rig: SearchRig):
    for name in ("a", "b", "c"):
        rig.save(f"{name}.md", "[[x1]] [[x2]]")
    rig.settled()
    first = rig.search.catalogue.unresolved(lambda path: path != "b.md", 3)
    rest = rig.search.catalogue.unresolved(lambda path: path != "b.md", 3, first.next)

    assert [(link.source, link.text) for link in (*first.links, *rest.links)] == [
        ("a.md", "x1"),
        ("a.md", "x2"),
        ("c.md", "x1"),
        ("c.md", "x2"),
    ]
    assert rest.next is None


def test_what_leads_to_a_hidden_file_leads_to_nothing_and_names_nothing(rig: SearchRig):
    rig.save("a.md", "[[deep/hidden]] [[open]]")
    rig.save("deep/hidden.md", "")
    rig.save("open.md", "")
    rig.settled()

    (link,) = rig.search.catalogue.unresolved(lambda path: "hidden" not in path, 10).links

    assert (link.text, link.target) == ("deep/hidden", None)


def test_links_of_a_text_lead_where_there_is_nothing_but_what_is_seen(rig: SearchRig):
    rig.save("a/near.md", "x")
    rig.save("b/near.md", "x")
    rig.settled()
    links = links_in(parse_note(b"[[near]] [x](../b/near.md) [[none]]"))
    resolved = rig.search.catalogue.resolved

    assert resolved(links, "a/note.md", bool) == ["a/near.md", "b/near.md", None]
    assert resolved(links, "a/note.md", "b/near.md".__eq__) == ["b/near.md", "b/near.md", None]
