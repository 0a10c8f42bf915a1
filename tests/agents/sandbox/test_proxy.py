import asyncio
from contextlib import asynccontextmanager

import pytest

from parachuted.agents.sandbox.proxy import Proxy, ProxyLimits, open_proxy
from tests.agents.conftest import until
from tests.agents.sandbox.conftest import opening

PUBLIC = "93.184.216.34"


class FakeNetwork:
    """Names, the addresses that they have one after the other, and one server that all public
    addresses lead to.
    """

    def __init__(self):
        self.names = {}
        self.asked, self.connected, self.seen, self.reached = [], [], [], []
        self.answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
        self.port = 0

    async def resolve(self, host, _port):
        self.asked.append(host)
        answers = self.names.get(host, [[PUBLIC]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect(self, address, port):
        self.connected.append((address, port))
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.get_extra_info = {"sockname": ("192.168.0.9", 1), "peername": (address, port)}.get
        return reader, writer

    async def serve(self, reader, writer):
        try:
            self.seen.append(await reader.read(65_536))
            writer.write(self.answer)
            await writer.drain()
            if b"connection: close" not in self.seen[-1]:
                await reader.read()
        finally:
            writer.close()


@pytest.fixture
async def world():
    made = FakeNetwork()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


async def as_listed(_host, _port, objection):
    return objection


@asynccontextmanager
async def proxy(world, tmp_path, network=("example.org",), **how):
    made = Proxy(
        network,
        reached=world.reached.append,
        resolve=world.resolve,
        connect=how.pop("connect", world.connect),
        **{"decide": as_listed, **how},
    )
    async with open_proxy(tmp_path, made):
        yield made


@asynccontextmanager
async def connection(tmp_path):
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "proxy.sock"))
    try:
        yield reader, writer
    finally:
        writer.close()


async def ask(tmp_path, request=b"CONNECT example.org:443 HTTP/1.1\r\n\r\n"):
    async with connection(tmp_path) as (reader, writer), asyncio.timeout(30):
        writer.write(request)
        return (await reader.read()).decode()


@asynccontextmanager
async def tunnel(tmp_path, target="example.org:443"):
    async with connection(tmp_path) as (reader, writer):
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        yield reader, writer


async def ended(proxy):
    await until(lambda: not proxy._open, 30)


async def test_a_tunnel_to_a_host_on_the_list_carries_bytes_both_ways(world, tmp_path):
    async with proxy(world, tmp_path), tunnel(tmp_path) as (reader, writer):
        assert world.reached == []
        writer.write(b"not for the proxy to read \x00\xff")

        assert await reader.readexactly(len(world.answer)) == world.answer

    assert world.seen == [b"not for the proxy to read \x00\xff"]
    assert world.connected == [(PUBLIC, 443)]
    assert world.reached == ["example.org"]


REFUSED = """
CONNECT evil.example:443 HTTP/1.1
CONNECT 127.0.0.1:443 HTTP/1.1
CONNECT [::1]:443 HTTP/1.1
CONNECT example.org:22 HTTP/1.1
CONNECT example.org HTTP/1.1
CONNECT unix:/var/run/docker.sock HTTP/1.1
GET / HTTP/1.1
GET https://example.org/ HTTP/1.1
GET file:///etc/passwd HTTP/1.1
GET http://example.org@evil.example/ HTTP/1.1
GET http://example.org\\@evil.example/ HTTP/1.1
POST http://example.org:443/ HTTP/1.1
GET  http://example.org/ HTTP/1.1
GET http://example.org/ HTTP/2
GET http://example.org/
G	ET http://example.org/ HTTP/1.1

""".splitlines()


@pytest.mark.parametrize("line", REFUSED)
async def test_whatever_else_is_asked_reaches_nothing(world, tmp_path, line):
    async with proxy(world, tmp_path):
        answer = await ask(tmp_path, f"{line}\r\nHost: example.org\r\n\r\n".encode())

    assert answer.split(" ")[1] in {"400", "403"}
    assert world.asked == []


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["::ffff:10.0.0.1"], ["169.254.169.254"], []]
)
async def test_a_name_that_leads_inside_is_refused(world, tmp_path, addresses):
    world.names["example.org"] = [addresses]

    async with proxy(world, tmp_path):
        answer = await ask(tmp_path)

    assert answer.startswith("HTTP/1.1 403")
    assert "which is not on the internet" in answer
    assert world.connected == []


