"""What a process asks is checked as a stranger's request, and answered by the services that hold
the module's rights.
"""

from __future__ import annotations

import pytest

from parachuted.errors import (
    ActRefusedError,
    EditRefusedError,
    ModuleFailedError,
    NotFoundError,
    ParachuteError,
)
from parachuted.modules.hosting.framing import AskFrame
from parachuted.modules.hosting.request_server import RequestServer
from tests.modules.module_rig import ModuleRig
from tests.modules.small_modules import StubServices


@pytest.fixture
def module_rig(tmp_path):
    module_rig = ModuleRig(tmp_path)
    module_rig.save("Daily/a.md", "---\nmood: good\n---\n# A\n\nthe apple\n")
    module_rig.save("Private/diary.md", "the secret apple\n")
    yield module_rig
    module_rig.close()


class Brain:
    word = "no method"

    async def suggest(self, text, *, limit=1):
        return [{"text": text, "limit": limit}]

    def plain(self):
        return 7

    async def run_agent(self, *_):
        raise AssertionError

    async def _hidden(self):
        raise AssertionError


@pytest.fixture
def given(module_rig):
    return StubServices(
        vault=module_rig.bounded(read=["Daily/**"], write=["Daily/**"]),
        lent={"BrainInterface": Brain()},
    )


@pytest.fixture
def ask(given):
    serving = RequestServer(given)
    return lambda verb, **body: serving.serve(AskFrame(id=1, verb=verb, body=body))


async def test_a_file_too_large_for_the_pipe_is_refused_before_it_is_made_ready_for_it(
    ask, module_rig
):
    module_rig.save("Daily/long.md", b"x" * 6_000_001)
    for verb in ("vault.read", "vault.read_bytes"):
        with pytest.raises(EditRefusedError, match="larger than 6 MB"):
            await ask(verb, path="Daily/long.md")
    assert await ask("vault.digest", path="Daily/long.md")


async def test_it_reads_and_writes_within_its_permissions(ask, module_rig):
    assert "the apple" in await ask("vault.read", path="Daily/a.md")
    data = await ask("vault.read_bytes", path="Daily/a.md")
    assert data == module_rig.text("Daily/a.md").encode()
    assert await ask("vault.exists", path="Daily/b.md") is False
    digest = await ask("vault.create", path="Daily/b.md", text="# B\n")
    assert digest == await ask("vault.digest", path="Daily/b.md")
    await ask("vault.append", path="Daily/b.md", section="Log", text="done")
    await ask("vault.set_key", path="Daily/b.md", key="mood", value=["fine"])
    await ask("vault.write", path="Daily/a.md", text="new\n", base=None)
    assert await ask("vault.list", pattern="**") == ["Daily/a.md", "Daily/b.md"]
    await ask("vault.delete", path="Daily/a.md")

    assert "done" in module_rig.text("Daily/b.md")
    assert not (module_rig.vault / "Daily/a.md").exists()


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("read", {"path": "Private/diary.md"}),
        ("read", {"path": "../home/keys.yaml"}),
        ("read", {"path": "/etc/passwd"}),
        ("read", {"path": "Daily/../Private/diary.md"}),
        ("read_bytes", {"path": "Private/diary.md"}),
        ("digest", {"path": "Private/diary.md"}),
        ("write", {"path": "Private/diary.md", "text": "x", "base": None}),
        ("create", {"path": ".parachute/x.md", "text": "x"}),
        ("create", {"path": "Modules/daily/module.py", "text": "x"}),
        ("append", {"path": "Private/diary.md", "section": "S", "text": "x"}),
        ("set_key", {"path": "Private/diary.md", "key": "k", "value": 1}),
        ("delete", {"path": "Private/diary.md"}),
    ],
)
async def test_beyond_its_permissions_it_is_refused(ask, module_rig, verb, body):
    with pytest.raises(ParachuteError) as refused:
        await ask(f"vault.{verb}", **body)

    assert type(refused.value) is not ModuleFailedError  # the vault said no, not the form
    assert module_rig.text("Private/diary.md") == "the secret apple\n"


async def test_what_it_may_not_read_it_does_not_see(ask, module_rig):
    module_rig.library.settled()
    assert await ask("vault.exists", path="Private/diary.md") is False
    assert [hit["path"] for hit in await ask("vault.search", query="apple", limit=5)] == [
        "Daily/a.md"
    ]


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("", {}),
        ("vault", {}),
        ("vault.", {}),
        ("vault.__class__", {}),
        ("vault._parts", {}),
        ("vault.read", {}),
        ("vault.read", {"path": 5}),
        ("vault.read", {"path": ["Daily/a.md"]}),
        ("vault.read", {"path": "Daily/a.md", "author": "person"}),
        ("vault.search", {"query": "a", "limit": -1}),
        ("vault.search", {"query": "a", "limit": 10**9}),
        ("vault.write", {"path": "Daily/a.md", "text": None, "base": None}),
        ("state.clear", {}),
        ("state.put", {"key": 1, "value": 1}),
        ("publish", {"event": "x", "data": []}),
        ("get_interface", {"name": "BrainInterface"}),
        (
            "interface",
            {"interface": "BrainInterface", "method": "suggest", "args": "a", "kwargs": {}},
        ),
        ("run_agent", {"agent": "a", "prompt": "p"}),
        ("stop", {}),
        ("_state", {}),
    ],
)
async def test_what_no_honest_process_asks_is_refused(ask, verb, body):
    with pytest.raises(ModuleFailedError):
        await ask(verb, **body)


@pytest.mark.parametrize(
    "method",
    [
        "run_agent",
        "publish",
        "get_interface",
        "on_disable",
        "_hidden",
        "__init__",
        "__class__",
        "word",
        "no",
        "a.b",
        "",
    ],
)
async def test_of_another_module_only_its_own_public_methods_are_called(ask, method):
    with pytest.raises(ModuleFailedError, match="has no method"):
        await ask("interface", interface="BrainInterface", method=method, args=[], kwargs={})


async def test_another_modules_methods_are_called_with_what_was_given(ask):
    assert await ask("has_interface", interface="BrainInterface") is True
    assert await ask("has_interface", interface="Nothing") is False
    suggested = await ask(
        "interface",
        interface="BrainInterface",
        method="suggest",
        args=["text"],
        kwargs={"limit": 3},
    )
    assert suggested == [{"text": "text", "limit": 3}]
    assert (
        await ask("interface", interface="BrainInterface", method="plain", args=[], kwargs={}) == 7
    )
    with pytest.raises(ModuleFailedError, match="no module provides"):
        await ask("interface", interface="Nothing", method="suggest", args=[], kwargs={})


async def test_its_memory_tells_nothing_from_none(ask):
    assert await ask("state.get", key="k") == {}
    await ask("state.put", key="k", value=None)
    assert await ask("state.get", key="k") == {"value": None}
    assert await ask("state.keys") == ["k"]
    await ask("state.delete", key="k")
    assert await ask("state.keys") == []


async def test_it_publishes_and_asks_its_agents(ask, given):
    await ask("publish", event="daily.x", data={"a": 1})
    assert await ask("run_agent", agent="writer", prompt="write", options={}) == "writer says yes"

    assert given.published == [("daily.x", {"a": 1})]
    assert given.asked == [("writer", "write")]


async def test_the_services_own_errors_pass(ask):
    with pytest.raises(NotFoundError):
        await ask("vault.read", path="Daily/nothing.md")
    with pytest.raises(ActRefusedError):
        await ask("vault.read", path="Private/diary.md")
