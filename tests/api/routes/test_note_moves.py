from __future__ import annotations

import pytest

from tests.api.calls import digest, expect, get, key_of, noticed, post, refused
from tests.stories.daemon_rig import DaemonRig, save

MOVE = "/api/notes/a.md/move"


async def test_a_note_moves_and_its_links_follow(vault, daemon_rig: DaemonRig):
    save(vault / "A/Old.md", "# Old\n[[other]] [o](other.md)\n")
    save(vault / "A/other.md", "see [[Old|that]]\r\n[t](Old.md#x 'y')\r\n")
    save(vault / "b.md", "none\n")
    await noticed(daemon_rig)
    reported = await post(daemon_rig, "/api/notes/A/Old.md/move", {"to": "B/New one.md"})
    assert [one["path"] for one in reported["rewritten"]] == ["A/other.md"]
    assert reported == reported | {"path": "B/New one.md", "source": "A/Old.md", "left": 0}
    assert (await get(daemon_rig, "/api/notes/B/New%20one.md"))["hash"] == reported["hash"]
    events = daemon_rig.reported("file.moved") + daemon_rig.reported("file.modified")
    assert len({tuple(one["causes"]) for one in events}) == 1
    await daemon_rig.indexed()
    links = (await get(daemon_rig, "/api/notes/B/New%20one.md/backlinks"))["backlinks"]
    assert [(link["source"], link["line"]) for link in links] == [
        ("A/other.md", 1),
        ("A/other.md", 2),
    ]
    other = b"see [[New one|that]]\r\n[t](../B/New%20one.md#x 'y')\r\n"
    assert (vault / "A/other.md").read_bytes() == other
    assert (vault / "B/New one.md").read_text() == "# Old\n[[other]] [o](../A/other.md)\n"


async def test_a_taken_name_or_another_text_is_a_conflict_and_nothing_moves(
    vault, daemon_rig: DaemonRig
):
    save(vault / "a.md", "one")
    save(vault / "b.md", "two")
    for to, match, status in (
        ("b.md", None, 409),
        ("c.md", digest("two"), 409),
        (None, None, 400),
        ("../c.md", None, 400),
        ("c.txt", None, 404),
        (".c.md", None, 404),
        (".git/c.md", None, 404),
        ("c.md", digest("one"), 200),
        ("c.md", None, 404),
    ):
        sent = {"json": {"to": to} if to else {}, "headers": {"If-Match": match} if match else {}}
        reported = await expect(daemon_rig, status, "POST", MOVE, **sent)
        assert to != "b.md" or reported["conflict"]["theirs"] == "two"
    await expect(daemon_rig, 404, "POST", "/api/notes/none.md/move", json={"to": "d.md"})

    assert sorted(path.name for path in vault.glob("*.md")) == ["b.md", "c.md"]


async def test_a_key_moves_within_its_paths_and_learns_nothing_of_the_others(
    vault, daemon_rig: DaemonRig
):
    save(vault / "Mine/a.md", "x")
    save(vault / "Mine/b.md", "[[a]]")
    save(vault / "Hers/c.md", "[[a]] [[Mine/a]]")
    await noticed(daemon_rig)
    key = key_of(daemon_rig, "vault:read,write", paths=["Mine/**"])
    for source, target, path in (
        ("Mine/a.md", "Hers/a.md", "Hers/a.md"),
        ("Hers/c.md", "Mine/c.md", "Hers/c.md"),
        ("Mine/a.md", "Hers/c.md", "Hers/c.md"),
    ):
        sent = {"json": {"to": target}, "headers": key}
        said = await refused(daemon_rig, "POST", f"/api/notes/{source}/move", **sent)
        assert said == (404, f"{path} is not in the vault")
    sent = {"json": {"to": "Mine/z.md"}, "headers": key}
    moved = await expect(daemon_rig, 200, "POST", "/api/notes/Mine/a.md/move", **sent)
    assert ([one["path"] for one in moved["rewritten"]], moved["left"]) == (["Mine/b.md"], 0)
    assert (vault / "Hers/c.md").read_text() == "[[a]] [[Mine/a]]"


async def test_links_in_suggestions_modules_and_settings_are_left_as_they_are(
    vault, daemon_rig: DaemonRig
):
    kept = ("Suggestions/one.md", "Modules/m/README.md", "suggestions./two.md", ".claude/three.md")
    for name in kept:
        save(vault / name, "- [ ] approve [[a]] and [it](../a.md)\n")
    save(vault / "a.md", "x\n")
    save(vault / "b.md", "[[a]]\n")
    await noticed(daemon_rig)
    reported = await post(daemon_rig, MOVE, {"to": "c/new.md"})

    assert [one["path"] for one in reported["rewritten"]] == ["b.md"]
    assert {(vault / name).read_text() for name in kept} == {
        "- [ ] approve [[a]] and [it](../a.md)\n"
    }


@pytest.mark.parametrize(
    "hidden",
    [{}, {"b.md": "# B\n", "Private/deep/new.md": "# New\n", "Private/b.md": "[[b]] [[new]]\n"}],
)
async def test_what_a_key_does_not_see_decides_nothing_of_its_links(
    vault, hidden, daemon_rig: DaemonRig
):
    theirs = {"Mine/sub/b.md": "# B\n", "Mine/sub/a.md": "[[b]] [[new]] [[sub/b]]\n"}
    for path, text in (theirs | hidden).items():
        save(vault / path, text)
    await noticed(daemon_rig)
    key = {"headers": key_of(daemon_rig, "vault:read,write", paths=["Mine/**"])}
    where, to = "/api/notes/Mine/sub/b.md", {"to": "Mine/sub/new.md"}
    linked = await expect(daemon_rig, 200, "GET", f"{where}/backlinks", **key)
    moved = await expect(daemon_rig, 200, "POST", f"{where}/move", json=to, **key)

    assert [one["text"] for one in linked["backlinks"]] == ["b", "sub/b"]
    assert ([one["path"] for one in moved["rewritten"]], moved["left"]) == (["Mine/sub/a.md"], 0)
    assert (vault / "Mine/sub/a.md").read_text() == "[[Mine/sub/new]] [[new]] [[Mine/sub/new]]\n"
    assert {path: (vault / path).read_text() for path in hidden} == hidden
