import aiohttp

from parachuted.agents.choice import BackendChoice
from parachuted.agents.offline import OfflineBackend
from tests.api.calls import get


async def build(daemon_rig, body, **options):
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{daemon_rig.url}/api/sandbox/build", json=body, **options) as answer,
    ):
        return answer.status, answer.content_type, await answer.text()


async def test_without_sandboxes_it_says_so_and_a_build_fails_in_its_stream(live):
    async with live() as daemon_rig:
        reported = await get(daemon_rig, "/api/sandbox")
        assert (reported["available"], reported["image"]) == (False, None)
        assert (await get(daemon_rig, "/api/health?detailed=true"))["docker"] == {
            "available": False,
            "image_exists": False,
        }

        status, kind, text = await build(daemon_rig, {})

        assert (status, kind) == (200, "text/event-stream")
        assert text.startswith("event: build_error\ndata: {")


async def test_with_an_engine_the_image_is_built_and_seen(live, sandboxes):
    choice = BackendChoice(
        backend=OfflineBackend(), reason="for a test", model=None, sandboxes=sandboxes
    )
    async with live(choose=lambda _settings: choice) as daemon_rig:
        status, _, text = await build(daemon_rig, {"offline": True})

        assert status == 200
        assert text.count("event: build_progress\n") == 2
        assert text.endswith('event: build_complete\ndata: {"type": "build_complete"}\n\n')
        assert await get(daemon_rig, "/api/sandbox") == {
            "available": True,
            "problem": None,
            "engine": (await sandboxes.status()).engine,
            "image": "host",
        }
        assert (await get(daemon_rig, "/api/health?detailed=true"))["docker"] == {
            "available": True,
            "image_exists": True,
        }
