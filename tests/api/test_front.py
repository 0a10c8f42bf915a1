"""The front, over a running daemon: what a request passes, whatever the route."""

from __future__ import annotations

import pytest

from tests.api.calls import call, get, key_of, refused
from tests.stories.life import Live, note, save

REMOTE = {"X-Forwarded-For": "192.0.2.7"}


async def test_who_shows_no_key_does_not_learn_which_calls_there_are(live: Live):
    async with live() as life:
        for path in ("/api/notes", "/api/nothing", "/", "/api/auth/keys"):
            assert await refused(life, "GET", path, headers=REMOTE) == (401, "Valid API key required")
        assert (await call(life, "GET", "/api/health", headers=REMOTE))[0] == 200


async def test_a_key_may_what_its_scopes_say_and_no_more(live: Live, vault):
    save(vault / "a.md", note("A"))
    async with live() as life:
        reads = key_of(life, "vault:read")

        assert (await call(life, "GET", "/api/notes/a.md", headers=reads))[0] == 200
        assert await refused(life, "DELETE", "/api/notes/a.md", headers=reads) == (403, "this key may not write in vault")
        assert await refused(life, "POST", "/api/pause", headers=reads) == (403, "this key may not admin in curator")
        assert (await refused(life, "GET", "/api/nothing", headers=reads))[0] == 404
        assert (vault / "a.md").exists()


async def test_each_answer_to_an_error_has_an_id_of_its_own_and_the_audit_knows_it(live: Live):
    async with live() as life:
        answers = [(await call(life, "GET", "/api/notes/none.md"))[1] for _ in range(5)]
        assert life.daemon.audit.flush()
        told = (await get(life, "/api/audit?limit=100"))["events"]

    ids = {answer["request_id"] for answer in answers}
    assert len(ids) == 5
    assert ids <= {event["request_id"] for event in told}


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
async def test_a_compressed_body_is_not_unpacked(live: Live, encoding):
    async with live() as life:
        answer = await refused(life, "POST", "/api/bubble/plan", data=b"\x1f\x8b", headers={"Content-Encoding": encoding})

        assert answer[0] == 415


async def test_a_handler_that_fails_tells_no_more_than_an_id(live: Live, vault, monkeypatch):
    async with live() as life:

        def fail(*_arguments: object, **_named: object) -> None:
            raise OSError(5, "Input/output error", "/home/me/.parachute/keys.yaml")

        monkeypatch.setattr(life.daemon.history, "runs", fail)
        status, message = await refused(life, "GET", "/api/runs")

        assert status == 500
        assert "keys.yaml" not in message
        assert (await call(life, "GET", "/api/watches"))[0] == 200
