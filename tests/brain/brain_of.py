"""A Brain that runs alone, and what tests do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from parachuted.home_files.bundled import bundled_folder
from parachuted.modules import Response
from parachuted.testing import ModuleHarness, running_module

KIM = "Brain/entities/people/kim.md"


KIM_TEXT = (
    "---\npara_id: para:brain:kimkimkimkim  # by hand\ntype: person\naliases:\n  - 'Kimmy'\n"
    "tags: [friend]\n---\n\n# Kim Lee\n\nGrows *beans*.\n\n"
    "## Relationships\n\n- [[acme]] - Founder\n"
)


@asynccontextmanager
async def brain(vault: Path, **options: Any) -> AsyncIterator[ModuleHarness]:
    folder = bundled_folder("modules") / "brain"
    async with running_module(folder, vault=vault, **options) as module:
        yield module


def write(vault: Path, path: str, text: str) -> None:
    (vault / path).parent.mkdir(parents=True, exist_ok=True)
    (vault / path).write_bytes(text.encode())


def a_vault(vault: Path) -> Path:
    write(vault, KIM, KIM_TEXT)
    write(vault, "Brain/entities/organizations/acme.md", "# Acme\n\nMakes anvils.\n")
    write(vault, "Brain/old notes/Zoë Müller.md", "---\ntype: person\n---\nAn old friend.\n")
    return vault


async def make(module: ModuleHarness, kind: str, **data: object) -> str:
    body = {"entity_type": kind, "data": data, "commit_msg": "x"}
    answer = await module.request("POST", "/entities", body=body)
    assert isinstance(answer, Response)
    assert isinstance(answer.body, dict)
    return str(answer.body["entity_id"])
