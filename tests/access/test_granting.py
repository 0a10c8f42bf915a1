"""Granting: one function for every way of starting an agent, and no way to get more by any of
them.
"""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from parachuted.access.agent_config import AgentConfig, SandboxConfig
from parachuted.access.grant import (
    MAINTENANCE,
    PRESENT,
    Entry,
    Grant,
    build_grant,
    curator_grant,
    grant_of,
    may_begin,
    narrowing_of,
)
from parachuted.agents.job import RunFolder, RunSandbox
from parachuted.agents.sandbox.options import ContainerOwner, Image, sandbox_options
from parachuted.keys import EVERYWHERE, NOWHERE, AccessGrant

CONFIG = TypeAdapter(AgentConfig)
ENTRIES = get_args(Entry)
ADMIN = {
    "paths": ["Brain/**", "Daily/**"],
    "capabilities": ["read", "write"],
    "bash": ["git", "npm"],
    "network": ["api.telegram.org"],
}


def granted(
    said: dict[str, object] | AgentConfig,
    *,
    entry: Entry = "module",
    reads: AccessGrant = EVERYWHERE,
    **more,
) -> Grant:
    config = said if isinstance(said, AgentConfig) else CONFIG.validate_python(said)
    return build_grant(
        config, agent="work/helper", bounds_read=reads, bounds_write=reads, entry=entry, **more
    )


def narrowed(said: dict[str, object], reported: dict[str, object]) -> Grant:
    return granted(said, narrowing=(narrowing_of(CONFIG.validate_python(reported), reported),))


def may(grant: Grant, path: str, *, tainted: bool = False) -> str:
    return ("r" if grant.may_read(path) else "") + (
        "w" if grant.may_write(path, tainted=tainted) else ""
    )


@pytest.mark.parametrize(
    "said",
    [
        ADMIN,
        MAINTENANCE,
        {},
        {"paths": ["~/Work/"], "lane": ["a.md"]},
        {"paths": ["a/"], "capabilities": ["Bash"]},
    ],
)
@pytest.mark.parametrize("entry", ENTRIES)
def test_whichever_way_it_begins_an_agent_may_the_same(said, entry):
    first, other = granted(said, entry="module"), granted(said, entry=entry)

    assert {name: getattr(first, name) for name in Grant.__slots__ if name != "asks"} == {
        name: getattr(other, name) for name in Grant.__slots__ if name != "asks"
    }
    assert other.asks == (entry in PRESENT)


@pytest.mark.parametrize("entry", ENTRIES)
def test_whichever_way_it_begins_its_container_is_the_same(entry, tmp_path):
    def options(way: Entry) -> dict[str, object]:
        grant = granted({**ADMIN, "sandbox": {"workspace_access": "rw", "memory": "1g"}}, entry=way)
        sandbox = RunSandbox(config=grant.sandbox, folder=RunFolder(tmp_path))
        cli = tmp_path / "cli"
        owner = ContainerOwner(user=(1000, 1000), daemon="d", life="1")
        return sandbox_options(sandbox, {}, cli, Image(name="i", kind="built"), owner)

    assert options(entry) == options("module")
    assert options(entry)["HostConfig"]["NetworkMode"] == "none"


def test_an_agent_that_learns_nothing_is_given_nothing():
    grant, config = granted({}), AgentConfig()

    assert (grant.reads, grant.writes, grant.tainted_writes) == (NOWHERE, NOWHERE, NOWHERE)
    assert (grant.native, grant.bash, grant.network, grant.outside) == ((), False, "none", ())
    assert not grant.needs_container
    assert not config.wants_network
    assert (config.allow_user_skills, config.allow_workspace_skills) == (False, False)


def test_the_admin_has_a_shell_for_two_programs_and_one_host():
    grant = granted(ADMIN)

    assert grant.native == ("Read", "Glob", "Grep", "Write", "Edit", "Bash")
    assert (grant.bash, grant.network) == (("git", "npm"), ("api.telegram.org",))
    assert (grant.sandbox.workspace_access, grant.sandbox.network) == ("rw", ("api.telegram.org",))
    assert grant.needs_container
    assert CONFIG.validate_python(ADMIN).wants_network
    assert may(grant, "Brain/a.md") == "rw"
    assert may(grant, "Work/a.md") == ""


