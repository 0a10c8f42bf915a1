"""Vendor: makes `parachuted/web/static/vendor/` of packages of the npm registry, each library one ES
module, with versions, licences and checksums; `python -m tests.web.vendor` needs node and npm.

To take a newer version: change it here, run it, look at the difference, run the tests.
`test_vendor.py` holds the committed files against `vendor.json` without a network.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "parachuted/web/static/vendor"
FOR_TESTS = ROOT / "tests/web/vendor"
PACKAGES = {
    "preact": "10.29.8",
    "@preact/signals": "2.11.4",
    "htm": "3.1.1",
    "marked": "18.2.1",
    "dompurify": "3.4.18",
    "@codemirror/commands": "6.11.1",
    "@codemirror/language": "6.13.1",
    "@codemirror/search": "6.7.2",
    "@codemirror/state": "6.7.6",
    "@codemirror/view": "6.43.15",
    "@lezer/highlight": "1.2.5",
    "@lezer/markdown": "1.8.1",
    "@dagrejs/dagre": "3.1.3",
    "d3-force": "3.0.1",
}
ONLY_FOR_TESTS = {"axe-core": "4.14.1"}
TOOLS = {"esbuild": "0.28.2"}
BUNDLES = {
    "view.js": """
export { h, render, Fragment, createContext } from 'preact';
export { useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useContext } from 'preact/hooks';
export { signal, computed, effect, batch, useSignal, useComputed } from '@preact/signals';
import { h } from 'preact';
import htm from 'htm';
export const html = htm.bind(h);
""",
    "markdown.js": """
export { Marked } from 'marked';
export { default as DOMPurify } from 'dompurify';
""",
    "editor.js": """
export { Annotation, Compartment, EditorState, RangeSetBuilder, StateEffect, StateField, Transaction } from '@codemirror/state';
export { Decoration, EditorView, GutterMarker, drawSelection, gutter, highlightActiveLine, keymap, placeholder } from '@codemirror/view';
export { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
export { HighlightStyle, Language, LanguageSupport, defineLanguageFacet, languageDataProp, syntaxHighlighting } from '@codemirror/language';
export { GFM, parser } from '@lezer/markdown';
export { tags } from '@lezer/highlight';
export { search, searchKeymap } from '@codemirror/search';
""",
    "forces.js": """
export { forceLink, forceManyBody, forceSimulation, forceX, forceY } from 'd3-force';
""",
    "layers.js": """
export { Graph, layout } from '@dagrejs/dagre';
""",
}  # fmt: skip


def main() -> None:
    """Install the packages in a folder of their own, bundle them, and write down what they are."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        versions = {**PACKAGES, **ONLY_FOR_TESTS, **TOOLS}
        (work / "package.json").write_text(json.dumps({"private": True, "dependencies": versions}))
        _run("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", at=work)
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        used = {file: _bundle(work, file, entry) for file, entry in BUNDLES.items()}
        _copy_test_libraries(work)
        names = sorted(set().union(*used.values()))
        lock = json.loads((work / "package-lock.json").read_text())["packages"]
        packages = {one: _described(work, one, lock) for one in names}
        (FOLDER / "LICENSES.txt").write_text(_licences(work, packages))
        _write_down(FOLDER / "vendor.json", {"packages": packages, "bundles": used})


def _bundle(work: Path, file: str, entry: str) -> list[str]:
    """Write the bundle; the packages that it is made of."""
    (work / f"entry-{file}").write_text(entry)
    meta = work / f"meta-{file}.json"
    _run(
        *("node_modules/.bin/esbuild", f"entry-{file}", "--bundle", "--format=esm", "--minify"),
        *("--target=es2022", "--legal-comments=none", f"--metafile={meta}"),
        *(f"--outfile={FOLDER / file}", "--log-level=warning"),
        at=work,
    )
    inputs = json.loads(meta.read_text())["inputs"]
    return sorted({_package_of(path) for path in inputs if path.startswith("node_modules/")})


def _package_of(path: str) -> str:
    parts = path.removeprefix("node_modules/").split("/")
    return "/".join(parts[:2]) if parts[0].startswith("@") else parts[0]


def _copy_test_libraries(work: Path) -> None:
    FOR_TESTS.mkdir(parents=True, exist_ok=True)
    shutil.copy(work / "node_modules/axe-core/axe.min.js", FOR_TESTS)
    shutil.copy(work / "node_modules/axe-core/LICENSE", FOR_TESTS / "axe-core-LICENSE.txt")
    lock = json.loads((work / "package-lock.json").read_text())["packages"]
    packages = {"axe-core": _described(work, "axe-core", lock)}
    _write_down(FOR_TESTS / "vendor.json", {"packages": packages})


def _described(work: Path, name: str, lock: dict[str, Any]) -> dict[str, str]:
    of = json.loads((work / "node_modules" / name / "package.json").read_text())
    integrity = lock[f"node_modules/{name}"]["integrity"]
    return {"version": of["version"], "licence": of["license"], "integrity": integrity}


def _licences(work: Path, packages: dict[str, dict[str, str]]) -> str:
    texts = []
    for name, reported in packages.items():
        found = sorted((work / "node_modules" / name).glob("[Ll][Ii][Cc][Ee][Nn][SsCc][Ee]*"))
        text = found[0].read_text() if found else f"Licensed under {reported['licence']}."
        texts.append(f"{name} {reported['version']} ({reported['licence']})\n\n{text.strip()}\n")
    return f"\n{'=' * 80}\n\n".join(texts)


def _write_down(place: Path, reported: dict[str, Any]) -> None:
    place.unlink(missing_ok=True)
    files = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.parent.iterdir())
    }
    place.write_text(json.dumps({**reported, "sha256": files}, indent=2) + "\n")


def _run(*command: str, at: Path) -> None:
    subprocess.run(command, cwd=at, check=True)


if __name__ == "__main__":
    main()
