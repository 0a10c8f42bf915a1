import pytest

from parachuted.agents.sandbox import Sandboxes
from parachuted.agents.sandbox.doctor import examine, judge

WELL = {
    "uid": 1000,
    "capabilities": "0" * 32,
    "no_more_rights": "1",
    "filter": "2",
    "interfaces": ["lo"],
    "writes": ["/vault"],
    "cli": "2.1 (Claude Code)",
}


async def test_on_a_machine_that_can_all_is_well(sandboxes):
    found = [check async for check in examine(sandboxes)]

    assert [check for check in found if not check.is_well] == []
    parts = {"engine", "image", "container", "network", "Claude Code inside"}
    assert parts <= {check.part for check in found}


async def test_without_an_engine_it_says_what_to_install(tmp_path):
    sandboxes = Sandboxes(
        folder=tmp_path, env={"DOCKER_HOST": f"unix://{tmp_path}/none"}, label="a"
    )

    [only] = [check async for check in examine(sandboxes)]

    assert not only.is_well
    assert "install and start Docker" in only.says


@pytest.mark.parametrize(
    ("what", "part"),
    [
        ({"uid": 0}, "user"),
        ({"capabilities": "0" * 16 + "00000000a80425fb"}, "capabilities"),
        ({"no_more_rights": "0"}, "rights"),
        ({"filter": "0"}, "system calls"),
        ({"interfaces": ["eth0", "lo"]}, "network"),
        ({"writes": ["/etc", "/vault"]}, "disk"),
        ({"cli": ""}, "Claude Code inside"),
    ],
)
def test_a_box_that_is_not_as_it_should_be_is_reported(what, part):
    assert all(check.is_well for check in judge(WELL, uid=1000))
    assert [check.part for check in judge(WELL | what, uid=1000) if not check.is_well] == [part]
