from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from parachuted.errors import StorageFailedError
from parachuted.state import open_state
from parachuted.state.journal import JournalDisk

ROOT = Path(__file__).resolve().parents[2]

ENDLESS = """
import itertools, os, sys
from pathlib import Path
from parachuted.state import open_state

state = open_state(Path(sys.argv[1]))
for number in itertools.count(int(sys.argv[2])):
    with state.batch():
        state.table("count").put("last", {"n": number})
        state.table("log").put(str(number), {"n": number})
        state.table("log").drop(str(number - 20))
    os.write(1, b"%d\\n" % number)
"""


def test_killed_at_random_moments_it_loses_no_acknowledged_batch(tmp_path, torture):
    path, reached, moments = tmp_path / "state.journal", 0, random.Random(7)  # noqa: S311
    for _ in range(500 if torture else 12):
        with subprocess.Popen(
            [sys.executable, "-c", ENDLESS, path, str(reached + 1)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        ) as child:
            for _ in range(moments.randrange(1, 200)):
                acknowledged = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            acknowledged = max([acknowledged, *map(int, child.stdout.read().split(b"\n")[:-1])])
        state = open_state(path)
        reached = state.table("count").get_record("last")["n"]

        assert reached in (acknowledged, acknowledged + 1)
        assert sorted(record["n"] for record in state.table("log"))[-20:] == list(
            range(max(reached - 19, 1), reached + 1)
        )
        state.close()


def test_a_batch_spans_tables_and_is_undone_as_a_whole(tmp_path):
    path = tmp_path / "state.journal"
    path.write_bytes(b"noise\n")
    state = open_state(path)
    assert "set aside" in state.problems[0]
    with pytest.raises(ZeroDivisionError), state.batch():  # noqa: PT012
        state.table("tasks").put("a", {})
        state.table("reviews").put("a", {})
        raise ZeroDivisionError

    assert not state.table("tasks").items()
    assert not state.table("reviews").items()


def test_threads_lose_no_change_of_each_other(tmp_path):
    state, failures = open_state(tmp_path / "state.journal"), []

    def work(name: str) -> None:
        try:
            for number in range(40):
                state.table("shared").put(f"{name} {number}", {"by": name})
                state.table("shared").items()
                state.table("own").put(f"{name} {number}", {})
        except Exception as error:  # noqa: BLE001  # a thread's failure is not the test's
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state.close()
    again = open_state(tmp_path / "state.journal")

    assert failures == []
    assert len(again.table("shared")) == len(again.table("own")) == 160


def test_another_thread_never_sees_half_a_batch(tmp_path):
    state, seen = open_state(tmp_path / "state.journal"), []
    table = state.table("t")
    begun = threading.Event()

    def look() -> None:
        begun.wait()
        seen.append(len(table.items()))

    reader = threading.Thread(target=look)
    reader.start()
    with state.batch():
        table.put("a", {})
        begun.set()
        reader.join(timeout=0.05)
        table.put("b", {})
    reader.join()

    assert seen == [2]


KEYS = st.sampled_from(["a", "b", "1", "2", "Projekte/ü/AGENTS.md\n../*", "\udcff"])
VALUES = st.recursive(st.integers() | st.text() | st.none(), st.lists, max_leaves=3)
DOCUMENTS = st.dictionaries(st.sampled_from(["n", "text", "deep"]), VALUES)
CHANGES = st.lists(st.tuples(st.sampled_from(["t", "u"]), KEYS, DOCUMENTS | st.none()), max_size=4)


class StateMachine(RuleBasedStateMachine):
    """A state against two dicts, with a disk that fails when told to, and crashes between any two
    steps.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "state.journal"
        self.model: dict[str, dict[str, object]] = {"t": {}, "u": {}}
        self.full = self.unsynced = False
        self.disk = JournalDisk(write=self.write, fdatasync=self.sync, fsync=self.sync)
        self.state = open_state(self.path, disk=self.disk)

    def write(self, fd: int, data: bytes) -> int:
        if self.full:
            os.write(fd, data[: len(data) // 3])
            raise OSError(errno.ENOSPC, "full")
        return os.write(fd, data)

    def sync(self, _: int) -> None:
        if self.unsynced:
            raise OSError(errno.EIO, "bad")

    def change(self, changes) -> None:
        for table, key, document in changes:
            if document is None:
                self.state.table(table).drop(key)
            else:
                self.state.table(table).put(key, document)

    def expect(self, changes) -> None:
        for table, key, document in changes:
            self.model[table].pop(key, None) if document is None else self.model[table].update(
                {key: document}
            )

    @rule(changes=CHANGES)
    def make_a_batch(self, changes) -> None:
        with self.state.batch():
            self.change(changes)
        self.expect(changes)

    @rule(changes=CHANGES)
    def give_up_a_batch(self, changes) -> None:
        with pytest.raises(ZeroDivisionError), self.state.batch():  # noqa: PT012
            self.change(changes)
            raise ZeroDivisionError

    @rule(key=KEYS, kind=st.sampled_from(["full", "unsynced"]))
    def fail_a_change(self, key, kind) -> None:
        setattr(self, kind, True)
        with pytest.raises(StorageFailedError):
            self.state.table("t").put(key, {"never": "there"})
        setattr(self, kind, False)

    @rule(tail=st.binary(max_size=30).filter(lambda tail: b"\n" not in tail), orderly=st.booleans())
    def open_again(self, tail, orderly) -> None:
        self.state.close() if orderly else self.state._close_file()
        with self.path.open("ab") as file:
            file.write(tail)
        self.state = open_state(self.path, disk=self.disk)
        assert bool(self.state.problems) == bool(tail)

    @invariant()
    def everything_is_as_expected(self) -> None:
        for name, documents in self.model.items():
            assert dict(self.state.table(name).items()) == documents

    def teardown(self) -> None:
        self.state.close()
        again = open_state(self.path)
        try:
            assert {name: dict(again.table(name).items()) for name in self.model} == self.model
        finally:
            again.close()
            self.folder.cleanup()


TestMachine = StateMachine.TestCase
TestMachine.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
