"""Pages of modules: the approved files of one folder, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from tests.api.calls import error, expect, key_of
from tests.api.routes.test_modules import install
from tests.stories.daemon_rig import DaemonRig, save

MANIFEST = (
    "name: pages\nversion: 0.1.0\nmodule: module.py\nstatic: {prefix: ui, folder: web/site}\n"
)
CODE = "from parachuted.modules import Module\nclass PagesModule(Module): pass\n"


def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "pages-module"
    save(folder / "manifest.yaml", MANIFEST)
    save(folder / "module.py", CODE)
    save(folder / "web/site/index.html", "<p>Hello</p>")
    save(folder / "web/site/js/app.js", "alert(1)")
    save(folder / "web/secret.txt", "secret")
    return folder


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_a_folder_of_pages_is_served_as_it_was_approved(
    tmp_path: Path, trust: str, daemon_rig: DaemonRig
):
    async with aiohttp.ClientSession() as session:
        reported = await install(daemon_rig, pages(tmp_path), trust)
        assert reported["status"] == "running", reported["problem"]
        url = daemon_rig.url + "/api/pages/ui"
        for path in ("/", "", "/index.html"):
            async with session.get(url + path) as answer:
                assert (answer.status, await answer.text()) == (200, "<p>Hello</p>")
                assert answer.url.path.startswith("/api/pages/ui/")
        policy, tag = answer.headers["Content-Security-Policy"], answer.headers["ETag"]
        assert ("sandbox allow-scripts" in policy) == (trust == "untrusted")
        assert "connect-src" not in policy
        async with session.get(f"{url}/js/app.js") as answer:
            assert answer.content_type == "text/javascript"
        async with session.get(f"{url}/", headers={"If-None-Match": tag}) as answer:
            assert answer.status == 304
        async with session.head(f"{url}/") as answer:
            assert answer.headers["Content-Length"] == "12"
        (path,) = (daemon_rig.daemon.watched.settings.vault / "Modules").glob(
            "*/web/site/index.html"
        )
        path.write_text("<p>Changed</p>")
        async with session.get(f"{url}/") as answer:
            assert await answer.text() == "<p>Hello</p>"

        for away in (
            *("/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/js/../../secret.txt"),
            *("/..%5csecret.txt", "//etc/passwd", "/%2fetc/passwd", "/js", "/none.html"),
            *("/.hidden", "/js/app.js/", "/a%00b"),
        ):
            async with session.get(URL(url + away, encoded=True)) as answer:
                assert answer.status in {400, 403, 404}, away
        assert await error(daemon_rig, "POST", "/api/pages/ui/") in {404, 405}
        other = key_of(daemon_rig, "daily:read")
        await expect(daemon_rig, 403, "GET", "/api/pages/ui/", headers=other)


async def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, daemon_rig: DaemonRig):
    folder = pages(tmp_path)
    save(folder / "manifest.yaml", MANIFEST.replace("web/site", "none"))
    body, says = {"source": str(folder)}, "there is no file below none/"
    await expect(daemon_rig, 422, "POST", "/api/modules/install", json=body, says=says)
