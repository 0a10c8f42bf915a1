"""Links in the frontmatter: each is either written anew with no other byte changed, or stays."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from parachuted.vault import links_in, parse_note
from parachuted.vault.links import rewrite_links, written

OLD = "Old näme's"
LINK = re.compile(r"\[\[(Old näme's)")
ODD_NAMES = (
    *("New", "a: b", "b:", "Smith, John", "it's", 'a "b"', "c\\d", "{x}", "- y", "é ü", "- - -"),
    *("%a", "@b", "a\tb", "a\x85b", "a\u2028b", "\udcff", "&a", "*a", "!a", "? a", "2024", "---"),
)
NAMES = st.sampled_from(ODD_NAMES) | st.text(max_size=8)
WORDS = st.sampled_from(["see", "and", "über", f"[[{OLD}]]", f"[[{OLD}|l]]", f"[[{OLD}#h]]"])
TEXTS = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)


def plain(text: str) -> str:
    return f"so {text}"


def single(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def double(text: str) -> str:
    return '"' + text.replace("ä", "\\xE4") + '"'


def folded(text: str) -> str:
    return ">- # a comment [[Old]]\n    " + text.replace(" ", "\n    ", 2)


def literal(text: str) -> str:
    return "|\n    " + text.replace(" and ", "\n\n    and ")


def flow_list(text: str) -> str:
    return f"[{single(text)}, {{deep: {double(text)}}}]"


def block_list(text: str) -> str:
    return f"\n  - {plain(text)} # {text}\n  - {single(text)}"


def unquoted(text: str) -> str:
    return f"[[{OLD}]] # {text}"


def wrapped(text: str) -> str:
    dumped = yaml.safe_dump({"k": f"{text} " * 9}, width=40)
    return dumped.removeprefix("k: ").rstrip().replace("\n", "\n  ")


STYLES = (plain, single, double, folded, literal, flow_list, block_list, unquoted, wrapped)
VALUES = st.builds(lambda style, text: style(text), st.sampled_from(STYLES), TEXTS)


def texts(value: object) -> Iterator[str]:
    """All texts of the value, in order; `[[x]]` without quotes as a person means it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            is_link = isinstance(inner, list) and len(inner) == len(value) == 1
            yield from (f"[[{inner[0]}]]",) if is_link else texts(inner)


def read(data: bytes) -> str:
    return "\n".join(texts(yaml.safe_load(data.removeprefix(b"---").partition(b"# end")[0])))


@settings(max_examples=4 * settings.default.max_examples)
@given(st.lists(VALUES, min_size=1, max_size=4), NAMES, st.sampled_from(["\n", "\r\n"]))
def test_each_link_is_written_anew_or_is_known_to_stay(values: list[str], new: str, eol: str):
    lines = "".join(f"k{at}: {value}\n" for at, value in enumerate(values))
    data = f"---\n{lines}# end [[{OLD}]]\n---\nbody\n".replace("\n", eol).encode()
    links = links_in(parse_note(data))
    before = read(data)
    assert [link.target for link in links] == LINK.findall(before)

    after = rewrite_links(parse_note(data), lambda _link: new)

    names = [OLD if written(link, new, data) is None else new for link in links]
    left = iter(names)
    assert read(after) == LINK.sub(lambda _match: f"[[{next(left)}", before)
    again = links_in(parse_note(after))
    assert [link.target for link in again] == names
    assert _without(after, again) == _without(data, links)


def test_a_plain_new_name_reaches_every_style_on_one_line():
    values = [style("so we see [[Old näme's]]") for style in STYLES if style is not wrapped]
    data = "".join(f"k{at}: {value}\n" for at, value in enumerate(values))
    data = f"---\n{data}over: see [[Old\n  näme's]]\n# end\n---\n"
    note = parse_note(data.encode())

    moved = rewrite_links(note, lambda _link: "New").decode()

    assert LINK.findall(read(moved.encode())) == ["Old näme's"]
    assert "over: see [[Old\n  näme's]]" in moved
    assert moved.count("[[New") == len(links_in(note)) - 1


def _without(data: bytes, links: tuple) -> bytes:
    parts, at = [], 0
    for link in links:
        parts.append(data[at : link.span.start])
        at = link.span.stop
    return b"\0".join([*parts, data[at:]])
