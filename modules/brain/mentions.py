"""Mentions: where a text names an entity without linking to it, and how sure that is. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from string import digits, whitespace
from typing import NamedTuple

from .words import Words, folded_words, phrase_of, singular, split

LINKED_FROM = 0.8

_MOST_WORDS = 12
_MOST_CANDIDATES = 5
_NEAR = 12  # words on each side in which context counts
_BESIDE = 3
_REACH = 200  # characters on each side that are looked at for an address
_ACCEPTED = 0.8  # the weight of a name that a person accepted before

_ALIKE, _SMALL, _FIRST = "written alike", "in small letters", "at the start of a sentence"
_CAPITAL_WEIGHTS = {_ALIKE: 0.6, _SMALL: -1.6, _FIRST: -0.3}

_GAP = re.compile(
    r"[*_~=]*(?:[ \t\u00a0]+|[ \t]*\r?\n[ \t>]*|[-\u2010\u2011'\u2019&][ \t]?|[ \t]&[ \t]|\.)"
    r"[*_~=]*"
)
_INITIAL_GAP = re.compile(r"\.[ \t]")
_INITIAL = 2
_SENTENCE_ENDS = frozenset("!?:;")
_BEFORE_A_SENTENCE = f"{whitespace}{digits}\u00a0\u2009\u202f\"'\u201c\u2018(*_>#+=~.)[]-"
_APOSTROPHES = frozenset("'\u2019")
_HYPHENS = frozenset("-\u2010\u2011")
_MARKS_BEFORE, _MARKS_AFTER, _JOINTS = frozenset("#$\\"), frozenset("+#"), frozenset("._")
_TAIL = re.compile(r"[+#]+")  # marks that end a name: C++, C#
_OPENING = "([{<\"'\u201c\u2018*_~="
_ADDRESS_STARTS = ("www.", "/", "./", "../", "~/")

HIDDEN = "\x1f"
# What is not prose. Each repetition has an end, so that no text takes long.
_NO_PROSE = re.compile(
    r"""
    \A\ufeff?---[ \t]*\r?\n(?:.*?\n)??(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)  # frontmatter
    |^[ \t>]*+(?:[-+*][ \t]++)?(?P<fence>`{3,}+(?=[^`\n]*+$)|~{3,}+)
        .*?(?:^[ \t>]*+(?P=fence)[`~]*+[ \t\r]*+$|\Z)
    |(?P<escape>\\.)
    |(?<!`)(?P<ticks>`++)(?:(?!\n[ \t\r]*+\n).){1,2000}?(?<!`)(?P=ticks)(?!`)
    |!?\[\[[^\[\]\n]{0,1000}+\]\]
    |!?\[[^\[\]]{0,1000}+\]
        (?:\((?:[^()\n\\]|\\.|\([^()\n]{0,500}+\)){0,2000}+\)|\[[^\[\]\n]{0,500}+\]|:[^\n]*+)
    |<!--.{0,2000}?-->
    |<(?P<raw>script|style|pre|code|textarea)\b.{0,2000}?</(?P=raw)>
    |</?[a-z][^<>\n]{0,1000}+>
    |%%.{0,2000}?%%
    """,
    re.DOTALL | re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_TARGET = re.compile(r"(?<!!)\[\[([^\[\]|#\n]{1,500}+)(?:[#|][^\[\]\n]{0,500}+)?\]\]")


def hide(text: str) -> str:
    """The text with all that is no prose covered; its characters and lines stay where they are."""
    return _NO_PROSE.sub(_cover, text)


def _cover(match: re.Match[str]) -> str:
    if match["escape"]:
        return match[0]
    return "\n".join(HIDDEN * len(line) for line in match[0].split("\n"))


def wikilinks(text: str) -> Iterator[tuple[int, int, str]]:
    """Where wikilinks stand that are no code: from which character to which, and their target."""
    visible = hide(text.replace("[[", "((").replace("]]", "))"))
    for match in _TARGET.finditer(text):
        if visible[match.start()] != HIDDEN:
            yield match.start(), match.end(), match[1].strip()


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words of every day that are names too.
ORDINARY = _set_of(
    """
    a about after again all also am an and any april are art as at august autumn back be bill book
    bot brave but by can case chance change christmas clay cliff code cook course day dawn december
    do drew drive earth east event faith february for forest frank friday friend gene go god good
    grace grant group guide had happy hard has have he help her here him his home hope house how i
    if in iris is it ivy jack january job join joy july june just know last law lead life light like
    list long look love mail make man march mark mason may me meeting might monday more morning my
    need new next nick no north not note notes november now october of on one open or our out pat
    paper park plan point project rain ray read rest rich rob robin rose ruby sage sandy saturday
    say school see september set she show so some south spring start stone story sue summer summit
    sun sunday table take talk task team test than that the their them then there they thing think
    this thursday time to today tom town travel tuesday two under up us use van violet was water way
    we wednesday week west what when where which who why will win winter with wood word work world
    write year yes you your
    """
)
_CUES = {
    "person": _set_of(
        """met with saw called told asked said thanked visited emailed phoned dear hi hello mr mrs
        ms dr from by birthday lunch dinner coffee"""
    ),
    "organization": _set_of("at joined company inc ltd gmbh office team hired"),
    "project": _set_of("project repo release shipped sprint milestone deadline"),
    "event": _set_of("attended attend conference workshop weekend during"),
    "topic": _set_of("about learn learning study topic"),
    "resource": _set_of("read reading book article paper watched course"),
}
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mention:
    """`id` is the key of the entity, `confidence` 0 to 1."""

    id: str
    start: int
    end: int
    text: str
    confidence: float


class _Name(NamedTuple):
    """`head` and `tail` are marks that belong to it, as in `.NET` and `C++`."""

    id: str
    phrase: str
    exact: str
    head: str
    tail: str
    words: int
    is_own: bool
    is_capital: bool
    is_acronym: bool


class _Entity(NamedTuple):
    type: str
    names: tuple[_Name, ...]
    context: frozenset[str]
    is_capitalised_only: bool


class _Hit(NamedTuple):
    first: int
    after: int
    start: int
    end: int
    names: tuple[_Name, ...]


class MentionIndex:
    """`answers`: whether a person accepted a phrase for an entity, by both."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], bool] = {}
        self._entities: dict[str, _Entity] = {}
        self._names: dict[str, tuple[_Name, ...]] = {}
        self._lengths: dict[str, Counter[int]] = {}  # of names, by the first of several words

    def __len__(self) -> int:
        return len(self._entities)

    def record(self, key: str, text: str, *, accepted: bool) -> None:
        """What was accepted once is not refused any more."""
        phrase = phrase_of(folded_words(text))
        self.answers[key, phrase] = accepted or self.answers.get((key, phrase), False)

    def put(
        self,
        key: str,
        names: Iterable[str],
        type: str = "",  # noqa: A002
        *,
        context: Iterable[str] = (),
        is_capitalised_only: bool = False,
    ) -> None:
        """The first of the names is its own; words of `context` are found near it."""
        self.remove(key)
        written = [" ".join(name.split()) for name in names]
        found: dict[str, _Name] = {}
        for number, name in enumerate(written):
            made = _name(key, name, is_own=number == 0)
            if made is not None:
                found.setdefault(f"{made.head}{made.exact}{made.tail}", made)
        near = set(map(singular, folded_words("\n".join(context))))
        own = {singular(word) for one in found.values() for word in one.exact.split()}
        self._entities[key] = _Entity(
            type,
            tuple(found.values()),
            frozenset(near - own - ORDINARY),
            is_capitalised_only,
        )
        for one in found.values():
            self._names[one.phrase] = (*self._names.get(one.phrase, ()), one)
            if one.words > 1:
                self._count(_first(one), one.words, 1)

    def remove(self, key: str) -> None:
        entity = self._entities.pop(key, None)
        for name in entity.names if entity else ():
            left = tuple(one for one in self._names.get(name.phrase, ()) if one.id != key)
            if left:
                self._names[name.phrase] = left
            else:
                self._names.pop(name.phrase, None)
            if name.words > 1:
                self._count(_first(name), name.words, -1)

    def _count(self, first: str, words: int, change: int) -> None:
        held = self._lengths.setdefault(first, Counter())
        held[words] += change
        if not held[words]:
            del held[words]
        if not held:
            del self._lengths[first]

    def scan(self, text: str) -> list[Mention]:
        """A longer name hides those within it; what a person refused is left out."""
        visible = hide(text)
        words = split(visible)
        stems = list(map(singular, words.folded))
        hits = list(self._hits(visible, words, stems))
        in_full = {name.id for hit in hits for name in hit.names if name.words > 1}
        return [
            mention
            for hit in hits
            for mention in self._judged(text, words.folded, stems, hit, in_full)
        ]

    def _hits(self, text: str, words: Words, stems: list[str]) -> Iterator[_Hit]:
        names, lengths, after = self._names, self._lengths, 0
        for at in [
            number
            for number, (word, stem) in enumerate(zip(words.folded, stems, strict=True))
            if stem in names or word in lengths
        ]:
            if at < after:
                continue
            hit = self._longest(text, words, at) if words.folded[at] in lengths else None
            if hit is None and stems[at] in names:
                hit = _hit(text, words, at, at + 1, names[stems[at]])
            if hit is not None:
                after = hit.after
                yield hit

    def _longest(self, text: str, words: Words, at: int) -> _Hit | None:
        for length in sorted(self._lengths[words.folded[at]], reverse=True):
            part = words.folded[at : at + length]
            called = self._names.get(" ".join([*part[:-1], singular(part[-1])]))
            if called and len(part) == length:
                hit = _hit(text, words, at, at + length, called)
                if hit is not None:
                    return hit
        return None

    def _judged(
        self, text: str, folded: list[str], stems: list[str], hit: _Hit, in_full: set[str]
    ) -> list[Mention]:
        """Those who share a name share its confidence, by what speaks for each."""
        case = _case(text, hit)
        near = {*stems[max(0, hit.first - _NEAR) : hit.first], *stems[hit.after :][:_NEAR]}
        beside = {*folded[max(0, hit.first - _BESIDE) : hit.first], *folded[hit.after :][:2]}
        exact = " ".join(folded[hit.first : hit.after])
        several = hit.after - hit.first > 1
        joined, is_only = _joined_on(text, hit), len({name.id for name in hit.names}) == 1
        totals: dict[str, float] = {}
        for name in hit.names:
            entity, answer = self._entities[name.id], self.answers.get((name.id, name.phrase))
            if answer is False or (
                entity.is_capitalised_only and name.is_capital and not several and case == _SMALL
            ):
                continue
            total = _weight(text[hit.start : hit.end], exact, name, case) + joined
            if is_only and not joined and _is_exact(exact, name, case, entity.type):
                total += 1.8
            total += 0.8 * min(len(entity.context & near), 3)
            if not beside.isdisjoint(_CUES.get(entity.type, _NONE)):
                total += 0.5
            if not several and name.id in in_full:
                total += 1.5
            if answer:
                total += _ACCEPTED
            totals[name.id] = max(total, totals.get(name.id, total))
        whole = math.fsum(map(math.exp, totals.values()))
        found = sorted(totals.items(), key=lambda one: (-one[1], one[0]))[:_MOST_CANDIDATES]
        return [
            Mention(
                key,
                hit.start,
                hit.end,
                text[hit.start : hit.end],
                round(math.exp(total) / whole / (1 + math.exp(-total)), 3),
            )
            for key, total in found
        ]


def _name(key: str, written: str, *, is_own: bool) -> _Name | None:
    words = split(written)
    if not 0 < len(words.folded) <= _MOST_WORDS or not all(words.folded):
        return None
    head, tail = written[: words.starts[0]], written[words.ends[-1] :]
    is_capital = written != written.lower()
    is_acronym = is_capital and len(words.folded) == 1 and _is_acronym(written)
    return _Name(
        id=key,
        phrase=phrase_of(words.folded),
        exact=" ".join(words.folded),
        head="." if head == "." else "",
        tail=tail if _TAIL.fullmatch(tail) else "",
        words=len(words.folded),
        is_own=is_own,
        is_capital=is_capital,
        is_acronym=is_acronym,
    )


def _is_acronym(written: str) -> bool:
    letters = [one for one in written if one.isalpha()]
    return len(letters) > 1 and all(letter.isupper() for letter in letters)


def _first(name: _Name) -> str:
    return name.phrase.partition(" ")[0]


def _hit(text: str, words: Words, first: int, after: int, names: tuple[_Name, ...]) -> _Hit | None:
    for number in range(first, after - 1):
        gap = words.ends[number], words.starts[number + 1]
        is_initial = gap[0] - words.starts[number] <= _INITIAL
        if not (
            gap[0] == gap[1]
            or _GAP.fullmatch(text, *gap)
            or (is_initial and _INITIAL_GAP.fullmatch(text, *gap))
        ):
            return None
    start, end = words.starts[first], words.ends[after - 1]
    marked = tuple(
        name
        for name in names
        if (name.head or name.tail)
        and text.endswith(name.head, 0, start)
        and text.startswith(name.tail, end)
    )
    if marked:
        start, end = start - len(marked[0].head), end + len(marked[0].tail)
        return None if text[end : end + 1].isalnum() else _Hit(first, after, start, end, marked)
    plain = tuple(name for name in names if not (name.head or name.tail))
    if not plain or _is_part_of_more(text, start, end):
        return None
    return _Hit(first, after, start, end, plain)


def _is_part_of_more(text: str, start: int, end: int) -> bool:
    before, beyond = text[start - 1 : start], text[start - 2 : start - 1]
    then, after = text[end : end + 1], text[end + 1 : end + 2]
    if before in _MARKS_BEFORE or then in _MARKS_AFTER:
        return True
    if (then in _JOINTS and after.isalnum()) or (before in _JOINTS and beyond.isalnum()):
        return True
    if then in _APOSTROPHES and after.isalpha():  # `Kim's` is Kim, `don't` is not Don
        return after not in "sS" or text[end + 2 : end + 3].isalnum()
    return _is_in_address(text, start, end)


def _is_in_address(text: str, start: int, end: int) -> bool:
    left = _run(text[max(0, start - _REACH) : start][::-1])[::-1].lstrip(_OPENING)
    right = _run(text[end : end + _REACH])
    if not left and not right:
        return False
    return (
        "://" in left
        or "://" in right
        or "\\" in left
        or "\\" in right
        or left.lower().startswith(_ADDRESS_STARTS)
        or left.count("/") + right.count("/") > 1
        or right.startswith("@")
        or "@" in left[:-1]
        or (left.endswith("@") and right.startswith(".") and right[1:2].isalnum())
    )


def _run(text: str) -> str:
    return "" if text[:1].isspace() or not text else text.split(maxsplit=1)[0]


def _case(text: str, hit: _Hit) -> str:
    if not any(one.isupper() for one in text[hit.start : hit.end]):
        return _SMALL
    before = text[max(0, hit.start - 40) : hit.start]
    said = before.rstrip(_BEFORE_A_SENTENCE)
    between = before[len(said) :]
    if not said or said[-1] in _SENTENCE_ENDS or "\n" in between or "." in between:
        return _FIRST
    return _ALIKE


def _weight(written: str, exact: str, name: _Name, case: str) -> float:
    """What its words and letters say: a name of several words in capitals is the surest."""
    several = name.words > 1
    weight = 1.6 if several else 0.0
    if name.is_acronym:
        weight += 1.7 if written.isupper() else -1.8
    elif name.is_capital:
        of_case = _CAPITAL_WEIGHTS[case]
        weight += of_case / 2 if several and of_case < 0 else of_case
    is_short = len(exact) < 3 and not (name.is_acronym or name.head or name.tail)  # noqa: PLR2004
    if (not several and exact in ORDINARY) or is_short:
        weight -= 1.5
    if exact != name.exact:  # in the singular or the plural
        weight -= 0.7
    return weight + 0.4 if name.is_own else weight


def _is_exact(exact: str, name: _Name, case: str, kind: str) -> bool:
    """At the start of a sentence, where every word has a capital, only people's names are."""
    return (
        name.words == 1
        and name.is_capital
        and not name.is_acronym
        and exact == name.exact
        and exact not in ORDINARY
        and len(exact) > 2  # noqa: PLR2004
        and (case == _ALIKE or (case == _FIRST and kind == "person"))
    )


def _joined_on(text: str, hit: _Hit) -> float:
    before, beyond = text[hit.start - 1 : hit.start], text[hit.start - 2 : hit.start - 1]
    then, after = text[hit.end : hit.end + 1], text[hit.end + 1 : hit.end + 2]
    weight = 0.0
    if (before in _HYPHENS and beyond.isalnum()) or (then in _HYPHENS and after.isalnum()):
        weight -= 1.0
    if before in _APOSTROPHES and beyond.isalpha():
        weight -= 0.4
    return weight
