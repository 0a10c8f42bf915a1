"""One precondition has one status, whatever is written and by which call."""

from __future__ import annotations

import pytest

from tests.api.calls import expect
from tests.stories.daemon_rig import DaemonRig, save

OTHER = '"' + "0" * 64 + '"'
WAYS = {
    "note": ("PUT", "/api/notes/a.md", {"data": b"# B\n"}),
    "file": ("PUT", "/api/files/a.md", {"data": b"# B\n"}),
    "text": ("PUT", "/api/write", {"json": {"path": "a.md", "content": "# B\n"}}),
}


@pytest.mark.parametrize("way", WAYS)
async def test_another_text_than_was_meant_is_a_conflict(vault, way, daemon_rig: DaemonRig):
    method, path, sent = WAYS[way]
    save(vault / "a.md", "# A\n")
    for match, status in ((OTHER, 409), ('"x"', 400), (f"{OTHER}, {OTHER}", 400), ("", 400)):
        await expect(daemon_rig, status, method, path, headers={"If-Match": match}, **sent)
    assert (vault / "a.md").read_text() == "# A\n"


@pytest.mark.parametrize("way", ["note", "file"])
async def test_what_is_there_already_is_a_conflict_for_who_would_make_it(
    way, daemon_rig: DaemonRig
):
    method, path, sent = WAYS[way]
    for known, status in (("*", 201), ("*", 409), (None, 200), (OTHER, 400)):
        headers = {"If-None-Match": known} if known else {}
        await expect(daemon_rig, status, method, path, headers=headers, **sent)


async def test_a_multipart_body_is_refused_and_never_stored_as_an_envelope(
    vault, daemon_rig: DaemonRig
):
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    sent = {"data": head + b"# A\r\n--x--\r\n", "headers": kind, "says": "multipart"}
    for path in ("/api/notes/a.md", "/api/files/a.md", "/api/write"):
        await expect(daemon_rig, 415, "PUT", path, **sent)
    assert not (vault / "a.md").exists()
