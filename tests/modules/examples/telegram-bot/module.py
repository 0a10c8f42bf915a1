"""Telegram bot: two agents with different rights, in miniature."""

# ruff: noqa: RUF012, ARG002  as the people who write modules do
from __future__ import annotations

from typing import Any

from parachuted.modules import AgentConfig, Module, route


class TelegramBotModule(Module):
    """Answers what people ask in a chat."""

    name = "telegram-bot"
    version = "0.1.0"

    agents = {
        # This agent can only see one project.
        "responder": {
            "paths": ["Brain/projects/client-x.md", "Work/client-x/"],
            "capabilities": ["read"],
        },
        # The admin's agent has broader access.
        "admin": AgentConfig(paths=("Brain/**",), capabilities=("read", "write")),
    }

    async def on_enable(self):
        """Count from where it stopped."""
        self.answered = await self.state.get("answered", 0)

    @route("POST", "/webhook", timeout_s=180)
    async def handle_telegram(self, message: dict[str, Any], **rest: object):
        """Answer a message. An update has more fields than the message, and they are let go."""
        response = await self.run_agent("responder", f"Answer this question: {message['text']}")
        self.answered += 1
        await self.state.put("answered", self.answered)
        return {"reply": response}

    @route("POST", "/admin", capability="admin", timeout_s=180)
    async def handle_admin(self, text: str):
        """What only the owner may ask."""
        return {"reply": await self.run_agent("admin", text)}

    @route("GET", "/answered")
    async def count(self):
        """How many were answered."""
        return {"answered": self.answered}
