"""Watch trie: who watches a path, found by walking its folders once, however many watch.

The same walk over a tree of files answers which paths a declaration watches.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from parachuted.bubbling.patterns import PatternPart, WatchDeclaration, WatchPattern
from parachuted.vault import CONTEXT_NAMES
from parachuted.vault.paths import nfc

_WILDCARD = re.compile(r"[*?]")
_Held = TypeVar("_Held")
_ONE, _DEEP, _FILES = "/*", "/**", "/"  # keys of the trie that are not names


class VaultTree(Protocol):
    """Folders and files by name; the top folder is the empty string."""

    def folders(self, folder: str) -> Iterable[str]: ...

    def files(self, folder: str) -> Iterable[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchMatch:
    """`narrowings`: parts the watcher cares for (empty: all); `without`: those it excludes."""

    watcher: str
    patterns: tuple[WatchPattern, ...]
    narrowings: tuple[PatternPart, ...] = ()
    without: tuple[PatternPart, ...] = ()


_Ends = dict[
    str, WatchMatch
]  # what the patterns that end at one place mean by themselves, by watcher


class WatchTrie:
    def __init__(self) -> None:
        self._declarations: dict[str, WatchDeclaration] = {}
        self._watched = _Node()
        self._left_out = _Node()  # the `!` patterns, asked only about those who watch

    def add(self, declaration: WatchDeclaration) -> None:
        """It replaces the same watcher's former one."""
        self.remove(declaration.watcher)
        self._declarations[declaration.watcher] = declaration
        for pattern in _of_places(declaration):
            _insert(self._left_out if pattern.excludes else self._watched, pattern)

    def remove(self, watcher: str) -> None:
        declaration = self._declarations.pop(watcher, None)
        for pattern in _of_places(declaration) if declaration else ():
            _delete(self._left_out if pattern.excludes else self._watched, pattern)

    def declarations(self) -> Collection[WatchDeclaration]:
        """In the order in which they came."""
        return self._declarations.values()

    def declaration(self, watcher: str) -> WatchDeclaration | None:
        return self._declarations.get(watcher)

    def watchers_of(
        self,
        path: str,
        is_context_file: bool,  # noqa: FBT001 - the pair is the question
        listing: Iterable[WatchPattern] = (),
    ) -> list[WatchMatch]:
        """By name; `listing`: the queries that list the path."""
        *folders, name = nfc(path).split("/")
        asked = [({pattern.watcher: _alone(pattern)}, pattern.excludes) for pattern in listing]
        ends = _ends_at(_walked(self._watched, folders), name, is_context_file)
        matches = _gathered([*ends, *(end for end, excludes in asked if not excludes)])
        matches.pop(path, None)
        left_out = (
            _ends_at(_walked(self._left_out, folders), name, is_context_file) if matches else []
        )
        left_out += [end for end, excludes in asked if excludes]
        found = (_less(matches[watcher], left_out) for watcher in sorted(matches))
        return [match for match in found if match]


def paths_of(declaration: WatchDeclaration, tree: VaultTree) -> list[str]:
    """Sorted; only folders that a pattern can reach are looked into."""
    watched, left_out = _Node(), _Node()
    for pattern in _of_places(declaration):
        _insert(left_out if pattern.excludes else watched, pattern)
    found: list[str] = []
    waiting = [("", _entered([watched]), _entered([left_out]))]
    while waiting:
        folder, states, outside = waiting.pop()
        found += [
            f"{folder}{name}"
            for name in _watched_names(declaration.watcher, folder, tree, states, outside)
        ]
        for name in (
            tree.folders(folder.removesuffix("/")) if any(node.leads_on for node in states) else ()
        ):
            below = _step(states, nfc(name))
            if below:
                waiting.append((f"{folder}{name}/", below, _step(outside, nfc(name))))
    return sorted(found)


