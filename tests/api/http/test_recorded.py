from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from parachuted.api.http.middleware import GONE, event_of, requester_of
from parachuted.errors import NotFoundError
from parachuted.keys import EVERYTHING, NOBODY, Identity
from tests.audit.audit_rig import NOON

LOOPBACK = Identity(kind="loopback", id="loopback", name="this machine", scopes=EVERYTHING)
PHONE = Identity(kind="key", id="k1", name="my phone")
DART = {"User-Agent": "Dart/3.5 (dart:io)"}


@pytest.mark.parametrize(
    ("identity", "headers", "reported"),
    [
        (LOOPBACK, {}, ("local", "this machine")),
        (LOOPBACK, DART, ("flutter_app", "this machine")),
        (PHONE, DART, ("api_key", "my phone")),
        (NOBODY, DART, ("api_key", "nobody")),
    ],
)
def test_who_asked_is_told_by_the_key_before_the_programs_name(identity, headers, reported):
    caller = requester_of(make_mocked_request("GET", "/", headers=headers), identity, "abc")

    assert (caller.source_type, caller.source_id, caller.request_id) == (*reported, "abc")


@pytest.mark.parametrize(
    ("error", "status", "reported"),
    [
        (None, 200, None),
        (None, 422, "answered 422"),
        (NotFoundError("there is no such note"), 404, "What was asked for does not exist."),
        (web.HTTPForbidden(text="no"), 403, "answered 403"),
        (web.HTTPMethodNotAllowed("PUT", {"GET"}), 405, "answered 405"),
        (web.HTTPGone(), 410, "answered 410"),
        (RuntimeError("with a text that nobody has looked at"), 500, "RuntimeError"),
        (asyncio.CancelledError(), GONE, "it was ended before it was answered"),
    ],
)
def test_what_became_of_it_is_reported_without_the_words_of_an_error(error, status, reported):
    request = make_mocked_request("GET", "/api/nothing?secret=1")

    event = event_of(
        request,
        None,
        requester_of(request, LOOPBACK, "abc"),
        None,
        at=NOON,
        took_ms=1.5,
        status=status,
        error=error,
    )

    assert (event.error, event.status, event.success) == (reported, status, reported is None)
    assert event.target_endpoint == "GET (no such call)"
    assert "secret" not in repr(event)
