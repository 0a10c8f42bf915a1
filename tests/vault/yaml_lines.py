"""Lines of frontmatter, odd and plain, of which property tests make blocks."""

from __future__ import annotations

YAML_LINES = (
    "a: 1",
    "c:",
    "  - x",
    "- y",
    "  k: v",
    "d: [1,",
    "e: {x: y}",
    "g: 'it''s'",
    "",
    "   ",
    "h: |",
    "  text",
    "    more",
    "i: >-",
    "l: {{date}}",
    '"q k": v',
    "? x",
    ": y",
    "m: *al",
    "o: !!str 1",
    "ü: 1",
    "{a: 1}",
    "t:",
    "w : 1",
    "y: a --- b",
    "🎉: z",
    "  ind: 1",
    "plain",
)
