"""The door: raw sockets say what no well-behaved client would."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from parachuted.api.http.host_guard import HostGuard, is_loopback
from tests.api.calls import spoken
from tests.stories.daemon_rig import DaemonRig, Live

HEALTH = "GET /api/health HTTP/1.1"


def lines(*all_lines: str) -> bytes:
    return "\r\n".join((*all_lines, "Connection: close", "", "")).encode()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


OWN_SHAPES = (
    *("localhost", "LOCALHOST:1", "localhost.", "localhost.:80", "localhost:0", "localhost:65535"),
    *("127.0.0.1", "127.0.0.1:3333", "127.9.9.9", "[::1]", "[::1]:3333", "[::1]:80"),
)
OTHER_SHAPES = (
    *("[::1]evil", "[::1]evil:80", "[::1%evil]", "[::1%25evil]", "[::1%lo]", "[::1]:", "[::1]:x"),
    *("[::1]:080", "[::1]:65536", "[::1]]", "[[::1]]", "[::1] ", " [::1]", "[::1", "::1]", "::1"),
    *("[]", "[]:80", "[localhost]", "[127.0.0.1]", "[0:0:0:0:0:0:0:1]", "[::0001]"),
    *("[::ffff:127.0.0.1]", "[v1.x]", "[::1].evil.com", "[::1]@evil.com", "evil.com@[::1]", ""),
    *(":", ":3333", ".", "..", "localhost..", ".localhost", "localhost:", "localhost:+80"),
    *("localhost: 80", "localhost:8_0", "localhost:99999", "localhost:\uff18\uff10"),
    *("localhost:evil.com", "localhost:80:80", "loca\u017fhost", "localho\u017ft"),
    *("localhost\u3002", "localhost%00", "localhost\t", "localhost/x", "localhost\\@evil.com"),
    *("localhost#", "localhost?a", "localhost@evil.com", "evil.com@localhost"),
    *("localhost,evil.com", "evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "127.0.0.1."),
    *("127.0.0.01", "127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "10.0.0.1"),
)


@pytest.mark.parametrize("authority", OWN_SHAPES)
def test_names_of_this_machine_are_its_own(authority):
    assert is_loopback(authority)


@pytest.mark.parametrize("authority", OTHER_SHAPES)
def test_no_other_name_is_and_none_is_spelled_in_another_way(authority):
    assert not is_loopback(authority)


OWN = [
    (HEALTH, "Host: localhost:3333"),
    (HEALTH, "Host: [::1]:3333"),
    (HEALTH, "Host: localhost:8080", "Origin: http://localhost:8080"),
    (HEALTH, "Host: LOCALHOST", "Origin: http://localhost", "Sec-Fetch-Site: same-origin"),
    (HEALTH, "Host: localhost", "Sec-Fetch-Site: none"),
    (HEALTH, "Host: localhost", "Upgrade: h2c", "Connection: upgrade"),
    ("GET http://127.0.0.1/api/health HTTP/1.1", "Host: localhost"),
]
FOREIGN = [
    (HEALTH, "Host: evil.com:3333"),
    *(
        (HEALTH, f"Host: {shape}")
        for shape in OTHER_SHAPES
        if shape.isascii() and shape.isprintable() and shape.strip() == shape
    ),
    (HEALTH, "Host: localhost", "Origin: http://evil.com"),
    (HEALTH, "Host: localhost", "Origin: null"),
    (HEALTH, "Host: localhost", "Origin: "),
    (HEALTH, "Host: localhost", "Origin: file://"),
    (HEALTH, "Host: localhost", "Origin: http://["),
    (HEALTH, "Host: localhost", "Origin: http://localhost:1", "Origin: http://evil.com"),
    (HEALTH, "Host: localhost", "Origin: http://localhost.evil.com"),
    (HEALTH, "Host: localhost", "Origin: chrome-extension://localhost"),
    (HEALTH, "Host: localhost", "Origin: http://localhost:8080"),
    (HEALTH, "Host: localhost:3333", "Origin: http://127.0.0.1:3333"),
    (HEALTH, "Host: localhost", "Sec-Fetch-Site: same-site"),
    (HEALTH, "Host: localhost", "Sec-Fetch-Site: cross-site"),
    ("POST /api/pause HTTP/1.1", "Host: localhost", "Origin: http://evil.com", "Content-Length: 0"),
    (HEALTH, "Host: localhost", "Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site"),
    (
        HEALTH,
        "Host: localhost",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ),
    ("GET http://evil.com/api/health HTTP/1.1", "Host: localhost"),
    ("GET http://127.0.0.1/api/health HTTP/1.1", "Host: evil.com"),
    ("GET http://localhost@evil.com/api/health HTTP/1.1", "Host: localhost"),
    ("OPTIONS * HTTP/1.1", "Host: localhost"),
]
AMBIGUOUS = [
    (HEALTH, "Host: localhost", "Host: localhost"),
    (HEALTH, "Host: localhost", "Host: evil.com"),
    (HEALTH,),
    (HEALTH, "Host : localhost"),
    (HEALTH, "Host: localhost", " folded: x"),
    ("POST /api/pause HTTP/1.1", "Host: localhost", "Content-Length: 0", "Content-Length: 2"),
    (
        "POST /api/pause HTTP/1.1",
        "Host: localhost",
        "Content-Length: 2",
        "Transfer-Encoding: chunked",
    ),
    ("GET /api/hea\0lth HTTP/1.1", "Host: localhost"),
]
SPELLINGS = [
    *("/api/runs/..%2fhealth", "/api/runs/%2e%2e/health", "/api/runs/../health", "/api/./health"),
    *("/api/..%2Fapi%2Fhealth", "/api/health%00", "/api/runs/..%5Chealth"),
    *("/api/runs\\..\\health", "/api/health/..", "/api/health/."),
    "http://localhost/api/runs/../health",
]


async def test_only_this_machine_by_its_own_name_is_let_in(daemon_rig: DaemonRig):
    for requests, statuses in ((OWN, {200}), (FOREIGN, {403}), (AMBIGUOUS, {400, 403})):
        for request in requests:
            answer = await spoken(daemon_rig, lines(*request))
            assert status_of(answer) in statuses, request
            assert statuses == {200} or b'"version"' not in answer, request
            assert b"Traceback" not in answer, request


async def test_a_path_has_one_spelling(daemon_rig: DaemonRig):
    no_calls = (
        *("//api/health", "/api//health", "/api%2Fhealth", "/api/notes%2FAGENTS.md"),
        *("/api/health/", "/API/health", "/api/health;x=1"),
    )
    for path in (*SPELLINGS, *no_calls):
        answer = await spoken(daemon_rig, lines(f"GET {path} HTTP/1.1", "Host: localhost"))
        assert status_of(answer) in {400, 404}, path


async def test_every_answer_says_that_it_is_not_to_be_guessed_at_or_kept(daemon_rig: DaemonRig):
    async with aiohttp.ClientSession() as session:
        for path, status in (("/api/health", 200), ("/api/nothing", 404), ("/api/events", 200)):
            async with session.get(daemon_rig.url + path) as answer:
                says = [
                    answer.headers[name] for name in ("X-Content-Type-Options", "Cache-Control")
                ]
                assert (answer.status, says) == (status, ["nosniff", "no-store"])


LISTED = {
    "api__cors_origins": "https://notes.example, http://localhost:8080",
    "api__hosts": "notes.example",
}


async def test_a_listed_page_may_read_all_answers_and_no_other_page_may(live: Live):
    async with live(**LISTED) as daemon_rig, aiohttp.ClientSession() as session:

        async def allowed(method: str, path: str, **headers: str) -> tuple[int, object]:
            async with session.request(method, daemon_rig.url + path, headers=headers) as answer:
                assert "Access-Control-Allow-Credentials" not in answer.headers
                said = map(answer.headers.get, ("Access-Control-Allow-Origin", "Vary"))
                return answer.status, tuple(said)

        own = "https://notes.example"
        for path, status in (
            ("/api/health", 200),
            ("/api/nothing", 404),
            ("/api/why?path=none.md", 404),
            ("/api/events", 200),
        ):
            page = {"Origin": own, "Sec-Fetch-Site": "cross-site"}
            assert await allowed("GET", path, **page) == (status, (own, "Origin"))
        for origin in (
            *("https://evil.example", f"{own}:1", "http://notes.example", "null"),
            "https://notes.example.evil.example",
        ):
            page = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            for method in ("GET", "OPTIONS"):
                status, (said, _) = await allowed(method, "/api/health", **page)
                assert (status, said) == (403, None), (origin, method)
        for host, status in (
            ("notes.example", 200),
            ("NOTES.example.:443", 200),
            ("evil.example", 403),
            ("notes.example.evil.example", 403),
        ):
            answer = await spoken(daemon_rig, lines(HEALTH, f"Host: {host}"))
            assert status_of(answer) == status, host


async def test_a_preflight_of_a_listed_page_needs_no_key(live: Live):
    asked = {
        "Origin": "http://localhost:8080",
        "Access-Control-Request-Method": "PATCH",
        "Access-Control-Request-Headers": "authorization",
    }
    async with live(auth_mode="always", **LISTED) as daemon_rig, aiohttp.ClientSession() as session:
        for path in ("/api/health", "/api/notes/a.md"):
            async with session.options(daemon_rig.url + path, headers=asked) as answer:
                assert (answer.status, await answer.read()) == (204, b"")
            origin, methods, headers = (
                answer.headers[f"Access-Control-Allow-{what}"]
                for what in ("Origin", "Methods", "Headers")
            )
            assert origin == asked["Origin"]
            assert {"PATCH", "DELETE"} <= set(methods.split(", "))
            assert "Authorization" in headers


class FakeConnection:
    """A connection that came in at that address."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get_extra_info(self, name: str) -> object:
        return (self.address, 3333) if name == "sockname" else None


@pytest.mark.parametrize(
    ("here", "host", "is_let_in"),
    [
        ("192.168.1.5", "192.168.1.5:3333", True),
        ("::ffff:192.168.1.5", "192.168.1.5:3333", True),
        ("fd00::5", "[fd00::5]:3333", True),
        ("192.168.1.5", "192.168.1.6:3333", False),
        ("192.168.1.5", "evil.example:3333", False),
        ("192.168.1.5", "192.168.1.5.evil.example", False),
        ("0.0.0.0", "evil.example", False),  # noqa: S104
    ],
)
def test_the_daemon_answers_to_the_address_at_which_it_was_reached(here, host, is_let_in):
    request = make_mocked_request(
        "GET", "/api/health", headers={"Host": host}, transport=FakeConnection(here)
    )

    assert (HostGuard().refusal_of(request) is None) is is_let_in
