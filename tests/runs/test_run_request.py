from __future__ import annotations

from parachuted.keys import EVERYWHERE
from parachuted.modules import AgentConfig
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.run_request import AgentDefinition, RunRequest
from tests.modules.module_rig import LIMITS


def test_an_order_is_a_persons_own_words_and_may_go_on_unless_it_says_otherwise():
    definition = AgentDefinition(
        name="a",
        who="a",
        config=AgentConfig(),
        bounds=ModuleBounds(who="a", reads=EVERYWHERE, writes=EVERYWHERE),
        system_prompt="",
        watcher="a",
    )
    order = RunRequest(definition=definition, prompt="x", entry="cli", limits=LIMITS)

    assert (
        order.origin,
        order.authority.holds(),
        order.narrowing,
        definition.does_without_shell,
    ) == ("you", True, (), False)
