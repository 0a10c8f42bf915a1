"""Markdown in the few HTML tags that Telegram has. Pure."""

from __future__ import annotations

import html
import re
from typing import Any, Final

import pyromark

_TAGS: Final = {"Emphasis": "i", "Strong": "b", "Strikethrough": "s"}
_LANGUAGE: Final = re.compile(r"[\w+#.-]{1,30}", re.ASCII)
_OPTIONS: Final = pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TABLES


def as_html(text: str) -> str:
    """The text, formatted; a table as its source."""
    source, out = text.encode(), _Html()
    skipped_to = 0
    for event, span in pyromark.events_with_range(text, options=_OPTIONS):
        if span["start"] < skipped_to:
            continue
        start = event.get("Start") if isinstance(event, dict) else None
        if isinstance(start, dict) and "Table" in start:
            table = source[span["start"] : span["end"]].decode().strip()
            out.put(f"<pre>{html.escape(table)}</pre>")
            out.gap, skipped_to = 2, span["end"]
        else:
            out.add(event)
    return "".join(out.parts)


class _Html:
    """What was written so far, and how many line ends come before what is written next."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.gap = 0
        self._numbers: list[int | None] = []
        self._ends: list[str] = []
        self._quotes = 0

    def put(self, text: str) -> None:
        self.parts.append("\n" * (self.gap if self.parts else 0) + text)
        self.gap = 0

    def add(self, event: Any) -> None:  # noqa: ANN401  pyromark's
        match event:
            case {"Start": what}:
                self._start(what)
            case {"End": what}:
                self._end(what if isinstance(what, str) else next(iter(what)))
            case {"Code": code}:
                self.put(f"<code>{html.escape(code)}</code>")
            case "SoftBreak" | "HardBreak":
                self.put("\n")
            case "Rule":
                self.put("—")
                self.gap = 2
            case {"Text": words} | {"Html": words} | {"InlineHtml": words}:
                self.put(html.escape(words))

    def _start(self, what: Any) -> None:  # noqa: ANN401  the same
        match what:
            case {"List": number}:
                self.gap = self.gap if not self._numbers else 1
                self._numbers.append(number)
            case "Item":
                number = self._numbers[-1]
                mark = "•" if number is None else f"{number}."
                self._numbers[-1] = None if number is None else number + 1
                self.put(f"{'  ' * (len(self._numbers) - 1)}{mark} ")
            case {"Heading": _}:
                self.put("<b>")
            case {"CodeBlock": kind}:
                said = kind.get("Fenced", "") if isinstance(kind, dict) else ""
                language = _LANGUAGE.match(said)
                of = f' class="language-{language[0]}"' if language else ""
                self.put(f"<pre><code{of}>")
            case {"BlockQuote": _} | "BlockQuote":
                self._quotes += 1
                self.put("<blockquote>" if self._quotes == 1 else "")
            case {"Link": link} | {"Image": link}:
                to = link["dest_url"]
                is_web = to.startswith(("https://", "http://")) and "</a>" not in self._ends
                self._ends.append("</a>" if is_web else "")
                if is_web:
                    self.put(f'<a href="{html.escape(to)}">')
            case str() if what in _TAGS:
                self.put(f"<{_TAGS[what]}>")

    def _end(self, what: str) -> None:
        match what:
            case "Link" | "Image":
                self.parts.append(self._ends.pop())
            case "Heading":
                self.parts.append("</b>")
                self.gap = 2
            case "CodeBlock":
                self.parts[-1] = self.parts[-1].removesuffix("\n")
                self.parts.append("</code></pre>")
                self.gap = 2
            case "BlockQuote":
                self._quotes -= 1
                self.parts.append("" if self._quotes else "</blockquote>")
                self.gap = 2
            case "List":
                self._numbers.pop()
                self.gap = 1 if self._numbers else 2
            case "Item":
                self.gap = 1
            case "Paragraph" | "HtmlBlock":
                self.gap = 1 if self._numbers else 2
            case _ if what in _TAGS:
                self.parts.append(f"</{_TAGS[what]}>")
