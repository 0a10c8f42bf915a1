"""Compose: a note that is written whole, by python-frontmatter."""

from __future__ import annotations

from collections.abc import Mapping

import frontmatter
from frontmatter.default_handlers import SafeDumper

_ONE_LINE = 1 << 30


def compose_note(values: Mapping[str, object], body: str) -> str:
    post = frontmatter.Post(body)
    post.metadata = dict(values)
    return f"{frontmatter.dumps(post, Dumper=_Texts, sort_keys=False, width=_ONE_LINE)}\n"


class _Texts(SafeDumper):  # type: ignore[misc,valid-type]
    def represent_str(self, text: str) -> object:
        whole = text.encode("utf-8", "replace").decode()  # half a surrogate pair is not text
        return self.represent_scalar(
            "tag:yaml.org,2002:str", whole, style=None if whole.isidentifier() else '"'
        )


_Texts.add_representer(str, _Texts.represent_str)
_Texts.add_multi_representer(str, _Texts.represent_str)
