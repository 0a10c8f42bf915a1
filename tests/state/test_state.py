from __future__ import annotations

import errno
import json
import random
import signal
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tinydb import TinyDB, where

from parachuted.errors import StorageFailedError
from parachuted.state import StateStore, open_state
from tests.state.full_disk import fill_disk

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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def state(path: Path) -> StateStore:
    return open_state(path)


def on_disk(path: Path) -> dict[str, object]:
    return {name: table for name, table in open_state(path).read().items() if table}


def test_killed_at_random_moments_it_loses_no_acknowledged_batch(path, torture):
    reached, moments = 0, random.Random(7)  # noqa: S311
    for _ in range(500 if torture else 4):
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
        assert [record["n"] for record in state.table("log")][-20:] == list(
            range(max(reached - 19, 1), reached + 1)
        )
        state.close()


FILLED = """
import resource, sys
from pathlib import Path
from parachuted.errors import StorageFailedError
from parachuted.state import open_state

path = Path(sys.argv[1])
table = open_state(path).table("t")
table.put("a", {"n": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
try:
    table.put("big", {"text": "x" * 200_000})
except StorageFailedError as error:
    print(error)
assert table.get_record("big") is None
table.put("b", {"n": 2})
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
table.put("big", {"text": "y"})
"""


def test_a_file_that_may_not_grow_takes_smaller_changes(path):
    reported = subprocess.run(
        [sys.executable, "-c", FILLED, path],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert reported.startswith("the state could not be read or written: ")
    assert on_disk(path) == {"t": {"a": {"n": 1}, "b": {"n": 2}, "big": {"text": "y"}}}


def test_what_version_0_1_kept_is_taken_over_once(path):
    changes = [
        {"format": 1},
        [["t", "a", {"n": 1}], ["t", "b\udcff", {"n": "ü"}]],
        [["t", "a", None], ["u", "a", {"n": 2}]],
    ]
    lines = [b"%08x %s" % (zlib.crc32(text := json.dumps(one).encode()), text) for one in changes]
    earlier, aside = path.with_name("state.journal"), path.with_name("state.journal.garbled")
    for damaged in ([], [lines[1].replace(b"1", b"2"), b"torn", b"\xff", lines[2][:9]]):
        data = b"\n".join([*lines, *damaged])
        earlier.write_bytes(data)
        state = open_state(path)
        said = "4 lines of state.journal could not be read; it was set aside as " + aside.name
        assert state.problem == (said if damaged else None)
        state.close()
        for _ in range(2):
            assert on_disk(path) == {"t": {"b\udcff": {"n": "ü"}}, "u": {"a": {"n": 2}}}
        assert not earlier.exists()
        assert not damaged or aside.read_bytes() == data


def test_a_damaged_file_is_set_aside_and_what_is_lost_is_said(path):
    path.write_bytes(b"noise\n")
    state = open_state(path)

    assert "tasks that waited, are lost" in state.problem
    assert state.read() == {}


def test_an_inner_batch_that_raises_undoes_its_own_part_only(state, path):
    undone = []
    state.on_undone(lambda: undone.append(state.read()))
    with state.batch():
        state.put("t", "a", {"n": 1})
        with pytest.raises(ZeroDivisionError), state.batch():  # noqa: PT012
            state.put("t", "a", {"n": 2})
            state.put("u", "b", {"n": 2})
            raise ZeroDivisionError
        state.put("t", "c", {"n": 3})

    assert on_disk(path) == {"t": {"a": {"n": 1}, "c": {"n": 3}}}
    assert undone == [{"t": {"a": {"n": 1}}, "u": {}}]


def test_memory_holds_what_a_reload_would_give(state, path):
    state.put("t", "é\n\udcff", {"pair": (1, 2), 3: None, "text": "\u2028\udcfe\0"})

    assert state.of("t") == {"é\n\udcff": {"pair": [1, 2], "3": None, "text": "\u2028\udcfe\0"}}
    assert on_disk(path) == {"t": state.of("t")}


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"bytes", object()])
def test_what_is_not_json_is_refused_and_changes_nothing(state, value):
    state.put("t", "a", {"n": 1})
    with pytest.raises((TypeError, ValueError)):
        state.put("t", "a", {"value": value})

    assert state.of("t") == {"a": {"n": 1}}


