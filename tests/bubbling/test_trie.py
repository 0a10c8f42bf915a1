from __future__ import annotations

import posixpath
import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.bubbling.patterns import PatternPart, parse_declaration
from parachuted.bubbling.trie import WatchTrie, paths_of

ROOT = "AGENTS.md"
FACTS, STATUS = PatternPart(mark="#", name="Facts"), PatternPart(mark="@", name="status")


class FakeTree:
    """A tree of files in memory that remembers what was listed."""

    def __init__(self, *paths):
        self.paths = set(paths)
        self.listed_folders = set()
        self.listed_files = set()

    def folders(self, folder):
        self.listed_folders.add(folder)
        inside = f"{folder}/" if folder else ""
        return {
            path[len(inside) :].split("/")[0]
            for path in self.paths
            if path.startswith(inside) and "/" in path[len(inside) :]
        }

    def files(self, folder):
        self.listed_files.add(folder)
        return [
            path.rpartition("/")[2]
            for path in sorted(self.paths)
            if path.rpartition("/")[0] == folder
        ]

    def is_context(self, path):
        folder, _, name = path.rpartition("/")
        return name == "AGENTS.md" or (
            name == "CLAUDE.md" and posixpath.join(folder, "AGENTS.md") not in self.paths
        )


VAULT = FakeTree(
    "AGENTS.md",
    "CLAUDE.md",
    "note.md",
    "Projects/AGENTS.md",
    "Projects/a/AGENTS.md",
    "Projects/a/CLAUDE.md",
    "Projects/a/plan.md",
    "Projects/a/deep/AGENTS.md",
    "Projects/a/deep/plan.md",
    "Projects/b/CLAUDE.md",
    "Projects/b/plan.txt",
    "Areas/x/plan.md",
)


def watched(watcher, *texts, tree=VAULT):
    return paths_of(parse_declaration(watcher, texts), tree)


def watching(*declarations):
    trie = WatchTrie()
    for watcher, *texts in declarations:
        trie.add(parse_declaration(watcher, texts))
    return trie


def watchers(trie, path, *, context=True):
    return [match.watcher for match in trie.watchers_of(path, context)]


@pytest.mark.parametrize(
    ("watcher", "text", "expected"),
    [
        (ROOT, "Projects/*", ["Projects/a/AGENTS.md", "Projects/b/CLAUDE.md"]),
        (ROOT, "Projects", ["Projects/AGENTS.md"]),
        (ROOT, "Projects/b", ["Projects/b/CLAUDE.md"]),
        (
            ROOT,
            "Projects/**",
            ["Projects/a/AGENTS.md", "Projects/a/deep/AGENTS.md", "Projects/b/CLAUDE.md"],
        ),
        (
            ROOT,
            "**",
            [
                "Projects/AGENTS.md",
                "Projects/a/AGENTS.md",
                "Projects/a/deep/AGENTS.md",
                "Projects/b/CLAUDE.md",
            ],
        ),
        (ROOT, "**/a", ["Projects/a/AGENTS.md"]),
        (ROOT, "**/plan.md", ["Areas/x/plan.md", "Projects/a/deep/plan.md", "Projects/a/plan.md"]),
        (ROOT, "**/note.md", ["note.md"]),
        (ROOT, "Projects/**/plan.md", ["Projects/a/deep/plan.md", "Projects/a/plan.md"]),
        (ROOT, "*/*/plan.*", []),
        (ROOT, "*/?/p*n.md", ["Areas/x/plan.md", "Projects/a/plan.md"]),
        (ROOT, "*.md", ["CLAUDE.md", "note.md"]),
        (ROOT, "*A*D*.md", ["CLAUDE.md"]),
        (ROOT, "./", []),
        ("note.md", "./", ["AGENTS.md"]),
        ("Projects/a/AGENTS.md", "../", ["Projects/AGENTS.md"]),
        ("Projects/a/AGENTS.md", "../../", ["AGENTS.md"]),
        ("Projects/a/AGENTS.md", "../*", ["Projects/b/CLAUDE.md"]),
        ("Projects/a/AGENTS.md", "./*.md", ["Projects/a/CLAUDE.md", "Projects/a/plan.md"]),
        ("Projects/a/AGENTS.md", "./**", ["Projects/a/deep/AGENTS.md"]),
        ("Projects/a/CLAUDE.md", "./", ["Projects/a/AGENTS.md"]),
        (ROOT, "projects/*", []),
        (ROOT, "Nowhere/**/x.md", []),
    ],
)
def test_a_pattern_watches_these_paths(watcher, text, expected):
    assert watched(watcher, text) == expected


