"""The page and its files, as the daemon sends them."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest

from parachuted.web import PageFiles
from tests.stories.daemon_rig import DaemonRig, Live

MOST_BYTES = 100_000
STATIC = Path(__file__).resolve().parents[2] / "parachuted/web/static"
SCREENS = sorted(place.name for place in (STATIC / "screens").iterdir() if place.is_dir())


async def answered(
    session: aiohttp.ClientSession, url: str, **headers: str
) -> tuple[int, Mapping[str, str], bytes]:
    async with session.get(url, headers=headers) as answer:
        return answer.status, answer.headers, await answer.read()


async def test_the_page_needs_no_key_and_may_run_nothing_but_its_own_files(live: Live):
    async with live(auth_mode="always") as daemon_rig, aiohttp.ClientSession() as session:
        status, headers, body = await answered(session, daemon_rig.url + "/")
        parts = headers["Content-Security-Policy"].split(";")
        policy = dict(part.strip().partition(" ")[::2] for part in parts)

        assert (status, headers["Cache-Control"]) == (200, "no-store")
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == "'self'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        nonce = re.search(rb'name="style-nonce" content="([^"]+)"', body)[1].decode()
        assert policy["style-src"] == f"'self' 'nonce-{nonce}'"
        _, again, _ = await answered(session, daemon_rig.url + "/")
        assert nonce not in again["Content-Security-Policy"]
        assert re.findall(rb"<script(?![^>]*\bsrc=)|<style| on\w+=|https?://", body) == []

        status, headers, body = await answered(session, daemon_rig.url + "/service-worker.js")
        named = re.findall(rb'"(/web/[^"]+)"', body)
        assert (status, headers["Content-Type"]) == (200, "text/javascript; charset=utf-8")
        assert headers["Cache-Control"] in {"no-cache", "no-store"}, "an update is seen"
        kinds = {one.rpartition(b".")[2] for one in named}
        assert kinds <= {b"js", b"css", b"png", b"svg", b"webmanifest"}
        scripts = {place.relative_to(STATIC).as_posix() for place in STATIC.rglob("*.js")}
        found = {one.decode().split("/", 3)[3] for one in named if one.endswith(b".js")}
        assert found == scripts - {"service-worker.js"}, "it names all that a screen may load"
        assert b"page-" + named[0].split(b"/")[2] in body, "another version keeps other files"
        for one in named:
            status, _, _ = await answered(session, daemon_rig.url + one.decode())
            assert (one, status) == (one, 200)


async def test_a_file_is_kept_for_ever_and_sent_compressed_and_known_by_its_tag(
    daemon_rig: DaemonRig,
):
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def sent(path: str, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
            return await answered(session, daemon_rig.url + path, **headers)

        _, _, page = await sent("/")
        main = re.search(rb'src="(/web/[0-9a-f]{16}/main\.js)"', page)[1].decode()
        library = main.replace("main.js", "vendor/view.js")
        _, plain, text = await sent(library, **{"Accept-Encoding": "br"})
        _, packed, short = await sent(library, **{"Accept-Encoding": "gzip"})
        assert (await sent(library, **{"If-None-Match": plain["ETag"]}))[0] == 304
        assert plain["Content-Type"] == "text/javascript; charset=utf-8"
        assert plain["Cache-Control"] == "public, max-age=31536000, immutable"
        assert (packed["Content-Encoding"], gzip.decompress(short)) == ("gzip", text)
        for wrong in ("/web/0123456789abcdef/main.js", main.replace("main", "../page_routes")):
            assert (await sent(wrong))[0] in {403, 404}


@pytest.mark.parametrize("screen", SCREENS)
def test_until_the_first_view_of_a_screen_a_browser_loads_little_script(screen: str):
    files = PageFiles()
    files.look()

    shown = files.scripts(f"screens/{screen}/{screen}.js")
    loaded = {**files.scripts(), **files.scripts("screens/journal/journal.js"), **shown}
    sizes = {name: len(one.packed or one.body) for name, one in loaded.items()}

    assert {"vendor/view.js", "vendor/markdown.js"} <= {*sizes}
    assert "vendor/editor.js" not in sizes, "the editor is loaded when it is needed"
    assert sum(sizes.values()) < MOST_BYTES, sizes


def test_our_scripts_are_sent_without_comments_and_others_as_they_are():
    files = PageFiles()
    sent = {name: files.find(files.look(), name) for name in ("main.js", "vendor/view.js")}
    source = (STATIC / "main.js").read_text().splitlines()

    assert sent["vendor/view.js"].body == (STATIC / "vendor/view.js").read_bytes()
    lines = sent["main.js"].body.decode().splitlines()
    assert lines == ["" if line.startswith("/**") else line for line in source]
    assert len(lines) == len(source), "an error's line is found in the source"


def test_all_styles_are_one_file_and_the_first_scripts_are_named():
    files = PageFiles()
    version = files.look()
    page = files.index()
    sheets = re.findall(r'rel="stylesheet" href="/web/\w+/([^"]+)"', page)
    found = files.find(version, sheets[0])
    preloaded = re.findall(r'rel="modulepreload" href="/web/\w+/([^"]+)"', page)

    assert sheets == ["styles/all.css"]
    assert found is not None
    assert b"@import" not in found.body
    for sheet in (STATIC / "styles").glob("[!a]*.css"):
        assert sheet.read_bytes() in found.body, sheet.name
    assert {*files.scripts(), *files.scripts("screens/journal/journal.js")} == {*preloaded}
    assert len(preloaded) == len({*preloaded})


def test_a_file_that_changed_gives_the_page_another_version(tmp_path: Path):
    for name, text in {
        "index.html": "<!-- preload --> {version}",
        "main.js": "import { a } from './lib/a.js';\nimport('./late.js');\n",
        "lib/a.js": "export const a = 1;\n",
        "late.js": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    files = PageFiles(tmp_path)
    first = files.look()

    assert files.look() == first
    assert set(files.scripts()) == {"main.js", "lib/a.js"}
    (tmp_path / "lib/a.js").write_text("export const a = 22;\n")
    assert files.look() != first
    assert files.find(first, "lib/a.js") is None
    assert f'href="/web/{files.look()}/lib/a.js"' in files.index()


@pytest.mark.parametrize("name", ["index.html", "styles/base.css"])
def test_nothing_of_the_page_comes_from_elsewhere(name: str):
    text = (Path(__file__).resolve().parents[2] / "parachuted/web/static" / name).read_text()

    assert re.findall(r"https?://|//\w", text) == []
