"""What is approved: the files, the permissions as they were understood, and the packages."""

from __future__ import annotations

import pytest

from parachuted.modules.registry.approval import approval_digest, check_trust, is_no_wider
from parachuted.modules.registry.approved import ApprovalRefusedError
from parachuted.modules.registry.manifest import read_manifest

PLAIN = "name: bot\nversion: 0.1.0\nmodule: module.py\n"
TREE = "sha256:" + "1" * 64


def test_each_part_counts_and_the_order_of_the_lock_does_not():
    plain, wider = read_manifest(PLAIN), read_manifest(PLAIN + "permissions: {read: [Work/**]}\n")
    digests = {
        approval_digest(TREE, plain, []),
        approval_digest("sha256:" + "2" * 64, plain, []),
        approval_digest(TREE, wider, []),
        approval_digest(TREE, plain, ["a==1"]),
        approval_digest(TREE, plain, ["a==1", "b==1"]),
    }
    assert len(digests) == 5
    assert approval_digest(TREE, plain, ["a==1", "b==1"]) == approval_digest(
        TREE, plain, ["b==1", "a==1"]
    )


@pytest.mark.parametrize(
    ("more", "is_same"),
    [
        ("description: other\n", True),
        ("provides: [X]\n", True),
        ("permissions: {read: [Work/**]}\n", False),
        ("permissions: {bash: true}\n", False),
        ("permissions: {folders: [~/Projects]}\n", False),
        ("permissions: {hooks: [prompt.before]}\n", False),
        ("dependencies: [httpx]\n", False),
        ("agents: {a: {paths: [Work/]}}\n", False),
    ],
)
def test_only_code_may_change_unasked_under_development(more, is_same):
    assert is_no_wider(read_manifest(PLAIN + more), read_manifest(PLAIN)) is is_same


@pytest.mark.parametrize("right", ["folders: [~/Projects]", "hooks: [stop.before]", "people: true"])
def test_a_later_right_counts_where_it_is_asked_for_and_older_approvals_stay_good(right):
    plain = approval_digest(TREE, read_manifest(PLAIN), [])
    more = read_manifest(PLAIN + f"permissions: {{{right}}}\n")

    assert plain == "sha256:e351df55248bf04a16cb065a4e96082b8076e1f07eaeba6dfa354c94c6f489fb"
    assert approval_digest(TREE, more, []) != plain


def test_only_who_may_be_given_words_of_any_note_takes_part_in_hooks():
    some = read_manifest(PLAIN + "permissions: {read: [Work/], hooks: [prompt.before]}\n")
    every = read_manifest(PLAIN + "permissions: {read: ['**'], hooks: [prompt.before]}\n")

    check_trust(some, "trusted")
    check_trust(every, "untrusted")
    check_trust(read_manifest(PLAIN), "untrusted")
    with pytest.raises(ApprovalRefusedError, match=r"whose permissions read `\*\*`"):
        check_trust(some, "untrusted")


def test_only_a_trusted_module_acts_for_people():
    bot = read_manifest(PLAIN + "permissions: {people: true}\n")

    check_trust(bot, "trusted")
    with pytest.raises(ApprovalRefusedError, match="modules approve bot --trust trusted"):
        check_trust(bot, "untrusted")
