"""Schedules that modules set: kept in the state folder, checked when they come back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parachuted.errors import EditRefusedError
from parachuted.modules.hosting.schedules import MOST_SCHEDULES, SetSchedule, SetSchedules
from parachuted.modules.scheduling import Timing

NIGHTLY = SetSchedule(
    name="nightly",
    method="reflect",
    arguments={"agent": "reflector", "days": [1, 2]},
    timing=Timing(cron="0 3 * * *", timezone="Europe/Berlin"),
    read={"Inbox/a.md": "web"},
)


async def test_what_is_set_comes_back_and_what_is_removed_does_not(tmp_path):
    await SetSchedules(tmp_path).put("daily", NIGHTLY)
    again = SetSchedules(tmp_path)

    assert dict(again.of("daily")) == {"nightly": NIGHTLY}
    assert dict(again.of("brain")) == {}
    assert (tmp_path / "daily.json").stat().st_mode & 0o777 == 0o600
    assert await again.remove("daily", "nightly")
    assert not await again.remove("daily", "nightly")
    assert dict(SetSchedules(tmp_path).of("daily")) == {}


@pytest.mark.parametrize(
    "text",
    [
        "rubbish",
        "[{}]",
        '[{"name": "a", "method": "m", "arguments": {}, "timing": {"cron": "x"}, "read": {}}]',
        '[{"name": "a", "method": "m", "arguments": {}, "timing": {}, "read": {}}]',
    ],
)
async def test_a_file_edited_to_rubbish_counts_as_none_and_is_replaced(tmp_path, text):
    (tmp_path / "daily.json").write_text(text)
    found = SetSchedules(tmp_path)

    assert dict(found.of("daily")) == {}
    await found.put("daily", NIGHTLY)
    assert dict(SetSchedules(tmp_path).of("daily")) == {"nightly": NIGHTLY}


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"name": "x" * 101},
        {"method": "hooks:main"},
        {"method": "a b"},
        {"arguments": {"text": "x" * 20_000}},
        {"timing": Timing(cron="* * * * * *")},
        {"timing": Timing(every_s=0)},
        {"timing": Timing(at="03:00", timezone="nowhere")},
    ],
)
async def test_what_cannot_be_a_schedule_is_refused(tmp_path, wrong):
    with pytest.raises(EditRefusedError):
        await SetSchedules(tmp_path).put("daily", replace(NIGHTLY, **wrong))
    assert not (tmp_path / "daily.json").exists()


async def test_a_module_sets_only_so_many():
    found = SetSchedules(None)
    for number in range(MOST_SCHEDULES):
        await found.put("daily", replace(NIGHTLY, name=str(number)))

    with pytest.raises(EditRefusedError, match="at most"):
        await found.put("daily", replace(NIGHTLY, name="one more"))
    await found.put("daily", replace(NIGHTLY, name="0", method="other"))
    await found.put("brain", NIGHTLY)
