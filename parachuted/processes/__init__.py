"""Processes: how a program of somebody else's is run, and ended with all that it ever started.

Its names are imported from its files: the hook program begins here too, and must not load
asyncio to do so.
"""
