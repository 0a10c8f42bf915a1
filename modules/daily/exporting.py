"""Exports: days of the journal as one markdown file, a page of HTML, or a zip of their files.

Pure.
"""

from __future__ import annotations

import html
import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from itertools import groupby

from .layouts import Dated

_STYLE = "body{max-width:40em;margin:2em auto;font:1em/1.5 serif}article{margin-bottom:2em}"
_BLANK = re.compile(r"\n\s*\n")


def as_markdown(entries: Sequence[Dated]) -> str:
    """A heading for each day and for each entry; the oldest first."""
    parts = []
    for day, ones in groupby(entries, key=lambda one: one.day):
        parts.append(f"# {day}")
        parts += [f"## {one.entry.title or one.entry.created}\n\n{one.entry.body}" for one in ones]
    return "\n\n".join(parts).rstrip() + "\n"


def as_html(entries: Sequence[Dated]) -> str:
    """The same as a page that loads nothing."""
    parts = []
    for day, ones in groupby(entries, key=lambda one: one.day):
        parts.append(f"<h1>{day}</h1>")
        for one in ones:
            paragraphs = "".join(
                f"<p>{html.escape(text).replace(chr(10), '<br>')}</p>"
                for text in _BLANK.split(one.entry.body)
            )
            title = html.escape(one.entry.title or one.entry.created)
            parts.append(f"<article><h2>{title}</h2>{paragraphs}</article>")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html><head><meta charset="utf-8"><title>Journal</title>'
        f"<style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def as_zip(files: Mapping[str, bytes]) -> bytes:
    """The files by their paths in the vault."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return made.getvalue()
