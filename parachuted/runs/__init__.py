"""Runs: one agent's work, from its grant to its receipt."""
