"""What the model cost, as the API tells it; and a run of the real CLI, whose credential no one sees
and whose cost everybody agrees on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import aiohttp
import pytest

from parachuted.agents.choice import choose_agent
from parachuted.agents.gateway.usage import RunToken
from parachuted.home_files.vault_state import state_folder
from parachuted.processes.heavy import load_heavy
from parachuted.tasks import worker
from parachuted.testing import ApiRefusal, Reply, ScriptedMessages, say, use
from tests.api.calls import expect, get, key_of
from tests.stories.daemon_rig import DaemonRig, Live, note, save

CANARY = "sk-ant-api03-canary-0123456789abcdef"
Paid = Callable[..., AbstractAsyncContextManager[DaemonRig]]


@pytest.fixture
def paid(live: Live, vault: Path, home: Path) -> Paid:
    """Start a daemon whose agents ask that model, with a key."""

    env = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": CANARY}

    def start(api: ScriptedMessages) -> AbstractAsyncContextManager[DaemonRig]:
        return live(
            choose=lambda settings: choose_agent(settings, state_folder(home, vault), env, home),
            agent__base_url=api.url,
            agent__backend="claude",
        )

    return start


async def test_doctor_says_why_no_model_answers_and_the_run_goes_on_later(
    paid: Paid, vault: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each refusal's words: tests/agents/gateway/test_upstream.py."""
    await load_heavy("claude")
    monkeypatch.setattr(worker, "_BACK_OFF_S", (0.05,))
    is_put_right = asyncio.Event()
    refusal = ApiRefusal(status=401, kind="authentication_error", message="wrong key")
    garden = vault / "Projects/garden/AGENTS.md"
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(garden, note("Garden"))
    edit = use("update_context", file_path="AGENTS.md", section="Current Focus", content="- sow")
    answers = iter([[edit], [say("done")]])
    script = [lambda _: next(answers) if is_put_right.is_set() else refusal] * 50
    async with ScriptedMessages(script) as api, paid(api) as daemon_rig:
        save(garden, note("Garden", focus="- plant"))
        await daemon_rig.until(lambda: daemon_rig.reported("vault.problem"))
        (found,) = (await get(daemon_rig, "/api/doctor"))["findings"]
        assert "answered 401" in found["problem"]
        assert CANARY not in str(found)
        is_put_right.set()
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        (finished,) = daemon_rig.reported("run.finished")
        assert finished["outcome"] == "changed"
        assert (await get(daemon_rig, "/api/doctor"))["findings"] == []


async def test_the_cost_of_a_run_is_told_everywhere_its_credential_nowhere(
    paid: Paid, vault: Path, home: Path
):
    await load_heavy("claude")
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / "Projects/garden/AGENTS.md", note("Garden"))
    environments: list[bytes] = []
    async with ScriptedMessages() as api:

        def look(_request: object) -> Reply:
            environments.extend(_environments(home))
            edit = use(
                "update_context",
                file_path="AGENTS.md",
                section="Current Focus",
                content=f"- sow {CANARY[:6]}",
            )
            return Reply(blocks=(edit,), usage={"input_tokens": 10_000})

        api.add(look, [say("done")])
        async with paid(api) as daemon_rig:
            save(vault / "Projects/garden/AGENTS.md", note("Garden", focus="- sow"))
            await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
            spent = (await get(daemon_rig, "/api/usage"))["spent"]
            (listed,) = (await get(daemon_rig, "/api/runs"))["runs"]
            run = await get(daemon_rig, f"/api/runs/{listed['id']}")
            assert [event for event in daemon_rig.events if CANARY in repr(event)] == []

    assert {request.headers["x-api-key"] for request in api.asked} == {CANARY}
    assert environments
    assert not any(CANARY.encode() in environment for environment in environments)
    cost = pytest.approx((10_100 + 40 * 5) / 1e6)
    assert (run["outcome"], run["cost_usd"], spent["total"]["usd"]) == ("changed", cost, cost)
    assert [one["name"] for one in spent["runs"]] == [run["id"]]
    causes = [one["name"] for one in spent["causes"]]
    assert causes == [cause["id"] for cause in run["causes"]]
    files = (path for folder in (vault, home) for path in folder.rglob("*") if path.is_file())
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


def _environments(home: Path) -> list[bytes]:
    """The environments of the processes that live in that home."""
    found = []
    for entry in os.scandir("/proc"):
        try:
            data = (Path(entry.path) / "environ").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        found += [data] if f"HOME={home}".encode() in data else []
    return found


async def test_what_was_spent_is_for_keys_of_the_whole_vault(paid: Paid):
    async with ScriptedMessages([[say("x")]]) as api, paid(api) as daemon_rig:
        gateway = daemon_rig.daemon.agents.chosen.gateway
        run_token = RunToken(
            run="r", agent="a", causes=("c",), session="s", max_cost_usd=1, model="a-local-one"
        )
        async with gateway.open(run_token) as way, aiohttp.ClientSession() as session:
            body, headers = {"model": "a-local-one"}, {"x-api-key": way.token}
            async with session.post(f"{way.url}/v1/messages", json=body, headers=headers) as answer:
                await answer.read()
        whole = (await get(daemon_rig, "/api/usage?days=3"))["spent"]
        narrow = key_of(daemon_rig, "system:read", paths=["Projects/**"])
        await expect(daemon_rig, 403, "GET", "/api/usage?days=3", headers=narrow)
        await expect(daemon_rig, 400, "GET", "/api/usage?days=0")

    for name in ("agents", "models", "causes", "sessions", "runs"):
        assert whole[name][0]["requests"] == 1
    assert "a-local-one" in whole["notes"][0]
