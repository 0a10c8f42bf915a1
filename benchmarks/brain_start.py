"""Brain's start: `python -m benchmarks.brain_start VAULT` prints, as JSON, the processor time and
the memory that all of Brain takes to read the vault from cold, once the vault's own index is made.
Without the extra `semantic`, whose model is not Brain's own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.brain_engines import engine
from parachuted.access.caller import Caller, acting
from parachuted.testing import running_module

_PATIENCE_S = 120.0
_NOTHING = {
    "manifest.yaml": "name: nothing\nversion: 0.1.0\nmodule: module.py\n"
    "permissions: {read: ['**'], write: ['**']}\n",
    "module.py": "from parachuted.modules import Module\n\n\nclass Nothing(Module):\n    pass\n",
}


async def _run(folder: Path, vault: Path) -> dict[str, float]:
    """Brain on the vault of a module that does nothing, so that nothing else works meanwhile."""
    recall_file, store_file = engine("recall"), engine("store")
    async with running_module(folder, vault=vault) as module:
        await asyncio.to_thread(module._vault._search.settle, _PATIENCE_S)  # noqa: SLF001
        gc.collect()
        process = psutil.Process()
        memory, began = process.memory_info().rss, time.process_time()
        with acting(Caller()):
            recall = recall_file.RecallIndex(folder / "recall.db")
            made = store_file.EntityStore(module.instance.vault, recall, lambda *_change: None)
            await made.load()
            await made.load_notes()
            recall.search("warm")
        used = time.process_time() - began
        gc.collect()
        mb = (process.memory_info().rss - memory) / 1e6
        recall.close()
        return {"brain": used, "mb": mb}


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        for file, text in _NOTHING.items():
            Path(name, file).write_text(text)
        print(json.dumps(asyncio.run(_run(Path(name), Path(sys.argv[1])))))


if __name__ == "__main__":
    main()
