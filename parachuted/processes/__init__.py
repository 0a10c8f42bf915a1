"""Processes: how programs are run, and ended with all that they started. Import from its files."""