@pytest.mark.parametrize(
    ("said", "native", "network"),
    [
        ({"paths": ["a/"]}, (), "none"),
        ({"paths": ["a/"], "capabilities": ["Read", "Write", "Edit"]}, (), "none"),
        ({"paths": ["a/"], "bash": True}, ("Read", "Glob", "Grep", "Bash"), "none"),
        ({"bash": True}, ("Read", "Glob", "Grep", "Bash"), "none"),
        ({"capabilities": ["Bash"]}, ("Bash",), "none"),
        ({"paths": ["~/Work/"]}, ("Read", "Glob", "Grep"), "none"),
        ({"paths": ["~/Work/"], "capabilities": []}, (), "none"),
        ({"network": True}, ("WebFetch",), "bridge"),
        ({"network": ["a.org"], "capabilities": ["WebFetch"]}, ("WebFetch",), ("a.org",)),
        ({"network": True, "capabilities": ["Read"]}, (), "none"),
        ({"capabilities": ["WebFetch"]}, (), "none"),
        (
            {"paths": ["~/W/"], "capabilities": ["Read"], "network": True},
            ("Read", "Glob", "Grep"),
            "none",
        ),
        ({"sandbox": {"network": "bridge"}}, ("WebFetch",), "bridge"),
        (
            {"sandbox": {"network": ["a.org", "b.org"]}, "network": ["b.org", "c.org"]},
            ("WebFetch",),
            ("b.org",),
        ),
        ({"sandbox": {"network": ["a.org"]}, "network": ["c.org"]}, (), "none"),
        ({"sandbox": {"memory": "1g"}, "network": ["c.org"]}, ("WebFetch",), ("c.org",)),
        ({"bash": []}, (), "none"),
    ],
)
def test_the_clis_own_tools_are_given_only_where_ours_do_not_reach(said, native, network):
    grant = granted(said)

    assert (grant.native, grant.network, grant.sandbox.network) == (native, network, network)


def test_a_suggestion_is_read_and_never_written():
    grant = granted({"paths": ["**"], "capabilities": ["read", "write"], "lane": ["**"]})

    assert may(grant, "Suggestions/a.md") == "r"
    assert may(grant, "suggestions/new.md") == "r"


def test_after_a_strangers_text_only_the_lane_is_left():
    grant = granted(
        {"paths": ["Work/**"], "capabilities": ["write"], "lane": ["Work/log.md", "Elsewhere/**"]}
    )

    assert may(grant, "Work/a.md") == may(grant, "Work/log.md") == "rw"
    assert may(grant, "Work/a.md", tainted=True) == "r"
    assert may(grant, "Work/log.md", tainted=True) == "rw"
    assert may(grant, "Elsewhere/a.md", tainted=True) == ""
    assert may(granted({"paths": ["a/"], "capabilities": ["write"]}), "a/b.md", tainted=True) == "r"


def test_an_agent_reaches_no_further_than_its_module():
    grant = build_grant(
        CONFIG.validate_python(ADMIN),
        agent="a",
        bounds_read=grant_of(["Daily/**"]),
        bounds_write=grant_of(["Daily/x/**"]),
        entry="cli",
    )

    assert [may(grant, path) for path in ("Daily/a.md", "Daily/x/a.md", "Brain/a.md")] == [
        "r",
        "rw",
        "",
    ]


def test_where_it_works_is_what_the_folder_means():
    said = {
        "sandbox": {"workspace_access": "rw", "allowed_paths": ["${CWD}"]},
        "lane": ["${CWD}/log.md"],
    }

    assert may(granted(said, folder="Work/x"), "Work/x/a.md") == "rw"
    assert may(granted(said, folder="Work/x"), "Work/x/log.md", tainted=True) == "rw"
    assert may(granted(said), "Work/x/a.md") == ""


def test_interfaces_are_those_that_it_names_and_a_person_left():
    named = {"allowed_interfaces": ["BrainInterface", "JournalInterface"]}
    left = AgentConfig(paths=("**",), allowed_interfaces=("JournalInterface", "Other"))

    assert granted({}).interfaces is None
    assert granted({"allowed_interfaces": []}).interfaces == ()
    assert granted(named).interfaces == ("BrainInterface", "JournalInterface")
    assert granted(named, narrowing=[left]).interfaces == ("JournalInterface",)
    assert granted({}, narrowing=[left]).interfaces == ("JournalInterface", "Other")


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({}, granted(ADMIN)),
        (
            {"paths": ["Daily/"]},
            {"reads": ("Daily/a.md",), "native": ("Read", "Glob", "Grep", "Write", "Edit", "Bash")},
        ),
        ({"bash": False}, {"bash": False, "native": (), "network": "none"}),
        ({"bash": ["git", "rm"]}, {"bash": ("git",)}),
        ({"bash": True}, {"bash": ("git", "npm")}),
        ({"network": False}, {"network": "none", "bash": ("git", "npm")}),
        ({"network": True}, {"network": ("api.telegram.org",)}),
        ({"sandbox": {"network": "none"}}, {"network": "none", "bash": ("git", "npm")}),
        ({"capabilities": ["read"]}, {"bash": False, "writes": ()}),
        ({"capabilities": ["read", "Bash"]}, {"bash": ("git", "npm"), "writes": ()}),
        (
            {"sandbox": {"workspace_access": "ro"}},
            {"writes": (), "native": ("Read", "Glob", "Grep", "Bash")},
        ),
        ({"sandbox": {"workspace_access": "none"}}, {"reads": (), "native": ("Bash",)}),
    ],
)
def test_a_persons_words_only_take_away_and_the_rest_stays(reported, expected):
    grant = narrowed(ADMIN, reported)
    if isinstance(expected, Grant):
        files = ("Brain/a.md", "Daily/a.md", "Work/a.md")
        assert [may(grant, file) for file in files] == [may(expected, file) for file in files]
        assert (grant.native, grant.bash, grant.network, grant.sandbox) == (
            expected.native,
            expected.bash,
            expected.network,
            expected.sandbox,
        )
        return
    for name, value in expected.items():
        if name in {"reads", "writes"}:
            files = [
                path
                for path in ("Brain/a.md", "Daily/a.md")
                if (grant.may_read if name == "reads" else grant.may_write)(path)
            ]
            assert tuple(files) == value
        else:
            assert getattr(grant, name) == value