def _watched_names(
    watcher: str, folder: str, tree: VaultTree, states: list[_Node], outside: list[_Node]
) -> Iterator[str]:
    if not any(node.ends or node.child(_FILES) for node in states):
        return
    names = tuple(tree.files(folder.removesuffix("/")))
    context = next((name for name in CONTEXT_NAMES if name in names), None)
    for name in names:
        match = _gathered(_ends_at(states, nfc(name), name == context)).get(watcher)
        if (
            match
            and f"{folder}{name}" != watcher
            and _less(match, _ends_at(outside, nfc(name), name == context))
        ):
            yield name


class _Node:
    """A place in the trie. File names have a node of their own below a folder's."""

    __slots__ = ("children", "ends", "globs", "is_deep")

    def __init__(self, *, is_deep: bool = False) -> None:
        self.is_deep = is_deep
        self.children: dict[str, _Node] | None = None
        self.globs: _Globs | None = None
        self.ends: _Ends | None = None

    @property
    def leads_on(self) -> bool:
        """Whether another folder may follow."""
        return self.is_deep or bool(
            self.children and (len(self.children) > 1 or _FILES not in self.children)
        )

    def child(self, key: str) -> _Node | None:
        return self.children.get(key) if self.children else None

    def grow(self, key: str) -> _Node:
        node = _Node(is_deep=key == _DEEP)
        self.children = self.children or {}
        self.children[key] = node
        if _is_glob(key):
            self.globs = self.globs or _Globs()
            self.globs.put(key[1:], node)
        return node

    def prune(self, key: str) -> None:
        self.children = _without(self.children, key)
        if _is_glob(key) and self.globs:
            self.globs.drop(key[1:])
            self.globs = self.globs if self.globs.edges else None


class _Edge:
    """A segment with wildcards; with one `*` alone, its fixed ends decide without a regex."""

    __slots__ = ("node", "regex", "simple", "text")

    def __init__(self, text: str, node: _Node) -> None:
        self.text = text
        self.node = node
        self.simple = text.count("*") == 1 and "?" not in text
        self.regex: re.Pattern[str] | None = None

    def matches(self, segment: str) -> bool:
        if self.simple:
            return True
        if self.regex is None:
            self.regex = re.compile(fnmatch.translate(self.text.replace("[", "[[]")))
        return self.regex.match(segment) is not None


class _Globs:
    """By the fixed text at both ends: of thousands of `note-123*.md` few are tried on a name."""

    __slots__ = ("edges", "heads")

    def __init__(self) -> None:
        self.edges: dict[tuple[str, str], dict[str, _Edge]] = {}
        self.heads: dict[
            int, dict[str, dict[int, int]]
        ] = {}  # by length and text: how many edges have a tail of which length

    def put(self, text: str, node: _Node) -> None:
        head, tail = _fixed_ends(text)
        self.edges.setdefault((head, tail), {})[text] = _Edge(text, node)
        tails = self.heads.setdefault(len(head), {}).setdefault(head, {})
        tails[len(tail)] = tails.get(len(tail), 0) + 1

    def drop(self, text: str) -> None:
        head, tail = _fixed_ends(text)
        self.edges[head, tail].pop(text)
        if not self.edges[head, tail]:
            del self.edges[head, tail]
        heads = self.heads[len(head)]
        heads[head][len(tail)] -= 1
        if not heads[head][len(tail)]:
            del heads[head][len(tail)]
        if not heads[head]:
            del heads[head]
        if not heads:
            del self.heads[len(head)]

    def matching(self, segment: str) -> list[_Node]:
        nodes = []
        size = len(segment)
        for head, heads in self.heads.items():
            for tail in heads.get(segment[:head], ()):
                if head + tail <= size and (
                    edges := self.edges.get((segment[:head], segment[size - tail :]))
                ):
                    nodes += [edge.node for edge in edges.values() if edge.matches(segment)]
        return nodes


def _fixed_ends(text: str) -> tuple[str, str]:
    wild = [match.start() for match in _WILDCARD.finditer(text)]
    return text[: wild[0]], text[wild[-1] + 1 :]


def _is_glob(key: str) -> bool:
    return key[0] == "/" and key not in {_ONE, _DEEP, _FILES}


