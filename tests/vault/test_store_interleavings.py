"""The writer and people at work on one note at once: in random order, and as real processes at the
same time. No edit is lost.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parachuted.errors import ConflictError, NotFoundError, StorageFailedError
from parachuted.vault import (
    AppendToSection,
    ReplaceAll,
    ReplaceSection,
    SetFrontmatterKey,
    VaultPath,
    digest_of,
    parse_note,
    recovery,
    rescue,
    swap,
)
from tests.vault.rig.work import ME, Opened, TrialFolder, now

SECTIONS = ("Facts", "Current Focus", "History")
START = b"---\nstatus: open\n---\n# Plan\n\n" + b"".join(
    b"## %s\n\n- first\n- second\n\n" % name.encode() for name in SECTIONS
)
NOTE = VaultPath("note.md")
RAM = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - nothing here has to reach a disk


@dataclass
class Table:
    """One note between a person and an agent.

    Each edit brings a word of its own, so that one that is lost shows.
    """

    opened: Opened
    note: Path
    words: Iterator[bytes] = field(
        default_factory=lambda: (b"word%d." % number for number in count())
    )
    read: bytes = START
    buffer: bytes = START
    persons: set[bytes] = field(default_factory=set)

    def person_adds(self, section: str, *, stale: bool, in_place: bool) -> None:
        """Save the note with a line more in a section, from what is there now or from what the
        editor has had open for a while.
        """
        word = next(self.words)
        text = _with_line(self.buffer if stale else self.note.read_bytes(), section, b"- " + word)
        if in_place:
            self.note.write_bytes(text)
        else:
            beside = self.note.with_name("note.md~")
            beside.write_bytes(text)
            beside.replace(self.note)
        self.persons.add(word)
        self.persons &= _words(text)  # what an old buffer takes away, the person takes away
        self.buffer = text

    def person_opens(self) -> None:
        self.buffer = self.note.read_bytes()

    def agent_reads(self) -> None:
        """Have the agent read the note: its next edits are decided on that."""
        self.read = self.opened.store.read(NOTE, keep=True).data

    def agent_edits(self, kind: str, section: str) -> None:
        """An edit decided on the old read.

        It is there afterwards, or it was refused and nothing has changed.
        """
        word, before = next(self.words).decode(), self.note.read_bytes()
        edit = {
            "replace": ReplaceSection(section=section, content=f"- {word}"),
            "append": AppendToSection(section=section, content=f"- {word}"),
            "key": SetFrontmatterKey(key="status", value=word),
            "whole": ReplaceAll(data=_with_line(self.read, section, b"- " + word.encode())),
        }[kind]
        try:
            self.opened.store.edit(NOTE, edit, ME, base=digest_of(self.read))
        except (ConflictError, NotFoundError):
            assert self.note.read_bytes() == before
            return
        after = self.note.read_bytes()
        assert word.encode() in _words(after)
        unseen = _words(before) - _words(self.read)
        assert unseen <= _words(after), "the agent took away what it had not read"
        self.persons &= _words(after)


def _words(text: bytes) -> set[bytes]:
    return {
        word
        for word in text.split()
        if word.startswith(b"word") or word.strip(b'"').startswith(b"word")
    }


def _with_line(text: bytes, section: str, line: bytes) -> bytes:
    found = parse_note(text).section(section)
    at = found.own_stop if found is not None else len(text)
    return text[:at].rstrip(b"\n") + b"\n" + line + b"\n\n" + text[at:]


@contextmanager
def table() -> Iterator[Table]:
    with tempfile.TemporaryDirectory(dir=RAM) as folder:
        place = TrialFolder(Path(folder))
        place.vault.mkdir()
        (place.vault / "note.md").write_bytes(START)
        with place.opened() as opened:
            opened.store.read(NOTE, keep=True)
            yield Table(opened=opened, note=place.vault / "note.md")


SECTION = st.sampled_from(SECTIONS)
ACTS: st.SearchStrategy[Callable[[Table], None]] = st.one_of(
    st.builds(
        lambda section, stale, in_place: (
            lambda table: table.person_adds(section, stale=stale, in_place=in_place)
        ),
        SECTION,
        st.booleans(),
        st.booleans(),
    ),
    st.just(Table.person_opens),
    st.just(Table.agent_reads),
    st.builds(
        lambda kind, section: lambda table: table.agent_edits(kind, section),
        st.sampled_from(["replace", "append", "key", "whole"]),
        SECTION,
    ),
)


@pytest.mark.timeout(900)
def test_edits_of_a_person_and_an_agent_in_any_order_lose_nothing(torture):
    @settings(
        max_examples=5000 if torture else 60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=not torture,
    )
    @given(st.lists(ACTS, min_size=2, max_size=14))
    def in_order(acts):
        with table() as at:
            for act in acts:
                act(at)
            assert at.persons <= _words(at.note.read_bytes())

    in_order()


def test_who_reads_the_writers_text_before_it_is_taken_back_loses_nothing(
    monkeypatch,
):
    """A person saves at the moment of an exchange, and saves again from what stood there then."""
    with table() as at:
        beside = at.note.with_name("person~")

        def save(text):
            beside.write_bytes(text)
            beside.replace(at.note)

        exchange, giving_back = swap.exchange, recovery.exchange

        def as_a_person_saves(folder, temporary, name):
            save(_with_line(START, "Current Focus", b"- word1"))
            exchange(folder, temporary, name)
            at.person_opens()
            monkeypatch.setattr(swap, "exchange", exchange)

        def as_a_person_saves_again(folder, temporary, name):
            giving_back(folder, temporary, name)
            save(_with_line(at.buffer, "History", b"- word2"))

        monkeypatch.setattr(swap, "exchange", as_a_person_saves)
        monkeypatch.setattr(recovery, "exchange", as_a_person_saves_again)
        edit = AppendToSection(section="Facts", content="- word3")
        at.opened.store.edit(NOTE, edit, ME)
        rescue(at.opened.store, now())

        assert _words(at.note.read_bytes()) == {b"word1", b"word2", b"word3"}
        assert not at.opened.store.expects_late_writes


PERSON = """
import random, select, sys, time
from pathlib import Path
note, dice, number = Path(sys.argv[1]), random.Random(int(sys.argv[2])), 0
while not select.select([sys.stdin], [], [], dice.choice([0, 0.001, 0.004]))[0]:
    line, number = b"- person%d.\\n" % number, number + 1
    style = dice.choice(["rename", "in place", "append", "held"])
    if style == "append":
        with note.open("ab") as file:
            file.write(line)
        continue
    with note.open("r+b") as file:
        text = file.read().replace(b"## History\\n\\n", b"## History\\n\\n" + line)
        if style == "rename":
            beside = note.with_name("person~")
            beside.write_bytes(text)
            beside.replace(note)
            continue
        file.seek(0)
        half = len(text) // 2 if style == "held" else len(text)
        for part in (text[:half], text[half:]):
            file.write(part)
            file.flush()
        file.truncate()
