"""Retention: what is too old or too much goes, and never the last copy of what may be wanted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
import weakref
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from parachuted.errors import NotFoundError
from parachuted.history.retention import Pruned, Retention, RetentionLimits
from parachuted.history.undo import revert
from parachuted.vault.author import Author
from parachuted.vault.objects import ObjectStore
from parachuted.vault.paths import VaultPath
from parachuted.vault.root import VaultRoot, digest_of
from parachuted.vault.store import Store
from parachuted.vault.write_journal import WriteJournal

AGENT = Author(by="curator", run="r-1", causes=("c-1",))
_AGED = [("SELECT id, at FROM writes", "UPDATE writes SET at = ? WHERE id = ?")]
_AGED += [
    (read.replace("writes", "sightings"), write.replace("writes", "sightings"))
    for read, write in _AGED
]
_AGED += [("SELECT id, started FROM runs", "UPDATE runs SET started = ? WHERE id = ?")]


class RetentionRig:
    """A vault whose clock can be put forward: what was kept before is that much older then."""

    def __init__(self, folder: Path) -> None:
        self.vault, self.folder = folder / "vault", folder / "objects"
        self.vault.mkdir(exist_ok=True)
        self.now = datetime.fromtimestamp(time.time()).astimezone()
        self.objects, self.history = ObjectStore(self.folder), WriteJournal(folder / "history.db")
        weakref.finalize(self, self.history.close)
        weakref.finalize(self, self.objects.close)
        self.store = Store(VaultRoot(self.vault), self.objects, self.history, lambda: self.now)
        self.held: set[str] = set()

    def ran(self, run: str, outcome: str = "changed") -> None:
        given = {"watcher": "w", "outcome": outcome, "causes": ("c",), "document": {"id": run}}
        self.history.save_run(run, started=self.now, **given)

    def write(self, name: str, text: str | bytes, run: str | None = "r-1") -> str:
        data, path = text if isinstance(text, bytes) else text.encode(), VaultPath(name)
        author = Author(by="curator", run=run)
        if (self.vault / name).exists():
            self.store.replace(path, data, author)
        else:
            self.store.create(path, data, author)
        return digest_of(data)

    def wait(self, days: float) -> None:
        for file in self.folder.glob("??/*"):
            status = file.stat()
            os.utime(file, (status.st_atime, status.st_mtime - days * 86400))
        for read, write in _AGED:
            with self.history._database.write() as database:
                for row, at in database.execute(read).fetchall():
                    moment = datetime.fromisoformat(at) - timedelta(days=days)
                    database.execute(write, (moment.isoformat(), row))

    def retention(self, days: int = 90, megabytes: int = 0) -> Retention:
        return Retention(
            history=self.history,
            objects=self.objects,
            keep=RetentionLimits(days=days, megabytes=megabytes),
            clock=lambda: self.now,
        )

    def prune(self, days: int = 90, megabytes: int = 0) -> Pruned:
        return self.retention(days, megabytes).prune([*self.present(), *self.held])

    def present(self) -> list[str]:
        return [digest_of(file.read_bytes()) for file in self.vault.rglob("*") if file.is_file()]

    def close(self) -> None:
        self.store.close()
        self.history.close()
        self.objects.close()


@pytest.fixture
def rig(tmp_path: Path):
    rig = RetentionRig(tmp_path)
    yield rig
    rig.close()


def test_what_is_older_than_the_limit_goes_with_its_texts(rig: RetentionRig):
    one, two = rig.write("a.md", "one"), rig.write("a.md", "two")
    rig.wait(60)
    three = rig.write("a.md", "three")
    rig.wait(60)
    four = rig.write("a.md", "four")
    last = rig.history.last_write()
    pruned = rig.prune()

    assert (pruned.writes, pruned.texts) == (2, 1)
    assert [digest in rig.objects for digest in (one, two, three, four)] == [False] + [True] * 3
    assert [write.after for write in rig.history.writes_of("a.md")] == [three, four]
    assert (rig.history.pruned("a.md") is None, rig.history.pruned("b.md")) == (False, None)
    rig.wait(100)
    rig.prune()
    assert rig.history.last_write() == last
    rig.write("a.md", "five")
    assert rig.history.last_write() == last + 1  # no number is given twice


def test_what_may_be_the_only_copy_stays(rig: RetentionRig):
    current = rig.write("a.md", "now on the disk")
    held = rig.write("b.md", "the base of an open review")
    rig.held.add(held)
    rig.write("b.md", "another")
    (rig.vault / "b.md").write_text("and a person's")
    gone = rig.write("c.md", "deleted lately")
    at_work = rig.write("d.md", "read by a run that goes on", "r-2")
    rig.write("d.md", "and replaced by it", "r-2")
    rig.history.save_run(
        "r-2", started=rig.now, watcher="w", outcome="running", causes=(), document={}
    )
    rig.wait(100)
    rig.store.delete(VaultPath("c.md"), AGENT)
    rig.wait(2)
    rig.prune(megabytes=0)
    rig.prune(days=3650, megabytes=1)

    assert all(digest in rig.objects for digest in (current, held, gone, at_work))
    assert len(rig.history.writes_by("r-2")) == 2


def test_by_size_the_oldest_goes_first_until_the_rest_fits(rig: RetentionRig):
    digests = []
    for number in range(6):
        digests.append(rig.write("a.md", bytes([65 + number]) * 400_000))
        rig.wait(2)
    pruned = rig.prune(megabytes=1)

    assert [digest in rig.objects for digest in digests] == [False] * 4 + [True] * 2
    assert (pruned.texts, pruned.text_bytes, pruned.over_bytes) == (4, 1_600_000, 0)
    assert len(rig.history.writes_of("a.md")) == 6
    with pytest.raises(NotFoundError, match="no longer kept"):
        revert(rig.history.writes_of("a.md")[1], rig.store, AGENT)


def test_what_is_younger_than_a_day_stays_whatever_the_size(rig: RetentionRig):
    for number in range(6):
        rig.write("a.md", bytes([65 + number]) * 400_000)
    pruned = rig.prune(megabytes=1)

    assert (pruned.texts, pruned.over_bytes) == (0, 1_400_000)
    assert rig.retention().size().text_bytes == 2_400_000


def test_without_limits_or_when_stopped_a_pass_drops_nothing(
    rig: RetentionRig,
):
    assert rig.retention().size().since is None
    digests = [rig.write("a.md", str(number)) for number in range(5)]
    size = rig.retention().size()
    assert (size.texts, size.text_bytes, size.writes, size.since) == (5, 5, 5, rig.now)
    assert size.record_bytes > 0
    rig.history.saw(rig.now, [("a.md", "modified", None, "d" * 64)])
    rig.wait(10_000)
    pruned = rig.prune(days=0, megabytes=0)
    assert (pruned.writes, pruned.texts) == (0, 0)
    retention = rig.retention()
    retention.stop()
    assert retention.prune([]).writes == 0
    assert all(digest in rig.objects for digest in digests)

    rig.history.saw(rig.now, [("a.md", "modified", None, "e" * 64)])
    rig.prune()  # what people were seen to do goes too
    assert [seen.digest for seen in rig.history.sightings_of("a.md")] == ["e" * 64]


def test_what_no_one_names_goes_after_a_month_unless_it_is_wanted_again(rig: RetentionRig):
    texts = (b"a killed upload", b"a base, given out lately", b"wanted again")
    upload, base, wanted = map(rig.objects.put, texts)
    rig.wait(20)
    with rig.objects.opened(base):
        pass
    rig.wait(15)
    rig.objects.put(b"wanted again")
    rig.prune(days=0)

    kept = [digest in rig.objects for digest in (upload, base, wanted)]
    assert kept == [False, True, True]


def test_a_text_that_is_kept_again_in_the_midst_of_a_pass_is_not_dropped(rig: RetentionRig):
    digest = rig.write("a.md", "one")
    rig.write("a.md", "two")
    rig.wait(100)
    real = rig.objects.kept

    def kept():
        for one in list(real()):
            rig.objects.put(b"one")
            yield one

    rig.objects.kept = kept  # type: ignore[method-assign]
    rig.prune()

    assert digest in rig.objects


def test_runs_that_ended_go_with_their_writes_and_those_that_go_on_stay(rig: RetentionRig):
    for run, outcome in (("r-1", "changed"), ("r-2", "waiting"), ("r-3", "changed")):
        rig.ran(run, outcome)
    rig.wait(100)
    rig.write("a.md", "lately", "r-3")
    pruned = rig.prune()

    assert pruned.runs == 1
    assert [run["id"] for run in rig.history.runs_of_causes(["c"])] == ["r-2", "r-3"]


PRUNE = """
    import sys
    from pathlib import Path
    from tests.history.test_retention import RetentionRig
    rig = RetentionRig(Path(sys.argv[1]))
    rig.held.update(sys.argv[2:])
    print("begun", flush=True)
    while True:
        rig.prune(days=30, megabytes=1)
        print("done", flush=True)