async def test_a_name_that_changes_its_address_after_the_check_gains_nothing(world, tmp_path):
    """DNS rebinding: the name is resolved once, and what is connected to is the address that was
    checked.
    """
    world.names["example.org"] = [[PUBLIC], ["127.0.0.1"]]

    async with proxy(world, tmp_path):
        async with tunnel(tmp_path):
            assert (world.asked, world.connected) == (["example.org"], [(PUBLIC, 443)])
        assert "127.0.0.1" in await ask(tmp_path)

    assert world.connected == [(PUBLIC, 443)]


async def test_a_public_address_that_is_this_machines_own_is_refused(world, tmp_path):
    async def connect(address, port):
        reader, writer = await world.connect(address, port)
        writer.get_extra_info = {"sockname": (address, 1), "peername": (address, port)}.get
        return reader, writer

    async with proxy(world, tmp_path, connect=connect):
        assert "this machine itself" in await ask(tmp_path)


async def test_who_has_the_last_word_is_asked_each_time_with_the_lists_objection(world, tmp_path):
    asked = []

    async def decide(host, port, objection):
        asked.append((host, port, objection is None))
        return "this run has read text of strangers" if len(asked) > 2 else None

    async with proxy(world, tmp_path, decide=decide):
        for host in ("example.org", "other.example"):
            async with tunnel(tmp_path, f"{host}:443"):
                pass
        assert "has read text of strangers" in await ask(tmp_path)

    first, second = ("example.org", 443, True), ("other.example", 443, False)
    assert asked == [first, second, first]


async def test_connections_bytes_and_silence_are_bounded(world, tmp_path):
    limits = ProxyLimits(connections=1, total_bytes=1000, head_s=0.5, idle_s=0.5)

    async with proxy(world, tmp_path, limits=limits) as made:
        async with tunnel(tmp_path):
            assert "503" in await ask(tmp_path)
        await ended(made)
        assert await ask(tmp_path, b"CONNECT exam") == ""
        await ended(made)
        async with tunnel(tmp_path) as (reader, _):
            assert await asyncio.wait_for(reader.read(), 30) == b""
        await ended(made)
        assert "400" in await ask(tmp_path, b"GET http://example.org/" + b"a" * 40_000)
        await ended(made)
        async with tunnel(tmp_path) as (reader, writer):
            writer.write(bytes(2000))
            assert await asyncio.wait_for(reader.read(), 30) == b""


async def test_a_cut_ends_all_connections_and_may_leave_an_answer_that_comes(world, tmp_path):
    async with (
        proxy(world, tmp_path) as made,
        tunnel(tmp_path) as (asking, out),
        tunnel(tmp_path) as (silent, _),
    ):
        out.write(b"hello")
        await asking.readexactly(len(world.answer))

        assert made.cut(but_answered=True) == 1
        assert await asyncio.wait_for(silent.read(), 30) == b""
        out.write_eof()
        assert await asyncio.wait_for(asking.read(), 30) == b""
        await ended(made)
        assert made.cut() == 0
        async with tunnel(tmp_path) as (reader, _):
            assert made.cut() == 1
            assert await asyncio.wait_for(reader.read(), 30) == b""
    assert not (tmp_path / "proxy.sock").exists()


async def test_a_box_with_a_network_reaches_what_is_listed_and_nothing_else(world, sandboxes):
    """The whole way: a program inside, the relay, the socket, the proxy."""
    line = (
        "import http.client\n"
        "def ask(host):\n"
        "    call = http.client.HTTPConnection('127.0.0.1', 3128)\n"
        "    call.set_tunnel(host, 443)\n"
        "    call.request('GET', '/page', headers={'connection': 'close'})\n"
        "    return call.getresponse().read()\n"
        "print(ask('example.org'))\n"
        "try: ask('evil.example')\n"
        "except OSError as error: print(error)"
    )
    async with sandboxes.prepare() as folder, proxy(world, folder.sockets):
        command = ("python3", "-c", line)
        async with opening(sandboxes, folder, *command, network=("example.org",)) as container:
            said = (await asyncio.wait_for(container.stdout.read(), 20)).decode()

    assert "hello" in said
    assert "403" in said
    assert world.reached == ["example.org"]
