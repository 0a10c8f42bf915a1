"""Mentions: where a text names an entity without linking to it, and how sure that is. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from string import digits, whitespace
from typing import Any, NamedTuple

from .hiding import hide
from .words import Words, folded_words, phrase_of, singular, split

_MANNER_PRIOR = 10  # answers
LINKED_FROM = 0.8

_MOST_WORDS = 12
_MOST_CANDIDATES = 5
_NEAR = 12  # words on each side in which context counts
_BESIDE = 3
_REACH = 200  # characters on each side that are looked at for an address

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


class MentionHistory:
    def __init__(self) -> None:
        self._names: Counter[tuple[str, str, bool]] = Counter()
        self._manners: Counter[tuple[str, bool]] = Counter()

    def record(self, entity_id: str, text: str, *, accepted: bool, manner: str = "") -> None:
        self._names[entity_id, phrase_of(folded_words(text)), accepted] += 1
        if manner:
            self._manners[manner, accepted] += 1

    def is_refused(self, entity_id: str, phrase: str) -> bool:
        return (
            self._names[entity_id, phrase, False] > 0 and not self._names[entity_id, phrase, True]
        )

    def name_weight(self, entity_id: str, phrase: str) -> float:
        accepted = self._names[entity_id, phrase, True]
        return 1.2 * math.log((accepted + 1) / (self._names[entity_id, phrase, False] + 1))

    def manner_weight(self, manner: str, prior: float) -> float:
        accepted, rejected = self._manners[manner, True], self._manners[manner, False]
        if not accepted + rejected:
            return 0.0
        part = (accepted + _MANNER_PRIOR * prior) / (accepted + rejected + _MANNER_PRIOR)
        return _logit(part) - _logit(prior)

    def to_json(self) -> dict[str, list[list[object]]]:
        return {
            "names": [[*key, count] for key, count in sorted(self._names.items())],
            "manners": [[*key, count] for key, count in sorted(self._manners.items())],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Iterable[list[Any]]]) -> MentionHistory:
        made = cls()
        for entity_id, phrase, accepted, count in data.get("names", ()):
            made._names[str(entity_id), str(phrase), bool(accepted)] = int(count)
        for manner, accepted, count in data.get("manners", ()):
            made._manners[str(manner), bool(accepted)] = int(count)
        return made


def _logit(part: float) -> float:
    return math.log(part / (1 - part))


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
    """`confidence` is 0 to 1; `why` has each reason with its weight."""

    id: str
    name: str
    type: str
    start: int
    end: int
    text: str
    confidence: float
    manner: str
    why: tuple[tuple[str, float], ...]


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
    name: str
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


class _Judged(NamedTuple):
    total: float
    entity_id: str
    why: list[tuple[str, float]]


class MentionIndex:
    def __init__(self, history: MentionHistory | None = None) -> None:
        self.history = history or MentionHistory()
        self._entities: dict[str, _Entity] = {}
        self._names: dict[str, tuple[_Name, ...]] = {}
        self._lengths: dict[str, Counter[int]] = {}  # of names, by the first of several words

    def __len__(self) -> int:
        return len(self._entities)

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
            next(iter(written), key),
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
            found = self._longest(text, words, at) if words.folded[at] in lengths else None
            if found is None and stems[at] in names:
                found = _hit(text, words, at, at + 1, names[stems[at]])
            if found is not None:
                after = found.after
                yield found

    def _longest(self, text: str, words: Words, at: int) -> _Hit | None:
        for length in sorted(self._lengths[words.folded[at]], reverse=True):
            part = words.folded[at : at + length]
            called = self._names.get(" ".join([*part[:-1], singular(part[-1])]))
            if called and len(part) == length:
                found = _hit(text, words, at, at + length, called)
                if found is not None:
                    return found
        return None

    def _judged(
        self, text: str, folded: list[str], stems: list[str], hit: _Hit, in_full: set[str]
    ) -> list[Mention]:
        written = text[hit.start : hit.end]
        case = _case(text, hit)
        near = {*stems[max(0, hit.first - _NEAR) : hit.first], *stems[hit.after :][:_NEAR]}
        beside = {*folded[max(0, hit.first - _BESIDE) : hit.first], *folded[hit.after :][:2]}
        exact = " ".join(folded[hit.first : hit.after])
        several = hit.after - hit.first > 1
        manner = f"{'several words' if several else 'a single word'}, {case}"
        joined, is_only = list(_joined_on(text, hit)), len({name.id for name in hit.names}) == 1
        judged: dict[str, _Judged] = {}
        for name in hit.names:
            entity = self._entities[name.id]
            if self.history.is_refused(name.id, name.phrase) or (
                entity.is_capitalised_only and name.is_capital and not several and case == _SMALL
            ):
                continue
            why = _reasons(written, exact, name, case)
            why += joined
            if is_only and _is_exact(exact, name, case, entity.type) and not joined:
                why.append(("written as a name that only it has", 1.8))
            if shared := len(entity.context & near):
                why.append(("words near it that belong to it", 0.8 * min(shared, 3)))
            if not beside.isdisjoint(_CUES.get(entity.type, _NONE)):
                why.append((f"words beside it that go with the type {entity.type}", 0.5))
            if not several and name.id in in_full:
                why.append(("its full name stands in the same text", 1.5))
            if answers := self.history.name_weight(name.id, name.phrase):
                why.append(("earlier answers about this name", answers))
            total = math.fsum(weight for _reason, weight in why)
            if answers := self.history.manner_weight(manner, _sigmoid(total)):
                why.append(("earlier answers about names written so", answers))
            made = _Judged(total + answers, name.id, why)
            if name.id not in judged or judged[name.id].total < made.total:
                judged[name.id] = made
        return self._mentions(hit, written, manner, list(judged.values()))

    def _mentions(
        self, hit: _Hit, written: str, manner: str, judged: list[_Judged]
    ) -> list[Mention]:
        """Those who share a name share its confidence, by what speaks for each."""
        whole = math.fsum(math.exp(one.total) for one in judged)
        made = []
        for total, entity_id, why in sorted(judged, key=lambda one: (-one.total, one.entity_id)):
            entity, share = self._entities[entity_id], math.exp(total) / whole
            if len(judged) > 1:
                why.append((f"one of {len(judged)} with this name", round(math.log(share), 3)))
            made.append(
                Mention(
                    entity_id,
                    entity.name,
                    entity.type,
                    hit.start,
                    hit.end,
                    written,
                    round(_sigmoid(total) * share, 3),
                    manner,
                    tuple(why),
                )
            )
        return made[:_MOST_CANDIDATES]


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


def _reasons(written: str, exact: str, name: _Name, case: str) -> list[tuple[str, float]]:
    several = name.words > 1
    why = [("several words", 1.6) if several else ("a single word", 0.0)]
    if name.is_acronym:
        is_alike = written.isupper()
        why.append(("in capitals, as the name", 1.7) if is_alike else ("not in capitals", -1.8))
    elif name.is_capital:
        weight = _CAPITAL_WEIGHTS[case]
        why.append((case, weight / 2 if several and weight < 0 else weight))
    if not several and exact in ORDINARY:
        why.append(("an ordinary word", -1.5))
    elif len(exact) < 3 and not (name.is_acronym or name.head or name.tail):  # noqa: PLR2004
        why.append(("very short", -1.5))
    if exact != name.exact:
        why.append(("singular or plural of the name", -0.7))
    if name.is_own:
        why.append(("its own name, no alias", 0.4))
    return why


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


def _joined_on(text: str, hit: _Hit) -> Iterator[tuple[str, float]]:
    before, beyond = text[hit.start - 1 : hit.start], text[hit.start - 2 : hit.start - 1]
    then, after = text[hit.end : hit.end + 1], text[hit.end + 1 : hit.end + 2]
    if (before in _HYPHENS and beyond.isalnum()) or (then in _HYPHENS and after.isalnum()):
        yield ("joined to another word by a hyphen", -1.0)
    if before in _APOSTROPHES and beyond.isalpha():
        yield ("joined to another word by an apostrophe", -0.4)


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))
