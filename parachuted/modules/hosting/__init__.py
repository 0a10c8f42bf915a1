"""Runs approved modules, in process or in a host of their own."""
