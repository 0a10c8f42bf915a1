"""What modules report to the doctor: bounded, printable, and each on its own."""

from __future__ import annotations

from parachuted.access.caller import Caller
from parachuted.modules.hosting.status import ModuleFinding
from tests.modules.manager_rig import ManagerRig

MANY = """
async def doctor(self):
    return [{"problem": "x\\u202ey", "advice": "", "path": "a.md"}] * 3_000
"""


async def test_each_doctor_reports_and_one_that_fails_keeps_no_other_from_it(tmp_path):
    rig = ManagerRig(tmp_path)
    rig.add("brain", "async def doctor(self):\n    raise ValueError('no')")
    rig.add("daily", "async def doctor(self):\n    return [{'problem': 'a', 'advice': 'b'}]")
    rig.add("many", MANY)
    rig.add("quiet")
    rig.write("stranger", "pass")

    async with rig.open() as modules:
        found = await modules.findings(Caller())

    by_module: dict[str, list[ModuleFinding]] = {}
    for finding in found:
        by_module.setdefault(finding.module, []).append(finding)
    assert list(by_module) == ["stranger", "brain", "daily", "many"]
    assert "waits for your approval" in by_module["stranger"][0].problem
    assert "failed in doctor" in by_module["brain"][0].problem
    assert "`parachute modules status brain`" in by_module["brain"][0].advice
    assert by_module["daily"] == [ModuleFinding(module="daily", problem="a", advice="b")]
    assert len(by_module["many"]) == 201
    assert by_module["many"][-1].problem == "and 2,800 more"
    assert "\u202e" not in by_module["many"][0].problem
