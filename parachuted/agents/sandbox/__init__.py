"""Sandbox: containers for agents with a shell. Its heavy part, engine.py, is loaded at its first use."""
