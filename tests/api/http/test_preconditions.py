"""One precondition has one status, whatever is written and by which call."""

from __future__ import annotations

import pytest

from tests.api.calls import call, error, refused
from tests.stories.daemon_rig import Live, save

OTHER = '"' + "0" * 64 + '"'
WAYS = {
    "note": ("PUT", "/api/notes/a.md", {"data": b"# B\n"}),
    "file": ("PUT", "/api/files/a.md", {"data": b"# B\n"}),
    "text": ("PUT", "/api/write", {"json": {"path": "a.md", "content": "# B\n"}}),
}


@pytest.mark.parametrize("way", WAYS)
async def test_another_text_than_was_meant_is_a_conflict(live: Live, vault, way):
    method, path, sent = WAYS[way]
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig:
        status, _ = await call(daemon_rig, method, path, headers={"If-Match": OTHER}, **sent)
        assert status == 409
        for wrong in ('"x"', OTHER + ", " + OTHER, ""):
            assert (
                await error(daemon_rig, method, path, headers={"If-Match": wrong}, **sent) == 400
            ), wrong
    assert (vault / "a.md").read_text() == "# A\n"


@pytest.mark.parametrize("way", ["note", "file"])
async def test_what_is_there_already_is_a_conflict_for_who_would_make_it_and_what_is_made_is_201(
    live: Live, vault, way
):
    method, path, sent = WAYS[way]
    async with live() as daemon_rig:
        made = await call(daemon_rig, method, path, headers={"If-None-Match": "*"}, **sent)
        again = await call(daemon_rig, method, path, headers={"If-None-Match": "*"}, **sent)
        replaced = await call(daemon_rig, method, path, **sent)
        assert [made[0], again[0], replaced[0]] == [201, 409, 200]
        assert (
            await error(daemon_rig, method, path, headers={"If-None-Match": OTHER}, **sent) == 400
        )


async def test_a_multipart_body_is_refused_and_never_stored_as_an_envelope(live: Live, vault):
    envelope = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.md"\r\n\r\n# '
        b"A\r\n--x--\r\n"
    )
    async with live() as daemon_rig:
        for path in ("/api/notes/a.md", "/api/files/a.md", "/api/write"):
            status, message = await refused(
                daemon_rig,
                "PUT",
                path,
                data=envelope,
                headers={"Content-Type": "multipart/form-data; boundary=x"},
            )
            assert (status, "multipart" in message) == (415, True)
    assert not (vault / "a.md").exists()
