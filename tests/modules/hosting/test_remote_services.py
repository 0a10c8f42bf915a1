"""Across the seam a module finds the same vault, memory and neighbours as within the daemon."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import logging

import pytest

from parachuted.access.notes import Hit
from parachuted.errors import ActRefusedError, ConflictError, ModuleFailedError
from parachuted.modules.agent_runs import RunAccess
from parachuted.modules.hosting.codec import error_of, refusal_of
from parachuted.modules.hosting.framing import AnswerFrame, AskFrame, Unpacker, pack
from parachuted.modules.hosting.remote_services import LogOverPipe, RemoteServices
from parachuted.modules.hosting.request_server import VERBS, RequestServer
from parachuted.modules.results import WrongResultError
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.modules.services import (
    ActivityAccess,
    ContextAccess,
    FolderAccess,
    StateAccess,
    VaultAccess,
)
from tests.modules.module_rig import ModuleRig
from tests.modules.small_modules import StubServices


class PipedServices:
    """Asks as the pipe does, all of it made bytes and back."""

    def __init__(self, serving):
        self.serving = serving

    async def ask(self, verb, body):
        (asked,) = Unpacker().feed(pack(AskFrame(id=1, verb=verb, body=body)))
        try:
            answer = pack(AnswerFrame(id=1, value=await self.serving.serve(asked)))
        except Exception as error:  # noqa: BLE001  as the pipe does
            answer = pack(refusal_of(1, error))
        (reported,) = Unpacker().feed(answer)
        if isinstance(reported, AnswerFrame):
            return reported.value
        raise error_of(reported)

    def ask_now(self, verb, body):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return pool.submit(asyncio.run, self.ask(verb, body)).result()


def remote_of(services):
    """The other end of the pipe to these services."""
    pipe = PipedServices(RequestServer(services))
    return RemoteServices("daily", {"a": "1"}, logging.getLogger("test"), pipe)


class Brain:
    async def suggest(self, text):
        return [{"confidence": 0.9, "text": text}]


@pytest.fixture
def module_rig(tmp_path):
    module_rig = ModuleRig(tmp_path)
    module_rig.save("Daily/a.md", "# A\n\nthe apple\n")
    module_rig.save("Private/diary.md", "secret\n")
    yield module_rig
    module_rig.close()


@pytest.fixture
def given(module_rig):
    return StubServices(
        vault=module_rig.bounded(read=["Daily/**"], write=["Daily/**"]),
        lent={"BrainInterface": Brain()},
    )


@pytest.fixture
def remote(given):
    return remote_of(given)


async def test_the_vault_is_the_same_on_both_sides(remote, module_rig):
    vault = remote.vault

    assert await vault.read("Daily/a.md") == "# A\n\nthe apple\n"
    assert await vault.read_bytes("Daily/a.md") == b"# A\n\nthe apple\n"
    assert await vault.exists("Daily/a.md") is True
    assert await vault.list() == ["Daily/a.md"]
    module_rig.library.settled()
    (hit,) = await vault.search("apple")
    assert isinstance(hit, Hit)
    assert hit.path == "Daily/a.md"
    photo = await vault.write_bytes("Daily/photo.bin", b"\xff\xfe\x00")
    assert (await vault.read_bytes("Daily/photo.bin"), photo) == (
        b"\xff\xfe\x00",
        await vault.digest("Daily/photo.bin"),
    )
    digest = await vault.create("Daily/b.md", "# B\n")
    assert await vault.write("Daily/b.md", "# B\n\nmore\n", base=digest) == await vault.digest(
        "Daily/b.md"
    )
    await vault.append("Daily/b.md", "Log", "done")
    await vault.set_key("Daily/b.md", "mood", "fine")
    assert "done" in module_rig.text("Daily/b.md")
    await vault.delete("Daily/b.md")
    assert await vault.exists("Daily/b.md") is False


async def test_the_vaults_errors_are_its_own(remote):
    with pytest.raises(ActRefusedError):
        await remote.vault.read("Private/diary.md")
    with pytest.raises(ConflictError):
        await remote.vault.create("Daily/a.md", "x")


async def test_the_memory_is_the_same(remote):
    assert await remote.state.get("k", 5) == 5
    await remote.state.put("k", {"a": [1]})
    assert await remote.state.get("k", 5) == {"a": [1]}
    assert await remote.state.keys() == ["k"]
    await remote.state.delete("k")
    assert await remote.state.get("k") is None


async def test_publishing_and_looking_for_a_neighbour_need_no_await(remote, given):
    remote.publish("daily.x", {"a": 1})
    brain = remote.get_interface("BrainInterface")

    assert given.published == [("daily.x", {"a": 1})]
    assert remote.get_interface("Nothing") is None
    (mention,) = await brain.suggest("text")
    assert mention["confidence"] == mention.confidence == 0.9


async def test_a_neighbours_inner_parts_are_not_there(remote):
    brain = remote.get_interface("BrainInterface")

    for name in ("_hidden", "run_agent", "publish"):
        with pytest.raises(AttributeError):
            getattr(brain, name)
    with pytest.raises(ModuleFailedError):
        await brain.nothing()


async def test_an_agent_answers(remote):
    assert await remote.run_agent("writer", "write", {}) == "writer says yes"


async def test_a_module_suggests_from_a_process_of_its_own_as_from_the_daemons(remote, given):
    assert (
        await remote.suggest("update", "Daily/a.md", {"text": "x"}, "it follows") == "s0000000001"
    )
    assert given.asked == [("update", "Daily/a.md", "it follows")]


@pytest.mark.parametrize(
    ("room", "protocol"),
    [
        ("vault", VaultAccess),
        ("folders", FolderAccess),
        ("state", StateAccess),
        ("schedules", ScheduleAccess),
        ("activity", ActivityAccess),
        ("contexts", ContextAccess),
        ("runs", RunAccess),
    ],
)
def test_no_method_of_the_public_form_is_missing(remote, room, protocol):
    for name, _method in inspect.getmembers(protocol, inspect.isfunction):
        if not name.startswith("_"):
            assert callable(getattr(getattr(remote, room), name))
            assert f"{room}.{name}" in VERBS
    with pytest.raises(AttributeError):
        _ = getattr(remote, room).nothing


async def test_what_json_has_not_is_refused_before_it_is_sent(remote):
    with pytest.raises(WrongResultError):
        await remote.state.put("k", object())
    with pytest.raises(TypeError):
        await remote.state.put("k")
    with pytest.raises(TypeError, match="dict is not one of SetKey"):
        await remote.vault.edit("Daily/a.md", [{"kind": "SetKey"}])


def test_what_is_logged_goes_over_the_pipe():
    said = []
    log = logging.getLogger("parachuted.test.remote_services")
    log.propagate = False
    log.addHandler(LogOverPipe(lambda level, text: said.append((level, text))))

    log.warning("hello %s", "you")

    assert said == [(logging.WARNING, "hello you")]
