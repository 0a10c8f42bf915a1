"""A module's settings: typed, with defaults, refused with all that is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from parachuted.errors import ModuleFailedError
from parachuted.modules.settings import SettingSpec, read_settings, setting_specs


@dataclass
class Plain:
    layout: Literal["journals", "entries"] = "journals"
    days: int = 3
    name: str | None = None


class Described(BaseModel):
    layout: str = Field("journals", description="Which layout new entries get.")


def test_each_setting_is_described():
    assert setting_specs(Plain) == (
        SettingSpec(key="layout", kind="journals | entries", default='"journals"'),
        SettingSpec(key="days", kind="whole number", default="3"),
        SettingSpec(key="name", kind="text | nothing", default="null"),
    )
    assert setting_specs(Described)[0].description == "Which layout new entries get."
    assert setting_specs(None) == ()


def test_what_is_written_is_read_as_the_class_has_it():
    assert read_settings(Plain, {"days": 7}) == Plain(days=7)
    assert read_settings(Plain, {}) == Plain()
    assert read_settings(None, {"anything": 1}) is None


def test_all_that_is_wrong_is_named():
    with pytest.raises(ModuleFailedError) as refused:
        read_settings(Plain, {"layout": "diary", "days": "many", "nmae": "x"})

    said = str(refused.value)
    assert "modules.yaml: config.layout: Input should be 'journals' or 'entries'" in said
    assert "modules.yaml: config.days: " in said
    assert "modules.yaml: config.nmae: unknown setting" in said


def test_a_class_without_all_defaults_is_the_authors_mistake():
    @dataclass
    class Lacking:
        layout: str

    for wrong in (Lacking, int, object):
        with pytest.raises(ValueError, match="a default"):
            setting_specs(wrong)
