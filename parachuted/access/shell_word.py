"""Shell word: one word of a line, what is certain of it, and why a line is refused."""

from __future__ import annotations

from dataclasses import dataclass


class ShellRefusedError(Exception):
    """The line cannot be parsed safely; the text says why, for the agent."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word as it was written.

    `text` is its value, None: only the shell knows. `begins` is what it certainly begins with;
    `is_one` whether it is one argument whatever its variables hold; `assigns` the variable that it
    would set where a command may begin.
    """

    text: str | None
    begins: str
    is_one: bool
    is_plain: bool
    assigns: str | None = None


class WordReading:
    """A word while it is read, piece by piece."""

    def __init__(self) -> None:
        self.text: str | None = ""
        self.begins = ""
        self.is_one = self.is_plain = True

    def add(self, text: str, *, plain: bool = True) -> None:
        if self.text is not None:
            self.text += text
            self.begins += text
        self.is_plain &= plain

    def unknown(self, *, one: bool) -> None:
        self.text = None
        self.is_plain = False
        self.is_one &= one
