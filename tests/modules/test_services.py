"""Services: what stands behind a module keeps to these names, wherever the module runs."""

from __future__ import annotations

import inspect

import pytest

from parachuted.modules import Hit, StateAccess, VaultAccess
from parachuted.modules.access import BoundedVault
from parachuted.modules.hosting.module_state import ModuleState


def methods(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(function)
        for name, function in vars(kind).items()
        if inspect.iscoroutinefunction(function)
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


def test_a_hit_is_a_value():
    hit = Hit(path="Daily/a.md", title="A", snippet="<mark>a</mark>")

    assert hit == Hit(path="Daily/a.md", title="A", snippet="<mark>a</mark>")
    with pytest.raises(AttributeError):
        hit.path = "other"  # type: ignore[misc]