def _keys(pattern: WatchPattern) -> list[str]:
    """The path through the trie; a key that is not a name begins with `/`."""
    keys = [
        segment if isinstance(segment, str) else f"/{segment.text}" for segment in pattern.segments
    ]
    return keys if pattern.context else [*keys[:-1], _FILES, keys[-1]]


def _of_places(declaration: WatchDeclaration) -> Iterator[WatchPattern]:
    return (pattern for pattern in declaration.patterns if pattern.query is None)


def _alone(pattern: WatchPattern) -> WatchMatch:
    return WatchMatch(
        watcher=pattern.watcher,
        patterns=(pattern,),
        narrowings=(pattern.narrowing,) if pattern.narrowing else (),
    )


def _insert(top: _Node, pattern: WatchPattern) -> None:
    node = top
    for key in _keys(pattern):
        node = node.child(key) or node.grow(key)
    alone = _alone(pattern)
    node.ends = node.ends or {}
    before = node.ends.get(pattern.watcher)
    node.ends[pattern.watcher] = _joined(before, alone) if before else alone


def _delete(top: _Node, pattern: WatchPattern) -> None:
    """The branch goes too if it is empty then."""
    keys, nodes = _keys(pattern), [top]
    for key in keys:
        child = nodes[-1].child(key)
        if child is None:
            return  # went with a pattern of the same watcher that ended here too
        nodes.append(child)
    nodes[-1].ends = _without(nodes[-1].ends, pattern.watcher)
    while keys and not (nodes[-1].children or nodes[-1].ends):
        nodes.pop()
        nodes[-1].prune(keys.pop())


def _without(held: dict[str, _Held] | None, key: str) -> dict[str, _Held] | None:
    if held:
        held.pop(key, None)
    return held or None


def _entered(nodes: list[_Node]) -> list[_Node]:
    """With the `**` right behind each, which may stand for no folder at all."""
    deep = [below for node in nodes if (below := node.child(_DEEP))]
    return list({*nodes, *deep}) if deep else nodes


def _step(states: Iterable[_Node], name: str) -> list[_Node]:
    reached = []
    for node in states:
        if node.is_deep:
            reached.append(node)
        children = node.children
        if children is not None:
            if name in children:
                reached.append(children[name])
            if _ONE in children:
                reached.append(children[_ONE])
            if node.globs is not None:
                reached += node.globs.matching(name)
    return _entered(reached)


def _walked(top: _Node, folders: Iterable[str]) -> list[_Node]:
    states = _entered([top])
    for folder in folders:
        states = _step(states, folder)
        if not states:
            break
    return states


def _ends_at(states: list[_Node], name: str, is_context_file: bool) -> list[_Ends]:  # noqa: FBT001 - handed on
    file_nodes = [files for node in states if (files := node.child(_FILES))]
    ends = [node.ends for node in _step(file_nodes, name) if node.ends]
    if is_context_file:
        ends += [node.ends for node in states if node.ends]
    return ends


def _gathered(ends: list[_Ends]) -> dict[str, WatchMatch]:
    matches: dict[str, WatchMatch] = {}
    for end in ends:
        for watcher, match in end.items():
            matches[watcher] = _joined(matches[watcher], match) if watcher in matches else match
    return matches


def _joined(one: WatchMatch, other: WatchMatch) -> WatchMatch:
    narrowings = {*one.narrowings, *other.narrowings} if one.narrowings and other.narrowings else ()
    return WatchMatch(
        watcher=one.watcher,
        patterns=tuple(sorted((*one.patterns, *other.patterns), key=lambda pattern: pattern.text)),
        narrowings=tuple(sorted(narrowings, key=str)),
    )


def _less(match: WatchMatch, left_out: list[_Ends]) -> WatchMatch | None:
    """What is left of a match without the matching `!` patterns of its watcher."""
    taken = [end[match.watcher] for end in left_out if match.watcher in end]
    if not taken:
        return match
    if not all(out.narrowings for out in taken):
        return None
    without = {narrowing for out in taken for narrowing in out.narrowings}
    return replace(match, without=tuple(sorted(without, key=str)))
