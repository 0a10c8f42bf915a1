"""Running: both ways of running a module have what the manager asks of one, with the same
arguments. What they do is in the contract.
"""

from __future__ import annotations

import inspect

import pytest

from parachuted.modules.hosting.container_host import ContainerHost
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.running_module import RunningModule

ASKED = [name for name in vars(RunningModule) if not name.startswith("_")]


@pytest.mark.parametrize("way", [InProcessHost, ContainerHost])
@pytest.mark.parametrize("name", ASKED)
def test_each_way_has_each_of_the_names_with_the_same_arguments(way, name):
    asked, has = inspect.getattr_static(RunningModule, name), inspect.getattr_static(way, name)

    assert type(asked) is type(has)
    if inspect.isfunction(asked):
        assert inspect.signature(has) == inspect.signature(asked)
        assert inspect.iscoroutinefunction(has) == inspect.iscoroutinefunction(asked)


def test_there_is_something_to_compare():
    assert len(ASKED) == 9
