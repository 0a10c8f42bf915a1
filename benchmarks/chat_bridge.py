"""Chat's bridge to Brain: what it adds to a message before the agent sees it, beside a Brain of
3,000 entities. The model's own time is left out: it answers at once.

Spans are processor time, which other programs do not lengthen.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import random
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.brain_vault import MadeNote, make_notes, write_notes
from benchmarks.report import Figure
from benchmarks.serving import percentile
from parachuted.home_files.bundled import bundled_folder
from parachuted.testing import running_module

_PACKAGE = "benchmarked_chat"
_ENTITIES = 3_000
_MESSAGES = 100
_LONG = 6
_WARM = 40  # until Brain has read all
_BOUND_MS = 40
_SAID = (
    "Can you remind me what {name} said about the beds last week?",
    "I have to write to {name} by Friday about the harvest, please help me to begin.",
    "What would be a good present for somebody who likes {word} and long walks?",
    "Please finish that letter about {word} which we talked about the other day.",
)


class _Chat:
    """The chat module, as its bridge needs it; its model answers at once."""

    log = logging.getLogger(__name__)

    def __init__(self, brain: object, *, has_model: bool) -> None:
        self._brain, self.has_model = brain, has_model

    def get_interface(self, _name: str) -> object:
        return self._brain

    async def ask(self, prompt: str, **_more: object) -> object:
        words = prompt.rpartition("\n")[2].split()
        return {"judgment": "enrich", "queries": [" ".join(words[4:8]), " ".join(words[-4:])]}


def chat_bridge(folder: Path) -> Iterator[Figure]:
    """`enrich` as a turn calls it."""
    notes = make_notes(_ENTITIES, days=0)
    vault = write_notes(notes, folder / "vault")
    yield from asyncio.run(_measured(vault, notes))


async def _measured(vault: Path, notes: Sequence[MadeNote]) -> list[Figure]:
    session_file, bridge_file = _file("session"), _file("bridge")
    at = "2026-11-23T10:00:00.000Z"
    session = session_file.Session(
        id="s", para_id="p", path="Chat/sessions/a.md", created_at=at, updated_at=at
    )
    figures = []
    async with running_module(bundled_folder("modules") / "brain", vault=vault) as brain:
        provider = brain.interface("BrainInterface")
        for name, has_model in (("judged by a model", True), ("judged by its words", False)):
            bridge = bridge_file.Bridge(_Chat(provider, has_model=has_model), None)
            for message in islice(_messages(notes), _WARM):
                await bridge.enrich(session, message)
            spans, loaded = [], 0
            for message in _messages(notes):
                began = time.process_time()
                text, _count = await bridge.enrich(session, message)
                spans.append((time.process_time() - began) * 1e3)
                loaded += bool(text)
            figures.append(
                Figure(
                    name=f"enrich, {name}, 3,000 entities, p95",
                    value=percentile(spans, 0.95),
                    unit="ms",
                    bound=_BOUND_MS,
                    note=f"p50 {percentile(spans, 0.5):.1f} ms, {loaded} of {_MESSAGES} enriched",
                )
            )
        began = time.process_time()
        for _ in range(1_000):
            await bridge.enrich(session, "thanks, that is all")
        figures.append(
            Figure(
                name="enrich of a message of four words",
                value=time.process_time() - began,
                unit="ms",
                bound=0.1,
            )
        )
    return figures


def _messages(notes: Sequence[MadeNote]) -> Iterator[str]:
    chance = random.Random(13)  # noqa: S311  generated text needs no secrecy
    for number in range(_MESSAGES):
        note = chance.choice(notes)
        word = chance.choice([part for part in note.text.split() if len(part) >= _LONG] or ["tea"])
        yield _SAID[number % len(_SAID)].format(name=note.name, word=word)


def _file(name: str) -> Any:  # noqa: ANN401  a file of a module's own
    if _PACKAGE not in sys.modules:
        package = ModuleType(_PACKAGE)
        package.__path__ = [str(bundled_folder("modules") / "chat")]
        sys.modules[_PACKAGE] = package
    return importlib.import_module(f"{_PACKAGE}.{name}")