def test_a_folder_pattern_watches_no_note_but_the_context_file():
    trie = watching((ROOT, "Projects/*"))

    assert watchers(trie, "Projects/a/CLAUDE.md", context=False) == []
    assert watchers(trie, "Projects/a/CLAUDE.md", context=True) == [ROOT]


def test_a_watcher_comes_once_with_all_its_patterns():
    (match,) = watching((ROOT, "Projects/*", "**", "Areas", "**/AGENTS.md")).watchers_of(
        "Projects/a/AGENTS.md", is_context_file=True
    )

    assert [pattern.text for pattern in match.patterns] == ["**", "**/AGENTS.md", "Projects/*"]


def test_watchers_are_named_in_order():
    assert watchers(watching(("c.md", "x"), ("a.md", "x"), ("b.md", "**")), "x/AGENTS.md") == [
        "a.md",
        "b.md",
        "c.md",
    ]


def test_an_exclusion_takes_paths_out_wherever_it_stands_in_the_list():
    assert watched(ROOT, "!Projects/b", "Projects/*") == ["Projects/a/AGENTS.md"]
    assert watched(ROOT, "**/plan.md", "!**/deep/*.md") == ["Areas/x/plan.md", "Projects/a/plan.md"]


@pytest.mark.parametrize(
    ("texts", "narrowings", "without"),
    [
        (["Projects/*#Facts", "**@status", "Projects/*#Facts "], (FACTS, STATUS), ()),
        (["Projects/*#Facts", "Projects/a"], (), ()),  # the whole note outweighs a part
        (["Projects/*", "!Projects/a#Facts", "!**@status"], (), (FACTS, STATUS)),
    ],
)
def test_a_match_tells_the_sections_and_keys_that_count(texts, narrowings, without):
    trie = watching((ROOT, *texts))
    (match,) = trie.watchers_of("Projects/a/AGENTS.md", is_context_file=True)

    assert (match.narrowings, match.without) == (narrowings, without)


def test_a_narrowed_exclusion_keeps_the_path():
    assert watched(ROOT, "Projects/a", "!Projects/a#Facts") == ["Projects/a/AGENTS.md"]
    assert watched(ROOT, "Projects/a", "!Projects/a#Facts", "!**/a") == []


def test_a_declaration_replaces_the_one_before():
    trie = watching((ROOT, "Projects/*"), (ROOT, "Areas/*"))

    assert watchers(trie, "Projects/a/AGENTS.md") == []
    assert watchers(trie, "Areas/a/AGENTS.md") == [ROOT]
    assert [declaration.watcher for declaration in trie.declarations()] == [ROOT]


def test_a_removed_watcher_watches_nothing_and_leaves_nothing_behind():
    trie = watching(
        (ROOT, "Projects/*", "Projects/*#Facts", "!**/p*-?.md", "**/p*-?.md", "a/b/c.md"),
        ("note.md", "Projects/*"),
    )
    trie.remove(ROOT)
    trie.remove("unknown.md")

    assert watchers(trie, "Projects/a/AGENTS.md") == ["note.md"]
    trie.remove("note.md")
    assert trie.declaration(ROOT) is None
    assert list(trie.declarations()) == []
    assert [top.children for top in (trie._watched, trie._left_out)] == [None, None]


def test_names_match_composed_or_decomposed_and_are_given_as_they_are():
    decomposed = unicodedata.normalize("NFD", "Café/Über.md")

    assert watched(ROOT, "Café/*.md", tree=FakeTree(decomposed)) == [decomposed]
    assert watchers(watching((ROOT, "Café/Über.md")), decomposed, context=False) == [ROOT]
    assert watchers(
        watching((ROOT, unicodedata.normalize("NFD", "Café/?ber.md"))),
        "Café/Über.md",
        context=False,
    ) == [ROOT]


