"""Shell words: parses a line of shell strictly as bash does; what it does not fully understand is
refused.

The grammar is that of POSIX (Shell Command Language, 2.10) with bash's redirections and process
substitution. Left out on purpose is all that evaluates text a second time (backticks, arithmetic,
`${x:-...}`, `[[`, `case`, functions): what runs then does not show.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from parachuted.access.shell_word import ShellRefusedError, Word, WordReading

_LONGEST = 100_000
_DEEPEST = 20
_SPACE = " \t"
_ENDS = "\n;|&)"
_REDIRECTIONS = ("&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">")
_IO_NUMBER = re.compile(r"\d+(?=[<>])")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|\[)")
_ELEMENT = re.compile(r"[^\s=;|&<>()]*\]\+?=")
_PARAMETER = re.compile(
    r"[A-Za-z_][A-Za-z0-9_]*|[0-9?$#!@*-]|\{(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*])\}"
)
_WORD = re.compile(r"[A-Za-z_!{}\[\]]+(?=[ \t\n;|&<>()]|\Z)")
_LETTERS = re.compile(r"[A-Za-z0-9_./,:=+@%^-]+")
_IN_DOUBLE = re.compile(r'[^"`$\\]+')
_ESCAPED_IN_DOUBLE = frozenset('$`"\\\n')
_EXPANDS = re.compile(r"`|\$[\[(]|\$\{(?!(?:[A-Za-z_][A-Za-z0-9_]*|[0-9?#@*])\})")
_RESERVED = frozenset(
    {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "for", "{", "}", "!"}
)
_NOT_HERE = frozenset({"case", "esac", "select", "function", "coproc", "time", "[[", "]]", "in"})


class _Heredoc(NamedTuple):
    end: str
    is_quoted: bool
    is_indented: bool


class Shell:
    """Parses one line. `command` is called with the words of each simple command, `variable` with
    each name that is set and whether a command follows, `target` with each file that is opened;
    they raise ShellRefusedError for what is not allowed.
    """

    def __init__(
        self,
        text: str,
        *,
        command: Callable[[Sequence[Word]], None],
        variable: Callable[[str, bool], None],
        target: Callable[[Word], None],
    ) -> None:
        self._text, self._at = text, 0
        self._command_is, self._variable_is, self._target_is = command, variable, target
        self._waiting: list[list[_Heredoc]] = [[]]
        self._depth = 0

    def walk(self) -> None:
        """Parse the whole line. Raises ShellRefusedError."""
        if len(self._text) > _LONGEST:
            raise ShellRefusedError(f"a command is at most {_LONGEST} characters")
        if "\0" in self._text or "\r" in self._text:
            raise ShellRefusedError("it holds a NUL or a carriage return")
        self._list("")
        if self._waiting[-1]:
            raise ShellRefusedError(
                f"the text that ends with {self._waiting[-1][0].end} does not follow"
            )

    def _list(self, *ends: str) -> str:
        """Commands until one of these words, `)`, or the end (empty); returns which."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ShellRefusedError("it is nested too deeply")
        try:
            return self._commands(ends)
        finally:
            self._depth -= 1

    def _commands(self, ends: Sequence[str]) -> str:
        while True:
            self._space(newlines=True)
            if self._is_over():
                if "" in ends:
                    return ""
                raise ShellRefusedError("it ends in the middle of something")
            if self._here(")"):
                if ")" not in ends:
                    raise ShellRefusedError("a ) has no ( before it")
                self._at += 1
                return ")"
            word = self._reserved()
            if word in ends:
                self._at += len(word)
                return word
            self._and_or()
            self._space()
            if self._here(";;"):
                raise ShellRefusedError(";; belongs to case, which is not followed here")
            if self._here(";") or self._here("&"):
                self._at += 1
            elif not (self._is_over() or self._text[self._at] in "\n)"):
                raise self._not_understood()

    def _and_or(self) -> None:
        self._pipeline()
        while True:
            self._space()
            if not (self._here("&&") or self._here("||")):
                return
            self._at += 2
            self._space(newlines=True)
            self._pipeline()

    def _pipeline(self) -> None:
        while self._reserved() == "!":
            self._at += 1
            self._space()
        self._compound_or_simple()
        while True:
            self._space()
            if not self._here("|") or self._here("||"):
                return
            self._at += 2 if self._here("|&") else 1
            self._space(newlines=True)
            self._compound_or_simple()

    def _compound_or_simple(self) -> None:
        if self._here("(("):
            raise ShellRefusedError("(( )) evaluates text, and is not followed here")
        if self._here("("):
            self._at += 1
            self._nested(")")
            self._redirections()
            return
        word = self._reserved()
        if word in _NOT_HERE:
            raise ShellRefusedError(f"{word} is not followed here; use if, for or while")
        if word not in _RESERVED:
            self._simple()
            return
        self._at += len(word)
        if word == "{":
            self._list("}")
        elif word == "if":
            self._if()
        elif word in {"while", "until"}:
            self._list("do")
            self._list("done")
        elif word == "for":
            self._for()
        else:
            raise ShellRefusedError(f"{word} stands where a command should")
        self._redirections()

    def _if(self) -> None:
        self._list("then")
        while (ended := self._list("elif", "else", "fi")) == "elif":
            self._list("then")
        if ended == "else":
            self._list("fi")

    def _for(self) -> None:
        self._space()
        found = _NAME.match(self._text, self._at)
        if found is None:
            raise ShellRefusedError("for takes the name of a variable")
        self._variable_is(found[0], False)  # noqa: FBT003  no command follows
        self._at = found.end()
        self._space(newlines=True)
        if self._reserved() == "in":
            self._at += 2
            self._words()
        if self._here(";"):
            self._at += 1
        self._space(newlines=True)
        if self._reserved() != "do":
            raise ShellRefusedError("for takes do after its words")
        self._at += 2
        self._list("done")

    def _words(self) -> None:
        while True:
            self._space()
            if self._is_over() or self._text[self._at] in _ENDS:
                return
            if self._text[self._at] in "<>" and not self._text.startswith("(", self._at + 1):
                raise ShellRefusedError("a redirection stands among the words of for")
            self._word()

    def _simple(self) -> None:
        words: list[Word] = []
        names: list[str] = []
        while True:
            self._space()
            if self._is_over() or (self._text[self._at] in _ENDS and not self._here("&>")):
                break
            if self._redirection():
                continue
            word = self._word()
            if word.assigns is not None and not words:
                names.append(word.assigns)
                continue
            if word.begins.startswith("{") and (self._here("<") or self._here(">")):
                raise ShellRefusedError("{name}> sets a variable, and is not followed here")
            words.append(word)
        for name in names:
            self._variable_is(name, bool(words))
        if words:
            self._command_is(words)

    def _redirections(self) -> None:
        self._space()
        while self._redirection():
            self._space()

    def _redirection(self) -> bool:
        number = _IO_NUMBER.match(self._text, self._at)
        at = number.end() if number else self._at
        found = next((one for one in _REDIRECTIONS if self._text.startswith(one, at)), None)
        if found is None or (found in {"<", ">"} and self._text.startswith("(", at + 1)):
            return False
        self._at = at + len(found)
        self._space()
        if self._is_over() or self._text[self._at] in _ENDS:
            raise ShellRefusedError(f"{found} takes a file")
        word = self._word()
        if found in {"<<", "<<-"}:
            self._await(word, is_indented=found == "<<-")
        elif found != "<<<":
            self._target_is(word)
        return True

    def _await(self, word: Word, *, is_indented: bool) -> None:
        if not word.text or not word.text.isascii() or not word.text.isprintable():
            raise ShellRefusedError(
                "the word that ends a text after << should be a plain one, such as 'EOF'"
            )
        self._waiting[-1].append(
            _Heredoc(end=word.text, is_quoted=not word.is_plain, is_indented=is_indented)
        )

    def _newline(self) -> None:
        """Past the end of a line, and the here-documents announced before it."""
        self._at += 1
        if any(self._waiting[:-1]):
            raise ShellRefusedError("a text promised by << begins before what is inside $( ) ends")
        while self._waiting[-1]:
            self._heredoc(self._waiting[-1].pop(0))

    def _heredoc(self, heredoc: _Heredoc) -> None:
        while True:
            if self._is_over():
                raise ShellRefusedError(f"the text that ends with {heredoc.end} does not end")
            stop = self._text.find("\n", self._at)
            stop = len(self._text) if stop < 0 else stop
            line = self._text[self._at : stop]
            bare = line.lstrip("\t") if heredoc.is_indented else line
            if bare == heredoc.end:
                self._at = stop  # at its end, as after any command
                if self._waiting[-1]:
                    self._at += 1
                return
            if line.strip().startswith(heredoc.end):
                raise ShellRefusedError(
                    f"a line of the text begins with {heredoc.end}, where shells do not agree on "
                    "its end"
                )
            if not heredoc.is_quoted and (line.endswith("\\") or _EXPANDS.search(line)):
                raise ShellRefusedError(
                    f"the text after << is evaluated; write <<'{heredoc.end}' so that it is not"
                )
            self._at = stop + 1

    def _nested(self, end: str) -> None:
        self._waiting.append([])
        self._list(end)
        if self._waiting.pop():
            raise ShellRefusedError("a text promised by << does not follow")

    def _word(self) -> Word:
        found, start = WordReading(), self._at
        assignment = _ASSIGNMENT.match(self._text, self._at)
        if assignment is not None and (
            assignment[2] == "[" or self._text.startswith("(", assignment.end())
        ):
            if assignment[2] != "[" or _ELEMENT.match(self._text, assignment.end()):
                raise ShellRefusedError("lists of variables are not followed here")
            assignment = None  # a pattern, such as a[bc].md
        while self._at < len(self._text) and self._piece(found):
            pass
        if self._at == start:
            raise self._not_understood()
        if self._here("("):
            raise ShellRefusedError("functions and patterns with ( ) are not followed here")
        assigns = assignment[1] if assignment is not None else None
        return Word(found.text, found.begins, found.is_one, found.is_plain, assigns)

    def _piece(self, found: WordReading) -> bool:
        one = self._text[self._at]
        if one in "<>" and self._text.startswith("(", self._at + 1):
            self._at += 2
            self._nested(")")
            found.unknown(one=True)
            return True
        if one in " \t\n;&|<>()":
            return False
        if one == "'":
            self._single(found)
        elif one == '"':
            self._double(found)
        elif one == "\\":
            self._escaped(found)
        elif one == "$":
            self._dollar(found, is_quoted=False)
        elif one == "`":
            raise ShellRefusedError("backticks are not followed here; write $( )")
        else:
            self._letter(one, found)
        return True

    def _letter(self, one: str, found: WordReading) -> None:
        if (run := _LETTERS.match(self._text, self._at)) is not None:
            self._at = run.end()
            found.add(run[0])
            return
        if unicodedata.category(one)[0] in "ZC":  # blanks were passed before
            kind = "a control" if one.isascii() else "an invisible"
            raise ShellRefusedError(f"it holds {kind} character, {one!a}, outside of quotes")
        self._at += 1
        found.add(one)
        if (
            one in "*?{"
            or (one == "[" and not self._ends_here(found))
            or (one == "~" and self._begins_path())
        ):
            found.text, found.is_one = None, False

    def _ends_here(self, found: WordReading) -> bool:
        return found.begins == "[" and (self._is_over() or self._text[self._at] in " \t\n;|&")

    def _begins_path(self) -> bool:
        return self._at == 1 or self._text[self._at - 2] in " \t\n=:;|&(<>"

    def _single(self, found: WordReading) -> None:
        stop = self._text.find("'", self._at + 1)
        if stop < 0:
            raise ShellRefusedError("a ' is not closed")
        self._quoted(self._text[self._at + 1 : stop], found)
        self._at = stop + 1

    def _double(self, found: WordReading) -> None:
        self._at += 1
        found.add("", plain=False)
        while True:
            if self._is_over():
                raise ShellRefusedError('a " is not closed')
            one = self._text[self._at]
            if one == '"':
                self._at += 1
                return
            if one == "`":
                raise ShellRefusedError("backticks are not followed here; write $( )")
            if one == "$":
                self._dollar(found, is_quoted=True)
            elif one == "\\" and self._text[self._at + 1 : self._at + 2] in _ESCAPED_IN_DOUBLE:
                self._quoted(self._text[self._at + 1].replace("\n", ""), found)
                self._at += 2
            else:
                run = _IN_DOUBLE.match(self._text, self._at)
                text = run[0] if run is not None else one
                self._quoted(text, found)
                self._at += len(text)

    def _quoted(self, text: str, found: WordReading) -> None:
        if "\n" in text and any(self._waiting):
            raise ShellRefusedError("a quoted line break stands between << and its text")
        found.add(text, plain=False)

    def _escaped(self, found: WordReading) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if not following:
            raise ShellRefusedError("it ends with a \\")
        self._at += 2
        if following == "\n":
            if any(self._waiting):
                raise ShellRefusedError("a line goes on between << and its text")
            return
        found.add(following, plain=False)

    def _dollar(self, found: WordReading, *, is_quoted: bool) -> None:
        self._at += 1
        following = self._text[self._at : self._at + 1]
        if self._here("((") or following == "[":
            raise ShellRefusedError("arithmetic evaluates text, and is not followed here")
        if following == "(":
            self._at += 1
            self._nested(")")
            found.unknown(one=is_quoted)
        elif following == "'" and not is_quoted:
            self._ansi(found)
        elif following == '"' and not is_quoted:
            raise ShellRefusedError('$" " is not followed here')
        elif (parameter := _PARAMETER.match(self._text, self._at)) is not None:
            self._at = parameter.end()
            found.unknown(one=is_quoted and parameter[0].strip("{}") not in {"@", "*"})
        elif following == "{":
            raise ShellRefusedError("of ${ } only plain ones such as ${name} are followed here")
        else:
            found.add("$", plain=False)

    def _ansi(self, found: WordReading) -> None:
        end = re.compile(r"'((?:[^'\\]|\\[\s\S])*)'").match(self._text, self._at)
        if end is None:
            raise ShellRefusedError("a $' is not closed")
        self._quoted(end[1] if "\n" in end[1] else "", found)
        found.unknown(one=True)
        self._at = end.end()

    def _space(self, *, newlines: bool = False) -> None:
        """Past blanks, continued lines and comments; with `newlines`, past line ends too."""
        while self._at < len(self._text):
            one = self._text[self._at]
            if one in _SPACE:
                self._at += 1
            elif self._here("\\\n") and not any(self._waiting):
                self._at += 2
            elif one == "#" and self._begins_word():
                if len(self._waiting) > 1:
                    raise ShellRefusedError(
                        "a remark stands inside of ( ), where shells do not agree on its end"
                    )
                stop = self._text.find("\n", self._at)
                self._at = len(self._text) if stop < 0 else stop
            elif one == "\n" and newlines:
                self._newline()
            else:
                return

    def _begins_word(self) -> bool:
        return self._at == 0 or self._text[self._at - 1] in " \t\n;|&()"

    def _reserved(self) -> str:
        found = _WORD.match(self._text, self._at)
        return found[0] if found is not None and found[0] in _RESERVED | _NOT_HERE else "\0"

    def _not_understood(self) -> ShellRefusedError:
        text = self._text[self._at : self._at + 20]
        return ShellRefusedError(f"{text!r} is not understood there")

    def _here(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _is_over(self) -> bool:
        return self._at >= len(self._text)