print(number)
"""


@pytest.mark.timeout(600)
def test_a_person_and_the_writer_at_the_same_time_lose_nothing(torture, capsys):
    edits, rounds = (400, 25) if torture else (40, 2)
    met = 0
    for seed in range(rounds):
        with table() as at:
            person = subprocess.Popen(
                [sys.executable, "-c", PERSON, at.note, str(seed)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            acknowledged = [
                word for number in range(edits) if (word := _agent_appends(at, number)) is not None
            ]
            saved = [b"person%d." % number for number in range(int(person.communicate()[0]))]
            for _ in range(2):
                rescue(at.opened.store, now())
            files = b"".join(path.read_bytes() for path in at.note.parent.iterdir())
            kept = files + b"".join(_texts(at))
            met += sum(
                write.operation == "ReplaceAll" for write in at.opened.history.writes_of(NOTE)
            )

        assert [word for word in acknowledged + saved if word not in kept] == []
        assert len(acknowledged) >= edits / 4  # a busy machine gives the person more turns
    with capsys.disabled():
        sys.stdout.write(f"\n{rounds * edits} edits of the writer, {met} late writes rescued\n")


def _agent_appends(at: Table, number: int) -> bytes | None:
    """The word that was appended; None when the person was too quick."""
    word = b"agent%d." % number
    try:
        at.opened.store.edit(
            NOTE, AppendToSection(section="Facts", content=f"- {word.decode()}", create=True), ME
        )
    except StorageFailedError:
        return None
    rescue(at.opened.store, now())
    return word


def _texts(at: Table) -> Iterator[bytes]:
    digests = {
        digest
        for write in at.opened.history.writes_of(NOTE)
        for digest in (write.before, write.after)
        if digest is not None
    }
    return (at.opened.objects.get(digest) or b"" for digest in digests)
