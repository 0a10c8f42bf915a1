"""Lines of frontmatter, odd and plain, of which property tests make blocks; PyYAML as the reference
for what they mean.
"""

from __future__ import annotations

import re

import yaml

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


class LoaderOfTexts(yaml.SafeLoader):
    """PyYAML's own, with every scalar but the merge key left a text, as ours are."""

    yaml_implicit_resolvers = {"<": [("tag:yaml.org,2002:merge", re.compile("^<<$"))]}  # noqa: RUF012 - as PyYAML declares it


def _construct(loader, node):
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_mapping(node, deep=True)


LoaderOfTexts.yaml_constructors = {None: _construct}
