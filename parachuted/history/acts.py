"""Acts: writes of several files that are one, such as a move and the links that follow it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from parachuted.errors import (
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.history.run_account import save, with_writes
from parachuted.texts.adapters import late_adapter
from parachuted.vault import (
    Author,
    LinkRewrites,
    Store,
    VaultPath,
    Write,
    WriteResult,
    digest_of,
    parse_note,
    printable,
)

log = logging.getLogger(__name__)

_KIND = "writes"
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ActStep:
    """One write: the text of digest `base` at `path` becomes that of `after` (None: no file). With
    a `source` the file is moved from there, and the steps after it are of notes whose links follow.
    """

    path: str
    base: str | None
    after: str | None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """`what` says it to a person. `are_all`: whether its author sees all files of the vault."""

    what: str
    author: Author
    steps: Sequence[ActStep]
    are_all: bool = False

    @property
    def move(self) -> ActStep | None:
        return self.steps[0] if self.steps[0].source is not None else None


_ACT = late_adapter(Act)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedAct:
    """What was written, and why the rest was not. `is_waiting`: the next start tries again."""

    what: str
    run: str | None
    paths: tuple[VaultPath, ...]
    left: tuple[str, ...]
    is_waiting: bool = False

    @property
    def problem(self) -> str | None:
        if not self.left:
            return None
        back = f"; `parachute undo {self.run}` takes it back" if self.run is not None else ""
        yours = "" if self.is_waiting else "; change there yourself what should follow"
        return (
            f"{self.what} was cut short when the daemon ended, and this of it could not be "
            f"finished: {'; '.join(self.left)}{yours}{back}"
        )


@contextmanager
def recorded_act(store: Store, act: Act) -> Iterator[None]:
    """Around the writes of an act; only a kill leaves it recorded. StorageFailedError."""
    number = begin_act(store, act)
    try:
        yield
    finally:
        end_act(store, number)


def begin_act(store: Store, act: Act) -> int:
    """Record it; returns its number. The texts of its steps are kept already."""
    return store.history.begin_act({"kind": _KIND, **asdict(act)})


def end_act(store: Store, number: int) -> None:
    """Forget it. Where the disk refuses, the next start finds all of it done."""
    with suppress(StorageFailedError):
        store.history.end_act(number)


def follow_links(
    store: Store, rewrites: LinkRewrites, path: VaultPath, was: str, author: Author
) -> tuple[WriteResult, int]:
    """Have the links of the note that was at `was` mean what they did; counts the others."""
    for _attempt in range(_ATTEMPTS):
        note = parse_note(store.read(path, keep=True).data)
        data, left = rewrites.rewritten(note, was)
        with suppress(ConflictError):
            return store.replace(path, data, author, base=digest_of(note.data)), left
    raise ParachuteError("it is being changed")


class ActFinisher:
    """Finishes what a killed daemon left, by the same author in the same run. What was written
    already is not written again; what others saved since is merged or stays. `files` lists the
    vault's.
    """

    def __init__(
        self,
        store: Store,
        files: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._store, self._history = store, store.history
        self._files = files

    def finish_all(self) -> list[FinishedAct]:
        acts = [self.finish(number) for number, _document, _last in self._history.acts()]
        return [act for act in acts if act is not None]

    def forget(self, run: str) -> None:
        for number, document, _last in self._history.acts():
            if document["kind"] == _KIND and document["author"]["run"] == run:
                self._history.end_act(number)

    def finish(self, number: int) -> FinishedAct | None:
        """Do what is left of it, if anything was done. None: it is no act of writes."""
        found = {one: (document, last) for one, document, last in self._history.acts()}
        if number not in found or found[number][0]["kind"] != _KIND:
            return None
        act, last = _ACT().validate_python(found[number][0]), found[number][1]
        done = [one for one in self._history.done_after(last) if one.author == act.author]
        waiting = [step for step in act.steps if not any(_is_of(write, step) for write in done)]
        written: list[VaultPath] = []
        left: list[str] = []
        is_waiting = links_stay = False
        try:
            if done and act.move is not None:
                links_stay = self._follow(act, written, left)
            elif done:
                for step in waiting:
                    with self._naming(step, left):
                        written += self._written(step, act, may_remove=not left)
            if done:
                self._account(act.author.run)
        except StorageFailedError as error:
            is_waiting = True
            left.append(f"{error.message}; the next start tries again")
        else:
            if not links_stay:
                end_act(self._store, number)
        if waiting and done:
            log.info(
                "an act that was cut short is finished",
                extra={"act": act.what, "written": len(written), "left": len(left)},
            )
        return FinishedAct(
            what=act.what,
            run=act.author.run,
            paths=tuple(written),
            left=tuple(left),
            is_waiting=is_waiting,
        )

    def _follow(self, act: Act, written: list[VaultPath], left: list[str]) -> bool:
        """Have links follow, as each note is now; whether some still have to."""
        move, root = act.steps[0], self._store.root
        source, target = VaultPath(str(move.source)), VaultPath(move.path)
        if root.is_there(source) or not root.is_there(target):
            left.append("where the file came from or went to is not as it was, so links stay")
            return False
        files = set(self._files()) - {target}
        rewrites = LinkRewrites.of_move(source, target, files, are_all=act.are_all)
        links_stay = False
        for step in act.steps[1:]:
            path, was = VaultPath(step.path), source if step.path == target else step.path
            problems = len(left)
            with self._naming(step, left):
                with root.straight():
                    done, still = follow_links(self._store, rewrites, path, was, act.author)
                written += [done.path] if done.changed else []
                if still:
                    raise EditRefusedError(f"{still} of its links cannot name {printable(target)}")
            links_stay = links_stay or (len(left) > problems and root.is_there(path))
        return links_stay

    @contextmanager
    def _naming(self, step: ActStep, left: list[str]) -> Iterator[None]:
        """Why a step cannot be done; that the disk refuses is raised."""
        try:
            yield
        except StorageFailedError:
            raise
        except ParachuteError as error:
            left.append(f"{printable(step.path)}: {error.message.rstrip('.')}")

    def _written(self, step: ActStep, act: Act, *, may_remove: bool) -> Iterable[VaultPath]:
        if step.after is None and not may_remove:
            raise ParachuteError("it stays, since what was to take its place is not whole")
        with self._store.root.straight():
            written = self._write(VaultPath(step.path), step, act.author)
        return [written.path] if written.changed else []

    def _write(self, path: VaultPath, step: ActStep, author: Author) -> WriteResult:
        if step.after is None:
            return self._store.delete(path, author, base=step.base)
        data = self._store.objects.get(step.after)
        if data is None:
            raise NotFoundError("what was to be written is no longer kept")
        if step.base is None:
            return self._store.create(path, data, author)
        return self._store.replace(path, data, author, base=step.base)

    def _account(self, run: str | None) -> None:
        """The record of a call tells of all that it wrote; an agent's run says how it ended."""
        document = self._history.run(run) if run is not None else None
        if document is not None and document["outcome"] in ("changed", "unchanged"):
            save(self._history, with_writes(document, self._store))


def _is_of(write: Write, step: ActStep) -> bool:
    is_move = write.operation == "Move"
    return (
        write.path == step.path
        and is_move == (step.source is not None)
        and (write.after is None) == (step.after is None)
    )
