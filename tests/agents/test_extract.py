"""Extract: how a note describes itself, in an app's dialect too."""

from __future__ import annotations

import time

import pytest

from parachuted.agents.extract import extract_note

GARDEN = """---
watch: "../"
---
# Garden

> Something to eat
> by summer.

## Facts
> not this quote
## Current Focus
<!-- what is actively worked on -->
- [ ] Sow beans

- Build *the* bed with [Ann](../people/ann.md)
```
- not this
```
1. Water
- One too many
## History
"""


def test_a_context_file_tells_title_description_and_the_first_lines_of_its_focus():
    found = extract_note("Projects/garden/AGENTS.md", GARDEN)

    assert (found.title, found.description) == ("Garden", "Something to eat")
    assert found.focus == ("Sow beans", "Build *the* bed with Ann", "Water")


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("---\ndescription: By its key\n---\n# A\n\n> By its quote\n", "By its key"),
        ("# A\n\nThe first\nparagraph.\n\nThe second.\n", "The first paragraph."),
        ("# A\n> [!info] A callout\n> is left alone\n\nText.\n", "Text."),
        ("<div>\n> no\n</div>\n\nText.\n", "Text."),
        ("![[cover.png]]\n#book #reading\nrating:: 5\n- a list\n| a | table |\n\nText.\n", "Text."),
        ("<< [[2026-11-22]] | [[2026-11-24|next]] >>\n[up](../Home.md) →\n\nText.\n", "Text."),
        ("%% a comment %%\n```dataview\nLIST\n```\nSee [[Ann|her]].\n", "See her."),
        ("## Summary\nBelow a heading.\n", "Below a heading."),
        ("# A\n\n## History\nold news\n", ""),
        ("---\ntitle: x\n---\n", ""),
    ],
)
def test_a_note_is_described_by_its_key_its_quote_or_its_first_paragraph(text, description):
    assert extract_note("a.md", text).description == description


def test_a_title_in_the_frontmatter_comes_first():
    assert extract_note("a.md", "---\ntitle: The Garden\n---\n# Another\n").title == "The Garden"


@pytest.mark.parametrize(
    "line",
    ["#a" * 50_000 + " x", "![[" * 20_000, "a " * 50_000 + ":", "<" * 100_000, "> [!" * 20_000],
)
def test_no_line_takes_long(line):
    began = time.process_time()
    extract_note("a.md", f"# T\n{line}\n")

    assert time.process_time() - began < 20
