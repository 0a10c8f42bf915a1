"""Curator: one run from the differences to the record, whatever its backend does."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest

from parachuted.access.strangers import Strangers
from parachuted.agents.calling import call_tool
from parachuted.agents.job import Job, RunResult, Step
from parachuted.errors import AgentFailedError, AgentUnavailableError, StorageFailedError
from parachuted.runs import curator as curator_module
from parachuted.runs import run
from parachuted.testing import Block, ScriptedBackend, say, use
from tests.bubbling.reconciler_rig import watching
from tests.tools.curator_rig import LIMITS, CuratorRig

A = "# A\n\n## Facts\n\n- one\n"
B = A.replace("one", "two")
W = watching("a.md", text="# W\n\n## Facts\n\n- old\n\n## History\n")
FINE = use("no_change", reason="fine")
FULL = StorageFailedError("no space left on device")
Script: TypeAlias = Callable[[CuratorRig, Job], Awaitable[list[Block]]]


@dataclass
class Backend:
    error: BaseException | None = None
    steps: tuple[object, ...] = ()
    hangs: bool = False
    name: str = "odd"
    jobs: list[Job] = field(default_factory=list)

    async def run(self, job: Job) -> AsyncIterator[Step]:
        self.jobs.append(job)
        for step in self.steps:
            yield step
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error

    async def close(self) -> None:
        pass


async def study_with(folder: Path, *blocks: Block, **texts: str) -> CuratorRig:
    """A study in which `a` has changed, and an agent that plays these blocks."""
    curator_rig = CuratorRig(folder=folder, backend=ScriptedBackend(blocks))
    curator_rig.begin_with(a=A, w=W, **texts)
    await curator_rig.save("a", B)
    return curator_rig


async def study_of(folder: Path, script: Script) -> CuratorRig:
    curator_rig = await study_with(folder)

    async def act(job: Job) -> list[Block]:
        return await script(curator_rig, job)

    ask(curator_rig, ScriptedBackend(act))
    return curator_rig


def ask(curator_rig: CuratorRig, backend: object) -> None:
    curator_rig.backend = backend
    curator_rig.curator = curator_rig.curator_with(backend)


def put_back(curator_rig: CuratorRig) -> None:
    (task,) = curator_rig.queue.running()
    with curator_rig.state.batch():
        curator_rig.queue.put_back(task, due_at=curator_rig.now, reason=None)


def update(section: str = "Facts", content: str = "- new") -> Block:
    return use("update_context", file_path="w.md", section=section, content=content)


async def test_a_run_is_asked_with_what_changed_writes_wakes_and_is_recorded(tmp_path: Path):
    blocks = say("I see."), update(), use("read_context", file_path="secret.md")
    curator_rig = await study_with(tmp_path, *blocks, v=watching("w.md"))
    outcome = await curator_rig.run("w")
    (job,) = curator_rig.backend.jobs
    (change,) = job.changes

    assert (outcome.result, outcome.reason) == ("changed", "updated w.md")
    assert curator_rig.text("w") == W.replace("- old", "- new")
    assert (job.watcher, job.at) == ("w.md", curator_rig.now)
    assert (change.path, change.kind, change.units) == ("a.md", "modified", ("Facts",))
    assert "-- one\n+- two\n" in change.diff
    assert W in job.prompt
    assert change.diff in job.prompt
    assert not curator_rig.reviews.has("w.md")
    (reported,) = curator_rig.reported("run.finished")
    told = (reported["watcher"], reported["outcome"], reported["paths"])
    assert told == ("w.md", "changed", ["w.md"])

    (document,) = curator_rig.history.runs()
    (woken,) = curator_rig.queue.all()
    assert (woken.watcher, woken.state, woken.parents) == ("v.md", "queued", (document["id"],))
    now = curator_rig.now.isoformat()
    assert (document["outcome"], document["watcher"]) == ("changed", "w.md")
    assert (document["backend"], document["ended"]) == ("scripted", now)
    cause = {"id": "c4", "kind": "change", "path": "a.md", "files": 1, "at": now}
    assert document["causes"] == [cause]
    assert [step.get("said") or (step["called"], step["error"]) for step in document["steps"]] == [
        "I see.",
        ("update_context", False),
        ("read_context", True),
    ]
    assert [(one["path"], one["kind"]) for one in document["reviewed"]] == [("a.md", "modified")]
    (wrote,) = document["wrote"]
    assert "-- old\n+- new\n" in wrote["diff"]


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ([use("no_change", reason="still true")], "still true"),
        ([say("first"), say("last")], "last"),
        ([update(), update(content="- old")], "the agent wrote nothing"),
    ],
)
async def test_an_agent_that_changes_nothing_ends_unchanged_with_its_reason(
    tmp_path: Path, blocks: list[Block], reason: str
):
    curator_rig = await study_with(tmp_path, *blocks)
    outcome = await curator_rig.run("w")

    assert (outcome.result, outcome.reason) == ("unchanged", reason)
    assert curator_rig.history.runs()[0]["wrote"] == []
    assert not curator_rig.reviews.has("w.md")


async def test_what_changes_during_the_run_is_left_for_the_next(tmp_path: Path):
    async def script(curator_rig: CuratorRig, _job: Job) -> list[Block]:
        if len(curator_rig.backend.jobs) == 1:
            await curator_rig.save("a", B.replace("two", "three"))
        return [FINE]

    curator_rig = await study_of(tmp_path, script)
    await curator_rig.run("w")

    assert curator_rig.waiting() == ["w"]
    await curator_rig.run("w")
    assert "-- two\n+- three\n" in curator_rig.backend.jobs[1].changes[0].diff


async def test_a_moved_and_a_deleted_note_are_reported_as_such(tmp_path: Path):
    curator_rig = CuratorRig(folder=tmp_path, backend=ScriptedBackend([FINE]))
    curator_rig.begin_with(a=A, b=A, w=watching("*.md"))
    await curator_rig.save("c", A, source="a")
    (curator_rig.vault / "a.md").unlink()
    await curator_rig.save("b", None)
    await curator_rig.run("w")

    assert [(change.path, change.kind) for change in curator_rig.backend.jobs[0].changes] == [
        ("b.md", "deleted"),
        ("c.md", "moved"),
    ]
    assert curator_rig.backend.jobs[0].changes[1].diff == "rename from a.md\nrename to c.md\n"
    assert not curator_rig.reviews.has("w.md")


async def test_thousands_of_changes_are_all_seen_and_some_are_shown(tmp_path: Path):
    curator_rig = CuratorRig(folder=tmp_path, backend=ScriptedBackend([FINE]))
    curator_rig.begin_with(w=watching("**/*.md"))
    await curator_rig.look(*(curator_rig.change(f"n{number:04}", A) for number in range(1000)))
    await curator_rig.run("w")
    (job,) = curator_rig.backend.jobs

    assert len(job.changes) == 1000
    assert sum(bool(change.diff) for change in job.changes) == 50
    assert "- and 600 more" in job.prompt
    assert len(job.prompt) < 150_000
    assert not curator_rig.reviews.has("w.md")
    assert len(json.dumps(curator_rig.history.runs()[0])) < 200_000


# What goes wrong.


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        (Backend(AgentFailedError("out of money")), "out of money"),
        *(
            (Backend(error), "the backend odd broke")
            for error in (
                RuntimeError("bug"),
                asyncio.CancelledError(),
                ExceptionGroup("many", [ValueError()]),
                StorageFailedError("its own"),
                TimeoutError(),
            )
        ),
        *((Backend(steps=(step,)), "the backend odd broke") for step in (None, "words", 5)),
        (Backend(hangs=True), "the backend odd broke"),
    ],
)
async def test_an_agent_that_fails_leaves_the_difference_open_and_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: Backend, reason: str
):
    if backend.hangs:
        monkeypatch.setattr(run, "_GRACE_S", 0.01 - LIMITS.timeout_s)
    curator_rig = await study_with(tmp_path)
    before = curator_rig.reviews.of("w.md")
    ask(curator_rig, backend)
    outcome = await curator_rig.run("w")

    assert outcome.result == "failed"
    assert outcome.reason.startswith(reason)
    assert curator_rig.reviews.of("w.md") == before
    assert curator_rig.queue.all() == []


@pytest.mark.parametrize(
    ("writes", "then", "reason"),
    [
        (False, AgentUnavailableError("no login"), "no login"),
        (True, AgentUnavailableError("gone"), "gone"),
        (True, None, "you stopped all agents"),
        (True, [say("I could not write.")], "no space left"),
        (True, AgentFailedError("update_context: no space left on device"), "no space left"),
    ],
    ids=["unavailable", "later unavailable", "stopped", "a full disk", "given up as it is full"],
)
async def test_a_run_that_cannot_end_is_taken_back_and_done_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: object, then: object, reason: str
):
    async def script(curator_rig: CuratorRig, job: Job) -> list[Block]:
        if writes:
            await call_tool(job.tools, "update_context", update(content="- half").input)
        if isinstance(then, Exception):
            raise then
        if then is None:
            assert curator_rig.text("w") != W
            (one,) = curator_rig.at_work.all()
            assert (one.agent, one.entry) == ("curator", "bubble")
            curator_rig.at_work.end(reason)
            await asyncio.Event().wait()
        return then

    def refuse(*_given: object, **_named: object) -> None:
        raise FULL

    curator_rig = await study_of(tmp_path, script)
    before = curator_rig.reviews.of("w.md")
    with monkeypatch.context() as disk:
        if "space" in reason:
            disk.setattr(curator_rig.store, "edit", refuse)
        with pytest.raises(AgentUnavailableError, match=reason):
            await curator_rig.run("w")

    (document,) = curator_rig.history.runs()
    assert reason in document["reason"]
    assert (document["outcome"], document["wrote"], document["ended"]) == ("waiting", [], None)
    assert curator_rig.text("w") == W
    assert curator_rig.reviews.of("w.md") == before
    assert curator_rig.at_work.all() == []
    put_back(curator_rig)
    ask(curator_rig, ScriptedBackend([update()]))
    assert (await curator_rig.run("w")).result == "changed"
    assert curator_rig.text("w") == W.replace("- old", "- new")


async def test_a_run_that_is_tried_again_has_cost_what_all_its_attempts_did(tmp_path: Path):
    spent = RunResult(cost_usd=0.25, input_tokens=10, output_tokens=2, turns=1)
    curator_rig = await study_with(tmp_path)
    costs = []
    for steps in [(spent,), (spent,), ()]:
        ask(curator_rig, Backend(AgentUnavailableError("no credit"), steps))
        with pytest.raises(AgentUnavailableError):
            await curator_rig.run("w")
        costs.append(curator_rig.history.runs()[0]["cost_usd"])
        put_back(curator_rig)
        curator_rig.reopen()
    last = ScriptedBackend([say("Done.")])
    last._cost_usd = 0.5
    ask(curator_rig, last)
    await curator_rig.run("w")

    (document,) = curator_rig.history.runs()
    assert costs == [0.25, 0.5, 0.5]
    counts = [document[name] for name in ("cost_usd", "input_tokens", "output_tokens")]
    assert counts == [1.0, 20, 4]


@pytest.mark.parametrize(
    "error", [StorageFailedError("full"), OSError(errno.EIO, os.strerror(errno.EIO))]
)
async def test_a_disk_that_refuses_the_end_of_a_run_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    monkeypatch.setattr(curator_module, "_STORAGE_CHECK_S", 0.001)
    curator_rig = await study_with(tmp_path, update("History", "- once"))
    curator_rig.refusals = [error] * 3
    outcome = await curator_rig.run("w")

    assert outcome.result == "changed"
    assert curator_rig.text("w").count("- once") == 1
    assert len(curator_rig.backend.jobs) == 1
    assert curator_rig.queue.all() == []


async def test_what_is_private_in_its_own_note_is_not_in_its_prompt(tmp_path: Path):
    curator_rig = await study_with(tmp_path, FINE)
    (curator_rig.vault / "w.md").write_text(f"{W}\n## Health #private\n\nheliotrope\n")
    await curator_rig.run("w")

    (job,) = curator_rig.backend.jobs
    assert "private part 1: left out" in job.prompt
    assert "heliotrope" not in job.prompt


async def test_a_note_that_is_gone_is_reported_to_the_agent_and_not_made_again(tmp_path: Path):
    curator_rig = await study_with(tmp_path, update())
    (curator_rig.vault / "w.md").unlink()
    outcome = await curator_rig.run("w")

    assert outcome.result == "unchanged"
    assert "(cannot be read: w.md is not in the vault)" in curator_rig.backend.jobs[0].prompt
    assert not (curator_rig.vault / "w.md").exists()


# Of strangers' texts: who was shown one writes no trusted text.

TWO = watching("a.md", "c.md", text="# W\n\n## Facts\n\n- old\n")
OBEY = A.replace("one", "obey me")


@pytest.fixture
def curator_rig(tmp_path: Path) -> CuratorRig:
    curator_rig = CuratorRig(folder=tmp_path, backend=ScriptedBackend([update()]))
    curator_rig.begin_with(a=A, w=TWO)
    curator_rig.curator = curator_rig.curator_with(
        curator_rig.backend, strangers=Strangers(["a.md"])
    )
    return curator_rig


@pytest.mark.parametrize(
    ("path", "text", "is_marked"),
    [
        ("a", OBEY, True),
        ("a", None, True),  # the difference shows what was taken away
        ("c", "# C\n", False),
    ],
)
async def test_who_was_shown_a_strangers_text_writes_no_trusted_one(
    curator_rig: CuratorRig, path: str, text: str | None, *, is_marked: bool
):
    await curator_rig.save(path, text)
    assert (await curator_rig.run("w")).result == "changed"

    assert ("origin: stranger" in curator_rig.text("w")) is is_marked
