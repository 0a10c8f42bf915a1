"""Curator: one run from the differences to the record, whatever its backend does."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from parachuted.agents import Job, RunResult, Step, call_tool
from parachuted.errors import (
    AgentFailedError,
    AgentUnavailableError,
    HookRefusedError,
    StorageFailedError,
)
from parachuted.runs import curator as curator_module
from parachuted.runs import curator_run, run
from parachuted.testing import Block, ScriptedBackend, say, use
from parachuted.vault import VaultPath
from tests.bubbling.reconciler_rig import watching
from tests.tools.curator_rig import LIMITS, CuratorRig

A = "# A\n\n## Facts\n\n- one\n"
B = A.replace("one", "two")
W = watching("a.md", text="# W\n\n## Facts\n\n- old\n\n## History\n")


@dataclass
class Backend:
    """Does to each job what it is told, and remembers them."""

    act: Callable[[Job], None]
    name: str = "odd"
    jobs: list[Job] = field(default_factory=list)

    async def run(self, job: Job) -> AsyncIterator[Step]:
        self.jobs.append(job)
        self.act(job)
        for step in ():
            yield step

    async def close(self) -> None:
        pass


def raising(error: BaseException) -> Backend:
    def act(_job: Job) -> None:
        raise error

    return Backend(act)


async def study_with(folder: Path, *blocks: Block, **texts: str) -> CuratorRig:
    """A study in which `a` has changed, and an agent that plays these blocks."""
    curator_rig = CuratorRig(folder=folder, backend=ScriptedBackend(blocks))
    curator_rig.begin_with(a=A, w=W, **texts)
    await curator_rig.save("a", B)
    return curator_rig


def ask(curator_rig: CuratorRig, backend: object) -> None:
    """From now on the curator asks that one."""
    curator_rig.curator = curator_rig.curator_with(backend)


def update(section: str = "Facts", content: str = "- new") -> Block:
    return use("update_context", file_path="w.md", section=section, content=content)


async def test_a_run_is_asked_for_with_what_changed_and_writes_what_the_agent_says(tmp_path: Path):
    curator_rig = await study_with(tmp_path, update())
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


async def test_afterwards_the_difference_is_seen_and_the_task_is_gone(tmp_path: Path):
    curator_rig = await study_with(tmp_path, update())
    await curator_rig.run("w")

    assert curator_rig.queue.all() == []
    assert not curator_rig.reviews.has("w.md")
    (reported,) = curator_rig.reported("run.finished")
    assert (reported["watcher"], reported["outcome"], reported["paths"]) == (
        "w.md",
        "changed",
        ["w.md"],
    )


async def test_those_who_watch_the_note_are_woken_before_the_task_is_over(tmp_path: Path):
    curator_rig = await study_with(tmp_path, update(), v=watching("w.md"))
    await curator_rig.run("w")

    assert curator_rig.waiting() == ["v"]
    assert curator_rig.queue.queued("v.md").parents == (curator_rig.history.runs()[0]["id"],)


async def test_a_run_leaves_a_document_of_all_it_did(tmp_path: Path):
    curator_rig = await study_with(
        tmp_path, say("I see."), update(), use("read_context", file_path="secret.md")
    )
    await curator_rig.run("w")
    (document,) = curator_rig.history.runs()

    assert (document["outcome"], document["watcher"], document["backend"], document["ended"]) == (
        "changed",
        "w.md",
        "scripted",
        curator_rig.now.isoformat(),
    )
    assert document["causes"] == [
        {
            "id": "c3",
            "kind": "change",
            "path": "a.md",
            "files": 1,
            "at": curator_rig.now.isoformat(),
        }
    ]
    assert [step.get("said") or (step["called"], step["error"]) for step in document["steps"]] == [
        "I see.",
        ("update_context", False),
        ("read_context", True),
    ]
    assert [(one["path"], one["kind"]) for one in document["reviewed"]] == [("a.md", "modified")]
    (wrote,) = document["wrote"]
    assert "-- old\n+- new\n" in wrote["diff"]


async def test_an_agent_that_declines_ends_unchanged_with_its_reason(tmp_path: Path):
    curator_rig = await study_with(tmp_path, use("no_change", reason="still true"))
    outcome = await curator_rig.run("w")

    assert (outcome.result, outcome.reason) == ("unchanged", "still true")
    assert not curator_rig.reviews.has("w.md")


async def test_an_agent_that_only_talks_ends_unchanged_with_its_last_words(tmp_path: Path):
    curator_rig = await study_with(tmp_path, say("first"), say("last"))

    assert (await curator_rig.run("w")).reason == "last"


async def test_writing_and_taking_it_back_is_not_a_change(tmp_path: Path):
    curator_rig = await study_with(tmp_path, update(), update(content="- old"))

    assert (await curator_rig.run("w")).result == "unchanged"
    assert curator_rig.history.runs()[0]["wrote"] == []


async def test_a_run_with_nothing_left_to_review_asks_no_one(tmp_path: Path):
    curator_rig = await study_with(tmp_path, update())
    running = curator_rig.begin("w")
    await curator_rig.save("a", A)
    curator_rig.queue.put_back(running, due_at=curator_rig.now, reason=None)
    outcome = await curator_rig.run("w")

    assert (outcome.result, outcome.reason) == ("unchanged", "nothing was left to review")
    assert curator_rig.backend.jobs == []


async def test_what_changes_during_the_run_is_left_for_the_next(tmp_path: Path):
    curator_rig = await study_with(tmp_path)

    async def script(job: Job) -> list[Block]:
        if len(curator_rig.backend.jobs) == 1:
            await curator_rig.save("a", B.replace("two", "three"))
        return [use("no_change", reason="fine")]

    curator_rig.backend._script = script
    await curator_rig.run("w")

    assert curator_rig.waiting() == ["w"]
    await curator_rig.run("w")
    assert "-- two\n+- three\n" in curator_rig.backend.jobs[1].changes[0].diff


async def test_a_persons_edit_of_the_own_note_since_the_run_began_is_not_overwritten(
    tmp_path: Path,
):
    curator_rig = await study_with(tmp_path)

    async def script(_job: Job) -> list[Block]:
        (curator_rig.vault / "w.md").write_text(W.replace("- old", "- a person's"))
        return [update()]

    curator_rig.backend._script = script
    outcome = await curator_rig.run("w")

    assert outcome.result == "unchanged"
    assert "- a person's" in curator_rig.text("w")


async def test_an_agents_session_is_kept_for_its_watcher(tmp_path: Path):
    curator_rig = await study_with(tmp_path, use("no_change", reason="fine"))
    await curator_rig.run("w")
    await curator_rig.save("a", A)
    await curator_rig.run("w")

    assert [job.session_id for job in curator_rig.backend.jobs] == [None, "scripted-w.md"]


async def test_a_session_ends_before_it_grows_without_bound(tmp_path: Path):
    curator_rig = await study_with(tmp_path, use("no_change", reason="fine"))
    for turn in range(22):
        await curator_rig.save("a", A.replace("# A", f"# A{turn}"))
        await curator_rig.run("w")

    begun = [
        number for number, job in enumerate(curator_rig.backend.jobs) if job.session_id is None
    ]
    assert begun == [0, 20]


async def test_a_moved_and_a_deleted_note_are_reported_as_such(tmp_path: Path):
    curator_rig = CuratorRig(
        folder=tmp_path, backend=ScriptedBackend([use("no_change", reason="fine")])
    )
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
    curator_rig = CuratorRig(
        folder=tmp_path, backend=ScriptedBackend([use("no_change", reason="fine")])
    )
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


async def test_an_agent_that_fails_leaves_the_difference_open_and_no_task(tmp_path: Path):
    curator_rig = await study_with(tmp_path)
    before = curator_rig.reviews.of("w.md")
    ask(curator_rig, raising(AgentFailedError("out of money")))
    outcome = await curator_rig.run("w")

    assert (outcome.result, outcome.reason) == ("failed", "out of money")
    assert curator_rig.reviews.of("w.md") == before
    assert curator_rig.queue.all() == []


async def test_an_agent_that_is_unavailable_has_the_run_wait(tmp_path: Path):
    curator_rig = await study_with(tmp_path)
    before = curator_rig.reviews.of("w.md")
    ask(curator_rig, raising(AgentUnavailableError("no login")))
    with pytest.raises(AgentUnavailableError):
        await curator_rig.run("w")

    (document,) = curator_rig.history.runs()
    assert (document["outcome"], document["reason"], document["ended"]) == (
        "waiting",
        "no login",
        None,
    )
    assert curator_rig.reviews.of("w.md") == before
    assert len(curator_rig.queue.running()) == 1


async def test_a_run_that_is_tried_again_has_cost_what_all_its_attempts_did(tmp_path: Path):
    spent = RunResult(cost_usd=0.25, input_tokens=10, output_tokens=2, turns=1)

    class Failing:
        name = "failing"
        steps: tuple[Step, ...] = (spent,)

        async def run(self, _job: Job) -> AsyncIterator[Step]:
            for step in self.steps:
                yield step
            raise AgentUnavailableError("no credit")

    curator_rig = await study_with(tmp_path, say("Done."))
    curator_rig.backend._cost_usd = 0.5
    failing = Failing()
    costs = []
    for steps in [(spent,), (spent,), ()]:
        failing.steps = steps
        ask(curator_rig, failing)
        with pytest.raises(AgentUnavailableError):
            await curator_rig.run("w")
        costs.append(curator_rig.history.runs()[0]["cost_usd"])
        (task,) = curator_rig.queue.running()
        with curator_rig.state.batch():
            curator_rig.queue.put_back(task, due_at=curator_rig.now, reason=None)
        curator_rig.reopen()
    ask(curator_rig, curator_rig.backend)
    await curator_rig.run("w")

    (document,) = curator_rig.history.runs()
    assert costs == [0.25, 0.5, 0.5]
    assert [document[name] for name in ("cost_usd", "input_tokens", "output_tokens")] == [
        1.0,
        20,
        4,
    ]


async def test_an_agent_that_is_unavailable_after_it_wrote_is_taken_back_and_waits(tmp_path: Path):
    curator_rig = await study_with(tmp_path)

    async def script(job: Job) -> list[Block]:
        await job.tools[2].call({"file_path": "w.md", "section": "Facts", "content": "- new"})
        raise AgentUnavailableError("gone")

    curator_rig.backend._script = script

    with pytest.raises(AgentUnavailableError, match="gone"):
        await curator_rig.run("w")
    (document,) = curator_rig.history.runs()
    assert (document["outcome"], document["wrote"], curator_rig.text("w")) == ("waiting", [], W)
    assert len(curator_rig.queue.running()) == 1


async def test_a_run_whose_writes_the_disk_refuses_waits_and_is_done_when_the_disk_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_given: object, **_named: object) -> None:
        raise StorageFailedError("no space left on device")

    curator_rig = await study_with(tmp_path, update(), say("I could not write."))
    with monkeypatch.context() as full:
        full.setattr(curator_rig.store, "edit", refuse)
        with pytest.raises(AgentUnavailableError, match="no space left"):
            await curator_rig.run("w")
    assert [document["outcome"] for document in curator_rig.history.runs()] == ["waiting"]
    (task,) = curator_rig.queue.running()
    with curator_rig.state.batch():
        curator_rig.queue.put_back(task, due_at=curator_rig.now, reason=None)

    assert (await curator_rig.run("w")).result == "changed"
    assert curator_rig.text("w") == W.replace("- old", "- new")


async def test_an_agent_that_gives_up_since_the_disk_refuses_its_write_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_given: object, **_named: object) -> None:
        raise StorageFailedError("no space left on device")

    async def give_up(job: Job) -> list[Block]:
        await job.tools[2].call({"file_path": "w.md", "section": "Facts", "content": "- new"})
        raise AgentFailedError("update_context: no space left on device")

    curator_rig = await study_with(tmp_path)
    curator_rig.backend._script = give_up
    monkeypatch.setattr(curator_rig.store, "edit", refuse)

    with pytest.raises(AgentUnavailableError, match="no space left"):
        await curator_rig.run("w")
    assert [document["outcome"] for document in curator_rig.history.runs()] == ["waiting"]
    assert len(curator_rig.queue.running()) == 1


async def test_a_run_whose_write_a_hook_refuses_has_failed_with_the_hooks_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_given: object, **_named: object) -> None:
        raise HookRefusedError(
            "a hook refused the write to w.md, so nothing was written: it is Sunday"
        )

    curator_rig = await study_with(tmp_path, update(), say("I could not write."))
    monkeypatch.setattr(curator_rig.store, "edit", refuse)
    outcome = await curator_rig.run("w")

    assert (outcome.result, "it is Sunday" in outcome.reason, curator_rig.reviews.has("w.md")) == (
        "failed",
        True,
        True,
    )


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("bug"),
        asyncio.CancelledError(),
        ExceptionGroup("many", [ValueError()]),
        StorageFailedError("its own"),
        TimeoutError(),
    ],
)
async def test_a_backend_that_breaks_has_failed_and_nothing_more(
    tmp_path: Path, error: BaseException
):
    curator_rig = await study_with(tmp_path)
    ask(curator_rig, raising(error))
    outcome = await curator_rig.run("w")

    assert outcome.result == "failed"
    assert outcome.reason.startswith("the backend odd broke")
    assert curator_rig.reviews.has("w.md")


@pytest.mark.parametrize("step", [None, "words", 5, object()])
async def test_a_backend_that_reports_rubbish_has_failed(tmp_path: Path, step: object):
    class InvalidBackend(Backend):
        async def run(self, _job: Job) -> AsyncIterator[Step]:
            yield step

    curator_rig = await study_with(tmp_path)
    ask(curator_rig, InvalidBackend(lambda _job: None))

    assert (await curator_rig.run("w")).result == "failed"


async def test_a_backend_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Endless(Backend):
        async def run(self, _job: Job) -> AsyncIterator[Step]:
            await asyncio.Event().wait()
            yield say("never")

    curator_rig = await study_with(tmp_path)
    ask(curator_rig, Endless(lambda _job: None))
    monkeypatch.setattr(run, "_GRACE_S", 0.01 - LIMITS.timeout_s)

    assert (await curator_rig.run("w")).result == "failed"


async def test_a_run_that_is_cancelled_is_left_as_it_stands(tmp_path: Path):
    begun = asyncio.Event()

    async def script(_job: Job) -> list[Block]:
        begun.set()
        await asyncio.Event().wait()
        return []

    curator_rig = await study_with(tmp_path)
    curator_rig.backend._script = script
    running = asyncio.get_running_loop().create_task(curator_rig.run("w"), name="run")
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert len(curator_rig.queue.running()) == 1
    assert [document["outcome"] for document in curator_rig.history.runs()] == ["running"]


@pytest.mark.parametrize(
    "error", [StorageFailedError("full"), OSError(errno.EIO, os.strerror(errno.EIO))]
)
async def test_a_disk_that_refuses_the_end_of_a_run_is_waited_for_and_the_agent_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    monkeypatch.setattr(curator_run, "_STORAGE_CHECK_S", 0.001)
    curator_rig = await study_with(tmp_path, update("History", "- once"))
    curator_rig.refusals = [error] * 3
    outcome = await curator_rig.run("w")

    assert outcome.result == "changed"
    assert curator_rig.text("w").count("- once") == 1
    assert len(curator_rig.backend.jobs) == 1
    assert curator_rig.queue.all() == []


async def test_a_note_that_is_gone_is_reported_to_the_agent_and_not_made_again(tmp_path: Path):
    curator_rig = await study_with(tmp_path, update())
    (curator_rig.vault / "w.md").unlink()
    outcome = await curator_rig.run("w")

    assert outcome.result == "unchanged"
    assert "(cannot be read: w.md is not in the vault)" in curator_rig.backend.jobs[0].prompt
    assert not (curator_rig.vault / "w.md").exists()


async def test_a_run_that_is_stopped_is_taken_back_and_its_task_waits_to_be_done_again(
    tmp_path: Path,
):
    curator_rig = await study_with(tmp_path)

    async def half_done(job: Job) -> list[Block]:
        await call_tool(job.tools, "update_context", update().input)
        assert [(one.agent, one.entry) for one in curator_rig.at_work.all()] == [
            ("curator", "bubble")
        ]
        assert curator_rig.text("w") != W
        curator_rig.at_work.end("you stopped all agents")
        await asyncio.Event().wait()
        return []

    ask(curator_rig, ScriptedBackend(half_done))
    with pytest.raises(AgentUnavailableError, match="you stopped all agents"):
        await curator_rig.run("w")

    assert curator_rig.text("w") == W
    (document,) = curator_rig.history.runs()
    assert (document["outcome"], document["reason"], document["wrote"]) == (
        "waiting",
        "you stopped all agents",
        [],
    )
    ask(curator_rig, ScriptedBackend([update()]))
    (task,) = curator_rig.queue.running()
    with curator_rig.state.batch():
        curator_rig.queue.put_back(task, due_at=curator_rig.now, reason=None)
    assert (await curator_rig.run("w")).result == "changed"
    assert curator_rig.text("w") == W.replace("- old", "- new")
    assert curator_rig.at_work.all() == []


@pytest.mark.parametrize(
    "path", ["Modules/daily/AGENTS.md", ".claude/CLAUDE.md", "Suggestions/x.md"]
)
def test_what_a_curator_may_is_granted_as_any_agents_and_no_control_file_is_written(path: str):
    grant = curator_module._grant(
        VaultPath(path), [], [VaultPath("a.md"), VaultPath(".claude/settings.json")]
    )

    assert (grant.is_writable, grant.watched) == (False, (VaultPath("a.md"),))
    assert curator_module._grant(VaultPath("[odd]*/AGENTS.md"), [], []).is_writable