def test_a_person_can_give_it_a_smaller_box_and_no_larger_one():
    said = {
        "bash": True,
        "sandbox": {"workspace_access": "rw", "memory": "1g", "cpus": 2, "pids_limit": 100},
    }

    small = narrowed(said, {"sandbox": {"memory": "512m", "cpus": 8}}).sandbox

    assert (small.memory, small.cpus, small.pids_limit) == ("512m", 2, 100)


def test_folders_beside_the_vault_can_be_taken_away():
    said = {"paths": ["~/Work/", "Brain/"]}

    assert narrowed(said, {}).outside == ("~/Work/",)
    assert narrowed(said, {"paths": ["Brain/"]}).outside == ()
    assert narrowed(said, {"paths": ["Brain/"]}).native == ()
    assert narrowed(said, {"paths": ["~/Work/"]}).outside == ("~/Work/",)


def test_a_curator_reads_what_it_was_woken_for_and_writes_its_own_note():
    grant = curator_grant(own="Why?.md", watched=["Projects/a.md", "Why?.md"])

    assert [
        may(grant, path) for path in ("Why?.md", "Projects/a.md", "Whys.md", "Projects/b.md")
    ] == ["rw", "r", "", ""]
    assert may(grant, "Why?.md", tainted=True) == "rw"
    assert (grant.native, grant.bash, grant.network, grant.asks) == ((), False, "none", False)


def test_maintenance_has_the_papers_limits_and_no_network():
    grant = granted(MAINTENANCE, entry="maintenance")

    assert [
        may(grant, path)
        for path in ("Chat/a.md", "Daily/a.md", "Brain/a.md", "Projects/a.md", ".parachute/x")
    ] == ["rw"] * 3 + [
        "",
        "",
    ]
    assert (grant.bash, grant.network, grant.sandbox.memory, grant.sandbox.cpus) == (
        True,
        "none",
        "1g",
        2.0,
    )
    assert "Bash" in grant.native


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_only_a_person_begins_begins_no_other_way(entry):
    assert (may_begin(MAINTENANCE, entry) is None) == (
        entry in {"chat", "maintenance", "cli", "http"}
    )
    assert may_begin(AgentConfig(), entry) is None


_PATTERNS = st.lists(
    st.sampled_from(["**", "a/**", "a/b.md", "*/b.md", "c/**", "~/W/", "${CWD}/x"]), max_size=3
)
_CONFIGS = st.builds(
    dict,
    paths=_PATTERNS,
    lane=_PATTERNS,
    capabilities=st.one_of(
        st.none(), st.lists(st.sampled_from(["read", "write", "Bash", "WebFetch"]))
    ),
    bash=st.sampled_from([True, False, ["git"], ["git", "npm"]]),
    network=st.sampled_from([True, False, ["x.org"], ["x.org", "y.org"]]),
    sandbox=st.one_of(
        st.none(),
        st.builds(
            dict,
            workspace_access=st.sampled_from(["none", "ro", "rw"]),
            allowed_paths=_PATTERNS,
            network=st.sampled_from(["none", "bridge", ["x.org"]]),
            cpus=st.sampled_from([1, 2]),
        ),
    ),
)


def _reach(network: object) -> set[str]:
    return (
        {"none": set(), "bridge": {"x.org", "y.org"}}.get(network, set(network))
        if isinstance(network, str)
        else set(network)
    )


def _programs(bash: object) -> set[str]:
    return {"git", "npm"} if bash is True else set(bash or ())


@given(said=_CONFIGS, other=_CONFIGS)
def test_whatever_narrows_never_widens(said, other):
    config, more = CONFIG.validate_python(said), CONFIG.validate_python(other)
    whole, small = granted(config), granted(config, narrowing=(more, narrowing_of(more, other)))

    for path in ("a/x.md", "a/b.md", "c/d/e.md", "q.md"):
        assert set(may(small, path)) <= set(may(whole, path))
        assert set(may(small, path, tainted=True)) <= set(may(whole, path, tainted=True))
    assert set(small.native) <= set(whole.native)
    assert _programs(small.bash) <= _programs(whole.bash)
    assert _reach(small.network) <= _reach(whole.network)
    assert set(small.outside) <= set(whole.outside)
    assert small.sandbox.cpus <= whole.sandbox.cpus
    assert small.sandbox.memory_bytes <= (config.sandbox or SandboxConfig()).memory_bytes
