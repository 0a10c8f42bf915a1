"""Services: what stands behind a module keeps to these names, wherever the module runs."""

from __future__ import annotations

import inspect

from parachuted.modules import StateAccess
from parachuted.modules.hosting.module_state import ModuleState


def methods(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(function)
        for name, function in inspect.getmembers(kind)
        if inspect.isfunction(function) and not name.startswith("_")
    }


def test_the_state_of_a_module_has_every_method_that_is_promised():
    has = methods(ModuleState)

    for name, signature in methods(StateAccess).items():
        assert [
            (parameter.name, parameter.kind, parameter.default)
            for parameter in has[name].parameters.values()
        ] == [
            (parameter.name, parameter.kind, parameter.default)
            for parameter in signature.parameters.values()
        ], name
