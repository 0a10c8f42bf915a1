"""Preconditions: which text a write is meant for, as the headers of a request say it.

Where one does not hold, every route answers 409.
"""

from __future__ import annotations

import re
from types import MappingProxyType

from aiohttp import web

from parachuted.api.http.route import ApiCall

IF_MATCH = (
    "The ETag (`hash`) of the text that the change was made from; 409 when another one is "
    "there and the two cannot be merged."
)
ONLY_NEW = "`*`: write only where there is no file yet, else 409."
KNOWN = "ETags that the caller has the content of: 304 when it is one of them."
WRITING = MappingProxyType({"If-Match": IF_MATCH})
CREATING = MappingProxyType({"If-Match": IF_MATCH, "If-None-Match": ONLY_NEW})

_ETAG = re.compile(r'(?:W/)?"([^"]*)"|(\*)|([^\s,"]+)')
_DIGEST = re.compile("[0-9a-f]{64}")


def etags(header: str | None) -> list[str]:
    """The digests in such a header, or `*`."""
    return ["".join(found) for found in _ETAG.findall(header or "")]


def expected(call: ApiCall, *, any_will_do: bool = False) -> str | None:
    """The digest that `If-Match` names; None without one.

    `*` stands for any text, where `any_will_do`. 400 when it is something else.
    """
    header = call.request.headers.get("If-Match")
    if header is None:
        return None
    found = etags(header)
    if len(found) == 1 and (_DIGEST.fullmatch(found[0]) or (any_will_do and found[0] == "*")):
        return found[0]
    raise web.HTTPBadRequest(
        text="If-Match takes one ETag, exactly as the API returned it"
        f"{', or *' if any_will_do else ''}"
    )


def only_new(call: ApiCall) -> bool:
    """Whether `If-None-Match: *` asks that nothing be replaced. 400 when it names a text."""
    header = call.request.headers.get("If-None-Match")
    if header is not None and etags(header) != ["*"]:
        raise web.HTTPBadRequest(
            text="If-None-Match of a write may only be *, which is for a file that must not be "
            "there yet"
        )
    return header is not None