def test_names_that_are_not_text_match_wildcards():
    odd = "Projects/caf\udce9/x\udcff.md"

    assert watchers(watching((ROOT, "Projects/*/x*.md")), odd, context=False) == [ROOT]


def test_braces_brackets_and_marks_in_names_are_literal():
    tree = FakeTree("a/[x].md", "a/x.md", "a/{x,y}.md", "a/C#.md", "a/.md")

    assert watched(ROOT, "a/[x].md", "a/{x,y}.md", "a/C#.md", tree=tree) == [
        "a/C#.md",
        "a/[x].md",
        "a/{x,y}.md",
    ]
    assert watched(ROOT, "a/[*].md", tree=tree) == ["a/[x].md"]
    assert watched(ROOT, "a/[??.md", tree=tree) == ["a/[x].md"]
    assert watched(ROOT, "a/[?].md", tree=tree) == ["a/[x].md"]


def test_the_fixed_ends_of_a_wildcard_do_not_overlap():
    assert watched(ROOT, "ab*ba.md", tree=FakeTree("aba.md", "abba.md", "abxba.md")) == [
        "abba.md",
        "abxba.md",
    ]


def test_only_folders_that_a_pattern_can_reach_are_looked_into():
    tree = FakeTree(*VAULT.paths)
    watched(ROOT, "Projects/*/plan.md", "Projects/b", tree=tree)

    assert tree.listed_folders == {"", "Projects"}
    assert tree.listed_files == {"Projects/a", "Projects/b"}


def test_a_hostile_wildcard_is_answered_at_once():
    stars = "a*" * 400 + "b.md"

    assert (
        watchers(watching((ROOT, stars), ("x.md", "*?" * 120 + ".md")), "a" * 250, context=False)
        == []
    )


def lines_run(call):
    """How many lines of the trie's file a call runs: a measure of work that no other load on the
    machine changes.
    """
    count = 0

    def trace(frame, event, _argument):
        nonlocal count
        count += event == "line"
        return trace if frame.f_code.co_filename == WatchTrie.add.__code__.co_filename else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def varied_declarations(size):
    for number in range(size):
        name = f"{number:05}"
        texts = [
            f"Projects/p{name}/*",
            f"Areas/*/x{name}.md",
            f"**/name{name}.md",
            "./..",
            "!**/Archive/*",
        ]
        wild = [f"Daily/{name}-*.md", f"**/*-{name}.md", f"Projects/p{name}?"]
        yield parse_declaration(f"Areas/a{name}/b/AGENTS.md", [*texts, *wild])


def lookup_lines(size):
    trie = WatchTrie()
    for declaration in varied_declarations(size):
        trie.add(declaration)
    found = [
        "Projects/p00007/x/AGENTS.md",
        "Areas/a/x00007.md",
        "a/b/c/name00007.md",
        "Daily/00007-x.md",
        "a/b-00007.md",
    ]
    return [
        lines_run(lambda path=path: trie.watchers_of(path, is_context_file=True))
        for path in [*found, "Nothing/of/it.md"]
    ]


def test_a_lookup_does_no_more_after_many_declarations_came_and_went():
    trie = watching((ROOT, "Projects/p*-x.md", "**/?.md"))
    path = "Projects/p-x.md"
    trie.watchers_of(
        path, is_context_file=False
    )  # what is compiled at its first use is compiled now
    before = lines_run(lambda: trie.watchers_of(path, is_context_file=False))
    for number in range(100):
        trie.add(
            parse_declaration(
                f"{number}.md",
                [f"Projects/{'p' * number}{number}*{number}.md", f"**/?{'x' * number}.md"],
            )
        )
    for number in range(100):
        trie.remove(f"{number}.md")

    assert lines_run(lambda: trie.watchers_of(path, is_context_file=False)) == before


def test_a_lookup_does_no_more_with_a_hundred_times_as_many_watchers():
    assert lookup_lines(2_000) == lookup_lines(20)


