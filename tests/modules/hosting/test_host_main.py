"""The program itself, spoken to over its pipe by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from parachuted.modules.hosting.framing import (
    AnswerFrame,
    AskFrame,
    EndedFrame,
    LogFrame,
    RefusalFrame,
    Unpacker,
    pack,
)
from parachuted.modules.hosting.isolation_rules import IsolationRules
from parachuted.modules.hosting.start_frame import StartFrame
from tests.modules.small_modules import approve, write_module

ROOT = Path(__file__).resolve().parents[3]
BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from parachuted.modules.hosting.host_main "
    "import main; main()"
)
WALLS = IsolationRules(
    landlock=False, seccomp=False, readable=(), memory=1 << 30, most_open=64, parent=os.getpid()
)
BODY = """
@route("GET", "/hello")
async def hello(self):
    import sys
    print("on stdout")
    return sys.stdin.read()

@route("GET", "/ask")
async def note(self):
    self.publish("daily.x", n=float("1"))
    return await self.state.get("k")
"""


class Program:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", BOOT, str(ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.unpacker = Unpacker()
        self.frames = []

    def say(self, frame):
        self.process.stdin.write(frame if isinstance(frame, bytes) else pack(frame))
        self.process.stdin.flush()

    def hear(self):
        while not self.frames:
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return None
            self.frames += [
                frame for frame in self.unpacker.feed(data) if not isinstance(frame, EndedFrame)
            ]
        return self.frames.pop(0)

    def end(self):
        return self.process.communicate(timeout=20)


@pytest.fixture
def program():
    program = Program()
    yield program
    program.process.kill()
    program.process.communicate()


@pytest.fixture
def approved(tmp_path):
    return approve(write_module(tmp_path / "daily", BODY), trust="untrusted")


def call(number, handler):
    return AskFrame(
        id=number,
        verb="call",
        body={"handler": handler, "arguments": {}, "path": {}, "query": {}, "timeout_s": 10},
    )


def test_it_describes_itself_and_serves_until_the_pipe_is_closed(program, approved):
    program.say(AskFrame(id=1, verb="start", body=StartFrame.of(approved, WALLS)))
    declared = program.hear()
    assert isinstance(declared, AnswerFrame)
    assert declared.id == 1
    assert [route["path"] for route in declared.value["routes"]] == ["/hello", "/ask"]

    program.say(call(2, "hello"))
    assert program.hear() == AnswerFrame(
        id=2, value={"value": ""}
    )  # stdin is nothing, and stdout is not the pipe

    program.say(call(3, "note"))
    asked = program.hear()
    assert (asked.verb, asked.of) == ("publish", 3)
    program.say(AnswerFrame(id=asked.id))
    asked = program.hear()
    assert (asked.verb, asked.body, asked.of) == ("state.get", {"key": "k"}, 3)
    program.say(AnswerFrame(id=asked.id, value={"value": 5}))
    assert program.hear() == AnswerFrame(id=3, value={"value": 5})

    stdout, stderr = program.end()
    assert [
        frame for frame in program.unpacker.feed(stdout) if not isinstance(frame, EndedFrame)
    ] == []  # the end of the call comes after its answer
    assert b"on stdout" in stderr
    assert program.process.returncode == 0


def test_a_handler_that_is_not_there_is_refused_and_the_rest_goes_on(program, approved):
    program.say(AskFrame(id=1, verb="start", body=StartFrame.of(approved, WALLS)))
    assert isinstance(program.hear(), AnswerFrame)
    for number, ask in enumerate(
        [
            call(2, "nothing"),
            AskFrame(id=3, verb="nothing", body={}),
            AskFrame(id=4, verb="call", body={}),
        ],
        start=2,
    ):
        program.say(ask)
        frame = program.hear()
        while isinstance(frame, LogFrame):
            frame = program.hear()
        assert isinstance(frame, RefusalFrame)
        assert frame.id == number

    program.say(AskFrame(id=5, verb="ping", body={}))
    assert program.hear() == AnswerFrame(id=5)


def test_a_copy_that_is_not_what_was_approved_does_not_run(program, approved):
    (approved.copy / "module.py").write_text("raise SystemExit(77)")

    program.say(AskFrame(id=1, verb="start", body=StartFrame.of(approved, WALLS)))

    frames = [program.hear()]
    while not isinstance(frames[-1], RefusalFrame):
        frames.append(program.hear())
    assert any(
        isinstance(frame, LogFrame) and "not what was approved" in frame.text for frame in frames
    )


def test_without_its_walls_it_runs_nothing(program, approved, tmp_path):
    write_module(tmp_path / "daily", f"open({str(tmp_path / 'ran')!r}, 'w')")
    approved = approve(tmp_path / "daily", trust="untrusted")

    program.say(
        AskFrame(id=1, verb="start", body=StartFrame.of(approved, replace(WALLS, parent=2**22 - 7)))
    )

    assert program.hear() is None
    _, stderr = program.end()
    assert program.process.returncode == 1
    assert b"the daemon has ended" in stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "first",
    [
        b"\0\0\0\2{}",
        b"\xff\xff\xff\xff",
        pack(AnswerFrame(id=1)),
        pack(AskFrame(id=1, verb="start", body={"name": "x"})),
    ],
)
def test_a_first_word_that_is_none_ends_it(program, first):
    program.say(first)

    assert program.hear() is None
    program.end()
    assert program.process.returncode == 1


def test_no_first_word_ends_it_too(program):
    program.end()

    assert program.process.returncode == 1
