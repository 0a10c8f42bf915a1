from __future__ import annotations

from operator import attrgetter

import pytest
from pydantic import TypeAdapter, ValidationError

from parachuted.config import Settings, describe_settings, listed
from parachuted.config.settings import is_loopback

TYPES = {"path", "text", "number", "whole number"}
ADAPTER = TypeAdapter(Settings)


def validated(key: str, value: str) -> Settings:
    section, _, name = key.rpartition(".")
    return ADAPTER.validate_strings({section: {name: value}} if section else {name: value})


def test_every_setting_is_described_in_one_sentence():
    for described in describe_settings():
        assert described.means.endswith(".")
        assert described.means.count(". ") == 0
        assert described.kind in TYPES or " | " in described.kind


def test_a_description_names_what_is_really_there_and_its_default():
    for key, _, default, _ in describe_settings():
        value = attrgetter(key)(Settings())
        if isinstance(value, bool | None):
            assert default == ("" if value is None else str(value).lower())
        else:
            assert default == (f"{value:g}" if isinstance(value, float) else str(value))


HERE, BEYOND = (
    ["127.0.0.1", "127.9.9.9", "::1", "localhost"],
    ["0.0.0.0", "::", "192.168.1.2", "::ffff:10.0.0.1"],  # noqa: S104
)


@pytest.mark.parametrize("host", [*HERE, *BEYOND])
def test_the_api_may_listen_on_an_address(host):
    assert validated("host", host).host == host
    assert is_loopback(host) is (host in HERE)


def test_a_number_out_of_bounds_is_refused_for_every_number():
    for described in describe_settings():
        for number in ("-1", "nan", "inf", "1" + "0" * 12) if "number" in described.kind else ():
            with pytest.raises(ValidationError):
                validated(described.key, number)


@pytest.mark.parametrize(
    ("hosts", "origins"),
    [
        ("", ""),
        ("notes.example", "https://notes.example"),
        ("a.b, ::1,10.0.0.1", "http://[::1]:8080 , http://a-b.c:1"),
    ],
)
def test_names_and_pages_are_listed_with_commas(hosts, origins):
    api = ADAPTER.validate_strings({"api": {"hosts": hosts, "cors_origins": origins}}).api

    assert listed(api.hosts) == [part.strip() for part in hosts.split(",") if part]
    assert listed(api.cors_origins) == [part.strip() for part in origins.split(",") if part]


NAMES = ["", "localhost.example.com", "127.0.0.1:80", "example.com"]
HOSTS = ["http://notes.example", "notes.example:3333", "*", "*.example", "notes.example/x", "a b"]
ORIGINS = ["*", "null", "notes.example", "https://notes.example/", "ftp://a", "https://a@b"]
FOLDERS = ["/", "~", "~/", "Projects", "~/../x", "~/a//b", "~/a/.", "~x/a", "~/a\0b", "~/a, b"]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        *(("host", name, "the address of this machine") for name in NAMES),
        *(("api.hosts", host, "should be names") for host in (*HOSTS, "-a", "a@b")),
        *(
            ("api.cors_origins", origin, "should be origins")
            for origin in (*ORIGINS, "https://*.example", "https://")
        ),
        *(("agent.own_folders", folder, "should be folders") for folder in FOLDERS),
    ],
)
def test_what_is_not_a_host_an_origin_or_a_folder_of_ones_own_is_refused(key, value, why):
    with pytest.raises(ValidationError, match=why):
        validated(key, value)


def test_own_folders_are_named_from_the_home_or_from_the_root():
    settings = validated("agent.own_folders", "~/Projects/garden/, /srv/shed")

    assert listed(settings.agent.own_folders) == ["~/Projects/garden/", "/srv/shed"]
