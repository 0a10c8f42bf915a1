"""The state's record of a suggestion. The file in the vault holds the same, under a seal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from parachuted.suggestions.suggestion import Suggestion, from_document, to_document
from parachuted.suggestions.suggestion_file import SuggestionPreview, body_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestionRecord:
    """A suggestion with its file.

    `body` is what we last wrote below the frontmatter, `applying` the run that is just doing it.
    """

    suggestion: Suggestion
    file: str
    shown: SuggestionPreview = field(repr=False)
    body: str = field(repr=False)
    applying: str | None = None

    def to_json(self) -> dict[str, object]:
        """As the state keeps it."""
        shown = self.shown
        return {
            "document": to_document(self.suggestion),
            "paper": self.file,
            "body": self.body,
            "applying": self.applying,
            "diff": shown.diff,
            "text": shown.text,
            "words": shown.words,
            "after": [list(one) for one in shown.after],
        }


def record_of(suggestion: Suggestion, file: str, shown: SuggestionPreview) -> SuggestionRecord:
    """One with the body that follows from it."""
    return SuggestionRecord(
        suggestion=suggestion, file=file, shown=shown, body=body_of(suggestion, shown)
    )


def record_from(row: Mapping[str, object]) -> SuggestionRecord:
    """The record again. Raises ValueError, KeyError or TypeError for what is none."""
    document, after, text = row["document"], row["after"], row["text"]
    if not isinstance(document, Mapping) or not isinstance(after, list):
        raise TypeError("it is not the record of a suggestion")
    shown = SuggestionPreview(
        diff=str(row["diff"]),
        text=None if text is None else str(text),
        words=str(row["words"]),
        after=tuple((str(title), str(said)) for title, said in after),
    )
    applying = row["applying"]
    return SuggestionRecord(
        suggestion=from_document(document),
        file=str(row["paper"]),
        shown=shown,
        body=str(row["body"]),
        applying=None if applying is None else str(applying),
    )
