from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.vault import Link, links_in, parse_note, resolve, resolve_target
from parachuted.vault.links import leads_straight, rewrite_links, spelled, written


class Names:
    """The files of a vault that exists on paper alone."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths

    def by_name(self, key: str) -> list[str]:
        return [path for path in self.paths if path.rpartition("/")[2].lower() == key]

    def exists(self, path: str) -> bool:
        return path in self.paths


def first(text: str) -> Link:
    return links_in(parse_note(text.encode()))[0]


def test_a_link_says_what_it_is_and_where():
    text = "---\na: b\n---\n\nsee ![[img/a b.png#x|200]]\nand [the *label*](<a b.md#h> 'title')"
    links = links_in(parse_note(text.encode()))

    said = [(link.kind, link.target, link.anchor, link.label, link.line) for link in links]
    assert said == [
        ("embed", "img/a b.png", "x", "200", 5),
        ("markdown", "a b.md", "h", "the *label*", 6),
    ]
    assert links[0].form == "wiki"
    spans = [text.encode()[link.span.start : link.span.stop] for link in links]
    assert spans == [b"img/a b.png", b"a b.md"]


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("[[a|b]]", "new", "[[new|b]]"),
        ("![[a.png#h]]", "x y.png", "![[x y.png#h]]"),
        ("[t](a.md#h 'x')", "b c.md", "[t](b%20c.md#h 'x')"),
        ("[t](a.md)", "é (1).md", "[t](é%20%281%29.md)"),
        ("[t](%C3%A9.md)", "ü.md", "[t](%C3%BC.md)"),
        ("[t](<a b.md>)", "c d (1).md", "[t](<c d (1).md>)"),
        ("[t](a.md)", "100%#?.md", "[t](100%25%23%3F.md)"),
        ("[t](a.md)", "a:b|`.md", "[t](a%3Ab%7C%60.md)"),
        ("[r]: a.md 'x'", "b c.md", "[r]: b%20c.md 'x'"),
        ("---\na: '[[b]]'\n---\n", "it's", "---\na: '[[it''s]]'\n---\n"),
        ('---\na: "[[b]]"\n---\n', 'say "x"', '---\na: "[[say \\"x\\"]]"\n---\n'),
        ("[[a]]", "b#c", "[[a]]"),
        ("[[a]]", "b|c", "[[a]]"),
        ("[[a]]", "b]]", "[[a]]"),
        ("[t](a.md)", "caf\udce9.md", "[t](caf%E9.md)"),
    ],
)
def test_a_new_target_is_written_as_the_old_one_was_or_not_at_all(
    text: str, target: str, expected: str
):
    assert rewrite_links(parse_note(text.encode()), lambda _link: target) == expected.encode()


@given(
    st.sampled_from(
        [
            "[[old]]",
            "[t](old.md)",
            "[t](<old>)",
            "[r]: old",
            "![[old|x]]",
            "---\na: '[[old]]'\n---\n",
            '---\na: "[[old]]"\n---\n',
        ]
    ),
    st.text(min_size=1, max_size=20).filter(lambda name: name == name.strip() and "\0" not in name),
)
def test_what_was_written_is_read_as_it_was_meant(text: str, target: str):
    note = parse_note(text.encode())
    new = written(links_in(note)[0], target, note.data)
    if new is None:
        return
    again = parse_note(rewrite_links(note, lambda _link: target))

    assert [link.target for link in links_in(again)] == [target]


@given(st.text(alphabet="[]()!`<>-%\\#|abc \n\"'é", max_size=80))
def test_nothing_but_targets_changes(text: str):
    note = parse_note(text.encode())
    links = links_in(note)
    new = rewrite_links(note, lambda link: link.target + "z")

    at, rest = 0, new
    for link in links:
        before = note.data[at : link.span.start]
        assert rest.startswith(before)
        rest = rest[len(before) :]
        old = note.data[link.span.start : link.span.stop]
        now = written(link, link.target + "z", note.data) or old
        assert rest.startswith(now)
        rest = rest[len(now) :]
        at = link.span.stop
    assert rest == note.data[at:]


NAMES = Names(
    "Home.md",
    "A/Note.md",
    "A/b/Deep.md",
    "B/Note.md",
    "B/pic.png",
    "B/v1.2.md",
    "C/Note.txt",
    "C/D/Home.md",
)


@pytest.mark.parametrize(
    ("target", "source", "expected"),
    [
        ("Home", "A/x.md", "Home.md"),
        ("home.MD", "A/x.md", "Home.md"),
        ("Deep", "x.md", "A/b/Deep.md"),
        ("b/Deep", "x.md", "A/b/Deep.md"),
        ("Note", "A/x.md", "A/Note.md"),
        ("Note", "B/x.md", "B/Note.md"),
        ("Note", "x.md", "A/Note.md"),
        ("B/Note", "A/x.md", "B/Note.md"),
        ("/B/Note", "A/x.md", "B/Note.md"),
        ("../B/Note.md", "A/x.md", "B/Note.md"),
        ("./Note", "B/x.md", "B/Note.md"),
        ("./Note", "C/x.md", None),
        ("pic.png", "x.md", "B/pic.png"),
        ("pic", "x.md", None),
        ("v1.2", "x.md", "B/v1.2.md"),
        ("Note.txt", "x.md", "C/Note.txt"),
        ("../../../etc/passwd", "A/x.md", None),
        ("/", "x.md", None),
        ("..", "A/x.md", None),
        ("A", "x.md", None),
        ("Home", "C/D/x.md", "Home.md"),
    ],
)
def test_a_target_is_found_as_obsidian_finds_it(target: str, source: str, expected: str | None):
    assert resolve_target(target, source, NAMES) == expected


def test_markdowns_own_links_begin_at_the_notes_folder():
    names = Names("a.md", "B/a.md")

    assert resolve(first("[t](a.md)"), "B/x.md", names) == "B/a.md"
    assert resolve(first("[[a]]"), "B/x.md", names) == "a.md"
    assert leads_straight(first("[t](a.md)"), "B/x.md", "B/a.md")
    assert not leads_straight(first("[t](a.md)"), "B/x.md", "a.md")
    assert not leads_straight(first("[[a]]"), "B/x.md", "B/a.md")


def test_names_are_the_same_in_either_unicode_form():
    class Nfd(Names):
        def by_name(self, key: str) -> list[str]:
            return ["Cafe\u0301.md"] if key == "caf\u00e9.md" else []

    assert resolve_target("Caf\u00e9", "x.md", Nfd()) == "Cafe\u0301.md"


def respelled(text: str, names: Names, *, was: str, now: str, source: str = "x.md") -> str | None:
    """How the note's first link is spelled once its file `was` there and is `now` elsewhere."""
    return spelled(
        first(text), was=(source, was), now=(source, now), names=names, data=text.encode()
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[Old]]", "New"),
        ("[[Old.md]]", "New.md"),
        ("[[A/Old]]", "B/New"),
        ("[[/A/Old]]", "/B/New"),
        ("[[./Old]]", "../B/New"),
        ("[t](Old.md)", "../B/New.md"),
        ("[t](../A/Old.md)", "../B/New.md"),
        ("[t](/A/Old.md)", "/B/New.md"),
        ("[t](A/Old)", "B/New"),
    ],
)
def test_a_target_is_spelled_in_the_manner_of_the_old_one(text: str, expected: str):
    names = Names("A/x.md", "B/New.md")

    assert respelled(text, names, was="A/Old.md", now="B/New.md", source="A/x.md") == expected


def test_a_name_of_two_files_is_a_path_and_some_cannot_be_spelled():
    names = Names("A/x.md", "A/New.md", "B/New.md")
    assert respelled("[[Old]]", names, was="Old.md", now="B/New.md", source="A/x.md") == "B/New"

    names = Names("x.md", "a#b.md")
    assert respelled("[[Old]]", names, was="Old.md", now="a#b.md") is None
    assert respelled("[t](Old.md)", names, was="Old.md", now="a#b.md") == "a#b.md"
