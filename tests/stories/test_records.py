"""What a key learns and may do by records: of undone runs, of a note's past, of moves."""

from __future__ import annotations

from parachuted.agents.job import Job
from parachuted.testing import Block, ScriptedBackend, say, use
from tests.api.calls import call, get, key_of
from tests.stories.daemon_rig import DaemonRig, Live, note, save

SHOP = "Shop/AGENTS.md"
HIDDEN = "Private/secret.md"
CANARY = "canary7141"


async def reads_all(job: Job) -> list[Block]:
    """A curator that reads all that it may, says so, and writes nothing of it."""
    blocks: list[Block] = [use("list_context_files")]
    blocks += [
        use("read_context", file_path=path) for path in (HIDDEN, "Shop/stock.md", job.watcher)
    ]
    blocks += [
        use("update_context", file_path=job.watcher, section="Current Focus", content="- looked")
    ]
    return [*blocks, say("nothing to add")]


def shop(vault, *watched: str) -> None:
    save(vault / HIDDEN, f"# Secret\n\n{CANARY}\n")
    save(vault / "Shop/stock.md", "# Stock\n\n- tea\n")
    save(vault / SHOP, note("Shop", watch=list(watched)))


async def ran(daemon_rig: DaemonRig, path: str, text: str) -> str:
    """The newest run of the shop's note, once that was saved."""
    save(daemon_rig.vault / path, text)
    await daemon_rig.settled()
    return next(
        run["id"] for run in (await get(daemon_rig, "/api/runs"))["runs"] if run["watcher"] == SHOP
    )


async def test_an_undo_takes_the_right_to_write_the_whole_vault(live: Live, vault):
    shop(vault, "Shop/stock.md")
    async with live(ScriptedBackend(reads_all)) as daemon_rig:
        run = await ran(daemon_rig, "Shop/stock.md", "# Stock\n\n- tea\n- rice\n")
        save(vault / SHOP, (vault / SHOP).read_text().replace("- looked", f"- {CANARY}"))
        await daemon_rig.settled()
        before = (vault / SHOP).read_bytes()
        for scopes in (
            ("curator:write",),
            ("curator:write", "vault:read"),
            ("curator:write", "daily:write"),
        ):
            assert (
                await call(
                    daemon_rig, "POST", f"/api/runs/{run}/undo", headers=key_of(daemon_rig, *scopes)
                )
            )[0] == 403
        assert (vault / SHOP).read_bytes() == before
        status, undone = await call(
            daemon_rig,
            "POST",
            f"/api/runs/{run}/undo",
            headers=key_of(daemon_rig, "curator:write", "vault:write"),
        )

    assert (status, list(undone["kept"])) == (200, [SHOP])
