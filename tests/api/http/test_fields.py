from __future__ import annotations

import pytest
from pydantic import ValidationError

from parachuted.api.http.route import (
    AppRequestModel,
    FolderParameter,
    Path,
    RequestModel,
    Whole,
)
from parachuted.errors import PathRefusedError
from parachuted.texts.mistakes import mistakes_in
from parachuted.vault import VaultPath


class Ours(RequestModel):
    path: Path
    folder: FolderParameter = VaultPath("")
    max_tokens: Whole = 7


class Apps(AppRequestModel):
    session_id: str = ""


def test_names_come_in_either_case():
    assert Ours.model_validate({"path": "a.md", "maxTokens": "3"}) == Ours.model_validate(
        {"path": "a.md", "max_tokens": 3}
    )
    assert Apps.model_validate({"sessionId": "x"}).session_id == "x"


def test_a_misspelled_name_is_refused_in_our_bodies_and_not_in_the_apps():
    with pytest.raises(ValidationError) as raised:
        Ours.model_validate({"path": "a.md", "maxToken": 3})

    assert "maxToken" in str(mistakes_in(raised.value))
    assert Apps.model_validate({"sesionId": "x"}).session_id == ""


@pytest.mark.parametrize("folder", ["", ".", "Projects", "Projects/"])
def test_a_folder_is_the_vault_itself_or_one_in_it(folder):
    assert Ours.model_validate({"path": "a.md", "folder": folder}).folder == folder.strip("./")


@pytest.mark.parametrize(
    "path",
    [
        *("", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\0b", "a\nb", "~/x", "\ud800"),
        *("x" * 256, "a/" * 3000 + "b"),
    ],
    ids=repr,
)
def test_what_is_not_a_path_of_the_vault_is_refused_with_the_reason(path):
    with pytest.raises(PathRefusedError):
        Ours.model_validate({"path": path})


def test_a_name_that_is_not_utf8_is_a_path():
    assert Ours.model_validate({"path": "b\udcff.md"}).path == "b\udcff.md"


@pytest.mark.parametrize("number", ["", " 1", "1 ", "1.0", "1e3", "-1", "٣", "9" * 16, "x", "0x1"])
def test_a_number_in_a_query_is_digits_alone(number):
    with pytest.raises(ValidationError, match="whole number"):
        Ours.model_validate({"path": "a.md", "max_tokens": number})


def test_all_mistakes_are_reported_without_what_was_sent():
    with pytest.raises(ValidationError) as raised:
        Ours.model_validate({"path": ["secret"], "max_tokens": "secret"})

    said = ["path: should be a text", "max_tokens: should be a whole number"]
    assert mistakes_in(raised.value) == said
