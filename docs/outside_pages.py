"""Outside pages: the files beside docs/ that are pages of the site too.

MkDocs loads this, as mkdocs.yml says.

Links are written as they work in the repository; here they are made to lead to where those files
are in the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "hooks/README.md": "reference/hooks.md",
    "modules/README.md": "reference/modules.md",
}
_LINK = re.compile(r"(\]\()([^)#:\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """MkDocs calls it once it has found what is in docs/."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """MkDocs calls it for each page before it looks at the links."""
    del config, files
    place = page.file.src_uri
    source = next(
        (outside for outside, inside in OUTSIDE.items() if inside == place), f"docs/{place}"
    )

    def lead(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2]))
        inside = OUTSIDE.get(target, target.removeprefix("docs/"))
        return found[1] + posixpath.relpath(inside, posixpath.dirname(place) or ".")

    return _LINK.sub(lead, markdown)
