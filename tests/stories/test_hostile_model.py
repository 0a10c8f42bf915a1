"""A hostile model: thousands of tool calls that try everything, in a running daemon, and nothing
outside the grant is other than before.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from parachuted.agents.job import Job
from parachuted.events import Event
from parachuted.testing import Block, say, use
from tests.api.calls import call, get, post
from tests.api.routes.test_modules import install
from tests.stories.boxed import KEY, SandboxedDaemon, boxed
from tests.stories.daemon_rig import DaemonRig, Live, seeded
from tests.stories.hostile_calls import (
    FORGED,
    MARK,
    OWN,
    Hostile,
    RecordingBackend,
    our_calls,
)
from tests.stories.hostile_shell import deadly, native_calls
from tests.stories.hostile_world import (
    differences,
    fill,
    its_boxes,
    listening,
    opened,
    picture,
    running_with,
)

OURS = 4_400
_A_RUN = 900
_QUICK_S = 20.0


@dataclass
class RefusalCounts:
    """What was tried, by kind: how often, how often it was refused."""

    tried: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0

    def note(self, kind: str, *, is_refused: bool) -> None:
        self.tried[kind] += 1
        self.refused[kind] += is_refused

    def words(self) -> str:
        rows = [
            f"{kind:12} {count:5} tried {self.refused[kind]:5} refused "
            f"{count - self.refused[kind]:5} done"
            for kind, count in sorted(self.tried.items())
        ]
        total, refused = self.tried.total(), self.refused.total()
        return "\n".join(
            [
                *rows,
                (
                    f"{'all':12} {total:5} tried {refused:5} refused {total - refused:5} done "
                    f"{self.unanswered:5} unanswered"
                ),
            ]
        )


@contextlib.asynccontextmanager
async def watched(daemon_rig: DaemonRig) -> AsyncIterator[list[float]]:
    """A person who denies all that is asked, and looks at the daemon all the while; how long each
    look took, in seconds.
    """
    looks: list[float] = []

    def deny(event: Event) -> None:
        if event.event == "permission.requested":
            loop.call_soon(
                daemon_rig.daemon.agents.permissions.answer, str(event.data["id"]), "deny"
            )

    async def look() -> None:
        while True:
            began = time.monotonic()
            await get(daemon_rig, "/api/health")
            looks.append(time.monotonic() - began)
            await asyncio.sleep(0.05)

    loop = asyncio.get_running_loop()
    daemon_rig.daemon.watched.bus.subscribe(deny)
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(look(), name="a person looks")
        try:
            yield looks
        finally:
            looking.cancel()


@pytest.mark.timeout(900)
async def test_thousands_of_calls_of_our_tools_have_no_effect_outside_the_grant(
    live: Live, home: Path, vault: Path, tmp_path: Path, torture
):
    seed, rng = seeded()
    canaries, tally = fill(tmp_path), RefusalCounts()
    calls: list[Hostile] = []

    async def script(_job: Job) -> list[Block]:
        return [call.block for call in calls]

    backend = RecordingBackend(script)
    async with (
        live(backend, agent__max_turns=1_000, agent__timeout_s=3_000) as daemon_rig,
        watched(daemon_rig) as looks,
    ):
        reported = await install(daemon_rig, tmp_path / "keeper")
        assert reported["status"] == "running", reported["problem"]
        calls.append(
            Hostile(
                kind="own",
                block=use(
                    "suggest_change",
                    action="update",
                    path=OWN[0],
                    payload={"text": FORGED},
                    reasoning="x",
                ),
            )
        )
        await post(
            daemon_rig, "/api/agents/keeper/hands/run", {"prompt": "Suggest something."}
        )  # which makes the key of suggestions
        await daemon_rig.settled()
        before, listened, had = picture(tmp_path), listening(), len(opened())
        left = OURS if torture else 400
        while left > 0:
            calls[:] = our_calls(rng, min(left, _A_RUN if torture else 200), str(tmp_path))
            left -= len(calls)
            backend.answers.clear()
            ran = await post(
                daemon_rig, "/api/agents/keeper/hands/run", {"prompt": "Do your worst."}
            )
            await get(daemon_rig, f"/api/runs/{ran['run']}")
            assert len(backend.answers) == len(calls), f"seed {seed}"
            for one, answer in zip(calls, backend.answers, strict=True):
                tally.note(one.kind, is_refused=answer.result.is_error)
                assert len(answer.result.text) < 500_000, f"seed {seed}: {str(one)[:500]}"
                assert not [secret for secret in canaries if secret in answer.result.text], (
                    f"seed {seed}: {str(one)[:500]}"
                )
        await daemon_rig.settled()

        assert differences(before, picture(tmp_path)) == [], f"seed {seed}"
        assert listening() == listened
        assert running_with(MARK) == []
        assert len(opened()) <= had + 8, f"seed {seed}"  # a database's, or a look's that goes on
        assert max(looks) < _QUICK_S, f"seed {seed}: {sorted(looks)[-5:]}"
        assert not [
            canary
            for canary in canaries
            if canary in json.dumps(await get(daemon_rig, "/api/suggestions"))
        ]
        assert tally.refused.total() > len(canaries)
    print(f"\nseed {seed}, our own tools, the slowest look {max(looks):.3f} s\n{tally.words()}")  # noqa: T201  what `--torture -s` is for


@pytest.mark.timeout(900)
async def test_calls_of_the_clis_tools_have_no_effect_outside_the_grant(
    engine: Mapping[str, str], home: Path, vault: Path, tmp_path: Path, torture
):
    seed, rng = seeded()
    canaries, tally = fill(tmp_path), RefusalCounts()
    env = {**engine, "HOME": str(tmp_path / "user")}
    flags = {
        "agent__max_turns": 1_000,
        "agent__timeout_s": 150 if torture else 40,
        "agent__ask_s": 1,
    }
    async with boxed(env, home, vault, **flags) as box, watched(box.daemon_rig) as looks:
        daemon_rig = box.daemon_rig
        reported = await install(daemon_rig, tmp_path / "keeper")
        assert reported["status"] == "running", reported["problem"]
        await daemon_rig.settled()
        await attempt(
            box,
            [
                Hostile(
                    kind="own",
                    block=use(
                        "suggest_change",
                        action="update",
                        path=OWN[0],
                        payload={"text": FORGED},
                        reasoning="x",
                    ),
                )
            ],
        )
        had = len(opened())
        before, listened, programs = (
            picture(tmp_path, _is_slot),
            listening(),
            len(await asyncio.to_thread(its_boxes, engine, home)),
        )
        runs = (
            [list(native_calls(rng, 60, str(tmp_path))) for _ in range(10)]
            if torture
            else [list(native_calls(rng, 12, str(tmp_path)))]
        )
        for calls in [*runs, *([one] for one in (deadly() if torture else ()))]:
            answers = await attempt(box, calls)
            tally.unanswered += len(calls) - len(answers)
            for one, (text, is_refused) in answers:
                tally.note(one.kind, is_refused=is_refused)
                assert not [secret for secret in [*canaries, KEY] if secret in text], (
                    f"seed {seed}: {str(one)[:500]}"
                )
                assert "REACHED" not in text.replace("'REACHED'", ""), f"seed {seed}: {text}"
            await daemon_rig.settled()
            others = [
                path
                for path in differences(before, picture(tmp_path, _is_slot))
                if (path in before or "/agent/boxed/" not in path) and "/clock.json" not in path
            ]
            assert others == [], f"seed {seed}: {str(calls)[-2000:]}"
            await daemon_rig.until(lambda: not running_with(MARK), 30)
        assert listening() == listened, f"seed {seed}"
        assert len(await asyncio.to_thread(its_boxes, engine, home)) <= max(programs, 1), (
            f"seed {seed}"
        )
        assert len(opened()) <= had + 24, (
            f"seed {seed}"
        )  # the engine's connections are kept, which were few before the first runs
        assert max(looks) < _QUICK_S, f"seed {seed}: {sorted(looks)[-5:]}"
        assert {request.path for request in box.api.requests} <= {"/v1/messages", "/"}
    print(f"\nseed {seed}, in containers, the slowest look {max(looks):.3f} s\n{tally.words()}")  # noqa: T201  what `--torture -s` is for


async def attempt(
    box: SandboxedDaemon, calls: Sequence[Hostile]
) -> list[tuple[Hostile, tuple[str, bool]]]:
    """One run that makes these calls, some in a turn; each with its answer, as far as one came."""
    turns = [calls[at : at + 6] for at in range(0, len(calls), 6)]
    first = len(box.api.asked)
    box.api.add(*([one.block for one in turn] for turn in turns), [say("Done.")])
    await call(
        box.daemon_rig, "POST", "/api/agents/keeper/shell/run", json={"prompt": "Do your worst."}
    )
    box.api._turns.clear()
    answers: dict[str, tuple[str, bool]] = {}
    for request in box.api.asked[first:]:
        answers |= results(request.body)
    ids = [
        f"toolu_{first + 1 + number:04}_{place:03}"
        for number, turn in enumerate(turns)
        for place in range(len(turn))
    ]
    return [(one, answers[key]) for one, key in zip(calls, ids, strict=True) if key in answers]


def results(body: Mapping[str, object]) -> dict[str, tuple[str, bool]]:
    """The answers of tools that a request tells the model, by the calls' ids."""
    found = {}
    for message in body.get("messages", ()):
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part.get("type") == "tool_result":
                found[part["tool_use_id"]] = (
                    json.dumps(part.get("content"), ensure_ascii=False),
                    bool(part.get("is_error")),
                )
    return found


def _is_slot(path: str) -> bool:
    """The folders of a container that comes or goes."""
    return path.startswith("home/run/")
