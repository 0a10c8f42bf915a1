"""The backend that runs the Claude Agent SDK, loaded at its first use because it is heavy."""