def test_writing_what_is_there_and_dropping_what_is_not_writes_nothing(state, path):
    state.put("t", "a", {"n": 1})
    fill_disk(state, lambda: True)
    state.put("t", "a", {"n": 1})
    assert not state.drop("t", "b")

    with pytest.raises(StorageFailedError) as failure:
        state.put("t", "a", {"n": True})
    assert failure.value.errno == errno.ENOSPC
    assert state.of("t")["a"]["n"] is not True


def test_what_a_caller_does_to_its_copy_changes_no_record(state):
    table, document = state.table("t"), {"list": [1], "deep": {"list": [1]}}
    table.put("a", document)
    for record in (document, table.get_record("a"), *table, state.read()["t"]["a"]):
        record["list"].append(2)
        record["deep"]["list"].clear()

    assert table.get_record("a") == {"list": [1], "deep": {"list": [1]}}
    assert len(table) == 1


def test_a_tinydb_with_its_own_tables_works_on_it_too(path):
    with TinyDB(storage=lambda: open_state(path)) as database:
        database.insert_multiple([{"n": 1}, {"n": 2}])
        database.update({"n": 3}, where("n") == 2)
        database.table("gone").insert({})
        database.drop_table("gone")

    assert on_disk(path) == {"_default": {"1": {"n": 1}, "2": {"n": 3}}}


def test_threads_lose_no_change_of_each_other(state, path):
    failures = []

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
    again = open_state(path)

    assert failures == []
    assert len(again.table("shared")) == len(again.table("own")) == 160


def test_another_thread_never_sees_half_a_batch(state):
    table, seen, has_begun = state.table("t"), [], threading.Event()

    def look() -> None:
        has_begun.wait()
        seen.append(len(table.items()))

    reader = threading.Thread(target=look)
    reader.start()
    with state.batch():
        table.put("a", {})
        has_begun.set()
        reader.join(timeout=0.05)
        table.put("b", {})
    reader.join()

    assert seen == [2]


KEYS = st.sampled_from(["a", "b", "1", "2", "Projekte/ü/AGENTS.md\n../*", "\udcff"])
VALUES = st.recursive(st.integers() | st.text() | st.none(), st.lists, max_leaves=3)
DOCUMENTS = st.dictionaries(st.sampled_from(["n", "text", "deep"]), VALUES)
CHANGES = st.lists(st.tuples(st.sampled_from(["t", "u"]), KEYS, DOCUMENTS | st.none()), max_size=4)


class StateMachine(RuleBasedStateMachine):
    """A state against two dicts, with a disk that is full at times, opened again at any step."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "state.db"
        self.model: dict[str, dict[str, object]] = {"t": {}, "u": {}}
        self.is_full = False
        self.open()

    def open(self) -> None:
        self.state = fill_disk(open_state(self.path), lambda: self.is_full)

    def change(self, changes) -> None:
        for table, key, document in changes:
            if document is None:
                self.state.table(table).drop(key)
            else:
                self.state.table(table).put(key, document)

    @rule(changes=CHANGES)
    def make_a_batch(self, changes) -> None:
        with self.state.batch():
            self.change(changes)
        for table, key, document in changes:
            self.model[table].pop(key, None) if document is None else self.model[table].update(
                {key: document}
            )

    @rule(changes=CHANGES)
    def give_up_a_batch(self, changes) -> None:
        with pytest.raises(ZeroDivisionError), self.state.batch():  # noqa: PT012
            self.change(changes)
            raise ZeroDivisionError

    @rule(key=KEYS)
    def fail_a_change(self, key) -> None:
        self.is_full = True
        with pytest.raises(StorageFailedError):
            self.state.table("t").put(key, {"never": "there"})
        self.is_full = False

    @rule(is_closed=st.booleans())
    def open_again(self, *, is_closed: bool) -> None:
        if is_closed:
            self.state.close()
        self.open()
        assert self.state.problem is None

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
