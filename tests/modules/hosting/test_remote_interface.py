"""Remote interface: methods of a module in another process, which are its own alone."""

from __future__ import annotations

import pytest

from parachuted.modules.hosting.remote_interface import RemoteInterface


async def test_a_method_is_asked_over_the_pipe_and_its_result_read_as_an_object():
    asked = []

    async def ask(body):
        asked.append(body)
        return [{"name": "Kevin"}]

    found = await RemoteInterface("BrainInterface", ask).resolve("Kevin", limit=1)

    assert found[0].name == "Kevin"
    assert asked == [
        {
            "interface": "BrainInterface",
            "method": "resolve",
            "args": ["Kevin"],
            "kwargs": {"limit": 1},
        }
    ]


@pytest.mark.parametrize("method", ["_private", "run_agent", "publish", "find_para"])
def test_what_every_module_has_is_none_of_its_methods(method):
    with pytest.raises(AttributeError):
        getattr(RemoteInterface("BrainInterface", None), method)