NAMES = ["a", "b", "ab", "aab", "v1.2", "é", "e\u0301", "C#"]
FILES = ["AGENTS.md", "CLAUDE.md", "a.md", "ab.md", "b.txt"]
GLOBS = [*NAMES, "*", "**", "?", "a*", "*b", "a?", "*a*", "a**b", "??*"]
LAST = [*GLOBS, *FILES, "", "*.md", "?.md", "a*.md", "*.txt", "AGENTS.*", "*S.md"]


@st.composite
def paths(draw):
    return "/".join(
        [*draw(st.lists(st.sampled_from(NAMES), max_size=3)), draw(st.sampled_from(FILES))]
    )


@st.composite
def pattern_texts(draw):
    start = draw(st.sampled_from(["", "", "", "./", "../", "../../"]))
    middle = draw(st.lists(st.sampled_from(GLOBS), max_size=3))
    return (
        draw(st.sampled_from(["", "", "", "!"]))
        + start
        + "/".join([*middle, draw(st.sampled_from(LAST))])
    )


declarations = st.builds(
    parse_declaration, paths(), st.lists(pattern_texts(), min_size=1, max_size=4)
)


def reference_watches(declaration, path, is_context):
    """What DESIGN.md says about patterns, said again in the plainest way."""
    if path == declaration.watcher:
        return False
    texts = [pattern.text for pattern in declaration.patterns]
    wanted = [text for text in texts if text[0] != "!"]
    unwanted = [text[1:] for text in texts if text[0] == "!"]
    fits = [
        reference_fits(text, declaration.watcher, path, is_context=is_context) for text in wanted
    ]
    return any(fits) and not any(
        reference_fits(text, declaration.watcher, path, is_context=is_context) for text in unwanted
    )


def reference_fits(text, watcher, path, *, is_context):
    path = unicodedata.normalize("NFC", path)
    names_notes = re.search(r"[^/]\.[A-Za-z][A-Za-z0-9]{0,9}$", text)
    if not names_notes and not is_context:
        return False
    if text.startswith("."):
        text = f"{posixpath.dirname(watcher)}/{text}".removeprefix("/")
    globs = [
        glob
        for glob in posixpath.normpath(unicodedata.normalize("NFC", text)).split("/")
        if glob != "."
    ]
    names = path.split("/")
    return along(globs, names if names_notes else names[:-1])


def along(globs, names):
    if not globs:
        return not names
    if globs == ["**"]:
        return len(names) >= 1
    if globs[0] == "**" and along(globs[1:], names):
        return True
    if not names:
        return False
    return (
        along(globs, names[1:])
        if globs[0] == "**"
        else same(globs[0], names[0]) and along(globs[1:], names[1:])
    )


def same(glob, name):
    if not glob or not name:
        return not name and not glob.strip("*")
    if glob[0] == "*":
        return same(glob[1:], name) or same(glob, name[1:])
    return glob[0] in {"?", name[0]} and same(glob[1:], name[1:])


@given(declarations, st.lists(paths(), min_size=1, max_size=12))
def test_paths_and_watchers_are_two_views_of_the_same_rules(declaration, vault):
    tree = FakeTree(*vault, declaration.watcher)
    trie = WatchTrie()
    trie.add(declaration)
    found = paths_of(declaration, tree)

    assert found == sorted(
        path for path in tree.paths if reference_watches(declaration, path, tree.is_context(path))
    )
    assert found == sorted(
        path for path in tree.paths if trie.watchers_of(path, tree.is_context(path))
    )


@given(st.lists(declarations, max_size=12), st.data())
def test_declarations_that_come_and_go_leave_what_the_rest_declares(known, data):
    trie = WatchTrie()
    for declaration in known:
        trie.add(declaration)
    gone = (
        data.draw(st.sets(st.sampled_from([declaration.watcher for declaration in known])))
        if known
        else set()
    )
    for watcher in sorted(gone):
        trie.remove(watcher)
    left = {
        declaration.watcher: declaration for declaration in known if declaration.watcher not in gone
    }
    path, is_context = data.draw(paths()), data.draw(st.booleans())

    assert watchers(trie, path, context=is_context) == sorted(
        watcher
        for watcher, declaration in left.items()
        if reference_watches(declaration, path, is_context)
    )
