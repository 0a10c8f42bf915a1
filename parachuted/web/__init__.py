"""Web: the page that a browser shows of this daemon, and the files that it is made of.

The page itself uses the public HTTP API alone; docs/page.md says how it is built.
"""

from parachuted.web.page_files import PageFiles
from parachuted.web.page_routes import PageRoutes

__all__ = ["PageFiles", "PageRoutes"]
