"""What modules report to the doctor: bounded, printable, and each on its own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from parachuted.access.authority import Authority
from parachuted.errors import ModuleFailedError
from parachuted.modules import Finding
from parachuted.modules.hosting.hosted_module import findings_of, module_findings


def module(name: str, answer: object, *, has_doctor: bool = True) -> SimpleNamespace:
    """A running module whose doctor answers that."""

    async def call(*_arguments: object, **_more: object) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(declared=SimpleNamespace(name=name, has_doctor=has_doctor), call=call)


async def test_a_failing_doctor_keeps_no_other_from_reporting():
    found = await module_findings(
        [
            module("brain", ModuleFailedError("it failed")),
            module("daily", [{"problem": "a", "advice": "b", "path": None}]),
            module("quiet", [], has_doctor=False),
        ],
        Authority(),
    )

    assert found[0][0] == "brain"
    assert "it failed" in found[0][1].problem
    assert "`parachute modules status brain`" in found[0][1].advice
    assert found[1:] == [("daily", Finding(problem="a", advice="b"))]


async def test_thousands_of_findings_are_cut_and_none_hides_anything():
    many = [{"problem": "x\u202ey", "advice": "", "path": "a.md"}] * 3_000

    found = await findings_of(module("daily", many), Authority())

    assert len(found) == 201
    assert found[-1].problem == "and 2,800 more"
    assert "\u202e" not in found[0].problem


@pytest.mark.parametrize("answer", ["bad", None, [1], [{"advice": "no problem"}]])
async def test_something_else_than_findings_is_refused(answer):
    with pytest.raises(ModuleFailedError, match="list of Finding"):
        await findings_of(module("daily", answer), Authority())
