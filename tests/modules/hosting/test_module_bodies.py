"""Bodies over the pipe: a process reads what is open for it, and nothing else."""

from __future__ import annotations

import pytest

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.answer_codec import NEXT_PART, READ, OpenBodies, RemoteBody
from parachuted.modules.hosting.framing import AskFrame
from tests.modules.test_bodies import ChunkedSource


async def test_a_body_is_read_while_it_is_open():
    bodies = OpenBodies("daily")

    async def ask(verb, body):
        return await bodies.serve(AskFrame(id=1, verb=verb, body=body))

    with bodies.opened(ChunkedSource([b"one"], [b"two"])) as reported:
        remote = RemoteBody(ask, reported)
        heads, pieces = [], []
        while (head := await remote.next_part()) is not None:
            heads.append(head.filename)
            pieces.append(await remote.read())
        assert (heads, pieces) == (["a.wav", "a.wav"], [b"one", b"two"])
        assert (remote.content_type, remote.size) == ("audio/wav", None)

    with pytest.raises(ModuleFailedError, match="until it is answered"):
        await remote.read()


@pytest.mark.parametrize("body", [{}, {"body": "1"}, {"body": 1, "more": 2}, {"body": 99}])
@pytest.mark.parametrize("verb", [READ, NEXT_PART])
async def test_nothing_else_is_read(verb, body):
    bodies = OpenBodies("daily")

    with bodies.opened(ChunkedSource([b"one"])), pytest.raises(ModuleFailedError):
        await bodies.serve(AskFrame(id=1, verb=verb, body=body))


def test_only_so_many_are_open_at_once():
    bodies = OpenBodies("daily")
    opened = [bodies.opened(ChunkedSource()) for _ in range(8)]
    for one in opened:
        one.__enter__()

    with pytest.raises(ModuleFailedError, match="reads 8 bodies"), bodies.opened(ChunkedSource()):
        pass
    with bodies.opened(None) as reported:
        assert reported is None
    opened[0].__exit__(None, None, None)
    with bodies.opened(ChunkedSource()):
        pass
