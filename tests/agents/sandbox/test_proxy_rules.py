import pytest

from parachuted.agents.sandbox.proxy import is_public, objection, parse_target

LIST = ("api.example.org", "*.pypi.org", "git.example.org:8443")


@pytest.mark.parametrize(
    ("authority", "host", "port"),
    [
        ("example.org:443", "example.org", 443),
        ("EXAMPLE.org:443", "example.org", 443),
        ("example.org.:443", "example.org", 443),
        ("xn--bcher-kva.example:443", "xn--bcher-kva.example", 443),
        ("a_b.example.org:1", "a_b.example.org", 1),
    ],
)
def test_a_host_is_a_name_plainly_written(authority, host, port):
    assert parse_target(authority) == (host, port)


NO_HOSTS = {
    "a part of it": ["", "example.org", ":443", "localhost:443", "example:443"],
    "dots and hyphens": """example..org:443 .example.org:443 example.org..:443 -a.example.org:443
        *.example.org:443""",
    "addresses": """1.2.3.4:443 127.0.0.1:443 127.1:443 2130706433:443 0x7f000001:443 0x7f.1:443
        0177.0.0.1:443 a.0x7f:443 1.2.3.4.:443 example.1:443 ①②⑦.0.0.1:443""",
    "newer addresses": """[::1]:443 [::ffff:127.0.0.1]:443 ::1:443 [fe80::1%eth0]:443
        fe80::1%25eth0:443 [example.org]:443""",
    "a person": """user@example.org:443 user:pass@example.org:443 example.org@evil.example:443
        example.org:443@evil.example""",
    "other ports": """example.org:0 example.org:65536 example.org:-1 example.org:+443
        example.org:0443 example.org:https example.org:443:80 example.org:٤٤٣""",
    "more than a name": """example.org/path:443 example%2eorg:443 example.org#:443 example.org?:443
        example.org\\:443""",
    "other letters": "exämple.org:443 example。org:443 ⓔxample.org:443",
    "spaces": ["example.org: 443", "exam ple.org:443", "example.org\x00:443"],
    "lengths": [f"{'a' * 64}.org:443", f"{'a.' * 130}org:443"],
}


@pytest.mark.parametrize("kind", NO_HOSTS)
def test_what_is_not_plainly_a_name_is_no_host(kind):
    texts = NO_HOSTS[kind]
    texts = texts.split() if isinstance(texts, str) else texts

    assert [text for text in texts if parse_target(text) is not None] == []


@pytest.mark.parametrize(
    ("network", "authority", "may"),
    [
        (LIST, "api.example.org:443", True),
        (LIST, "api.example.org:80", True),
        (LIST, "API.EXAMPLE.ORG.:443", True),
        (LIST, "api.example.org:8443", False),
        (LIST, "api.example.org:22", False),
        (LIST, "example.org:443", False),
        (LIST, "a.api.example.org:443", False),
        (LIST, "xapi.example.org:443", False),
        (LIST, "api.example.org.evil.example:443", False),
        (LIST, "files.pypi.org:443", True),
        (LIST, "a.b.pypi.org:443", True),
        (LIST, "pypi.org:443", False),
        (LIST, "evilpypi.org:443", False),
        (LIST, "git.example.org:8443", True),
        (LIST, "git.example.org:443", False),
        ("bridge", "anything.example.org:443", True),
        ("bridge", "anything.example.org:80", True),
        ("bridge", "anything.example.org:25", False),
        ("bridge", "anything.example.org:2375", False),
        ("bridge", "host.docker.internal:443", False),
        ("bridge", "metadata.google.internal:80", False),
        ("bridge", "printer.local:80", False),
        ("bridge", "a.localhost:80", False),
        ("bridge", "router.home.arpa:80", False),
        ("none", "api.example.org:443", False),
        ((), "api.example.org:443", False),
        (("*.internal.example.org", "db.internal"), "db.internal:443", False),
        (("*.internal.example.org",), "a.internal.example.org:443", True),
    ],
)
def test_a_list_means_what_it_says(network, authority, may):
    target = parse_target(authority)

    assert target is not None
    assert (objection(network, target) is None) is may


NEAR = {
    "this machine": "127.0.0.1 127.255.255.254 0.0.0.0 0.1.2.3 ::1 ::",
    "private": "10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.100.100.200",
    "of a cloud": "169.254.169.254 168.63.129.16 192.0.0.192 fd00:ec2::254",
    "reserved": """192.0.0.1 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 192.88.99.1 224.0.0.1
        239.255.255.250 240.0.0.1 255.255.255.255""",
    "older ones in newer": """::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::127.0.0.1
        64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1 2002:7f00:1:: 2002:808:808::1""",
    "newer": """fe80::1 fe80::1%eth0 fec0::1 fc00::1 ff02::1 2001::1 2001:db8::1 3fff::1 100::1
        5f00::1 2606:4700::1%lo""",
    "no address": "example.org 127.1 2130706433 0x7f000001",
}


@pytest.mark.parametrize("kind", NEAR)
def test_no_address_here_or_near_is_public(kind):
    assert [address for address in ["", *NEAR[kind].split()] if is_public(address)] == []


def test_addresses_on_the_internet_are_public():
    public = "1.1.1.1 8.8.8.8 93.184.216.34 172.32.0.1 2606:4700::1111 2a00:1450:4001:831::200e"
    assert [address for address in public.split() if not is_public(address)] == []
