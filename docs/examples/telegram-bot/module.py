from parachuted.modules import Module, route


class TelegramBotModule(Module):
    name = "telegram-bot"
    version = "0.1.0"

    # Define agents with different sandbox scopes
    agents = {
        "responder": {
            # This agent can only see one project
            "paths": ["Brain/projects/client-x.md", "~/Work/client-x/"],
            "capabilities": ["read"],
        },
        "admin": {
            # Admin agent has broader access
            "paths": ["Brain/**"],
            "capabilities": ["read", "write"],
        },
    }

    @route("POST", "/webhook")
    async def handle_telegram(self, message: dict):
        # Use the scoped responder agent
        response = await self.run_agent("responder", f"Answer this question: {message['text']}")
        return {"reply": response}
