"""One precondition has one status, whatever is written and by which call."""

from __future__ import annotations

import pytest

from tests.api.calls import call, expect
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
    await expect(daemon_rig, 409, method, path, headers={"If-Match": OTHER}, **sent)
    for wrong in ('"x"', OTHER + ", " + OTHER, ""):
        await expect(daemon_rig, 400, method, path, headers={"If-Match": wrong}, **sent)
    assert (vault / "a.md").read_text() == "# A\n"


@pytest.mark.parametrize("way", ["note", "file"])
async def test_what_is_there_already_is_a_conflict_for_who_would_make_it_and_what_is_made_is_201(
    vault, way, daemon_rig: DaemonRig
):
    method, path, sent = WAYS[way]
    made = await call(daemon_rig, method, path, headers={"If-None-Match": "*"}, **sent)
    again = await call(daemon_rig, method, path, headers={"If-None-Match": "*"}, **sent)
    replaced = await call(daemon_rig, method, path, **sent)
    assert [made[0], again[0], replaced[0]] == [201, 409, 200]
    await expect(daemon_rig, 400, method, path, headers={"If-None-Match": OTHER}, **sent)


async def test_a_multipart_body_is_refused_and_never_stored_as_an_envelope(
    vault, daemon_rig: DaemonRig
):
    envelope = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n# '
        b"A\r\n--x--\r\n"
    )
    for path in ("/api/notes/a.md", "/api/files/a.md", "/api/write"):
        await expect(
            daemon_rig,
            415,
            "PUT",
            path,
            data=envelope,
            headers={"Content-Type": "multipart/form-data; boundary=x"},
            says="multipart",
        )
    assert not (vault / "a.md").exists()
