"""One short question to the model whose answer has a fixed shape."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping

from parachuted.agents.gateway.gateway import Gateway
from parachuted.agents.gateway.run_token import RunToken
from parachuted.agents.heavy import load_heavy
from parachuted.errors import AgentFailedError

_TOOL = "answer"
_MOST_TOKENS = 1024
_MOST_USD = 0.05


class Judge:
    """Asks through the gateway, whose connection stays open; the cost is counted as agent
    `judge`.
    """

    def __init__(self, gateway: Gateway, model: str) -> None:
        self._gateway, self._model = gateway, model

    async def ask(
        self, system: str, prompt: str, schema: Mapping[str, object], *, cause: str | None = None
    ) -> Mapping[str, object]:
        """The model's answer to `prompt`, an object that matches the JSON schema `schema`.

        Raises AgentUnavailableError when the model cannot be asked now, AgentFailedError when the
        answer does not match.
        """
        run_token = RunToken(
            run=f"judge-{secrets.token_hex(8)}",
            agent="judge",
            causes=(cause,) if cause else (),
            session=None,
            max_cost_usd=_MOST_USD,
            models=(self._model,),
        )
        message = await self._gateway.ask(
            run_token,
            {
                "model": self._model,
                "max_tokens": _MOST_TOKENS,
                "system": system,
                "messages": [{"role": "user", "content": prompt}],
                "tools": [
                    {
                        "name": _TOOL,
                        "description": "Give your answer.",
                        "input_schema": dict(schema),
                    }
                ],
                "tool_choice": {"type": "tool", "name": _TOOL},
            },
        )
        return await _checked(_tool_input(message), schema)


def _tool_input(message: Mapping[str, object]) -> Mapping[str, object]:
    blocks = message.get("content")
    for block in blocks if isinstance(blocks, list) else ():
        if (
            isinstance(block, dict)
            and block.get("type") == "tool_use"
            and block.get("name") == _TOOL
        ):
            tool_input = block.get("input")
            if isinstance(tool_input, dict):
                return tool_input
    raise AgentFailedError("the model gave no answer in the shape that was asked for")


async def _checked(
    tool_input: Mapping[str, object], schema: Mapping[str, object]
) -> Mapping[str, object]:
    validators = await load_heavy("jsonschema")
    problem = next(validators.validator_for(schema)(schema).iter_errors(tool_input), None)
    if problem is not None:
        raise AgentFailedError(
            "the model's answer is not in the shape that was asked for: "
            f"{json.dumps(problem.message[:200])}"
        )
    return tool_input
