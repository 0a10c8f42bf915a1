"""Declared origin: a frontmatter that says whose the text is, says so also when it is broken or
written otherwise.
"""

from __future__ import annotations

import pytest

from parachuted.vault import declared_origin


@pytest.mark.parametrize(
    "block",
    [
        "origin: web",
        "Origin: web",
        '"ORIGIN": web',
        "origin: [you, web]",
        "origin:\n  - web",
        "origin: >\n  web",
        "title: Ten tips: the best\norigin: web",
        "title: a\norigin: 'web'\nby: [\n",
        "origin: web\norigin: mine",
        "origin: mine\norigin: web",
        'title: "it\'s "the" best"\norigin: web # clipped',
        "tags: @me\norigin: web",
        "\torigin: web\n\tx: y",
        "- origin: web",
    ],
)
@pytest.mark.parametrize("end", ["---\n# Text\n", "---", "...\n# Text\n", ""])
def test_an_origin_is_read_from_whatever_a_clipper_leaves(block: str, end: str):
    for text in (
        f"---\n{block}\n{end}",
        f"\ufeff---\n{block}\n{end}",
        f"---\n{block}\n{end}".replace("\n", "\r\n"),
    ):
        assert "web" in [word.strip() for word in declared_origin(text.encode())], text


@pytest.mark.parametrize(
    "text",
    [
        "# Mine\n\norigin: web\n",
        "---\ntitle: x\n---\norigin: web\n",
        "---\norigins: web\n---\n",
        "---\noriginal: web\n---\n",
        "---\ntitle: origin: web\n---\n",
        "---\nabout: the origin: of the web\n---\n",
        "---\n\nAfter a rule.\n\norigin: web\n",
        "",
        "---\norigin: not from the web\n---\n",
    ],
)
def test_what_is_no_such_key_says_nothing(text: str):
    assert "web" not in declared_origin(text.encode())