"""


def test_a_pass_that_is_killed_loses_nothing_and_the_next_one_ends_it(
    tmp_path: Path, torture: Callable[..., bool]
):
    """Killed at moments of its first pass, again and again, each time with the same certainties."""
    rig = RetentionRig(tmp_path)
    keep = [rig.write(f"{number}.md", f"first {number}") for number in range(5)]
    for turn in range(30):
        for number in range(5):
            rig.write(f"{number}.md", f"{turn} of {number} {'x' * 12_000}")
    rig.held.update(keep)
    rig.wait(25)
    rig.write("0.md", "lately")
    rig.wait(6)
    texts = {file.name: file.read_bytes() for file in rig.vault.iterdir()}
    rig.close()
    dice = random.Random(5)  # noqa: S311  moments
    for _ in range(40 if torture else 4):
        program = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PRUNE), str(tmp_path), *keep],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        time.sleep(dice.random() * 0.03)  # the moment of the kill, not a wait
        program.send_signal(signal.SIGKILL)
        program.wait(60)
        program.stdout.close()
        again = RetentionRig(tmp_path)
        assert again.history.problem is None
        assert {file.name: file.read_bytes() for file in again.vault.iterdir()} == texts
        assert all(again.objects.get(digest) for digest in [*keep, *again.present()])
        again.close()
    rig = RetentionRig(tmp_path)
    rig.held.update(keep)
    rig.prune(days=30, megabytes=1)

    assert len(rig.history.writes_of("1.md")) <= 1
    assert len(list(rig.objects.kept())) <= len(keep) + len(texts) + 2
    rig.close()


def test_a_clock_that_went_wrong_for_a_while_ages_nothing(rig: RetentionRig):
    """Written under 1970, and under a date years ahead: both are as old as what was written before
    and after them.
    """
    right = rig.now
    for name, wrong in (("a.md", 0), ("b.md", -20_000), ("c.md", 4_000), ("d.md", 0)):
        rig.now = right + timedelta(days=wrong)
        rig.write(name, name, run=f"r-{name}")
        rig.ran(f"r-{name}")
    rig.now = right
    pruned = rig.prune(days=10)
    assert (pruned.writes, pruned.runs) == (0, 0)

    rig.wait(30)
    rig.now = right
    rig.write("e.md", "e")
    assert rig.prune(days=10).writes == 4
