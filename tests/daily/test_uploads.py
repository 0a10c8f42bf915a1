"""Uploads: a recording reaches the vault whole, also over a connection that breaks."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parachuted.errors import EditRefusedError, NotFoundError, ParachuteError
from parachuted.testing import ModuleHarness
from tests.daily.journal_of import NOON, daily
from tests.module_files import daily_file

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


async def begin(module: ModuleHarness, **said: object) -> str:
    body = {"type": "photo", "name": "IMG_1.PNG", "created_at": NOON, **said}
    answer = await module.request("POST", "/uploads", body=body)
    return str(answer.body["id"])


async def append(module: ModuleHarness, upload: str, offset: int, piece: bytes) -> int:
    answer = await module.request(
        "PATCH", f"/uploads/{upload}", query={"offset": str(offset)}, upload=piece
    )
    return int(answer["offset"])


async def complete(module: ModuleHarness, upload: str, **said: object):
    return await module.request("POST", f"/uploads/{upload}/complete", body=said)


async def test_pieces_become_one_file_of_the_day_that_an_entry_can_name(journal, tmp_path: Path):
    upload = await begin(journal, size=len(PNG))
    assert await append(journal, upload, 0, PNG[:1000]) == 1000
    assert (await journal.request("GET", f"/uploads/{upload}"))["offset"] == 1000
    assert await append(journal, upload, 1000, PNG[1000:]) == len(PNG)

    asset = await complete(journal, upload, sha256=hashlib.sha256(PNG).hexdigest())

    assert asset["path"] == "assets/2026-02-24/120000_photo.png"
    assert (tmp_path / "Daily" / asset["path"]).read_bytes() == PNG
    assert await complete(journal, upload) == asset  # a client that lost the answer asks again
    assert (await journal.request("GET", f"/uploads/{upload}"))["asset"] == asset
    assert len(list((tmp_path / "Daily/assets").rglob("*.*"))) == 1
    for again in (append(journal, upload, len(PNG), b"x"), complete(journal, upload, sha256="0")):
        with pytest.raises(EditRefusedError):
            await again
    with pytest.raises(EditRefusedError, match="it is Daily/assets/2026-02-24/120000_photo"):
        await journal.request("DELETE", f"/uploads/{upload}")


async def test_an_upload_is_there_for_the_key_that_began_it_and_no_other(journal, tmp_path: Path):
    phone, other = journal.with_key("k_phone"), journal.with_key("k_other")
    upload = await begin(phone)
    await append(phone, upload, 0, PNG)

    for stranger in (other, journal):
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/complete")):
            with pytest.raises(NotFoundError):
                await stranger.request(method, f"/uploads/{upload}{path}")
        with pytest.raises(NotFoundError):
            await append(stranger, upload, len(PNG), b"more")
    asset = await complete(phone, upload)
    with pytest.raises(NotFoundError):
        await complete(other, upload)
    assert (tmp_path / "Daily" / asset["path"]).read_bytes() == PNG


async def test_an_uploads_answer_outlives_the_module_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def uploads() -> Any:
        return daily_file("uploads").Uploads(tmp_path, "k_phone", defaultdict(asyncio.Lock))

    async def pieces() -> AsyncIterator[bytes]:
        yield PNG

    vault = AsyncMock()
    vault.exists.return_value = False
    vault.upload.return_value = SimpleNamespace(size=len(PNG), digest="d" * 64)
    at = datetime.fromisoformat(NOON)
    upload = uploads().begin("photo", "a.png", at, None).id
    await uploads().append(upload, 0, pieces())
    asset = await uploads().complete(upload, None, vault)

    assert await uploads().complete(upload, None, vault) == asset
    assert vault.upload.await_count == 1
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 24 * 3600 + 60)
    uploads().begin("photo", "a.png", at, None)
    with pytest.raises(NotFoundError):
        uploads().get(upload)


async def test_two_files_of_one_second_are_both_kept(journal):
    paths = []
    for _ in range(2):
        upload = await begin(journal)
        await append(journal, upload, 0, PNG)
        paths.append((await complete(journal, upload))["path"])

    assert [Path(path).name for path in paths] == ["120000_photo.png", "120000_photo-2.png"]


async def test_a_piece_that_does_not_follow_says_where_to_go_on(journal):
    upload = await begin(journal)
    await append(journal, upload, 0, PNG[:10])

    with pytest.raises(EditRefusedError, match="The upload has 10 bytes: go on from there"):
        await append(journal, upload, 0, PNG)
    assert await append(journal, upload, 10, PNG[10:]) == len(PNG)


async def test_what_is_neither_a_recording_nor_a_picture_or_too_large_is_refused(journal):
    for said, message in (
        ({"name": "virus.exe"}, "is not the name of one of these: png"),
        ({"name": "../../x"}, "is not the name of one of these"),
        ({"type": "audio"}, "is not the name of one of these: wav"),
    ):
        with pytest.raises(EditRefusedError, match=message):
            await begin(journal, **said)
    with pytest.raises(ParachuteError, match="209715200"):
        await begin(journal, size=(200 << 20) + 1)
    await begin(journal, size=200 << 20)


async def test_what_is_not_whole_or_not_what_was_said_stays_an_upload(journal, tmp_path: Path):
    upload = await begin(journal, size=len(PNG))
    await append(journal, upload, 0, PNG[:100])
    with pytest.raises(EditRefusedError, match=f"has 100 of {len(PNG)} bytes"):
        await complete(journal, upload)
    with pytest.raises(EditRefusedError, match=f"larger than {len(PNG):,} bytes"):
        await append(journal, upload, 100, PNG)
    other = await begin(journal)
    await append(journal, other, 0, PNG)
    with pytest.raises(EditRefusedError, match="SHA-256 is"):
        await complete(journal, other, sha256="0" * 64)

    assert not (tmp_path / "Daily/assets").exists()
    for one in (upload, other):
        await journal.request("DELETE", f"/uploads/{one}")


async def test_too_many_open_uploads_are_refused_and_one_is_named(journal):
    phone = journal.with_key("k_phone")
    started = [await begin(phone) for _ in range(50)]
    with pytest.raises(EditRefusedError, match=r"One is [0-9a-f]{24}, of 2026-02-24T12"):
        await begin(phone)

    await begin(journal)  # others go on
    await append(phone, started[0], 0, PNG)
    await complete(phone, started[0])
    await begin(phone)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cuts=st.lists(st.integers(0, len(PNG)), max_size=6))
async def test_however_it_is_cut_the_file_is_the_same(cuts: list[int], tmp_path_factory):
    vault = tmp_path_factory.mktemp("cut")
    ends = [*sorted(cuts), len(PNG)]
    async with daily(vault) as module:
        upload = await begin(module)
        at = 0
        for end in ends:
            at = await append(module, upload, at, PNG[at:end])
        asset = await complete(module, upload)

    assert (vault / "Daily" / asset["path"]).read_bytes() == PNG
