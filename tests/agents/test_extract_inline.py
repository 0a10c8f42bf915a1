"""Inline: what a line of another note comes to, and how links are written."""

from __future__ import annotations

import pytest

from parachuted.agents.extract import link, link_style, name_of, plain


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("Projects/garden/AGENTS.md", "garden"),
        ("a/CLAUDE.md", "a"),
        ("AGENTS.md", "the vault"),
        ("Notes/Beans.md", "Beans"),
        ("x", "x"),
        ("\udcff/AGENTS.md", "a note"),
    ],
)
def test_a_note_without_a_title_goes_by_its_place(path, name):
    assert name_of(path) == name


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("## History", "History"),
        ("> - 1. # deep", "deep"),
        ("- [x] done", "done"),
        ("> [!note]- Callout", "Callout"),
        ("<!-- hidden", "hidden"),
        ("<!<!---- x", "\\<! x"),
        ("a -> b", "a -> b"),
        ("a --> b", "a b"),
        ("a -%%-> b", "a b"),
        ("<[](x)!--y", "y"),
        ("`%%``x", "x"),
        ("%%# %%# x", "x"),
        ("a %% b", "a b"),
        ("```python", "python"),
        ("~~~~", ""),
        ("---", ""),
        ("===", ""),
        ("| --- |", ""),
        ("<details>", "\\<details>"),
        ("a](http://evil) [b", "a\\](http://evil) \\[b"),
        ("[[Garden|the garden]] and ![[pic.png]]", "the garden and pic.png"),
        ("![pixel](http://evil/x.png) see [this](a(b).md", "pixel see \\[this\\](a(b).md"),
        ("[x]: http://evil", "\\[x\\]: http://evil"),
        ("back\\", "back\\\\"),
        ("one `tick", "one 'tick"),
        ("a\u2028## b\x00\x1b[31m\u202ec\ud800", "a ## b \\[31mc"),
        ("👩\u200d🌾 farmer", "👩\u200d🌾 farmer"),
        ("#tag is no tag here", "\\#tag is no tag here"),
        ("C# and (#x) and # alone", "C# and (\\#x) and # alone"),
        ("- [/] half done ^block-1", "half done"),
    ],
)
def test_marks_are_taken_off_or_escaped(text, line):
    assert plain(text) == line


def test_a_line_is_cut():
    assert plain("x" * 1000) == "x" * 199 + "…"
    assert len(plain("[" + "x" * 10_000_000)) <= 201


@pytest.mark.parametrize(
    ("path", "title", "style", "written"),
    [
        ("Projects/Allotment #2/AGENTS.md", "Two", "markdown", "[Two](Allotment%20%232/AGENTS.md)"),
        ("People/Ann Lee.md", "Ann", "wiki", "[[People/Ann Lee|Ann]]"),
        ("Ann.md", "Ann", "wiki", "[[Ann]]"),
        ("Ann.md", "\\[the\\] | cook", "wiki", "[[Ann|the cook]]"),
        ("a#b.md", "A", "wiki", "[A](../a%23b.md)"),
        ("a|b.md", "A", "wiki", "[A](../a%7Cb.md)"),
    ],
)
def test_a_link_is_written_as_the_vault_writes_them_where_it_can_be(path, title, style, written):
    assert link("Projects/AGENTS.md", path, title, style) == written


@pytest.mark.parametrize(
    ("texts", "style"),
    [
        ([], "markdown"),
        (["see [[A]]", "[b](b.md)", "[[C]]"], "wiki"),
        (["[b](b.md) [[A]]"], "markdown"),
    ],
)
def test_links_are_written_as_most_are(texts, style):
    assert link_style(texts) == style
