"""Run records: what of a run, or of a plan of runs, exists for a caller.

Every way by which a run's record leaves the daemon asks here.

A run exists for who sees its watcher and all that it wrote. Its words (steps, reason, differences)
may repeat all that its agent was shown, so they are for who may read every note that the record
says it quotes. A record that does not say may quote anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from parachuted.access.filter import AccessFilter
from parachuted.access.origin import Origin
from parachuted.keys import AccessGrant

_MOST = 1000


class QuotedPaths:
    """Paths, as they are printed, whose text or name a run's agent was shown. It only grows.

    What cannot be listed (a prompt from elsewhere, more than 1000 paths) makes it `anything`.
    """

    def __init__(self, paths: Iterable[str] | None = ()) -> None:
        """`None`: anything."""
        self._paths: set[str] | None = None if paths is None else set()
        self.add(*(paths or ()))

    @classmethod
    def from_document(cls, value: object) -> QuotedPaths:
        """Loads what `document` made; anything else counts as anything."""
        return cls(
            value
            if isinstance(value, list) and all(isinstance(one, str) for one in value)
            else None
        )

    def add(self, *paths: str) -> None:
        if self._paths is not None:
            self._paths.update(paths)
            if len(self._paths) > _MOST:
                self._paths = None

    def add_all(self, other: QuotedPaths) -> None:
        if other.is_anything:
            self.add_anything()
        else:
            self.add(*(other.document() or ()))

    def add_anything(self) -> None:
        self._paths = None

    @property
    def is_anything(self) -> bool:
        return self._paths is None

    def document(self) -> list[str] | None:
        """The sorted list for the record; None: anything."""
        return None if self._paths is None else sorted(self._paths)


_NO_WORDS: dict[str, object] = {"reason": "", "steps": [], "prompt_digest": ""}
_NO_SIZES: dict[str, object] = {"cost_usd": 0.0, "input_tokens": 0, "output_tokens": 0}
_RUNS = ("parents", "takes_back")
RunLookup = Callable[[str], Mapping[str, object] | None]


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What one caller may know of runs: `access` decides what exists for them, `reading` what of
    the vault they may read.
    """

    access: AccessFilter
    reading: AccessGrant

    @property
    def is_everything(self) -> bool:
        return self.access.grant.alternatives is None and self.reading.alternatives is None

    def exists(self, run: Mapping[str, object]) -> bool:
        return self.access.sees(str(run["watcher"])) and all(
            map(self.access.sees, paths_of(run, "wrote"))
        )

    def may_read_words(self, run: Mapping[str, object]) -> bool:
        quotes = _quotes(run)
        may_read = (
            self.reading.alternatives is None
            if quotes is None
            else all(map(self.reading.sees, quotes))
        )
        return may_read and self.sees_quoted(run)

    def sees_quoted(self, run: Mapping[str, object]) -> bool:
        quotes = _quotes(run)
        return (
            self.access.grant.alternatives is None
            if quotes is None
            else all(map(self.access.sees, quotes))
        )

    def shown(
        self, run: Mapping[str, object], find: RunLookup = lambda _run: None
    ) -> Mapping[str, object]:
        """The document of an existing run, without what the caller may not know.

        `find` looks up runs that it names.
        """
        if self.is_everything:
            return run
        has_words = self.may_read_words(run)
        reviewed = [
            self._reviewed(item, has_words=has_words)
            for item in _items(run, "reviewed")
            if self.access.sees(str(item["path"]))
        ]
        shown = {
            **run,
            "causes": [self._cause(cause) for cause in _items(run, "causes")],
            "reviewed": reviewed,
            "wrote": [item if has_words else {**item, "diff": ""} for item in _items(run, "wrote")],
            **({} if has_words else _NO_WORDS),
        }
        if self.access.grant.alternatives is None:
            return shown
        if not self.sees_quoted(run):
            quotes = [path for path in _quotes(run) or () if self.access.sees(path)]
            shown |= {**_NO_SIZES, "quotes": quotes, "reviewed_count": len(reviewed)}
        shown |= {
            name: [one for one in _names(run, name) if self._finds(one, find)]
            for name in _RUNS
            if name in run
        }
        undone = run.get("undone")
        if isinstance(undone, Mapping):
            shown["undone"] = {
                name: value
                for name, value in undone.items()
                if name == "at" or self._finds(str(value), find)
            }
        return shown

    def plan(self, plan: Mapping[str, object]) -> dict[str, object]:
        """The document of a plan, limited to runs whose reasons the caller sees; the others are
        neither counted nor priced.
        """
        known = {str(plan["path"])}
        for run in sorted(_items(plan, "runs"), key=lambda one: one["depth"]):  # type: ignore[arg-type, return-value]
            if run["because"] in known and self.access.sees(str(run["watcher"])):
                known.add(str(run["watcher"]))
        runs = [
            run
            for run in _items(plan, "runs")
            if run["because"] in known and run["watcher"] in known
        ]
        loops = [ring for ring in plan["loops"] if all(map(self.access.sees, ring))]  # type: ignore[attr-defined]
        all_runs, cost = len(_items(plan, "runs")), float(plan["most_cost_usd"])  # type: ignore[arg-type]
        cost = cost if len(runs) == all_runs else round(cost / all_runs * len(runs), 4)
        return {**plan, "runs": runs, "loops": loops, "most_runs": len(runs), "most_cost_usd": cost}

    def _finds(self, run: str, find: RunLookup) -> bool:
        found = find(run)
        return found is not None and self.exists(found)

    def _reviewed(self, item: Mapping[str, object], *, has_words: bool) -> Mapping[str, object]:
        source = item.get("source")
        seen = (
            {
                **item,
                "source": source if isinstance(source, str) and self.access.sees(source) else None,
            }
            if "source" in item
            else item
        )
        return seen if has_words else {**seen, "units": [], "diff": ""}

    def _cause(self, cause: Mapping[str, object]) -> Mapping[str, object]:
        """`files` counts all that changed at once, wherever that was."""
        if self.access.grant.alternatives is None:
            return cause
        hidden = {"files"} if self.access.sees(str(cause.get("path", ""))) else {"files", "path"}
        return {name: value for name, value in cause.items() if name not in hidden}


