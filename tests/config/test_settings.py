from __future__ import annotations

from operator import attrgetter

import pytest
from pydantic import TypeAdapter, ValidationError

from parachuted.config import Settings, describe_settings, listed, paired
from parachuted.config.settings import is_loopback

TYPES = {"path", "text", "number", "whole number"}


def test_every_setting_is_described_in_one_sentence():
    for described in describe_settings():
        assert described.means.endswith(".")
        assert described.means.count(". ") == 0
        assert described.kind in TYPES or " | " in described.kind


def test_a_description_names_what_is_really_there_and_its_default():
    for key, _, default, _ in describe_settings():
        value = attrgetter(key)(Settings())

        text = (
            str(value).lower()
            if isinstance(value, bool)
            else f"{value:g}"
            if isinstance(value, float)
            else str(value)
        )
        assert default == ("" if value is None else text)


HERE, BEYOND = (
    ["127.0.0.1", "127.9.9.9", "::1", "localhost"],
    ["0.0.0.0", "::", "192.168.1.2", "::ffff:10.0.0.1"],  # noqa: S104
)


@pytest.mark.parametrize("host", [*HERE, *BEYOND])
def test_the_api_may_listen_on_an_address(host):
    assert TypeAdapter(Settings).validate_strings({"host": host}).host == host
    assert is_loopback(host) is (host in HERE)


@pytest.mark.parametrize("host", ["example.com", "", "localhost.example.com", "127.0.0.1:80"])
def test_the_api_may_listen_on_nothing_that_a_name_server_chooses(host):
    with pytest.raises(ValidationError, match="the address of this machine"):
        TypeAdapter(Settings).validate_strings({"host": host})


def test_a_number_out_of_bounds_is_refused_for_every_number():
    for described in describe_settings():
        section, _, name = described.key.rpartition(".")
        for number in ("-1", "nan", "inf", "1" + "0" * 12) if "number" in described.kind else ():
            with pytest.raises(ValidationError):
                TypeAdapter(Settings).validate_strings(
                    {section: {name: number}} if section else {name: number}
                )


@pytest.mark.parametrize(
    ("hosts", "origins"),
    [
        ("", ""),
        ("notes.example", "https://notes.example"),
        ("a.b, ::1,10.0.0.1", "http://[::1]:8080 , http://a-b.c:1"),
    ],
)
def test_names_and_pages_are_listed_with_commas(hosts, origins):
    api = (
        TypeAdapter(Settings)
        .validate_strings({"api": {"hosts": hosts, "cors_origins": origins}})
        .api
    )

    assert listed(api.hosts) == [part.strip() for part in hosts.split(",") if part]
    assert listed(api.cors_origins) == [part.strip() for part in origins.split(",") if part]


@pytest.mark.parametrize(
    "host",
    [
        "http://notes.example",
        "notes.example:3333",
        "*",
        "*.example",
        "notes.example/x",
        "a b",
        "-a",
        "a@b",
    ],
)
def test_what_is_not_a_name_cannot_be_listed(host):
    with pytest.raises(ValidationError, match="should be names"):
        TypeAdapter(Settings).validate_strings({"api": {"hosts": host}})


@pytest.mark.parametrize(
    "origin",
    [
        "*",
        "null",
        "notes.example",
        "https://notes.example/",
        "ftp://a",
        "https://a@b",
        "https://*.example",
        "https://",
    ],
)
def test_what_is_not_an_origin_cannot_be_listed(origin):
    with pytest.raises(ValidationError, match="should be origins"):
        TypeAdapter(Settings).validate_strings({"api": {"cors_origins": origin}})


def test_pairs_of_a_setting_are_read_as_a_mapping():
    assert paired("BrainInterface=brain, JournalInterface = daily") == {
        "BrainInterface": "brain",
        "JournalInterface": "daily",
    }
    assert paired("") == {}


@pytest.mark.parametrize(
    "folder", ["/", "~", "~/", "Projects", "~/../x", "~/a//b", "~/a/.", "~x/a", "~/a\0b", "~/a, b"]
)
def test_only_a_folder_outside_the_vault_that_is_named_plainly_is_ones_own(folder):
    with pytest.raises(ValidationError, match="should be folders"):
        TypeAdapter(Settings).validate_strings({"agent": {"own_folders": folder}})


def test_own_folders_are_named_from_the_home_or_from_the_root():
    folders = "~/Projects/garden/, /srv/shed"

    settings = TypeAdapter(Settings).validate_strings({"agent": {"own_folders": folders}})

    assert listed(settings.agent.own_folders) == ["~/Projects/garden/", "/srv/shed"]
