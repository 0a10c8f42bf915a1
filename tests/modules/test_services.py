"""Services: what stands behind a module keeps to these names, wherever the module runs."""

from __future__ import annotations

import inspect

import pytest

from parachuted.modules import StateAccess, VaultAccess
from parachuted.modules.hosting.module_state import ModuleState
from parachuted.runs.bounded_vault import BoundedVault


def methods(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(function)
        for name, function in inspect.getmembers(kind)
        if inspect.isfunction(function) and not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("asked", "given"), [(VaultAccess, BoundedVault), (StateAccess, ModuleState)]
)
def test_what_a_module_is_given_has_every_method_with_the_parameters_that_are_promised(
    asked, given
):
    has = methods(given)

    assert methods(asked)
    for name, promised in methods(asked).items():
        assert [(one.name, one.kind, one.default) for one in has[name].parameters.values()] == [
            (one.name, one.kind, one.default) for one in promised.parameters.values()
        ], name
