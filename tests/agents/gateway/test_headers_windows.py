"""The account's windows: told by the answers of the model, in percent, until they end."""

from __future__ import annotations

from datetime import timedelta

from parachuted.agents.gateway.login import read_windows
from parachuted.testing import ApiRefusal, ScriptedMessages
from parachuted.times import time_of
from tests.agents.gateway.conftest import GatewayRig

UNIFIED = "anthropic-ratelimit-unified-"


async def test_what_an_answer_says_of_the_account_is_known_until_the_window_ends(
    gateway_rig: GatewayRig, api: ScriptedMessages
):
    ends = gateway_rig.now[0] + timedelta(hours=2)
    reported = {
        f"{UNIFIED}5h-utilization": "0.425",
        f"{UNIFIED}5h-reset": str(int(ends.timestamp())),
        f"{UNIFIED}7D_next-utilization": "0.1",
    }
    api.add(ApiRefusal(status=400, headers=reported))
    async with gateway_rig.run() as way:
        await gateway_rig.ask(way)

    week = {"utilization": 10.0, "resets_at": None}
    windows = gateway_rig.gateway.windows(gateway_rig.now[0])
    assert windows == {
        "5h": {"utilization": 42.5, "resets_at": time_of(ends.replace(microsecond=0))},
        "7d_next": week,
    }
    assert gateway_rig.gateway.windows(ends) == {"7d_next": week}


def test_headers_that_make_no_sense_say_nothing():
    odd = [{}, *({f"{UNIFIED}5h-utilization": text} for text in ("", "much", "nan", "inf", "-1"))]
    assert [read_windows(headers) for headers in odd] == [{}] * len(odd)
    assert read_windows({f"{UNIFIED}7d-utilization": "1e300", f"{UNIFIED}7d-reset": "1e300"}) == {
        "7d": {"utilization": 1000.0, "resets_at": None}
    }
    assert (
        len(read_windows({f"{UNIFIED}{number}-utilization": "1" for number in range(1000)})) == 20
    )
    assert (
        read_windows(
            {
                f"{UNIFIED}{'x' * 41}-utilization": "1",
                f"{UNIFIED}-utilization": "1",
                f"{UNIFIED}reset": "1",
            }
        )
        == {}
    )