def paths_of(run: Mapping[str, object], name: str) -> list[str]:
    return [str(item["path"]) for item in _items(run, name)]


def _quotes(run: Mapping[str, object]) -> list[str] | None:
    return QuotedPaths.from_document(run.get("quotes")).document()


def _names(run: Mapping[str, object], name: str) -> list[str]:
    return [str(one) for one in run[name]]  # type: ignore[attr-defined]


def _items(document: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    return list(document[name])  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """A change of one file that a run may not make itself.

    `base` is the digest of the text it is based on; `data` the whole new text, None: removed.
    """

    path: str
    action: Literal["create", "update", "delete"]
    base: str | None
    data: bytes | None


class RunWatch(Protocol):
    """One run of one agent, for the reader and the writer of its notes.

    All but `instead` and `beyond` are called in threads, at the moment of the act, and must not
    block.
    """

    @property
    def is_tainted(self) -> bool: ...

    @property
    def origin(self) -> Origin:
        """What it writes from now on counts as."""
        ...

    def is_stranger(self, path: str, digest: str | None, data: bytes | None) -> bool:
        """Whether that text is untrusted; without `digest` and `data`, as far as the path and its
        record tell.
        """
        ...

    def has_read(self, path: str, digest: str | None, data: bytes | None) -> None:
        """The agent is about to see that text, or its name, which taints the run where it is
        untrusted.
        """
        ...

    def objection(self, path: str) -> str | None:
        """Why the run may not write that file now, though its grant names it; None: it may."""
        ...

    def instead(self, change: ProposedChange, why: str) -> Awaitable[str]:
        """What happens to a change with that objection, in words for the agent: it is suggested, or
        dropped.
        """
        ...

    def beyond(self, what: Literal["read", "write"], path: str) -> Awaitable[bool]:
        """Whether a person, asked now, allows that file, which is outside its grant and not a
        control file.
        """
        ...

    def writing(self, path: str) -> AbstractContextManager[Callable[[str | None], None]]:
        """Wraps its write of that file, whose origin is recorded from before the write on.

        Call the result with the digest of the text that was written, or None where nothing was.
        """
        ...
