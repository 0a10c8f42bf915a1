"""What an agent's programs did to its copy of the vault, as actions, and what becomes of
each. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from parachuted.access.grant import Grant
from parachuted.access.paths import is_control
from parachuted.vault import VaultPath, WriteResult, fold_name, printable

ActKind: TypeAlias = Literal["delete", "move", "update", "create"]
_ORDER: tuple[ActKind, ...] = ("delete", "move", "update", "create")
_MOST_DELETED = 100
_MOST_CREATED = 200
_MOST_TOLD = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckinAction:
    """One thing that was done to the copy.

    `base` is the digest that the vault had there when the copy was taken, `digest` what the copy
    holds now; `source` is where a moved file was.
    """

    kind: ActKind
    path: VaultPath
    base: str | None
    digest: str | None
    source: VaultPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckinResult:
    """What came of a check-in.

    `merged` and `refused` are paths as they may be shown, `suggested` ids of suggestions.
    """

    written: tuple[WriteResult, ...] = ()
    merged: tuple[str, ...] = ()
    suggested: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()

    def words(self) -> str:
        """What the agent is to know of it; "": all is as it made it."""
        said = [
            f"{path} was changed by others meanwhile; both changes are in it now."
            for path in self.merged[:_MOST_TOLD]
        ]
        said += [f"Not written: {path}: {reason}" for path, reason in self.refused[:_MOST_TOLD]]
        if len(self.refused) > _MOST_TOLD:
            said.append(f"(and {len(self.refused) - _MOST_TOLD} more that were not written)")
        if self.suggested:
            ids = ", ".join(self.suggested[:_MOST_TOLD])
            said.append(
                f"Proposed to a person, and not done before they approve: {ids}. Your copy is as "
                "the vault is."
            )
        return "\n".join(said)


def acts_of(
    copied: Mapping[str, str], found: Mapping[str, str], is_gone: Callable[[str], bool]
) -> list[CheckinAction]:
    """What was done, in an order in which it can be done again.

    Both are digests by path: as copied, and as they are in the copy now.

    `is_gone` says whether a path that was not found is known to be gone. One that came with the
    only content that went has moved.
    """
    gone = [path for path in copied if path not in found and is_gone(path)]
    came = [path for path in found if path not in copied]
    moved = _moves(copied, found, gone, came)
    left = set(moved.values())
    acts = [
        CheckinAction(kind="delete", path=VaultPath(path), base=copied[path], digest=None)
        for path in gone
        if path not in left
    ]
    for path in came:
        source = moved.get(path)
        acts.append(
            CheckinAction(kind="create", path=VaultPath(path), base=None, digest=found[path])
            if source is None
            else CheckinAction(
                kind="move",
                path=VaultPath(path),
                base=copied[source],
                digest=found[path],
                source=VaultPath(source),
            )
        )
    acts += [
        CheckinAction(kind="update", path=VaultPath(path), base=copied[path], digest=digest)
        for path, digest in found.items()
        if path in copied and copied[path] != digest
    ]
    return sorted(acts, key=lambda act: (_ORDER.index(act.kind), act.path))


def objection(act: CheckinAction, grant: Grant) -> str | None:
    """Why the act is not for this agent at all, whatever it has read; None: it may do it, or at
    least propose it.
    """
    for path in filter(None, (act.path, act.source)):
        if is_control(path):
            return "it belongs to a program or to a person, and no agent writes it"
        if not grant.may_write(path):
            return f"{grant.agent} may not write it"
    if act.base is None and not _is_text(act.path):
        return "its name is not UTF-8 text"
    return None


def too_many(acts: Sequence[CheckinAction], copied: int) -> dict[ActKind, str]:
    """Kinds of acts of which there are so many at once that none is made: a tree unpacked, or swept
    away, is rarely meant.
    """
    found: dict[ActKind, str] = {}
    deleted, created = (sum(act.kind == kind for act in acts) for kind in ("delete", "create"))
    if deleted > _MOST_DELETED or (deleted > _MOST_TOLD and deleted * 2 > copied):
        found["delete"] = (
            f"{deleted} of {copied} files would go at once, so none does; delete fewer in one call "
            "if that is meant"
        )
    if created > _MOST_CREATED:
        found["create"] = (
            f"{created} new files at once do not become notes; work in /tmp, or make at most "
            f"{_MOST_CREATED} in one call"
        )
    return found


def twin_of(
    path: str, names: Callable[[str], Iterable[str]], leaving: frozenset[str]
) -> str | None:
    """A file or folder of the vault whose name differs from one on the way to `path` in no more
    than case or Unicode form.

    `names` answers what is in a folder; paths in `leaving` go in the same check-in.
    """
    folder = ""
    for name in path.split("/"):
        here = set(names(folder))
        if name not in here:
            wanted = fold_name(name)
            for other in here:
                place = f"{folder}/{other}" if folder else other
                if fold_name(other) == wanted and place not in leaving:
                    return printable(place)
            return None
        folder = f"{folder}/{name}" if folder else name
    return None


def _is_text(name: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in name)


def _moves(
    copied: Mapping[str, str], found: Mapping[str, str], gone: Iterable[str], came: Iterable[str]
) -> dict[str, str]:
    """New path by old one, for contents of which just one went and just one came."""
    old, new = defaultdict(list), defaultdict(list)
    for path in gone:
        old[copied[path]].append(path)
    for path in came:
        new[found[path]].append(path)
    return {
        new[digest][0]: paths[0]
        for digest, paths in old.items()
        if len(paths) == 1 == len(new.get(digest, ()))
    }
