"""Agent config: both forms that people write, checked, and what they come to."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from parachuted.access.grant import build_grant
from parachuted.keys import EVERYWHERE
from parachuted.modules import AgentConfig, SandboxConfig

AGENT = TypeAdapter(AgentConfig)

RESPONDER = {
    "paths": ["Brain/projects/client-x.md", "~/Work/client-x/"],
    "capabilities": ["read"],
    "bash": False,
    "network": False,
}
BOUNDS = {"bounds_read": EVERYWHERE, "bounds_write": EVERYWHERE}


def _reads(agent):
    return build_grant(agent, agent="a", entry="chat", **BOUNDS).reads


def _writes(agent):
    return build_grant(agent, agent="a", entry="chat", **BOUNDS).writes


def test_the_responder_sees_its_project_and_changes_nothing():
    agent = AGENT.validate_python(RESPONDER)

    assert _reads(agent).sees("Brain/projects/client-x.md")
    assert not _reads(agent).sees("Brain/projects/client-y.md")
    assert not _writes(agent).sees("Brain/projects/client-x.md")
    assert agent.outside_paths == ("~/Work/client-x/",)
    assert not _reads(agent).sees("~/Work/client-x/a.md")


def test_the_manifests_form_means_the_same():
    agent = AGENT.validate_python(
        {
            "description": "Indexes new content",
            "sandbox": {
                "workspace_access": "rw",
                "allowed_paths": ["Brain/"],
                "network": "none",
                "memory": "512m",
                "cpus": "1.0",
                "pids_limit": "256",
            },
            "system_prompt": "prompts/indexer.md",
            "capabilities": ["Read", "Write", "Edit"],
        }
    )

    assert _writes(agent).sees("Brain/entities/Kevin.md")
    assert not _reads(agent).sees("Daily/a.md")
    assert agent.prompt_file == "prompts/indexer.md"
    assert agent.sandbox == SandboxConfig(workspace_access="rw", allowed_paths=("Brain/**",))
    assert agent.sandbox.memory_bytes == 512 * 1024 * 1024


@pytest.mark.parametrize(
    ("access", "capabilities", "reads", "writes"),
    [
        ("none", None, False, False),
        ("ro", None, True, False),
        ("rw", None, True, True),
        ("none", ["read", "write"], False, False),
        ("ro", ["write"], True, False),
        ("rw", ["read"], True, False),
        ("rw", ["Edit"], True, True),
        ("rw", [], False, False),
        (None, None, True, False),
        (None, ["read", "write"], True, True),
    ],
)
def test_capabilities_and_sandbox_must_both_allow(access, capabilities, reads, writes):
    sandbox = access and {"workspace_access": access}
    agent = AGENT.validate_python(
        {"paths": ["a/"], "sandbox": sandbox, "capabilities": capabilities}
    )

    assert (_reads(agent).sees("a/b.md"), _writes(agent).sees("a/b.md")) == (reads, writes)


def test_a_shell_is_one_thing_however_it_is_said():
    reported = AGENT.validate_python({"paths": ["a/"], "capabilities": ["Read", "Bash"]})

    assert (reported.bash, reported.capabilities) == (True, ("read",))
    assert AGENT.validate_python({"capabilities": ["Bash"], "bash": ["git"]}).bash == ("git",)
    assert reported.at("x").bash is True


def test_the_lane_is_placed_as_paths_are():
    reported = AGENT.validate_python({"paths": ["a/"], "lane": ["${CWD}/log.md"]})

    assert reported.at("a").lane == ("a/log.md",)


def test_where_both_lists_speak_both_hold():
    agent = AgentConfig(
        paths=("a/**", "b/**"),
        sandbox=SandboxConfig(workspace_access="ro", allowed_paths=("b/**", "c/**")),
    )

    assert [path for path in ("a/x", "b/x", "c/x") if _reads(agent).sees(path)] == ["b/x"]


def test_cwd_is_where_it_works_and_nowhere_until_that_is_known():
    agent = AGENT.validate_python(
        {"sandbox": {"workspace_access": "rw", "allowed_paths": ["${CWD}"]}, "paths": ["Work/**"]}
    )

    assert not _reads(agent).sees("Work/client-x/a.md")
    assert _writes(agent.at("Work/client-x")).sees("Work/client-x/a.md")
    assert not _reads(agent.at("Work/client-x")).sees("Work/client-y/a.md")
    assert not _reads(agent.at("Daily")).sees("Daily/a.md")
    assert agent.at(None) == agent
    assert _reads(AGENT.validate_python({"paths": ["${CWD}/notes/"]}).at("Work/")).sees(
        "Work/notes/a.md"
    )
    assert _reads(AGENT.validate_python({"paths": ["${CWD}"]}).at("")).sees("a.md")


@pytest.mark.parametrize("folder", ["../x", "/etc", "a/../b"])
def test_no_working_folder_leads_out_of_the_vault(folder):
    agent = AGENT.validate_python({"paths": ["${CWD}"]})
    try:
        placed = agent.at(folder)
    except ValueError:
        return

    assert not _reads(placed).sees("../x/a")
    assert all(not path.startswith(("..", "/")) for path in placed.paths)


@pytest.mark.parametrize(
    ("text", "is_file"),
    [
        *((name, True) for name in ("prompts/a.md", "a.txt", "deep/er/a-b.md")),
        *(
            (words, False)
            for words in ("", "You keep notes.md tidy", "You write\nREADME.md", "Be.")
        ),
    ],
)
def test_a_prompt_is_the_name_of_a_file_or_words(text, is_file):
    assert AgentConfig(system_prompt=text).prompt_file == (text if is_file else None)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512m", 512 << 20),
        ("2g", 2 << 30),
        ("2GB", 2 << 30),
        ("64k", 64 << 10),
        ("1048576", 1 << 20),
    ],
)
def test_sizes_of_memory(text, size):
    assert SandboxConfig(memory=text).memory_bytes == size


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"paths": "Brain/"}, "should be a list of paths"),
        ({"paths": ["../x"]}, "not a pattern of paths"),
        ({"paths": ["~/../x"]}, "is not a path"),
        ({"paths": ["${CWD}/../x"]}, "not a pattern of paths"),
        ({"paths": [7]}, "should be a valid string"),
        ({"capabilities": ["Computer"]}, "use Bash"),
        (
            {"capabilities": ["WebSearch"]},
            "use WebFetch, with network: true beside it",
        ),
        ({"capabilities": ["fly"]}, "not one of read, write"),
        ({"capabilities": "read"}, "should be a list"),
        ({"bash": "git"}, "should be true, false or a list"),
        ({"bash": {"a": 1}}, "should be true, false or a list"),
        ({"network": ["http://x"]}, "not the name of a host"),
        ({"network": ["-x.org"]}, "not the name of a host"),
        ({"model": ["x"]}, "should be a valid string"),
        ({"sandbox": {"workspace_access": "all"}}, "none', 'ro' or 'rw'"),
        ({"sandbox": {"network": "host"}}, "should be one of none, bridge"),
        ({"sandbox": {"memory": "much"}}, "a size such as 512m"),
        ({"sandbox": {"cpus": 0}}, "greater than 0"),
        ({"sandbox": {"pids_limit": 0}}, "greater than or equal to 1"),
        ({"sandbox": {"privileged": True}}, "Unexpected keyword"),
        ({"trust": "full"}, "Unexpected keyword"),
        ({"allow_user_skills": "perhaps"}, "boolean"),
    ],
)
def test_what_makes_no_sense_is_refused(said, says):
    with pytest.raises(ValidationError) as raised:
        AGENT.validate_python(said)

    assert says in str(raised.value)


def test_the_constructor_checks_too():
    with pytest.raises(ValidationError, match="not one of read, write"):
        AgentConfig(capabilities=("fly",))
