"""What a session's agent may do, by its mode and by what the session says."""

from __future__ import annotations

import pytest

from parachuted.errors import ActRefusedError
from tests.module_files import chat_file

permissions, session = chat_file("permissions"), chat_file("session")
Bounds, OWN = session.SessionPermissions, permissions.SESSION_TOOLS


def narrowed(bounds=None, mode="default", folder="Projects/a", contexts=("Areas/tea",)):
    return permissions.narrowing_of(
        bounds, permissions.mode_of(mode), folder=folder, context_folders=contexts
    )


def test_without_a_word_each_mode_reaches_what_it_is_for():
    default = narrowed()
    assert (default.read, default.write) == (("Areas/tea/**",), ())
    workspace = narrowed(mode="workspace")
    assert (workspace.read, workspace.write) == (("Projects/a/**",), ("Projects/a/**",))
    assert workspace.capabilities == ("read", "write")
    trusted = narrowed(mode="trusted")
    assert (trusted.read, trusted.write) == (None, None)
    assert [one.tools for one in (default, workspace, trusted)] == [None, None, None]


def test_null_is_all_tools_and_an_empty_list_none():
    assert narrowed(Bounds(allowed_mcps=None)).tools is None
    assert narrowed(Bounds(allowed_mcps=())).tools == OWN
    assert narrowed(Bounds(allowed_mcps=("brain-search",))).tools == (*OWN, "brain-search")


def test_a_session_with_folders_has_only_the_mcp_servers_that_it_names():
    assert narrowed(Bounds(allowed_mcps=None)).mcps is None
    own = ("Projects",)
    assert narrowed(Bounds(allowed_folders=own)).mcps == ()
    assert narrowed(Bounds(allowed_folders=own)).tools is None
    assert narrowed(Bounds(allowed_folders=own, allowed_mcps=("sums",))).mcps == ("sums",)


def test_a_sessions_folders_take_the_place_of_its_modes():
    assert narrowed(Bounds(allowed_folders=("Brain/",))).read == ("Brain/**",)
    assert narrowed(Bounds(allowed_folders=()), mode="trusted").read == ()


def test_no_session_gets_more_than_its_mode():
    everything = Bounds(capabilities=("Read", "Write", "Edit", "Bash", "WebFetch"))
    assert narrowed(everything).capabilities == ("read", "write")
    assert narrowed(everything, mode="workspace").capabilities == ("read", "write", "bash")
    assert narrowed(Bounds(capabilities=()), mode="trusted").read == ()


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (Bounds(capabilities=("Computer",)), "moves the mouse"),
        (Bounds(capabilities=("Fly",)), "not a capability"),
        (Bounds(allowed_folders=("../x",)), "not a folder"),
        (Bounds(allowed_folders=("a/*",)), "not a folder"),
        (Bounds(sandbox_override="sometimes"), "sandbox_override"),
        (Bounds(sandbox_override="{"), "sandbox_override"),
    ],
)
def test_what_cannot_be_given_is_refused_with_its_reason(bounds, said):
    with pytest.raises(ActRefusedError, match=said):
        narrowed(bounds)


def test_a_sandbox_is_a_word_or_its_fields():
    assert dict(narrowed(Bounds(sandbox_override="ro")).sandbox) == {"workspace_access": "ro"}
    assert dict(narrowed(Bounds(sandbox_override='{"memory": "256m"}')).sandbox) == {
        "memory": "256m"
    }


def test_an_agent_learns_its_bounds():
    assert "do not have direct access" in permissions.described(
        narrowed(Bounds(allowed_folders=()))
    )
    reported = permissions.described(narrowed(Bounds(allowed_folders=("Brain",), allowed_mcps=())))
    assert "You may read Brain/**." in reported
    assert "You may not write files." in reported
    assert "You have no others." in reported


def test_a_request_may_narrow_trust_and_never_widen_it():
    default, trusted = permissions.mode_of("default"), permissions.mode_of("trusted")
    direct = permissions.trust_level_of("full")
    assert permissions.mode_for(direct, default) is default
    assert (
        permissions.mode_for(permissions.trust_level_of("untrusted"), trusted).name == "sandboxed"
    )
    assert permissions.mode_for(None, default) is default
    with pytest.raises(ActRefusedError, match="sandboxed"):
        permissions.mode_for(direct, permissions.mode_of("sandboxed"))
    with pytest.raises(ActRefusedError):
        permissions.trust_level_of("root")
    with pytest.raises(ActRefusedError):
        permissions.mode_of("god")


def test_an_agent_that_names_its_tools_has_no_others():
    writer = narrowed(Bounds(capabilities=("Read", "Write"), allowed_mcps=None))
    mine = permissions.within_agent(writer, ("Read", "brain-search"))
    assert (mine.read, mine.write) == (("Areas/tea/**",), ())
    assert (mine.capabilities, mine.tools) == (("read",), (*OWN, "brain-search"))
    bounded = narrowed(Bounds(capabilities=("Read",), allowed_mcps=("daily-today",)))
    mine = permissions.within_agent(bounded, ("Write", "Bash", "brain-search"))
    assert (mine.write, mine.capabilities, mine.tools) == ((), ("read",), OWN)
    assert permissions.within_agent(bounded, None) == bounded
