"""An entry of modules.yaml is understood, or its module does not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from parachuted.modules.registry.module_registry import parse_record

DIGEST = "sha256:" + "a" * 64


def test_an_entry_as_people_and_the_daemon_write_it():
    entry = {
        "enabled": "true",
        "source": "local",
        "path": "Modules/bot",
        "version": "1.0",
        "trust": "trusted",
        "hash": DIGEST,
        "tree": DIGEST,
        "environment": "venv-0123abcd",
        "agents": {"a": {"paths": ["X"]}},
        "config": {"x": "1"},
        "unknown": ["kept"],
    }
    record = parse_record("bot", entry)

    assert (record.enabled, record.trust, record.is_approved) == (
        True,
        "trusted",
        True,
    )
    assert record.folder(Path("/v")) == Path("/v/Modules/bot")
    assert record.agents == {"a": {"paths": ["X"]}}


def test_what_is_not_said_is_the_safe_way():
    record = parse_record("bot", {})
    assert (record.enabled, record.trust, record.is_approved, record.is_dev) == (
        False,
        "untrusted",
        False,
        False,
    )
    assert record.path == "Modules/bot"


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("../evil", {}),
        ("Bot", {}),
        ("", {}),
        ("bot", {"enabled": "maybe"}),
        ("bot", {"enabled": ["true"]}),
        ("bot", {"trust": "blind"}),
        ("bot", {"hash": "sha256:abc"}),
        ("bot", {"tree": DIGEST + "\n"}),
        ("bot", {"tree": "../../etc"}),
        ("bot", {"environment": "../venv-0123abcd"}),
        ("bot", {"environment": "venv-0123abcd/.."}),
        ("bot", {"path": "../elsewhere"}),
        ("bot", {"path": "/etc"}),
        ("bot", {"path": "Modules/../../x"}),
        ("bot", {"path": ".", "enabled": "true"}),
        ("bot", {"path": "Modules/bot", "dev": "true"}),
        ("bot", {"agents": "all"}),
    ],
)
def test_what_is_not_understood_is_refused(name, entry):
    with pytest.raises(ValueError, match=r"."):
        parse_record(name, entry)
