from __future__ import annotations

import json
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request
from aiohttp.web import HTTPConflict

from parachuted.access.filter import AccessFilter
from parachuted.api.http.answers import answer_to, error_body
from parachuted.api.http.route import ApiCall
from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    ModuleFailedError,
    NotFoundError,
    ParachuteError,
    PathRefusedError,
    StorageFailedError,
)
from parachuted.keys import Identity, KeyScope, PathGlob
from parachuted.vault import Requester, VaultRoot
from tests.api.calls import call, refused
from tests.stories.daemon_rig import DaemonRig

STATUSES = [
    (NotFoundError("no note"), 404),
    (PathRefusedError("no path"), 400),
    (EditRefusedError("no edit"), 422),
    (ActRefusedError("no, says the hook"), 403),
    (ModuleFailedError("no answer"), 502),
    (ConflictError("no merge", base=b"", ours=b"", theirs=b""), 409),
    (StorageFailedError("no space"), 507),
    (ParachuteError("no"), 500),
]


def answered(error: Exception) -> tuple[int, dict[str, str]]:
    answer = answer_to(error, make_mocked_request("GET", "/api/x"), "abc123")
    return answer.status, json.loads(answer.body)


def test_a_conflict_shows_no_text_of_a_note_that_is_a_link_by_then(tmp_path):
    (tmp_path / "vault/A").mkdir(parents=True)
    (tmp_path / "vault/A/x.md").symlink_to(tmp_path / "elsewhere.md")
    scope = KeyScope(module="vault", capabilities=frozenset({"write"}), paths=(PathGlob("A/**"),))
    identity = Identity(kind="key", id="k", name="n", scopes=(scope,))
    call = ApiCall(
        request=make_mocked_request("PUT", "/api/x"),
        route=SimpleNamespace(module="vault", capability="write"),
        identity=identity,
        files=AccessFilter(VaultRoot(tmp_path / "vault"), identity.grant("vault", "write")),
        requester=Requester("api_key", "key", "r"),
    )
    call.touched.append("A/x.md")
    found = call.shown(ConflictError("no merge", base=b"", ours=b"", theirs=b"secret"))
    assert (type(found), found.text) == (HTTPConflict, "no merge")


@pytest.mark.parametrize(("error", "status"), STATUSES)
def test_a_named_error_has_its_status_and_says_its_sentence(error, status):
    got, body = answered(error)

    assert (got, body) == (status, body | error_body(status, error.message, "abc123"))


def test_an_unexpected_error_is_logged_whole_and_answered_with_an_id(caplog):
    status, body = answered(OSError(5, "Input/output error", "/home/me/.parachute/keys.yaml"))

    assert status == 500
    assert "keys.yaml" not in json.dumps(body)
    assert body["request_id"] in body["message"]
    assert [record.request_id for record in caplog.records] == [body["request_id"]]
    assert "keys.yaml" in caplog.text


@pytest.mark.parametrize(("status", "name"), [(401, "Unauthorized"), (404, "Not Found")])
def test_the_old_names_are_those_that_callers_know(status, name):
    assert error_body(status, "m", "r")["error"] == name


async def test_what_is_not_a_call_is_not_found(daemon_rig: DaemonRig):
    says = "unknown call; GET /api/docs, in a browser, lists them"
    for path in ("/index.html", "/api", "/api/nothing", "/api/runs/x/y", "/docs", "/api/health/x"):
        assert await refused(daemon_rig, "GET", path) == (404, says)


async def test_a_call_that_takes_another_method_says_which(daemon_rig: DaemonRig):
    async with aiohttp.ClientSession() as session:
        for method, path, allowed in (
            ("POST", "/api/health", "GET,HEAD"),
            ("GET", "/api/pause", "POST"),
            ("HEAD", "/api/events", "GET"),
        ):
            async with session.request(method, daemon_rig.url + path) as answer:
                assert (answer.status, answer.headers["Allow"]) == (405, allowed)


async def test_no_error_tells_a_path_outside_the_vault(vault, tmp_path, daemon_rig: DaemonRig):
    (vault / "out.md").symlink_to(tmp_path / "outside.md")
    (tmp_path / "outside.md").write_text("secret")
    (vault / "folder").mkdir()
    for path in (
        *(
            "out.md",
            "folder",
            "none.md",
            "../outside.md",
            "/etc/passwd",
            ".parachute/x",
            "a\nb",
            "",
        ),
        *("folder/../../outside.md", "x" * 300),
    ):
        status, answer = await call(daemon_rig, "GET", "/api/why", params={"path": path})
        assert status in {400, 404}, (path, answer)
        assert "secret" not in answer["message"]
        for folder in (tmp_path, vault.parent):
            assert str(folder) not in answer["message"].replace(str(vault), "")
