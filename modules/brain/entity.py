"""An entity, as a file below `Brain/` says it: a person, project, topic or anything else. Pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from parachuted.modules import is_shortened

_DATE = r"\d{4}(?:-\d{2}(?:-\d{2})?)?"
_ENDING = re.compile(
    rf"\s*\((?:(?P<word>since|from|until|to|on|in)\s+(?P<date>{_DATE})"
    rf"|(?:from\s+)?(?P<first>{_DATE})\s*(?:to|until|\.\.|\u2013|\u2014|\s-\s)\s*"
    rf"(?P<last>{_DATE}|now|today|present))\)\s*$",
    re.IGNORECASE,
)
_SINCE, _UNTIL = frozenset({"since", "from"}), frozenset({"until", "to"})
_YEAR, _MONTH = 4, 7


@dataclass(frozen=True, slots=True)
class Period:
    """The first and the last day, YYYY-MM-DD; None: open on that side."""

    since: str | None = None
    until: str | None = None

    def holds(self, day: str) -> bool:
        return (self.since or "") <= day and (self.until is None or day <= self.until)


ALWAYS = Period()


def split_period(line: str) -> tuple[str, Period]:
    """The line without the period at its end, and that; a day that no calendar has is text."""
    at = line.rfind("(")  # nothing else begins one, and most lines have none
    match = _ENDING.match(line, len(line[:at].rstrip())) if at >= 0 else None
    if match is None:
        return line, ALWAYS
    word = (match["word"] or "").lower()
    first = None if word in _UNTIL else match["date"] or match["first"]
    last = None if word in _SINCE else match["date"] or match["last"]
    if last and not last[0].isdigit():
        last = None
    since, until = first and first_day(first), last and last_day(last)
    if (first and not since) or (last and not until):
        return line, ALWAYS
    return line[: match.start()].rstrip(), Period(since or None, until or None)


def first_day(date: str) -> str:
    """The first day of a year, a month or a day; "" for a date that no calendar has."""
    whole = date + "-01-01"[len(date) - _YEAR :] if len(date) <= _MONTH else date
    return whole if _is_day(whole) else ""


def last_day(date: str) -> str:
    if len(date) == _YEAR:
        date += "-12"
    if len(date) == _MONTH:
        year, month = int(date[:_YEAR]), int(date[5:])
        if not (year and 1 <= month <= 12):  # noqa: PLR2004  months of a year
            return ""
        date += f"-{calendar.monthrange(year, month)[1]:02}"
    return date if _is_day(date) else ""


def _is_day(text: str) -> bool:
    year, month, day = (int(part) for part in text.split("-"))
    return bool(
        year and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]  # noqa: PLR2004
    )


Json: TypeAlias = object  # a value of JSON; what it is, is looked at where it is used

OWN_KEYS: Final = frozenset({"para_id", "type", "name", "aliases", "tags", "status", "description"})
_RELATIONSHIPS: Final = "relationships"
_FACTS: Final = "facts"
_READ: Final = frozenset({_RELATIONSHIPS, _FACTS})

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_ITEM = re.compile(r"\s*[-*+][ \t]+(.*)")
_LINK = re.compile(
    r"!?\[\[(?P<wiki>[^\[\]|#\n]+)(?:#[^\[\]|\n]*)?(?:\|(?P<label>[^\[\]\n]*))?\]\]"
    r"|\[(?P<text>[^\[\]\n]*)\]\((?P<file>[^()\s]+?\.md)(?:#[^()\s]*)?\)",
)
_SAYS_BEFORE = re.compile(r"(.*?)\s*(?::|\s[-\u2013\u2014])\s*")
_SAYS_AFTER = re.compile(r"\s*(?::|[-\u2013\u2014])\s*(.*)")
_FIELD = re.compile(r"([^:\[\]]{1,60}):\s+\S.*")
_SEPARATED = re.compile(r"\s*,\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship:
    """`target` as written, `label` what the line, or its field, says of it; `line` 0: no line."""

    target: str
    label: str = ""
    text: str = ""
    period: Period = ALWAYS
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    text: str
    section: str
    period: Period
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """`type` is "" where nothing says one; `fields` are all other keys of the frontmatter."""

    para_id: str
    type: str
    name: str
    path: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]
    status: str
    description: str
    fields: Mapping[str, Json]
    relationships: tuple[Relationship, ...]
    facts: tuple[Fact, ...]
    body: str
    digest: str
    said_type: str = ""
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.para_id or self.path

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys([self.name, *self.aliases, stem_of(self.path).replace("-", " ")])
        )


def stem_of(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".md")


def read_entity(
    path: str,
    text: str,
    frontmatter: Mapping[str, Json],
    *,
    body_at: int,
    digest: str,
    types: Mapping[str, str],
) -> Entity:
    """The entity of that file, whose text begins at `body_at`; `types`: the type of each folder."""
    body = text[body_at:]
    problems: list[str] = []
    said = frontmatter.get("type")
    said = said.strip() if isinstance(said, str) else ""
    kind, is_kind = _type(path, said, types)
    lines = _Lines(body, text.count("\n", 0, body_at) + 1)
    own = OWN_KEYS if is_kind else OWN_KEYS - {"type"}
    fields = {key: value for key, value in frontmatter.items() if key not in own}
    facts = tuple(lines.facts)
    problems += (
        f"{fact.text!r} and {other.text!r} both hold: end one, as in `(until 2024)`"
        for fact, other in contradictions(facts)
    )
    return Entity(
        para_id=_text(frontmatter, "para_id", problems),
        type=kind,
        name=_text(frontmatter, "name", problems) or lines.title or stem_of(path),
        path=path,
        aliases=_texts(frontmatter, "aliases", problems),
        tags=tuple(tag.removeprefix("#") for tag in _texts(frontmatter, "tags", problems)),
        status=_text(frontmatter, "status", problems),
        description=_text(frontmatter, "description", problems),
        fields=fields,
        relationships=(*_of_fields(fields), *lines.relationships),
        facts=facts,
        body=body,
        digest=digest,
        said_type=said,
        problems=tuple(problems),
    )


def contradictions(facts: Iterable[Fact]) -> Iterator[tuple[Fact, Fact]]:
    current: dict[str, Fact] = {}
    for fact in facts:
        match = _FIELD.fullmatch(fact.text) if fact.section == _FACTS else None
        if match is None or fact.period.until is not None:
            continue
        other = current.setdefault(match[1].casefold(), fact)
        if other.text != fact.text:
            yield other, fact


def retyped(entity: Entity, types: Mapping[str, str]) -> Entity:
    kind, is_kind = _type(entity.path, entity.said_type, types)
    if kind == entity.type and is_kind == ("type" not in entity.fields):
        return entity
    fields = {key: value for key, value in entity.fields.items() if key != "type"}
    if not is_kind:
        fields["type"] = entity.said_type
    return replace(entity, type=kind, fields=fields)


def relationship_of(item: str, line: int) -> Iterator[Relationship]:
    """What an item such as `[[kim]] - Founder (since 2020)` or `Founder: [[kim]]` says."""
    yield from _relationships_in(*split_period(item), line)


def _relationships_in(said: str, period: Period, line: int) -> Iterator[Relationship]:
    links = list(_links(said)) if "[" in said else []
    for match in links:
        label = ""
        if len(links) == 1:
            label = _label(said[: match.start()], said[match.end() :])
        yield Relationship(
            target=_target(match), label=label.strip(), text=said, period=period, line=line
        )


def _label(before: str, after: str) -> str:
    if not before.strip():
        match = _SAYS_AFTER.fullmatch(after)
    else:
        match = None if after.strip() else _SAYS_BEFORE.fullmatch(before)
    return match[1] if match else ""


class _Lines:
    def __init__(self, body: str, first: int) -> None:
        self.title = ""
        self.relationships: list[Relationship] = []
        self.facts: list[Fact] = []
        section, depth = "", 0
        for number, line in _outside_code(body, first):
            if "#" in line and (heading := _HEADING.fullmatch(line)):
                level, title = len(heading[1]), heading[2].strip()
                if level == 1 and not self.title:
                    self.title = title
                if not section or level <= depth:
                    section = title.casefold() if title.casefold() in _READ else ""
                    depth = level
            elif section or "](" in line or "[[" in line:
                self._add(number, section, line)

    def _add(self, number: int, section: str, line: str) -> None:
        item = _ITEM.fullmatch(line) if section else None
        if item is not None and not is_shortened(item[1]):
            text, period = split_period(item[1])
            fact = Fact(text=text.strip(), section=section, period=period, line=number)
            self.facts.append(fact)
            if section == _RELATIONSHIPS:
                self.relationships += _relationships_in(text, period, number)
                return
        for match in _links(line):
            self.relationships.append(Relationship(target=_target(match), line=number))


def _outside_code(body: str, first: int) -> Iterable[tuple[int, str]]:
    if "`" not in body and "~" not in body and "\r" not in body:
        return enumerate(body.split("\n"), first)
    return _without_code(body, first)


def _without_code(body: str, first: int) -> Iterator[tuple[int, str]]:
    fence = ""
    for number, ended in enumerate(body.split("\n"), first):
        line = ended.removesuffix("\r")
        if fence:
            marks = line.strip()
            fence = "" if marks.startswith(fence) and not marks.strip(fence[0]) else fence
        elif ("`" in line or "~" in line) and (opened := _FENCE.match(line)):
            fence = opened[1]
        else:
            yield number, _CODE.sub("", line) if "`" in line else line


def _links(text: str) -> Iterator[re.Match[str]]:
    return _LINK.finditer(text)


def _target(match: re.Match[str]) -> str:
    return (match["wiki"] or match["file"]).strip()


def _of_fields(fields: Mapping[str, Json]) -> Iterator[Relationship]:
    for key, value in fields.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(one, str) or "[" not in one:
                continue
            if key.casefold() == _RELATIONSHIPS:
                yield from relationship_of(one, 0)
            else:
                for match in _links(one):
                    yield Relationship(target=_target(match), label=key, text=one)


def _type(path: str, said: str, types: Mapping[str, str]) -> tuple[str, bool]:
    """The type, and whether the key `type` says it: an organization may have such a field."""
    of_folder = next((types[part] for part in reversed(path.split("/")[1:-1]) if part in types), "")
    if said and (not of_folder or said in types.values()):
        return said, True
    return of_folder, not said


def _text(frontmatter: Mapping[str, Json], key: str, problems: list[str]) -> str:
    value = frontmatter.get(key)
    if value is None or isinstance(value, str):
        return (value or "").strip()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    problems.append(f"`{key}:` should be a text")
    return ""


def _texts(frontmatter: Mapping[str, Json], key: str, problems: list[str]) -> tuple[str, ...]:
    value = frontmatter.get(key, ())
    if value is None or value == "":
        if key == "tags":
            problems.append(
                "`tags:` is empty: YAML takes `#tag` for a comment; write `tags: [tag]`"
            )
        return ()
    items = _SEPARATED.split(value.strip()) if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        problems.append(f"`{key}:` should be a list of texts")
        return ()
    if not all(isinstance(item, str | int | float) for item in items):
        problems.append(f"`{key}:` should hold texts only")
    found = (str(item).strip() for item in items if isinstance(item, str | int | float))
    return tuple(dict.fromkeys(text for text in found if text))
