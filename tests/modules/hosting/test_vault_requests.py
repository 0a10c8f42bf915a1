"""Vault requests: a module's process asks with known calls and fields of the right types."""

from __future__ import annotations

import asyncio
import base64

import pytest

from parachuted.errors import ActRefusedError, EditRefusedError, ModuleFailedError
from parachuted.modules.hosting.framing import AskFrame
from parachuted.modules.hosting.request_server import VERBS, RequestServer
from tests.modules.module_rig import ModuleRig
from tests.modules.small_modules import StubServices


class VaultRequests:
    def __init__(self, server):
        self._server = server

    async def serve(self, verb, body):
        return await self._server.serve(AskFrame(id=1, verb=f"vault.{verb}", body=body))


@pytest.fixture
def module_rig(tmp_path):
    module_rig = ModuleRig(tmp_path)
    module_rig.save("Daily/a.md", "# A\n")
    module_rig.save("Private/b.md", "# B\n")
    yield module_rig
    module_rig.close()


@pytest.fixture
def requests(module_rig):
    vault = module_rig.bounded(read=["Daily/**"], write=["Daily/**"])
    return VaultRequests(RequestServer(StubServices(vault=vault)))


async def test_a_note_and_an_edit_are_asked_for(requests, module_rig):
    note = await requests.serve("note", {"path": "Daily/a.md"})
    edits = [{"kind": "SetKey", "value": {"key": "k", "value": 1}}]
    digest = await requests.serve(
        "edit", {"path": "Daily/a.md", "edits": edits, "base": note["digest"]}
    )

    assert note["text"] == "# A\n"
    assert module_rig.text("Daily/a.md") == "---\nk: 1\n---\n# A\n"
    assert digest == (await requests.serve("note", {"path": "Daily/a.md"}))["digest"]


@pytest.mark.parametrize(
    "verb", [verb.removeprefix("vault.") for verb in VERBS if verb.startswith("vault.")]
)
@pytest.mark.parametrize("body", [{"nothing": 1}, {"path": 1}, {"path": "a.md", "edits": 1}])
async def test_fields_that_are_none_are_refused(requests, verb, body):
    with pytest.raises(ModuleFailedError, match="request is invalid"):
        await requests.serve(verb, body)


async def test_what_the_permissions_do_not_name_stays_out_of_reach(requests):
    edits = [{"kind": "RemoveKey", "value": {"key": "k"}}]
    for verb, body in (("note", {}), ("edit", {"edits": edits, "base": None})):
        with pytest.raises(ActRefusedError):
            await requests.serve(verb, {"path": "Private/b.md", **body})


async def test_what_no_frame_holds_is_not_given(requests, module_rig):
    module_rig.save("Daily/large.md", "x" * 7_000_000)

    for verb in ("read", "read_bytes", "note"):
        with pytest.raises(EditRefusedError, match="larger than 6 MB"):
            await requests.serve(verb, {"path": "Daily/large.md"})


async def test_a_process_has_few_uploads_open_and_each_number_once(requests):
    async with asyncio.TaskGroup() as group:
        open_ones = [
            group.create_task(requests.serve("upload", {"path": f"Daily/{n}.bin", "number": n}))
            for n in range(8)
        ]
        await asyncio.sleep(0)
        for number in (3, 9):
            with pytest.raises(ModuleFailedError, match="8 uploads open"):
                await requests.serve("upload", {"path": "Daily/x.bin", "number": number})
        data = base64.b64encode(b"x").decode()
        assert await requests.serve("upload_piece", {"number": 2, "data": data}) is True
        assert await requests.serve("upload_piece", {"number": 9, "data": data}) is False
        for one in open_ones:
            one.cancel()
    assert await requests.serve("upload_piece", {"number": 2, "data": data}) is False
