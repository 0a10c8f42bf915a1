"""What the CLI wrote down about a session."""

from __future__ import annotations

import json

import pytest

from parachuted.agents.claude.transcript import TranscriptUsage, is_session_id, load_spent

ID = "1fc24940-e003-48b0-b21b-70563efaaa39"


def state(cost, **usage):
    return json.dumps(
        {"type": "cost-state", "totalCostUSD": cost, "modelUsage": {"haiku": usage}},
        separators=(",", ":"),
    )


@pytest.fixture
def write(tmp_path):
    folder = tmp_path / ".claude" / "projects" / "-work"
    folder.mkdir(parents=True)

    def write(*lines):
        (folder / f"{ID}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return tmp_path

    return write


def test_the_last_account_counts(write):
    home = write(
        state(0.1, inputTokens=1),
        '{"type":"user"}',
        state(0.3, inputTokens=5, cacheReadInputTokens=7, outputTokens=2),
        '{"type":"user"}',
    )

    assert load_spent(home, ID) == TranscriptUsage(cost_usd=0.3, input_tokens=12, output_tokens=2)


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"cost-state"',
        '{"type":"cost-state"}',
        '{"type":"cost-state","totalCostUSD":"x","modelUsage":[1]}',
        "",
        '{"type":"user"}',
    ],
)
def test_where_no_account_can_be_read_nothing_was_spent(write, line):
    assert load_spent(write(line), ID) == TranscriptUsage()


def test_a_session_that_is_not_there_has_spent_nothing(tmp_path):
    assert load_spent(tmp_path, ID) == TranscriptUsage()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        f"{ID}\n",
        f"../{ID}",
        "*",
        ID.upper(),
        f"{ID} --dangerously-skip-permissions",
        "\u0661fc24940-e003-48b0-b21b-70563efaaa39",
    ],
)
def test_only_a_uuid_is_a_session(text):
    assert is_session_id(ID)
    assert not is_session_id(text)
